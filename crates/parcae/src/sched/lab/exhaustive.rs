//! All schedules of a small test: depth first, with sleep sets.
//!
//! P. Godefroid: Partial-order methods for the verification of concurrent systems (LNCS 1032,
//! 1996). The path of the last schedule is kept as a list of nodes. The next schedule repeats the
//! path up to the last node with an untried task, and takes that. A task that was tried at a node
//! *sleeps* in the branches after it, until an operation that conflicts with its own is done:
//! before that, going on with it would lead to a state that was seen already.
//!
//! A run whose ready tasks all sleep is redundant. It is finished by the default policy, and
//! nothing is tried below it.

use super::op::Op;
use super::strategy::{Choice, Chooser};

#[derive(Default)]
pub(super) struct ExhaustiveSearch {
    nodes: Vec<Node>,
    depth: usize,
    /// Tasks that sleep now, with the operation that they are about to do.
    asleep: Vec<(u32, Op)>,
    redundant: bool,
    complete: bool,
}

struct Node {
    /// Tasks and their operations; of a number, its values.
    choices: Vec<(u32, Op)>,
    /// Those that sleep, and those that were tried.
    asleep: Vec<(u32, Op)>,
    chosen: usize,
}

/// The longest path that is searched; further choices follow the default policy.
const DEEPEST: usize = 10_000;

impl ExhaustiveSearch {
    pub(super) fn new() -> ExhaustiveSearch {
        ExhaustiveSearch::default()
    }

    fn step(&mut self, choices: impl FnOnce() -> Vec<(u32, Op)>, usual: usize) -> usize {
        if self.redundant || self.depth >= DEEPEST {
            return usual;
        }
        if self.depth == self.nodes.len() {
            let choices = choices();
            let awake = |at: &usize| !self.asleep.iter().any(|(task, _)| *task == choices[*at].0);
            let order = std::iter::once(usual).chain(0..choices.len());
            let Some(chosen) = order.into_iter().find(awake) else {
                self.redundant = true;
                return usual;
            };
            self.nodes.push(Node { choices, asleep: self.asleep.clone(), chosen });
        }
        let node = &self.nodes[self.depth];
        self.asleep.clone_from(&node.asleep);
        self.depth += 1;
        node.chosen
    }
}

impl Chooser for ExhaustiveSearch {
    fn begin(&mut self, _seed: u64) {
        self.depth = 0;
        self.redundant = self.complete;
        self.asleep.clear();
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let choices = || choice.enabled.iter().map(|e| (e.task, e.op)).collect();
        self.step(choices, choice.usual()).min(choice.enabled.len() - 1)
    }

    fn does(&mut self, task: u32, op: Op) {
        self.asleep.retain(|(other, its)| *other != task && !its.conflicts(op));
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        // Values are no tasks: their numbers are above all tasks, and they never sleep.
        let asleep = std::mem::take(&mut self.asleep);
        let values = || (0..below).map(|at| (u32::MAX - at as u32, Op::default())).collect();
        let at = self.step(values, 0).min(below - 1);
        self.asleep = asleep;
        at
    }

    fn end(&mut self) -> bool {
        self.nodes.truncate(self.depth);
        while let Some(node) = self.nodes.last_mut() {
            let tried = node.choices[node.chosen];
            node.asleep.push(tried);
            let awake = |at: &usize| !node.asleep.iter().any(|(t, _)| *t == node.choices[*at].0);
            if let Some(next) = (0..node.choices.len()).find(awake) {
                node.chosen = next;
                return true;
            }
            self.nodes.pop();
        }
        self.complete = true;
        false
    }
}
