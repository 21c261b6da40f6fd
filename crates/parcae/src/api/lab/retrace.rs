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
use crate::sched::lab::{ExpectedEntry, FaultRates, Follower, SeenEvent, Strategy, StrayEvent};
use crate::scope::profile::Profile;
use std::fmt;
use std::sync::PoisonError;
use std::time::Instant;

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
    /// Turns of tasks that were repeated as recorded.
    pub turns: u64,
    /// Whether the replay went on where the record had ended: it was made while the program ran, or
    /// had no room left ([`Record::lost`]).
    pub outlived: bool,
}

/// The first difference of a replay from the recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strayed {
    /// Operations of the replay before it.
    pub step: usize,
    /// The worker of the recorded run.
    pub worker: usize,
    /// The next act of this worker in the recorded run.
    pub recorded: String,
    /// The event in the replay.
    pub seen: String,
}

impl Strayed {
    fn of(stray: StrayEvent, run: &Run) -> Strayed {
        let StrayEvent { step, worker, recorded, seen } = stray;
        let recorded = match recorded {
            ExpectedEntry::Turn(Some(task)) => format!("task {} had a turn", run.name(task)),
            ExpectedEntry::Turn(None) => {
                "a task that the replay has not spawned had a turn".to_owned()
            }
            ExpectedEntry::Spawn => "the task spawned another one in its turn".to_owned(),
            ExpectedEntry::NoSpawn => "the task spawned no other one here".to_owned(),
        };
        let seen = match seen {
            SeenEvent::Turn(task) => format!("task {} had a turn", run.name(task)),
            SeenEvent::NotReady => {
                "that task is not ready, nor is that of another worker".to_owned()
            }
            SeenEvent::Spawn(task) => format!("task {} was spawned", run.name(task)),
            SeenEvent::NoSpawn => "its turn has ended without that".to_owned(),
            SeenEvent::End => "the run has ended".to_owned(),
        };
        Strayed { step, worker, recorded, seen }
    }
}

impl fmt::Display for Strayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Strayed { step, worker, recorded, seen } = self;
        write!(
            f,
            "the replay strayed from the record after {step} operations: on worker {worker} \
             {recorded}, but {seen}; the program has changed, or it depends on something that is \
             not recorded: atomics and locks of the standard library, other threads, I/O, a hash \
             map's order"
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
    /// that are no workers, results of I/O and of blocking calls, the checkpoint at which a task
    /// sees that it is cancelled, and which of two tasks on different workers fails first. Where a
    /// program depends on these the replay may [stray](Retraced::strayed).
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
        let (follower, report) = Follower::new(&record.journals()?);
        let stand = Stand::with_whole_turns(builder, Oracles::All);
        let opts = ScheduleOpts {
            seed: 0,
            workers: 0,
            preempts: true,
            // The recorded run has ended, or shows where it goes on and on.
            limit: u64::MAX / 4,
            until: self.virtual_time,
            faults: FaultRates::default(),
            record: true,
        };
        let ran = stand.run(opts, Box::new(follower), &mut |rt| test(rt));
        let Ran { symptom, steps, deviations, run, .. } = ran;
        let report = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_whole = record.lost() == 0;
        let stray = report.stray.filter(|_| is_whole || !report.outlived);
        let strayed = stray.map(|stray| Strayed::of(stray, &run));
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
        Ok(Retraced { outcome, run, strayed, turns: report.turns, outlived: report.outlived })
    }
}
