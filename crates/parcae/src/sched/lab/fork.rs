//! The beginning of one run and the end of another: for the question after which step a failure can
//! no longer be avoided.

use super::op::{Op, OpKind};
use super::strategy::{Choice, Chooser};
use std::panic::Location;

/// Chooses as `first` for a number of steps, then as `then`.
pub(crate) struct Fork {
    first: Box<dyn Chooser>,
    then: Box<dyn Chooser>,
    /// Steps of the first part, counted as in a record.
    before: usize,
    done: usize,
    /// Seed of the second part.
    seed: u64,
    /// Whether tasks are chosen directly. In schedules with workers numbers choose them.
    bare: bool,
}

impl Fork {
    pub(crate) fn new(
        first: Box<dyn Chooser>,
        before: usize,
        (then, seed): (Box<dyn Chooser>, u64),
    ) -> Fork {
        Fork { first, then, before, done: 0, seed, bare: false }
    }
}

impl Chooser for Fork {
    fn begin(&mut self, seed: u64) {
        (self.done, self.bare) = (0, false);
        self.first.begin(seed);
        self.then.begin(self.seed);
    }

    fn spawned(&mut self, task: u32, path: u64, parent: Option<u32>) {
        self.first.spawned(task, path, parent);
        self.then.spawned(task, path, parent);
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        self.bare = true;
        if self.done < self.before { self.first.choose(choice) } else { self.then.choose(choice) }
    }

    fn does(&mut self, task: u32, op: Op) {
        self.first.does(task, op);
        self.then.does(task, op);
    }

    fn does_at(&mut self, task: u32, op: Op, site: Option<&'static Location<'static>>) {
        self.done += usize::from(op.kind != OpKind::Start);
        self.first.does_at(task, op, site);
        self.then.does_at(task, op, site);
    }

    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        // In a bare schedule a number is drawn within the last step that was counted.
        let within = self.bare && self.done == self.before && self.before > 0;
        match self.done < self.before || within {
            true => self.first.number(at, below),
            false => self.then.number(at, below),
        }
    }
}
