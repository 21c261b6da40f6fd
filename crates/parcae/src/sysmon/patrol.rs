//! Looking for tasks that wait in vain, now and then.
//!
//! A deadlock is what two scans have seen, [`PAUSE`] apart (`inspect::deadlock`). While work is done there is a scan every [`EVERY`].
//! When all workers have come to rest there are two at once, so that a program in which everybody waits is told without
//! delay; then nobody wakes, and nothing can change before somebody does.
//!
//! A scan takes time for each live task, a few hundred nanoseconds. While work is done the next one waits for a hundred times as long
//! as the last has taken: no more than a hundredth of one processor. At rest there are only two, and the second does not
//! wait longer because the first was held up.

use crate::inspect::{Detector, Ends, OnDeadlock, PAUSE, act};
use crate::sched::Shared;
use std::time::{Duration, Instant};

/// How often tasks are scanned while work is done.
const EVERY: Duration = Duration::from_millis(500);

/// Scans, past and future.
pub(super) struct Patrol {
    detector: Detector,
    on: OnDeadlock,
    /// When the next scan may be.
    next: Instant,
    /// Scans since somebody worked.
    at_rest: u32,
}

impl Patrol {
    pub(super) fn new(on: OnDeadlock, now: Instant) -> Patrol {
        Patrol { detector: Detector::default(), on, next: now + EVERY, at_rest: 0 }
    }

    /// Somebody has worked since, perhaps so shortly that nobody has seen it.
    pub(super) fn wake(&mut self) {
        self.at_rest = 0;
    }

    /// Work is being done.
    pub(super) fn work(&mut self, shared: &Shared, now: Instant) {
        self.at_rest = 0;
        if now >= self.next {
            self.scan(shared);
            self.next = now + EVERY.max(now.elapsed() * 100);
        }
    }

    /// All workers rest. Whether everything has been seen: nothing changes before somebody works.
    pub(super) fn rest(&mut self, shared: &Shared, now: Instant) -> bool {
        if self.on == OnDeadlock::Ignore || self.at_rest >= 2 || shared.live() == 0 {
            return true;
        }
        if self.at_rest == 0 || now >= self.next {
            self.at_rest += 1;
            self.scan(shared);
            self.next = Instant::now() + PAUSE;
        }
        self.at_rest >= 2
    }

    fn scan(&mut self, shared: &Shared) {
        if self.on == OnDeadlock::Ignore {
            return;
        }
        if let Some(found) = self.detector.scan(shared, Ends::Unknown) {
            act(shared, found, self.on);
            self.at_rest = 0; // those who were told may work and rest again before the next look
        }
    }
}
