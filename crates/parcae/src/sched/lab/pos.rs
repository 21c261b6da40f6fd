//! POS: random priorities of operations.
//!
//! X. Yuan, J. Yang, R. Gu: Partial order aware concurrency sampling (CAV 2018). Each pending
//! operation has a random priority, and the highest goes on. The operations that conflict with it
//! get new priorities, so that the order of each pair of conflicting operations is drawn on its
//! own.

use super::strategy::{Choice, Chooser, rng};
use crate::base::rng::Rng;

pub(super) struct PosChooser {
    rng: Rng,
    /// Of each task: the count of the operation, and its priority. A count that no task reaches
    /// asks for a new one.
    priorities: Vec<(u32, u64)>,
}

/// The count of no operation.
const NEW: u32 = u32::MAX;

impl PosChooser {
    pub(super) fn new() -> PosChooser {
        PosChooser { rng: rng(0), priorities: Vec::new() }
    }
}

impl Chooser for PosChooser {
    fn begin(&mut self, seed: u64) {
        self.rng = rng(seed);
        self.priorities.clear();
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let (mut best, mut highest) = (0, 0);
        for (at, enabled) in choice.enabled.iter().enumerate() {
            let task = enabled.task as usize;
            if self.priorities.len() <= task {
                self.priorities.resize(task + 1, (NEW, 0));
            }
            if self.priorities[task].0 != enabled.ops {
                self.priorities[task] = (enabled.ops, self.rng.next() | 1);
            }
            let asks_to_wait = choice.yields && enabled.path == choice.last.0;
            let priority = if asks_to_wait { 0 } else { self.priorities[task].1 };
            if priority > highest {
                (best, highest) = (at, priority);
            }
        }
        let chosen = choice.enabled[best];
        for enabled in choice.enabled {
            if enabled.task == chosen.task || enabled.op.conflicts(chosen.op) {
                self.priorities[enabled.task as usize].0 = NEW;
            }
        }
        best
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }
}
