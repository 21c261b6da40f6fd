//! The causality probe: the step after which a failure can no longer be avoided.
//!
//! The first k steps of the run are repeated, and the rest is left to other strategies. If no
//! continuation passes, the failure was decided within those k steps. Every continuation of k + 1
//! steps is also one of k steps, so "all fail" holds for all longer beginnings too, and the first
//! one can be found by bisection. Continuations are sampled: a rare one that passes may be missed,
//! and then a step is named that comes too early.

use crate::base::rng::mix;
use crate::base::time::own_time;
use crate::sched::lab::{Chooser, Script, Strategy, chooser};
use std::time::Duration;

/// How long to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Continuations of each beginning.
    pub(super) samples: u64,
    /// Processor time, so that a loaded machine finds as much.
    pub(super) time: Duration,
}

/// The strategies of continuations, after one by the default policy.
const STRATEGIES: [Strategy; 4] =
    [Strategy::RandomWalk, Strategy::RandomSlices, Strategy::Pct, Strategy::Starvation];

impl Probe {
    /// For the report of every failure.
    pub(super) fn brief() -> Probe {
        Probe { samples: 60, time: Duration::from_secs(5) }
    }

    /// The step after which no continuation passes; none if that is so from the start, or if there
    /// was no time. `fails` runs a beginning of so many steps with a continuation and its seed.
    pub(super) fn find(
        self,
        steps: usize,
        mut fails: impl FnMut(usize, (Box<dyn Chooser>, u64)) -> bool,
    ) -> Option<usize> {
        let until = own_time() + self.time;
        let mut is_lost = |before: usize| {
            for sample in 0..self.samples {
                if own_time() > until {
                    return None;
                }
                if !fails(before, continuation(sample)) {
                    return Some(false);
                }
            }
            Some(true)
        };
        // The shortest beginning that is lost: above `open`, at most `lost`.
        let (mut open, mut lost) = (0, steps);
        if steps == 0 || is_lost(0)? {
            return None;
        }
        while lost - open > 1 {
            let middle = open + (lost - open) / 2;
            match is_lost(middle)? {
                true => lost = middle,
                false => open = middle,
            }
        }
        Some(lost - 1)
    }
}

/// A way to go on, and its seed.
fn continuation(sample: u64) -> (Box<dyn Chooser>, u64) {
    let then: Box<dyn Chooser> = match sample.checked_sub(1) {
        None => Box::new(Script::new(&[])),
        Some(at) => chooser(STRATEGIES[at as usize % STRATEGIES.len()]),
    };
    (then, mix(sample))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A failure that is decided by the step with this number, of twenty.
    fn found(decided_by: usize) -> Option<usize> {
        let probe = Probe { samples: 10, time: Duration::from_secs(600) };
        let mut sample = 0;
        probe.find(20, |before, _| {
            sample += 1;
            before > decided_by || sample % 3 > 0
        })
    }

    #[test]
    fn the_step_that_decides_is_found_by_bisection() {
        for step in 0..20 {
            assert_eq!(found(step), Some(step));
        }
    }

    #[test]
    fn a_test_that_always_fails_is_lost_from_the_start() {
        let probe = Probe { samples: 10, time: Duration::from_secs(600) };
        assert_eq!(probe.find(20, |_, _| true), None);
    }
}
