//! All schedules of a small test: depth first, with sleep sets, those that differ little from the
//! default policy first.
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
//! M. Emmi, S. Qadeer, Z. Rakamarić: Delay-bounded scheduling (POPL 2011). Depth first alone
//! changes the end of a long run again and again, and comes to its beginning after all of those. So
//! a round tries the schedules in which at most so many choices differ from the default policy: 1,
//! then 2, 4 and so on; most bugs need one or two. The search ends with the first round in which no
//! choice was left out. That round is a search with sleep sets alone, so all schedules were tried;
//! sleep sets may hide schedules of the rounds before it from those rounds.
//!
//! Rejected: counting only preemptions of tasks that could have gone on (M. Musuvathi, S. Qadeer:
//! Iterative context bounding, PLDI 2007). All orders of tasks that wait, yield or end are free
//! then: a loop that yields, or a few waits that may end early, fill a round with thousands of
//! schedules that differ at their ends alone.
//!
//! # Repeating one schedule
//!
//! A schedule follows from the choices up to its last node, and from the tasks that sleep at the
//! last node at which a task was chosen. Those are the [memory](Chooser::memory) of the search.
//!
//! # Numbers
//!
//! A number other than 0 is such a choice, too: a fault, or another order of timers.

use super::op::{Op, OpKind};
use super::strategy::{Choice, Chooser};

pub(crate) struct ExhaustiveSearch {
    nodes: Vec<Node>,
    depth: usize,
    /// Tasks that sleep now, with the operation that they are about to do.
    asleep: Vec<(u32, Op)>,
    redundant: bool,
    complete: bool,
    /// The most choices of this round that differ from the default policy, and those of the present
    /// schedule.
    bound: u32,
    delays: u32,
    /// Whether this round has left out a choice because of its bound.
    cut: bool,
    /// Whether it repeats one schedule, and searches nothing.
    repeats: bool,
    /// Whether there is one round, in which no task sleeps.
    of_few: bool,
}

struct Node {
    /// Tasks and their operations; of a number, its values.
    choices: Vec<(u32, Op)>,
    /// Those that sleep, and those that were tried.
    asleep: Vec<(u32, Op)>,
    chosen: usize,
    /// The choice of the default policy.
    usual: usize,
    /// Choices before this node that differ from it.
    delays: u32,
}

impl Node {
    /// Whether it is a number that is chosen, and no task.
    fn is_of_number(&self) -> bool {
        self.choices.first().is_some_and(|first| first.0 == u32::MAX)
    }

    fn is_asleep(&self, at: usize) -> bool {
        self.asleep.iter().any(|(task, _)| *task == self.choices[at].0)
    }

    /// Choices that differ from the default policy, if this is chosen.
    fn delays_with(&self, at: usize) -> u32 {
        self.delays + u32::from(self.usual != at)
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
            bound: 1,
            delays: 0,
            cut: false,
            repeats: false,
            of_few: false,
        }
    }

    /// A search of all schedules with at most so many choices that differ from the default policy,
    /// without sleep sets. It ends after that round.
    pub(crate) fn of_few(deviations: u32) -> ExhaustiveSearch {
        ExhaustiveSearch { bound: deviations, of_few: true, ..ExhaustiveSearch::new() }
    }

    fn step(&mut self, choices: impl FnOnce() -> Vec<(u32, Op)>, usual: usize) -> usize {
        if self.redundant || self.depth >= DEEPEST {
            return usual;
        }
        if self.depth == self.nodes.len() {
            let (choices, asleep) = (choices(), self.asleep.clone());
            let mut node = Node { choices, asleep, chosen: usual, usual, delays: self.delays };
            let order = std::iter::once(usual).chain(0..node.choices.len());
            let mut awake = order.filter(|&at| !node.is_asleep(at));
            let within = |at: &usize| node.delays_with(*at) <= self.bound;
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
        if !self.of_few {
            self.asleep.clone_from(&node.asleep);
        }
        self.delays = node.delays_with(node.chosen);
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
                awake.partition(|&at| node.delays_with(at) <= self.bound);
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
        (self.depth, self.delays) = (0, 0);
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
        if self.repeats {
            return false;
        }
        self.nodes.truncate(self.depth);
        if self.turn() {
            return true;
        }
        // The round is over.
        if !std::mem::take(&mut self.cut) || self.of_few {
            self.complete = true;
            return false;
        }
        self.bound *= 2;
        true
    }

    fn memory(&self) -> Vec<u64> {
        let last = self.nodes.last();
        let delays = last.map_or(0, |node| node.delays_with(node.chosen));
        let sleeps = self.nodes.iter().rposition(|node| !node.is_of_number());
        let sleepers = sleeps.map_or(&[][..], |at| &self.nodes[at].asleep);
        let (length, sleeps) = (self.nodes.len() as u64, sleeps.map_or(0, |at| at as u64));
        let mut memory = vec![self.bound.into(), delays.into(), length, sleeps];
        memory.extend(self.nodes.iter().map(|node| node.chosen as u64));
        for (task, op) in sleepers {
            memory.extend([u64::from(*task), op.kind.number(), op.object.into()]);
        }
        memory
    }

    fn remember(&mut self, memory: &[u64]) {
        *self = ExhaustiveSearch::new();
        let [bound, delays, length, sleeps, rest @ ..] = memory else { return };
        let delays = *delays as u32;
        self.bound = u32::try_from(*bound).unwrap_or(u32::MAX);
        self.repeats = true;
        let (path, asleep) = rest.split_at((*length as usize).min(rest.len()));
        let sleeper = |words: &[u64]| {
            let op = Op { kind: OpKind::of_number(words[1]), object: words[2] as u32 };
            (words[0] as u32, op)
        };
        let asleep: Vec<(u32, Op)> = asleep.chunks_exact(3).map(sleeper).collect();
        // Nothing is tried below these nodes: only one of them says which tasks sleep.
        let node = |(at, &chosen): (usize, &u64)| {
            let asleep = if at as u64 == *sleeps { asleep.clone() } else { Vec::new() };
            let chosen = chosen as usize;
            Node { choices: Vec::new(), asleep, chosen, usual: chosen, delays }
        };
        self.nodes = path.iter().enumerate().map(node).collect();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A search that has come to the second task of two, and to a number behind it: the first task
    /// sleeps, also where the schedule is repeated.
    #[test]
    fn a_task_sleeps_on_behind_a_number() {
        let tasks = |a, b| move || vec![(a, Op::default()), (b, Op::default())];
        let values = (0, 0, 0);
        let mut search = ExhaustiveSearch { bound: 4, ..ExhaustiveSearch::new() };
        for number in [0, 1] {
            search.begin(0);
            assert_eq!((search.step(tasks(1, 2), 0), search.number(values, 2)), (0, number));
            assert!(search.end());
        }
        let mut repeated = ExhaustiveSearch::new();
        search.begin(0);
        assert_eq!((search.step(tasks(1, 2), 0), search.number(values, 2)), (1, 0));
        repeated.remember(&search.memory());
        repeated.begin(0);
        assert_eq!((repeated.step(tasks(1, 2), 0), repeated.number(values, 2)), (1, 0));
        assert_eq!((search.step(tasks(1, 3), 0), repeated.step(tasks(1, 3), 0)), (1, 1));
    }
}
