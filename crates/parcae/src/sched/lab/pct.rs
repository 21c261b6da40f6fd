//! PCT: random priorities with a few changes.
//!
//! S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte: A randomized scheduler with
//! probabilistic guarantees of finding bugs (ASPLOS 2010). With n tasks and k choices, a bug that
//! needs d ordered events is found with a probability of at least 1 / (n · k^(d−1)) per schedule.
//!
//! - *Length.* The number of choices is estimated by the largest one of earlier schedules. It goes
//!   into the token, because a replay must place the changes where they were.
//! - *Spinning.* A task that yields asks others to go on. It gets a priority below all others, or
//!   the highest would spin for ever.

use super::strategy::{Choice, Chooser, rng};
use crate::base::rng::Rng;

pub(super) struct PctChooser {
    rng: Rng,
    /// Of each task; the highest goes on. Those that were changed are negative.
    priorities: Vec<i64>,
    /// Choices at which the running task loses its priority.
    changes: Vec<u64>,
    choices: u64,
    lowest: i64,
    /// The most choices of a schedule so far.
    longest: u64,
}

/// The deepest bugs that are looked for.
const DEPTHS: usize = 5;

impl PctChooser {
    pub(super) fn new() -> PctChooser {
        PctChooser {
            rng: rng(0),
            priorities: Vec::new(),
            changes: Vec::new(),
            choices: 0,
            lowest: 0,
            longest: 20,
        }
    }

    fn priority(&mut self, task: u32) -> &mut i64 {
        let at = task as usize;
        while self.priorities.len() <= at {
            self.priorities.push((self.rng.next() >> 1) as i64);
        }
        &mut self.priorities[at]
    }

    fn lower(&mut self, task: u32) {
        self.lowest -= 1;
        let lowest = self.lowest;
        *self.priority(task) = lowest;
    }
}

impl Chooser for PctChooser {
    fn begin(&mut self, seed: u64) {
        self.rng = rng(seed);
        self.priorities.clear();
        (self.choices, self.lowest) = (0, 0);
        let depth = 1 + self.rng.below(DEPTHS);
        self.changes.clear();
        for _ in 1..depth {
            self.changes.push(1 + self.rng.below(self.longest as usize) as u64);
        }
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        self.choices += 1;
        for enabled in choice.enabled {
            self.priority(enabled.task);
        }
        let best = |this: &PctChooser| {
            let priority = |&at: &usize| this.priorities[choice.enabled[at].task as usize];
            (0..choice.enabled.len()).max_by_key(priority).unwrap_or(0)
        };
        if choice.yields
            && let Some(last) = choice.enabled.iter().find(|e| e.path == choice.last.0)
        {
            self.lower(last.task);
        }
        if self.changes.contains(&self.choices) {
            let chosen = best(self);
            self.lower(choice.enabled[chosen].task);
        }
        best(self)
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }

    fn end(&mut self) -> bool {
        self.longest = self.longest.max(self.choices);
        true
    }

    fn memory(&self) -> Vec<u64> {
        vec![self.longest]
    }

    fn remember(&mut self, memory: &[u64]) {
        self.longest = memory.first().copied().unwrap_or(20).max(1);
    }
}
