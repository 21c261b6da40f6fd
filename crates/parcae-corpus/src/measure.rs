//! Figures of the lab on one program, and how each is obtained.
//!
//! | figure | obtained by |
//! |---|---|
//! | schedules to the first failure | [`first_failures`]: one hunt with the default settings for each of several seeds; the failing schedule counts |
//! | time to the first failure | the same hunts, from the start to the end of the failing schedule |
//! | failing share of a strategy | [`share`]: a hunt with that strategy alone that goes on after a failure |
//! | share that the order of arrival finds | [`fifo_share`]: one worker, tasks in the order in which they became ready, no preemption |
//! | schedules per second | [`rate`]: the fixed program, default settings |
//! | false alarms | [`rate`]: failures of the fixed program |
//!
//! Failures are counted inside of the hunt, by the test that it is given, so that the figures hold
//! for the search alone: replays and shrinking after a failure are not in them. A leak and a
//! livelock are seen by the lab only; there the hunt ends, and is started again with another seed.
//!
//! A bug that the order of arrival finds says nothing about a strategy. Read the share of FIFO
//! first.

use crate::Entry;
use parcae::lab::{Explore, FailureKind, Strategy};
use parcae::prelude::*;
use parcae::runtime::Preempt;
use parcae::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A program of the corpus, buggy or fixed.
pub type Program = fn(&Runtime) -> Result<()>;

/// Runs of a program in a hunt, counted from inside. After a failure that the lab sees, shrinking
/// repeats the run; those runs are counted too, and come last.
#[derive(Debug)]
struct Tally {
    started: Instant,
    runs: AtomicU64,
    /// The runs that failed, from 1.
    failed: Mutex<Vec<u64>>,
    first: OnceLock<(u64, Duration)>,
}

impl Tally {
    fn new() -> Tally {
        let (started, first) = (Instant::now(), OnceLock::new());
        Tally { started, runs: AtomicU64::new(0), failed: Mutex::default(), first }
    }

    /// Runs the program and counts.
    fn run(&self, program: Program, rt: &Runtime) -> Result<()> {
        let run = self.runs.fetch_add(1, Relaxed) + 1;
        let outcome = outcome_of(|| program(rt));
        if outcome.is_err() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            self.first.get_or_init(|| (run, self.started.elapsed()));
        }
        outcome
    }

    /// Failures among the first runs.
    fn failed_of(&self, runs: u64) -> u64 {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.iter().filter(|run| **run <= runs).count() as u64
    }
}

/// The result of a run; a panic is an error.
fn outcome_of(run: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panic_error(&*payload)))
}

fn panic_error(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    Error::msg(text.or(payload.downcast_ref().copied()).unwrap_or("panicked"))
}

/// Bounds of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The most schedules of a hunt.
    pub schedules: u64,
    /// The longest time of a hunt.
    pub time: Duration,
}

/// The first failure of a hunt.
#[derive(Debug, Clone)]
pub struct First {
    /// Schedules until then, the failing one included.
    pub schedules: u64,
    /// Time until then.
    pub time: Duration,
    /// The kind of failure.
    pub kind: FailureKind,
    /// Forced switches after shrinking.
    pub switches: usize,
    /// Time that shrinking took.
    pub shrinking: Duration,
}

/// Hunts once for each base seed with the default strategies. `None`: not found within the bounds.
pub fn first_failures(
    program: Program,
    seeds: impl IntoIterator<Item = u64>,
    bounds: Bounds,
) -> Vec<Option<First>> {
    let hunt = |seed: u64| {
        let tally = Tally::new();
        let explore = Explore::new().seed(seed).schedules(bounds.schedules).time(bounds.time);
        let failure = quietly(|| explore.run(|rt| tally.run(program, rt))).err()?;
        let whole = tally.started.elapsed();
        // A leak: seen by the lab, after the run.
        let at_the_end = || (failure.schedule() + 1, whole);
        let (schedules, time) = tally.first.get().copied().unwrap_or_else(at_the_end);
        let (kind, switches) = (failure.kind(), failure.forced_switches());
        Some(First { schedules, time, kind, switches, shrinking: whole - time })
    };
    seeds.into_iter().map(hunt).collect()
}

/// Hunts once for each base seed with one strategy, or with the default ones. Schedules until the
/// first failure; `None`: not found within the bounds.
pub fn schedules_to_first(
    program: Program,
    strategy: Option<Strategy>,
    seeds: impl IntoIterator<Item = u64>,
    bounds: Bounds,
) -> Vec<Option<u64>> {
    let hunt = |seed: u64| {
        let explore = Explore::new().seed(seed).schedules(bounds.schedules).time(bounds.time);
        let explore = match strategy {
            Some(strategy) => explore.strategies([strategy]),
            None => explore,
        };
        let failure = quietly(|| explore.run(|rt| outcome_of(|| program(rt)))).err()?;
        Some(failure.schedule() + 1)
    };
    seeds.into_iter().map(hunt).collect()
}

/// Failing schedules of a hunt that goes on after failures, and all of its schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Failing schedules.
    pub failed: u64,
    /// All.
    pub of: u64,
}

impl Share {
    /// In percent; `None` of nothing.
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.failed as f64 / self.of as f64)
    }
}

/// The share of failing schedules of one strategy. The hunt goes on after a panic, which the test
/// keeps to itself. It ends at a deadlock, a leak or a livelock, which the lab sees anyway; then
/// another one begins with another seed.
pub fn share(entry: &Entry, strategy: Strategy, bounds: Bounds) -> Share {
    let (started, mut share) = (Instant::now(), Share::default());
    for seed in 0.. {
        let (left, time) = (bounds.schedules - share.of, bounds.time);
        let Some(time) = time.checked_sub(started.elapsed()) else { break };
        let tally = Tally::new();
        let explore = Explore::new().seed(seed << 32).strategies([strategy]);
        let hunt = quietly(|| {
            explore.schedules(left).time(time).run(|rt| {
                tally.run(entry.buggy, rt).ok(); // counted, and the hunt goes on
                Ok(())
            })
        });
        let (schedules, at_least) = match &hunt {
            Ok(report) => (report.schedules, 0),
            Err(failure) => (failure.schedule() + 1, 1),
        };
        share.of += schedules;
        share.failed += tally.failed_of(schedules).max(at_least);
        let exhausted = hunt.is_ok() && strategy == Strategy::Exhaustive;
        if schedules == 0 || exhausted || share.of >= bounds.schedules {
            break;
        }
    }
    share
}

/// The share of runs that fail in the order of arrival: one worker, no preemption. The seed decides
/// the choices of `select!` alone.
pub fn fifo_share(entry: &Entry, seeds: u64) -> Share {
    let fails = |seed: &u64| {
        let builder = Runtime::builder().workers(1).preempt(Preempt::Never).deterministic(*seed);
        // A program that does not end runs out of operations.
        let bounded = builder.budget(Budget::UNLIMITED.with_ops(10_000));
        let Ok(rt) = bounded.build() else { return false };
        let outcome = outcome_of(|| (entry.buggy)(&rt));
        let rest = || rt.run(|cx| cx.sleep(Duration::from_secs(3600)));
        outcome.is_err()
            || (entry.failing == FailureKind::Leak && (rest().is_err() || rt.live_tasks() > 0))
    };
    Share { failed: quietly(|| (0..seeds).filter(fails).count() as u64), of: seeds }
}

/// Schedules of a program that should not fail.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Schedules that ran.
    pub schedules: u64,
    /// Duration.
    pub time: Duration,
    /// The failure, if there was one: a false alarm.
    pub failure: Option<String>,
}

impl Rate {
    /// Schedules per second.
    pub fn per_second(&self) -> f64 {
        self.schedules as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Runs a program with the default strategies for as long as it does not fail.
pub fn rate(program: Program, bounds: Bounds) -> Rate {
    let tally = Tally::new();
    let explore = Explore::new().seed(7).schedules(bounds.schedules).time(bounds.time);
    let failure = explore.run(|rt| tally.run(program, rt)).err().map(|failure| failure.to_string());
    Rate { schedules: tally.runs.load(Relaxed), time: tally.started.elapsed(), failure }
}

/// Ten tasks that yield four times each: the price of a schedule, and of a step.
pub fn yields(rt: &Runtime) -> Result<()> {
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..10 {
                n.spawn(|cx| (0..4).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
}

/// The middle of some figures; a figure that is missing counts as larger than all others.
pub fn median<T: PartialOrd + Copy>(figures: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut figures: Vec<Option<T>> = figures.into_iter().collect();
    figures.sort_by(|a, b| match (a, b) {
        (Some(a), Some(b)) => a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    figures.get(figures.len() / 2).copied().flatten()
}

/// Whether panics are part of a hunt, and not to be printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Runs a hunt whose panics are expected. [`quiet_panics`] has to be installed.
pub(crate) fn quietly<R>(hunt: impl FnOnce() -> R) -> R {
    let before = QUIET.swap(true, Relaxed);
    let result = hunt();
    QUIET.store(before, Relaxed);
    result
}

/// Installs a panic hook that prints nothing during hunts: a backtrace for every failing schedule
/// would be most of the time measured.
pub fn quiet_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !QUIET.load(Relaxed) {
            print(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_missing_counts_as_the_largest() {
        assert_eq!(median([Some(3), None, Some(1)]), Some(3));
        assert_eq!(median([None, Some(2), None]), None);
        assert_eq!(median::<u64>([]), None);
    }

    #[test]
    fn the_order_of_arrival_finds_what_fails_always_and_nothing_in_dining_philosophers() {
        let of = |name: &str| {
            let entry = crate::CORPUS.iter().find(|entry| entry.name == name).unwrap();
            fifo_share(entry, 5)
        };
        assert_eq!(of("cockroach#13755"), Share { failed: 5, of: 5 });
        assert_eq!(of("kubernetes#70277"), Share { failed: 5, of: 5 });
        assert_eq!(of("din_phil-5"), Share { failed: 0, of: 5 });
    }
}
