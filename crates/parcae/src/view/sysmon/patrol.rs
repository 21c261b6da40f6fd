//! Periodic scans for deadlocks.
//!
//! A deadlock is a proven cycle that two scans have seen, [`PAUSE`] apart (`inspect::deadlock`).
//! The monitor acts by itself, so it makes no guesses: a wait that the outside might end is left
//! alone. While workers work there is a scan every [`EVERY`]. When all workers have come to rest
//! there are two, so that a program in which all tasks wait is told without delay. Then the state
//! cannot change until a worker wakes up.
//!
//! # Why no deadlock is missed for good
//!
//! The monitor sleeps only if no task has made a step since before the first of the two scans: it
//! compares the workers' counts of steps at every check, and once more when it has announced its
//! sleep (`MonitorParker::try_sleep`). A task that came from outside, ran and parked between two
//! checks has made a step, so the two scans start again.
//!
//! # Cost
//!
//! A scan takes a few hundred nanoseconds per live task, and memory for a copy of the graph. The
//! next scan waits for a hundred times the processor time of the last: at most a hundredth of one
//! processor, or two where tasks work and rest in turn. While workers work it also waits for a
//! hundred times the time that it is going to take: a program that has spawned a million tasks
//! since the last scan is not to be slowed down by the next. Only the second of two scans at rest
//! does not wait, because there is no third. Processor time counts: a scan that was preempted does
//! not delay the next one.

use crate::base::time::own_time;
use crate::sched::Shared;
use crate::view::inspect::{Detector, OnDeadlock, PAUSE, Trust, act};
use std::time::{Duration, Instant};

/// Interval of scans while workers work.
const EVERY: Duration = Duration::from_millis(500);
/// Pause after a scan, as a multiple of its processor time.
const SPARE: u32 = 100;
/// Processor time of a scan per live task, until one has been measured.
const PER_TASK: Duration = Duration::from_nanos(300);
/// The fewest tasks by which the time of a scan is divided: in a small one other costs prevail.
const MEASURABLE: u64 = 1000;

/// The schedule of scans.
pub(super) struct Patrol {
    detector: Detector,
    on: OnDeadlock,
    /// When the last scan ended.
    last: Instant,
    /// Its processor time, and that per live task.
    cost: Duration,
    per_task: Duration,
    /// Scans since a worker last worked.
    at_rest: u32,
}

impl Patrol {
    pub(super) fn new(on: OnDeadlock, now: Instant) -> Patrol {
        Patrol {
            detector: Detector::default(),
            on,
            last: now,
            cost: Duration::ZERO,
            per_task: PER_TASK,
            at_rest: 0,
        }
    }

    /// A task has run since, perhaps too briefly for the checks to see it.
    pub(super) fn wake(&mut self) {
        self.at_rest = 0;
    }

    /// Workers work: scans if it is time.
    pub(super) fn work(&mut self, shared: &Shared, now: Instant) {
        self.at_rest = 0;
        if self.is_due(now, EVERY.max(self.cost * SPARE))
            && self.is_due(now, self.expected_cost(shared) * SPARE)
        {
            self.scan(shared);
        }
    }

    /// All workers rest: scans if it is time. Returns whether both scans are done.
    pub(super) fn rest(&mut self, shared: &Shared, now: Instant) -> bool {
        if self.on == OnDeadlock::Ignore || self.at_rest >= 2 || shared.live() == 0 {
            return true;
        }
        let pause = if self.at_rest == 0 { PAUSE.max(self.cost * SPARE) } else { PAUSE };
        if self.is_due(now, pause) {
            self.at_rest += 1;
            self.scan(shared);
        }
        self.at_rest >= 2
    }

    /// Processor time that a scan would take now.
    fn expected_cost(&self, shared: &Shared) -> Duration {
        self.per_task * u32::try_from(shared.live()).unwrap_or(u32::MAX)
    }

    fn is_due(&self, now: Instant, pause: Duration) -> bool {
        now.saturating_duration_since(self.last) >= pause
    }

    fn scan(&mut self, shared: &Shared) {
        if self.on == OnDeadlock::Ignore {
            return;
        }
        let started = own_time();
        if let Some(found) = self.detector.scan(shared, Trust::Proof) {
            act(shared, found, self.on);
            self.at_rest = 0; // the tasks that were ended run, and others may wait for them
        }
        let divisor = shared.live().max(MEASURABLE);
        self.cost = own_time().saturating_sub(started);
        self.per_task = self.cost / u32::try_from(divisor).unwrap_or(u32::MAX);
        self.last = Instant::now();
    }
}
