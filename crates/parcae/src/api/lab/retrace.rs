//! Repeating a run on threads from its record.
//!
//! The run is a bare schedule whose chooser follows the journals (`sched::lab::follow`). Turns of
//! tasks have their usual length, unlike in other bare schedules, so that they end at the same
//! operations as on threads.

use super::explore::Explore;
use super::failure::{Failure, Found, Report};
use super::recorded::{Record, RecordError};
use super::stand::{Oracles, Ran, ScheduleOpts, Stand};
use super::timeline::Run;
use crate::api::runtime::{Builder, Runtime};
use crate::base::error::Result;
use crate::sched::lab::{FaultRates, Follower, OpKind, Strategy, StrayEvent, StrayKind};
use crate::scope::profile::Profile;
use std::fmt;
use std::panic::Location;
use std::sync::PoisonError;
use std::time::Instant;

/// Steps that a replay may have beside those that its record implies.
const STEPS: u64 = 1_000_000;

/// The replay of a recorded run, by [`Explore::retrace`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Retraced {
    /// The outcome of the test, as of [`Explore::run`].
    pub outcome: std::result::Result<Report, Failure>,
    /// The steps of the replay.
    pub run: Run,
    /// The first difference from the recorded run.
    pub strayed: Option<Strayed>,
    /// Parts of tasks that were repeated in the recorded order.
    pub segments: u64,
}

/// The first difference of a replay from the recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strayed {
    /// The task, as timelines name it.
    pub task: String,
    /// The worker that ran it at that time in the recorded run.
    pub worker: usize,
    /// Operations on objects that the task has done in the replay.
    pub done: u64,
    /// The operation that it was about to do, or did last.
    pub operation: OpKind,
    /// The place of that operation, if it is known.
    pub site: Option<&'static Location<'static>>,
    /// The difference.
    pub difference: String,
}

impl Strayed {
    fn of(stray: StrayEvent, run: &Run) -> Strayed {
        let StrayEvent { task, worker, kind, done, op: operation, site } = stray;
        let task = task.map_or_else(|| "root".to_owned(), |task| run.name(task));
        let difference = match kind {
            StrayKind::Longer(recorded) => {
                format!("does operation {done}, but had only {recorded} in the recorded run")
            }
            StrayKind::Shorter(recorded) => {
                format!("has done {done} operations, but had {recorded} in the recorded run")
            }
            StrayKind::Spawns => "spawns a task that it did not spawn in the recorded run".into(),
            StrayKind::Missing(spawned) => {
                format!("has spawned {spawned} tasks, but more in the recorded run")
            }
        };
        Strayed { task, worker, done, operation, site, difference }
    }
}

impl fmt::Display for Strayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Strayed { task, worker, operation, site, difference, .. } = self;
        write!(f, "the replay strayed from the record: task {task} {difference}")?;
        write!(f, "; it is at its {}", operation.name())?;
        if let Some(site) = site {
            write!(f, " at {}:{}", site.file(), site.line())?;
        }
        write!(
            f,
            ", recorded on worker {worker}. The program has changed, or depends on something that \
             is not recorded: atomics and locks of the standard library, other threads, I/O, \
             deadlines of nurseries, a hash map's order"
        )
    }
}

impl Explore {
    /// Repeats a run on threads from its record, in the lab: the same operations in the same order
    /// on each object, on one thread, and with the lab's picture of a failure. The test does what
    /// the recorded program did with its runtime.
    ///
    /// ```
    /// use parcae::lab::{Explore, RecordOpts};
    /// use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
    /// use parcae::{Result, Runtime};
    ///
    /// // Adds in two tasks, which may lose one of the additions.
    /// fn count(rt: &Runtime) -> Result<u64> {
    ///     let count = AtomicU64::new(0);
    ///     rt.run(|cx| {
    ///         cx.nursery(|n| {
    ///             for _ in 0..2 {
    ///                 n.spawn(|_| Ok(count.store(count.load(SeqCst) + 1, SeqCst)))?;
    ///             }
    ///             Ok(())
    ///         })
    ///     })?;
    ///     Ok(count.into_inner())
    /// }
    ///
    /// let rt = Runtime::builder().workers(2).record(RecordOpts::new()).build()?;
    /// let counted = count(&rt)?;
    /// let record = rt.record().expect("it records");
    /// let replay = Explore::new().retrace(&record, |rt| {
    ///     assert_eq!(count(rt)?, counted); // the same, whatever it was
    ///     Ok(())
    /// })?;
    /// assert!(replay.outcome.is_ok() && replay.strayed.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Limits
    ///
    /// Not recorded are: shared memory that is not of [`sync`](crate::sync), operations of threads
    /// that are no workers, results of I/O and of blocking calls, the checkpoint at which a running
    /// task sees that it is cancelled, timeouts of nurseries and tokens, timers of channels, and
    /// sleeps that are futures. Where a program depends on these the replay may
    /// [stray](Retraced::strayed); then it goes on in another order. One that does not end is
    /// reported as a livelock.
    ///
    /// # Errors
    ///
    /// If the record is damaged.
    pub fn retrace(
        &self,
        record: &Record,
        test: impl Fn(&Runtime) -> Result<()>,
    ) -> std::result::Result<Retraced, RecordError> {
        self.retrace_on(Runtime::builder(), record, test)
    }

    /// As [`retrace`](Explore::retrace), on a runtime of another profile or with other settings:
    /// those of the recorded one. The lab chooses the executor and the workers.
    ///
    /// # Errors
    ///
    /// As for [`retrace`](Explore::retrace).
    pub fn retrace_on<P: Profile + Clone>(
        &self,
        builder: Builder<P>,
        record: &Record,
        test: impl Fn(&Runtime<P>) -> Result<()>,
    ) -> std::result::Result<Retraced, RecordError> {
        let started = Instant::now();
        let journals = record.journals()?;
        let operations: u64 =
            journals.iter().map(|(entries, ops)| ops + entries.len() as u64).sum();
        let (follower, report) = Follower::new(&journals, record.lost() == 0);
        let stand = Stand::with_whole_turns(builder, Oracles::All);
        let opts = ScheduleOpts {
            seed: 0,
            workers: 0,
            preempts: true,
            // A replay that has strayed may go on for ever.
            limit: operations.saturating_mul(16) + STEPS,
            until: self.virtual_time,
            faults: FaultRates::default(),
            record: true,
        };
        let ran = stand.run(opts, Box::new(follower), &mut |rt| test(rt));
        let Ran { symptom, steps, deviations, run, .. } = ran;
        let report = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let strayed = report.stray.map(|stray| Strayed::of(stray, &run));
        let outcome = match symptom {
            None => {
                let time = started.elapsed();
                Ok(Report { schedules: 1, distinct: 1, steps, time, ..Report::default() })
            }
            Some(symptom) => Err(Failure::from(Found {
                symptom,
                schedule: 0,
                strategy: Strategy::RandomWalk,
                seed_token: String::new(),
                token: String::new(),
                run: run.clone(),
                forced: deviations.len(),
                notes: strayed.iter().map(Strayed::to_string).collect(),
                diverged: None,
            })),
        };
        Ok(Retraced { outcome, run, strayed, segments: report.segments })
    }
}
