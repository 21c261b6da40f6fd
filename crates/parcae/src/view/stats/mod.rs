//! Metrics of a runtime, for people and for monitoring.
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
//! let text = snapshot.to_prometheus();
//! assert!(text.contains("parcae_nursery_finished_total{nursery=\"parsers\"} 10"));
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! Counters are always on: each worker keeps its own, and reading them makes no worker wait.
//! *Times* need a clock, which costs as much as a yield, so they are measured only if
//! [`Builder::measure`](crate::runtime::Builder::measure) asks for them:
//!
//! | | |
//! |---|---|
//! | of a worker | time spent running tasks, and asleep |
//! | of the tasks of a nursery | time spent running, waiting, and *starving*: ready, but not running |
//! | histograms | turns, and the time from being ready (woken, or having yielded) to running |
//!
//! A task that has not started does not count as starving: [`trace`](crate::trace) shows when it
//! was spawned and started. A task's times are added to its nursery's when it waits, at the end of
//! a slice of its budget, and when it ends.

mod families;
mod histogram;
mod prometheus;
#[cfg(feature = "metrics")]
mod publish;
pub(super) mod tenants;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::sched::worker::stats::WorkerStats;
pub use histogram::Histogram;
pub use tenants::{TenantFigures, Upkeep, UpkeepFigures};

use crate::base::json::JsonObject;
use crate::sched::Shared;
use crate::sched::events::Rate;
use crate::scope::budget::Budget;
use crate::scope::described::Description;
use crate::scope::tally::{Tallies, TallyEntry, TallyKey};
use crate::view::inspect::described;
use std::sync::Arc;
use std::time::Duration;

/// The metrics that are collected; see [`Builder::measure`](crate::runtime::Builder::measure).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Measure {
    /// Counters.
    #[default]
    Counters,
    /// Counters, and the times of workers, tasks and nurseries.
    Times,
}

/// All metrics of a runtime. Different workers are read at slightly different moments.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// Time of the snapshot, since the runtime was built.
    pub at: Duration,
    /// Number of tasks that have not ended.
    pub live: u64,
    /// Number of tasks in the queue that all workers share.
    pub queued: usize,
    /// Stacks that overflowed and are never used again, see
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow).
    pub quarantined_stacks: usize,
    /// Each worker, and the temporary workers that were started.
    pub workers: Vec<WorkerFigures>,
    /// Nurseries, if times are measured: the root tasks, nurseries by name, open nurseries without
    /// a name, and all ended ones without a name.
    pub nurseries: Vec<NurseryFigures>,
    /// Tenants: nurseries with a [share](crate::NurseryOpts::share), and in front all tasks without
    /// one. Empty until the first share is given.
    pub tenants: Vec<TenantFigures>,
    /// Work of the runtime itself since the first share was given: timers, polls, the monitor.
    pub upkeep: Upkeep,
    /// Parts of the program that describe themselves, see [`Cx::describe`](crate::Cx::describe):
    /// their figures, without items.
    pub parts: Vec<Description>,
    /// Time from ready to running, if times are measured.
    pub wake_to_run: Histogram,
    /// Length of turns: from running to yield, wait or end, if times are measured.
    pub run_length: Histogram,
}

/// A worker, in a [`Snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerFigures {
    /// Its counters.
    pub counters: WorkerStats,
    /// Number of tasks in its queue that other workers may take.
    pub queued: usize,
    /// Time spent running tasks, if times are measured.
    pub busy: Duration,
    /// Time asleep, if times are measured.
    pub asleep: Duration,
}

/// The tasks of a nursery, in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NurseryFigures {
    /// The nursery.
    pub which: Which,
    /// Number of live nurseries in this group.
    pub open: u64,
    /// Tasks that have not ended.
    pub live: u64,
    /// Number of tasks that have ended without failing.
    pub finished: u64,
    /// Number of tasks that have failed.
    pub failed: u64,
    /// Time spent running.
    pub ran: Duration,
    /// Time spent waiting.
    pub waited: Duration,
    /// Time spent ready, but not running.
    pub starved: Duration,
    /// Budget used, of the components that the nursery counts.
    pub spent: Budget,
}

/// The nursery, or nurseries, of [`NurseryFigures`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// The root tasks.
    Roots,
    /// All nurseries with this name.
    Named(Arc<str>),
    /// The open nursery with this id, which has no name.
    Number(u64),
    /// Ended nurseries without a name.
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
        // Sleeps a little for a good rate, if the runtime is young.
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
        let (tenants, upkeep) = tenants::of_all(shared);
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
            tenants,
            upkeep,
            parts: described::of(shared, 0),
            wake_to_run: Histogram::of(tracer.times.iter().map(|times| &times.wakes), rate),
            run_length: Histogram::of(tracer.times.iter().map(|times| &times.runs), rate),
        }
    }

    /// The nurseries with this name, if times are measured.
    pub fn nursery(&self, name: &str) -> Option<&NurseryFigures> {
        self.nurseries.iter().find(|nursery| nursery.which == Which::Named(name.into()))
    }

    /// The tenant with this name. If tenants of several parents have it, the one that was opened
    /// first.
    pub fn tenant(&self, name: &str) -> Option<&TenantFigures> {
        self.tenants.iter().find(|tenant| tenant.name.as_deref() == Some(name))
    }

    /// The counters of all workers together.
    pub fn counters(&self) -> WorkerStats {
        self.workers.iter().fold(WorkerStats::default(), |sum, worker| sum + worker.counters)
    }

    /// The metrics as JSON: times in nanoseconds, in the order of the fields.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut all = JsonObject::begin(&mut out);
        all.plain("at", self.at.as_nanos()).plain("live", self.live).plain("queued", self.queued);
        all.plain("quarantined_stacks", self.quarantined_stacks);
        all.list("workers", &self.workers, |out, worker| {
            let mut one = JsonObject::begin(out);
            one.numbers(worker.counters.named()).plain("queued", worker.queued);
            one.plain("busy", worker.busy.as_nanos()).plain("asleep", worker.asleep.as_nanos());
            one.end();
        });
        all.list("nurseries", &self.nurseries, |out, nursery| {
            let mut one = JsonObject::begin(out);
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
        tenants::write(&mut all, &self.tenants);
        tenants::write_upkeep(&mut all, &self.upkeep);
        described::write(&mut all, &self.parts);
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
