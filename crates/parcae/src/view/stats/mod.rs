//! Figures: what a runtime has done, for people and for monitoring.
//!
//! [`Runtime::stats`](crate::Runtime::stats) takes all of them at once:
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::stats::Measure;
//!
//! let rt = Runtime::builder().workers(2).measure(Measure::Times).build()?;
//! rt.run(|cx| {
//!     cx.nursery_with(NurseryOpts::new().name("parsers"), |n| {
//!         for _ in 0..10 {
//!             n.spawn(|cx| cx.yield_now())?;
//!         }
//!         Ok(())
//!     })
//! })?;
//! let snapshot = rt.stats();
//! let parsers = snapshot.nursery("parsers").unwrap();
//! assert_eq!((parsers.finished, parsers.live), (10, 0));
//! assert!(snapshot.to_prometheus().contains("parcae_nursery_finished_total{nursery=\"parsers\"} 10"));
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! Counters are always there: each worker keeps its own, and nobody waits for anybody to read them. *Times* need a clock, which costs as
//! much as a yield, so they are measured where [`Builder::measure`](crate::runtime::Builder::measure) asks for it:
//!
//! | | |
//! |---|---|
//! | of a worker | how long it ran tasks, and slept |
//! | of the tasks of a nursery | how long they ran, waited, and *starved*: could run and did not |
//! | histograms | turns, and the time from being ready (woken, or having yielded) to running |
//!
//! A task that has not started does not count as starving: [`trace`](crate::trace) shows when it was spawned and
//! started. A task's times are added to its nursery's when it waits, at the end of a slice of its budget, and when it ends.

mod families;
mod histogram;
mod prometheus;
#[cfg(feature = "metrics")]
mod publish;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::sched::worker::stats::WorkerStats;
pub use histogram::Histogram;

use crate::base::json::Object;
use crate::sched::Shared;
use crate::sched::events::Rate;
use crate::scope::budget::Budget;
use crate::scope::tally::{Tallies, TallyEntry, TallyKey};
use std::sync::Arc;
use std::time::Duration;

/// What is measured; see [`Builder::measure`](crate::runtime::Builder::measure).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Measure {
    /// Counters.
    #[default]
    Counters,
    /// Counters, and the times of workers, tasks and nurseries.
    Times,
}

/// All figures of a runtime. Those of different workers are not from the very same moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// When it was taken: since the runtime was built.
    pub at: Duration,
    /// Tasks that have not ended.
    pub live: u64,
    /// Tasks in the queue that all workers share.
    pub queued: usize,
    /// Stacks that overflowed and are never used again, see
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow).
    pub quarantined_stacks: usize,
    /// Each worker, and the temporary workers that were started.
    pub workers: Vec<WorkerFigures>,
    /// Nurseries, where times are measured: root tasks, those with a name, those without one that are open, and the
    /// rest of those without one.
    pub nurseries: Vec<NurseryFigures>,
    /// From being ready to running, where times are measured.
    pub wake_to_run: Histogram,
    /// How long a task ran before it yielded, waited or ended, where times are measured.
    pub run_length: Histogram,
}

/// A worker, in a [`Snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerFigures {
    /// What it counted.
    pub counters: WorkerStats,
    /// Tasks in its queue that others may take.
    pub queued: usize,
    /// How long it ran tasks, where times are measured.
    pub busy: Duration,
    /// How long it slept, where times are measured.
    pub asleep: Duration,
}

/// The tasks of a nursery, in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NurseryFigures {
    /// Which nursery.
    pub which: Which,
    /// How many nurseries that is, of those that have not ended.
    pub open: u64,
    /// Tasks that have not ended.
    pub live: u64,
    /// Tasks that have ended without failing.
    pub finished: u64,
    /// Tasks that have failed.
    pub failed: u64,
    /// How long they ran.
    pub ran: Duration,
    /// How long they waited.
    pub waited: Duration,
    /// How long they could have run and did not.
    pub starved: Duration,
    /// What they have used up, of what the nursery counts.
    pub spent: Budget,
}

/// Which nursery, or nurseries, [`NurseryFigures`] are about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// None: root tasks.
    Roots,
    /// All that have this name.
    Named(Arc<str>),
    /// The one with this number, which is open and has no name.
    Number(u64),
    /// Those without a name that have ended.
    Unnamed,
}

impl Which {
    fn label(&self) -> String {
        match self {
            Which::Roots => "(root tasks)".into(),
            Which::Named(name) => name.to_string(),
            Which::Number(number) => format!("#{number}"),
            Which::Unnamed => "(unnamed)".into(),
        }
    }
}

impl NurseryFigures {
    fn of(entry: TallyEntry, rate: Rate) -> NurseryFigures {
        let [ran, waited, starved] =
            entry.figures.ticks.map(|ticks| Duration::from_nanos(rate.nanos(ticks)));
        NurseryFigures {
            which: match entry.who {
                TallyKey::Roots => Which::Roots,
                TallyKey::Named(name) => Which::Named(name),
                TallyKey::Number(number) => Which::Number(number),
                TallyKey::Unnamed => Which::Unnamed,
            },
            open: entry.open,
            live: entry.figures.live,
            finished: entry.figures.finished,
            failed: entry.figures.failed,
            ran,
            waited,
            starved,
            spent: entry.figures.spent,
        }
    }
}

impl Snapshot {
    pub(crate) fn of(shared: &Shared) -> Snapshot {
        let tracer = &shared.tracer;
        let measured = !tracer.times.is_empty();
        // Waits a little for a good rate, if the runtime is young.
        let rate = if measured { shared.rate() } else { Rate::nanoseconds() };
        let now = shared.ticks();
        let worker = |(index, remote): (usize, &crate::sched::Remote)| {
            let (busy, asleep) = tracer.times.get(index).map_or((0, 0), |times| times.so_far(now));
            WorkerFigures {
                counters: remote.stats.snapshot(),
                queued: shared.queues.stealable(index),
                busy: Duration::from_nanos(rate.nanos(busy)),
                asleep: Duration::from_nanos(rate.nanos(asleep)),
            }
        };
        // Slots of temporary workers that were never started are left out.
        let shown = |(index, remote): &(usize, &crate::sched::Remote)| {
            *index < shared.config.workers || remote.stats.snapshot() != WorkerStats::default()
        };
        let nursery = |entry| NurseryFigures::of(entry, rate);
        Snapshot {
            at: Duration::from_nanos(shared.now()),
            live: shared.live(),
            queued: shared.queues.global_len(),
            quarantined_stacks: shared.stacks.quarantined(),
            workers: shared.remotes.iter().enumerate().filter(shown).map(worker).collect(),
            nurseries: if measured {
                let entries = shared.part::<Tallies>().map_or_else(Vec::new, Tallies::read);
                entries.into_iter().map(nursery).collect()
            } else {
                Vec::new()
            },
            wake_to_run: Histogram::of(tracer.times.iter().map(|times| &times.wakes), rate),
            run_length: Histogram::of(tracer.times.iter().map(|times| &times.runs), rate),
        }
    }

    /// The nurseries of this name, where times are measured.
    pub fn nursery(&self, name: &str) -> Option<&NurseryFigures> {
        self.nurseries.iter().find(|nursery| nursery.which == Which::Named(name.into()))
    }

    /// The counters of all workers together.
    pub fn counters(&self) -> WorkerStats {
        self.workers.iter().fold(WorkerStats::default(), |sum, worker| sum + worker.counters)
    }

    /// The figures as JSON: times in nanoseconds, in the order of the fields.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut all = Object::begin(&mut out);
        all.plain("at", self.at.as_nanos()).plain("live", self.live).plain("queued", self.queued);
        all.plain("quarantined_stacks", self.quarantined_stacks);
        all.list("workers", &self.workers, |out, worker| {
            let mut one = Object::begin(out);
            one.numbers(worker.counters.named()).plain("queued", worker.queued);
            one.plain("busy", worker.busy.as_nanos()).plain("asleep", worker.asleep.as_nanos());
            one.end();
        });
        all.list("nurseries", &self.nurseries, |out, nursery| {
            let mut one = Object::begin(out);
            one.text("nursery", &nursery.which.label()).plain("open", nursery.open);
            one.plain("live", nursery.live).plain("finished", nursery.finished);
            one.plain("failed", nursery.failed).plain("ran", nursery.ran.as_nanos());
            one.plain("waited", nursery.waited.as_nanos());
            one.plain("starved", nursery.starved.as_nanos());
            for (resource, spent) in families::spent(nursery) {
                one.plain(&format!("spent_{resource}"), spent);
            }
            one.end();
        });
        for (name, histogram) in
            [("wake_to_run", &self.wake_to_run), ("run_length", &self.run_length)]
        {
            all.list(name, histogram.buckets(), |out, (low, high, count)| {
                let bucket = format!("[{},{},{count}]", low.as_nanos(), high.as_nanos());
                out.push_str(&bucket);
            });
        }
        all.end();
        out
    }
}
