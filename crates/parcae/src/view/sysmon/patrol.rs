//! Looking for tasks that wait in vain, now and then.
//!
//! A deadlock is a proven cycle that two scans have seen, [`PAUSE`] apart (`inspect::deadlock`): the monitor
//! acts by itself, so it makes no guesses, and whatever somebody outside might end is left alone. While work is done there is a scan every [`EVERY`].
//! When all workers have come to rest there are two, so that a program in which everybody waits is told without
//! delay; then nobody wakes, and nothing can change before somebody does.
//!
//! # Why nobody is missed for good
//!
//! The monitor sleeps only when no task has made a step since before the first of the two: it compares the
//! workers' counts of steps at every look, and once more when it has said that it sleeps (`bell`). A task that came from outside, ran
//! and parked between two looks has made one, so the two scans begin anew.
//!
//! # What it costs
//!
//! A scan takes time for each live task, a few hundred nanoseconds. The next one waits for a hundred times as long
//! as the last has computed: no more than a hundredth of one processor, or two where tasks work and rest in turn. Only the second
//! of two at rest does not wait, for there is no third. What counts is the time on a processor: a scan that
//! was held up does not put off the next.

use super::thread_state::own_time;
use crate::sched::Shared;
use crate::view::inspect::{Detector, OnDeadlock, PAUSE, Trust, act};
use std::time::{Duration, Instant};

/// How often tasks are scanned while work is done.
const EVERY: Duration = Duration::from_millis(500);
/// For how many times the duration of a scan there is none.
const SPARE: u32 = 100;

/// Scans, past and future.
pub(super) struct Patrol {
    detector: Detector,
    on: OnDeadlock,
    /// When the last scan ended.
    last: Instant,
    /// How long it has computed.
    cost: Duration,
    /// Scans since somebody worked.
    at_rest: u32,
}

impl Patrol {
    pub(super) fn new(on: OnDeadlock, now: Instant) -> Patrol {
        Patrol { detector: Detector::default(), on, last: now, cost: Duration::ZERO, at_rest: 0 }
    }

    /// Somebody has worked since, perhaps so shortly that nobody has seen it.
    pub(super) fn wake(&mut self) {
        self.at_rest = 0;
    }

    /// Work is being done.
    pub(super) fn work(&mut self, shared: &Shared, now: Instant) {
        self.at_rest = 0;
        if self.is_due(now, EVERY.max(self.cost * SPARE)) {
            self.scan(shared);
        }
    }

    /// All workers rest. Whether everything has been seen: nothing changes before somebody works.
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
            self.at_rest = 0; // those who were told work, and others may wait for them
        }
        self.cost = own_time().saturating_sub(started);
        self.last = Instant::now();
    }
}
