//! All schedules of a small test: depth first, with sleep sets, those with few preemptions first.
//!
//! P. Godefroid: Partial-order methods for the verification of concurrent systems (LNCS 1032,
//! 1996). The path of the last schedule is kept as a list of nodes. The next schedule repeats the
//! path up to the last node with an untried task, and takes that. A task that was tried at a node
//! *sleeps* in the branches after it, until an operation that conflicts with its own is done:
//! before that, going on with it would lead to a state that was seen already.
//!
//! A run whose ready tasks all sleep is redundant. It is finished by the default policy, and
//! nothing is tried below it.
//!
//! # Rounds
//!
//! M. Musuvathi, S. Qadeer: Iterative context bounding for systematic testing of multithreaded
//! programs (PLDI 2007). Depth first alone changes the end of a long run again and again, and comes
//! to its beginning after all of those. So round k tries the schedules in which at most k tasks are
//! preempted that could have gone on; most bugs need one or two. The search ends with the first
//! round in which no choice was left out. That round is a search with sleep sets alone, so all
//! schedules were tried; sleep sets may hide schedules of the rounds before it from those rounds.
//!
//! # Repeating one schedule
//!
//! A schedule follows from the choices up to its last node and from the tasks that sleep there.
//! Those are the [memory](Chooser::memory) of the search.

use super::op::{Op, OpKind};
use super::strategy::{Choice, Chooser};

pub(crate) struct ExhaustiveSearch {
    nodes: Vec<Node>,
    depth: usize,
    /// Tasks that sleep now, with the operation that they are about to do.
    asleep: Vec<(u32, Op)>,
    redundant: bool,
    complete: bool,
    /// The most preemptions of this round, and those of the present schedule.
    bound: u32,
    preempted: u32,
    /// Whether this round has left out a choice because of its bound.
    cut: bool,
    /// Whether it repeats one schedule, and searches nothing.
    repeats: bool,
    /// Whether every choice other than the usual one counts as a preemption, and none sleeps.
    counts_all: bool,
}

struct Node {
    /// Tasks and their operations; of a number, its values.
    choices: Vec<(u32, Op)>,
    /// Those that sleep, and those that were tried.
    asleep: Vec<(u32, Op)>,
    chosen: usize,
    /// The task that would be preempted by any other choice.
    current: Option<usize>,
    /// Preemptions before this node.
    preempted: u32,
}

impl Node {
    fn is_asleep(&self, at: usize) -> bool {
        self.asleep.iter().any(|(task, _)| *task == self.choices[at].0)
    }

    /// Preemptions, if this is chosen.
    fn preempted_with(&self, at: usize) -> u32 {
        self.preempted + u32::from(self.current.is_some_and(|current| current != at))
    }
}

/// The longest path that is searched; further choices follow the default policy.
const DEEPEST: usize = 10_000;

impl ExhaustiveSearch {
    pub(super) fn new() -> ExhaustiveSearch {
        ExhaustiveSearch {
            nodes: Vec::new(),
            depth: 0,
            asleep: Vec::new(),
            redundant: false,
            complete: false,
            bound: 2,
            preempted: 0,
            cut: false,
            repeats: false,
            counts_all: false,
        }
    }

    /// A search of all schedules with at most so many choices that differ from the default policy,
    /// without sleep sets. It ends after that round.
    pub(crate) fn of_few(deviations: u32) -> ExhaustiveSearch {
        ExhaustiveSearch { bound: deviations, counts_all: true, ..ExhaustiveSearch::new() }
    }

    fn step(
        &mut self,
        choices: impl FnOnce() -> Vec<(u32, Op)>,
        usual: usize,
        current: Option<usize>,
    ) -> usize {
        if self.redundant || self.depth >= DEEPEST {
            return usual;
        }
        let current = if self.counts_all { Some(usual) } else { current };
        if self.depth == self.nodes.len() {
            let (choices, asleep) = (choices(), self.asleep.clone());
            let preempted = self.preempted;
            let mut node = Node { choices, asleep, chosen: usual, current, preempted };
            let order = std::iter::once(usual).chain(0..node.choices.len());
            let mut awake = order.filter(|&at| !node.is_asleep(at));
            let within = |at: &usize| node.preempted_with(*at) <= self.bound;
            match awake.find(within) {
                Some(chosen) => node.chosen = chosen,
                None => {
                    self.redundant = true;
                    return usual;
                }
            }
            self.nodes.push(node);
        }
        let node = &self.nodes[self.depth];
        if !self.counts_all {
            self.asleep.clone_from(&node.asleep);
        }
        self.preempted = node.preempted_with(node.chosen);
        self.depth += 1;
        node.chosen
    }

    /// Goes back to the last node with a choice that was not tried. False if there is none.
    fn turn(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            let tried = node.choices[node.chosen];
            node.asleep.push(tried);
            let awake = (0..node.choices.len()).filter(|&at| !node.is_asleep(at));
            let (within, beyond): (Vec<_>, Vec<_>) =
                awake.partition(|&at| node.preempted_with(at) <= self.bound);
            self.cut |= !beyond.is_empty();
            if let Some(&next) = within.first() {
                node.chosen = next;
                return true;
            }
            self.nodes.pop();
        }
        false
    }
}

impl Chooser for ExhaustiveSearch {
    fn begin(&mut self, _seed: u64) {
        (self.depth, self.preempted) = (0, 0);
        self.redundant = self.complete;
        self.asleep.clear();
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let choices = || choice.enabled.iter().map(|e| (e.task, e.op)).collect();
        self.step(choices, choice.usual(), choice.current).min(choice.enabled.len() - 1)
    }

    fn does(&mut self, task: u32, op: Op) {
        self.asleep.retain(|(other, its)| *other != task && !its.conflicts(op));
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        // Values are no tasks: their numbers are above all tasks, and they never sleep.
        let asleep = std::mem::take(&mut self.asleep);
        let values = || (0..below).map(|at| (u32::MAX - at as u32, Op::default())).collect();
        let at = self.step(values, 0, None).min(below - 1);
        self.asleep = asleep;
        at
    }

    fn end(&mut self) -> bool {
        if self.repeats {
            return false;
        }
        self.nodes.truncate(self.depth);
        if self.turn() {
            return true;
        }
        // The round is over.
        if !std::mem::take(&mut self.cut) || self.counts_all {
            self.complete = true;
            return false;
        }
        self.bound += 1;
        true
    }

    fn memory(&self) -> Vec<u64> {
        let last = self.nodes.last();
        let preempted = last.map_or(0, |node| node.preempted_with(node.chosen));
        let mut memory = vec![self.bound.into(), preempted.into(), self.nodes.len() as u64];
        memory.extend(self.nodes.iter().map(|node| node.chosen as u64));
        for (task, op) in last.map_or(&[][..], |node| &node.asleep) {
            memory.extend([u64::from(*task), op.kind.number(), op.object.into()]);
        }
        memory
    }

    fn remember(&mut self, memory: &[u64]) {
        *self = ExhaustiveSearch::new();
        let [bound, preempted, length, rest @ ..] = memory else { return };
        let preempted = *preempted as u32;
        self.bound = u32::try_from(*bound).unwrap_or(u32::MAX);
        self.repeats = true;
        let (path, asleep) = rest.split_at((*length as usize).min(rest.len()));
        let sleeper = |words: &[u64]| {
            let op = Op { kind: OpKind::of_number(words[1]), object: words[2] as u32 };
            (words[0] as u32, op)
        };
        let asleep: Vec<(u32, Op)> = asleep.chunks_exact(3).map(sleeper).collect();
        // Nothing is tried below these nodes: only the last one says who sleeps.
        let node = |(at, &chosen): (usize, &u64)| {
            let asleep = if at + 1 == path.len() { asleep.clone() } else { Vec::new() };
            let chosen = chosen as usize;
            Node { choices: Vec::new(), asleep, chosen, current: None, preempted }
        };
        self.nodes = path.iter().enumerate().map(node).collect();
    }
}
