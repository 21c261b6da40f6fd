//! Strategies: they choose the task that goes on.
//!
//! All of them are [`Chooser`]s. A chooser sees the ready tasks with the operation that each is
//! about to do, and all operations as they happen. It also draws every other random number of a
//! schedule (the first case of a select, the worker that goes on, a fault), so that a replay
//! repeats those too.

use super::op::Op;
use crate::base::rng::Rng;
use std::panic::Location;
use std::str::FromStr;

/// A way to choose the task that goes on at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strategy {
    /// At each point, any ready task with the same probability.
    RandomWalk,
    /// The running task goes on for a random number of operations, mostly few, sometimes many.
    RandomSlices,
    /// Random priorities of tasks, changed at a few random operations (PCT). It finds a bug that
    /// needs d ordered events with a known probability.
    Pct,
    /// Random priorities of operations, drawn again for those that conflict with the last one
    /// (POS).
    Pos,
    /// Each task with a probability in proportion to the operations that it has left (URW), which
    /// makes all interleavings about equally likely.
    Urw,
    /// All tasks in turn, with the same number of operations for each turn.
    RoundRobin,
    /// One task after another is kept waiting while others can go on.
    Starvation,
    /// All schedules of a small test, one after another, without those that differ only in the
    /// order of independent operations.
    Exhaustive,
    /// Schedules in which operations of tasks met in a new order are kept, and changed a little.
    /// For long hunts; not in the default portfolio.
    Feedback,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 9] = [
        Strategy::RandomWalk,
        Strategy::RandomSlices,
        Strategy::Pct,
        Strategy::Pos,
        Strategy::Urw,
        Strategy::RoundRobin,
        Strategy::Starvation,
        Strategy::Exhaustive,
        Strategy::Feedback,
    ];

    /// The name, as `PARCAE_STRATEGY` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::RandomWalk => "random",
            Strategy::RandomSlices => "slices",
            Strategy::Pct => "pct",
            Strategy::Pos => "pos",
            Strategy::Urw => "urw",
            Strategy::RoundRobin => "round-robin",
            Strategy::Starvation => "starvation",
            Strategy::Exhaustive => "exhaustive",
            Strategy::Feedback => "feedback",
        }
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Strategy, UnknownStrategy> {
        let found = Strategy::ALL.into_iter().find(|strategy| strategy.name() == name);
        found.ok_or_else(|| UnknownStrategy { name: name.into() })
    }
}

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownStrategy {
    name: String,
}

impl std::fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = Strategy::ALL.iter().map(|strategy| strategy.name()).collect();
        write!(f, "no strategy has the name `{}`; there are {}", self.name, names.join(", "))
    }
}

impl std::error::Error for UnknownStrategy {}

/// A task that may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Enabled {
    /// Its number: tasks are numbered in the order of their spawns.
    pub(crate) task: u32,
    /// Identifies it by its place in the tree of tasks, whatever the order of spawns.
    pub(crate) path: u64,
    /// Its operations so far, with the one that it is about to do.
    pub(crate) ops: u32,
    pub(crate) op: Op,
}

/// The tasks to choose from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'c> {
    /// In the order in which they became ready, then the running one, if it can go on.
    pub(crate) enabled: &'c [Enabled],
    /// Position of the running task in `enabled`; none if it has left its worker.
    pub(crate) current: Option<usize>,
    /// The task that ran last has asked to be put behind the others.
    pub(crate) yields: bool,
    /// The task that ran last: its path and its operations; 0 before the first.
    pub(crate) last: (u64, u32),
}

impl Choice<'_> {
    /// The choice of the default policy: the running task goes on; else the one that is ready for
    /// the longest time.
    pub(crate) fn usual(&self) -> usize {
        self.current.unwrap_or(0)
    }
}

/// A strategy at work.
pub(crate) trait Chooser: Send {
    /// A schedule begins.
    fn begin(&mut self, seed: u64);

    /// A task was spawned; tasks come in the order of their numbers.
    fn spawned(&mut self, _task: u32, _path: u64, _parent: Option<u32>) {}

    /// The position of the task that goes on. There are two or more.
    fn choose(&mut self, choice: &Choice<'_>) -> usize;

    /// A task does an operation.
    fn does(&mut self, _task: u32, _op: Op) {}

    /// A task begins an operation at this place, if it is known; by default as `does`, which also
    /// tells that it goes on within an operation.
    fn does_at(&mut self, task: u32, op: Op, _site: Option<&'static Location<'static>>) {
        self.does(task, op);
    }

    /// A number below `below`, which is at least 2. `at`: the acting task's path, the count of its
    /// operations, and of the numbers that it drew since.
    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize;

    /// The schedule has ended. Returns whether there are more schedules.
    fn end(&mut self) -> bool {
        true
    }

    /// Itself, if it repeats a run on threads.
    #[cfg(feature = "record")]
    fn follower(&mut self) -> Option<&mut super::follow::Follower> {
        None
    }

    /// Numbers that a replay needs besides the seed.
    fn memory(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Sets those numbers.
    fn remember(&mut self, _memory: &[u64]) {}
}

/// The chooser of a strategy.
pub(crate) fn chooser(strategy: Strategy) -> Box<dyn Chooser> {
    match strategy {
        Strategy::RandomWalk => Box::new(Walk(rng(0))),
        Strategy::RandomSlices => Box::new(Slices { rng: rng(0), left: 0 }),
        Strategy::Pct => Box::new(super::pct::PctChooser::new()),
        Strategy::Pos => Box::new(super::pos::PosChooser::new()),
        Strategy::Urw => Box::new(super::urw::UrwChooser::new()),
        Strategy::RoundRobin => Box::new(Rounds { rng: rng(0), quantum: 1, left: 0, last: 0 }),
        Strategy::Starvation => Box::new(Starve { rng: rng(0), victim: 0, left: 0 }),
        Strategy::Exhaustive => Box::new(super::exhaustive::ExhaustiveSearch::new()),
        Strategy::Feedback => Box::new(super::feedback::FeedbackSearch::new()),
    }
}

/// The stream of a strategy's random numbers.
pub(super) fn rng(seed: u64) -> Rng {
    Rng::new(seed, 1 << 20)
}

/// [`Strategy::RandomWalk`].
struct Walk(Rng);

impl Chooser for Walk {
    fn begin(&mut self, seed: u64) {
        self.0 = rng(seed);
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        self.0.below(choice.enabled.len())
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.0.below(below)
    }
}

/// [`Strategy::RandomSlices`].
struct Slices {
    rng: Rng,
    left: usize,
}

impl Chooser for Slices {
    fn begin(&mut self, seed: u64) {
        *self = Slices { rng: rng(seed), left: 0 };
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        if let Some(current) = choice.current
            && self.left > 0
        {
            self.left -= 1;
            return current;
        }
        let longest = [1, 4, 64, 1024][self.rng.below(4)];
        self.left = self.rng.below(longest);
        // Another task than the running one, which is last.
        let others = choice.enabled.len() - usize::from(choice.current.is_some());
        self.rng.below(others)
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }
}

/// [`Strategy::RoundRobin`].
struct Rounds {
    rng: Rng,
    quantum: usize,
    left: usize,
    last: u32,
}

impl Chooser for Rounds {
    fn begin(&mut self, seed: u64) {
        let rng = rng(seed);
        let quantum = 1 + rng.below(8);
        *self = Rounds { rng, quantum, left: quantum, last: 0 };
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        if let Some(current) = choice.current
            && self.left > 0
        {
            self.left -= 1;
            return current;
        }
        self.left = self.quantum;
        let after = |task: u32| task.wrapping_sub(self.last).wrapping_sub(1);
        let next = (0..choice.enabled.len()).min_by_key(|&at| after(choice.enabled[at].task));
        let next = next.unwrap_or(0);
        self.last = choice.enabled[next].task;
        next
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }
}

/// [`Strategy::Starvation`].
struct Starve {
    rng: Rng,
    victim: u32,
    /// Choices for which the victim waits on.
    left: usize,
}

impl Chooser for Starve {
    fn begin(&mut self, seed: u64) {
        *self = Starve { rng: rng(seed), victim: u32::MAX, left: 0 };
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        if self.left == 0 {
            self.left = 1 << self.rng.below(11);
            self.victim = choice.enabled[self.rng.below(choice.enabled.len())].task;
        }
        self.left -= 1;
        loop {
            let at = self.rng.below(choice.enabled.len());
            if choice.enabled[at].task != self.victim {
                return at;
            }
        }
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }
}
