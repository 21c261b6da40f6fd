//! The settings of a hunt, and its loop.

use super::report::{Failure, Report};
use crate::api::runtime::Runtime;
use crate::base::error::{Error, Result};
use crate::sched::lab::Strategy;
use crate::scope::cx::Preempt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Faults that the lab injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Faults {}

impl Faults {
    /// No faults.
    pub fn none() -> Faults {
        Faults {}
    }
}

/// A hunt for a schedule in which a test fails.
///
/// ```
/// use parcae::lab::Explore;
///
/// let report = Explore::new().schedules(50).run(|rt| rt.run(|cx| cx.yield_now()))?;
/// assert_eq!(report.schedules, 50);
/// # Ok::<(), parcae::lab::Failure>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Explore {
    schedules: u64,
    time: Duration,
    workers: RangeInclusive<usize>,
    steps: u64,
    strategies: Vec<Strategy>,
    faults: Faults,
    seed: u64,
}

impl Default for Explore {
    fn default() -> Explore {
        Explore::new()
    }
}

impl Explore {
    /// The defaults: 1000 schedules, 10 seconds, all strategies, no faults.
    pub fn new() -> Explore {
        Explore {
            schedules: 1_000,
            time: Duration::from_secs(10),
            workers: 1..=3,
            steps: 100_000,
            strategies: vec![Strategy::RandomWalk, Strategy::RandomSlices],
            faults: Faults::default(),
            seed: 0,
        }
    }

    /// The most schedules.
    pub fn schedules(mut self, schedules: u64) -> Explore {
        self.schedules = schedules;
        self
    }

    /// The longest time of the hunt.
    pub fn time(mut self, time: Duration) -> Explore {
        self.time = time;
        self
    }

    /// The numbers of virtual workers that schedules have in turn.
    pub fn workers(mut self, workers: RangeInclusive<usize>) -> Explore {
        self.workers = workers;
        self
    }

    /// The most operations of a schedule, before it counts as a livelock.
    pub fn steps(mut self, steps: u64) -> Explore {
        self.steps = steps;
        self
    }

    /// The strategies that schedules have in turn.
    pub fn strategies(mut self, strategies: impl IntoIterator<Item = Strategy>) -> Explore {
        self.strategies = strategies.into_iter().collect();
        self
    }

    /// The faults that are injected.
    pub fn faults(mut self, faults: Faults) -> Explore {
        self.faults = faults;
        self
    }

    /// The seed of the hunt: the same seed gives the same schedules. Default: 0.
    pub fn seed(mut self, seed: u64) -> Explore {
        self.seed = seed;
        self
    }

    /// Runs the test until it fails, or the settings say that it is enough.
    ///
    /// # Errors
    ///
    /// The schedule in which the test failed.
    pub fn run(
        &self,
        test: impl Fn(&Runtime) -> Result<()> + Sync,
    ) -> std::result::Result<Report, Failure> {
        let started = Instant::now();
        let mut schedule = 0;
        let workers: Vec<usize> = self.workers.clone().collect();
        while schedule < self.schedules && started.elapsed() < self.time {
            let strategy = self.strategies[schedule as usize % self.strategies.len()];
            let preempt = Preempt::Randomly;
            let outcome = Runtime::builder()
                .workers(workers[schedule as usize % workers.len()])
                .preempt(preempt)
                .lab(self.seed.wrapping_add(schedule))
                .build()
                .map_err(Error::from)
                .and_then(|rt| {
                    catch_unwind(AssertUnwindSafe(|| test(&rt)))
                        .unwrap_or_else(|payload| Err(Error::from_panic(payload)))
                });
            if let Err(error) = outcome {
                return Err(Failure { error, schedule, strategy });
            }
            schedule += 1;
        }
        Ok(Report { schedules: schedule, time: started.elapsed() })
    }
}
