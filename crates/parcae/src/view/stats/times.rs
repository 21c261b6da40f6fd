//! Times: of workers, and of tasks on their way to their nursery's tally.
//!
//! A task adds up its own, in its frame, where nobody else writes while it runs or waits; now and then (`flush`) they
//! go to the tally, which all tasks of a nursery share.

use super::histogram::Recorder;
use super::tally::Tally;
use crate::sched::worker::stats::Counter;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Times of one worker, in ticks. Written by the worker alone, read by anybody.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Times {
    /// From ready to running.
    pub(crate) wakes: Recorder,
    /// Turns: from start or resume to yield, park or end.
    pub(crate) runs: Recorder,
    busy: Counter,
    asleep: Counter,
    /// Since when it does what it does, and what: a turn or sleep, 0 for neither. Relaxed: figures.
    turn_since: AtomicU64,
    asleep_since: AtomicU64,
}

impl Times {
    /// A turn begins. The worker's.
    pub(crate) fn begin(&self, now: u64) {
        self.turn_since.store(now.max(1), Ordering::Relaxed);
    }

    /// A turn of this length ends. The worker's.
    pub(crate) fn end(&self, ran: u64) {
        self.turn_since.store(0, Ordering::Relaxed);
        self.runs.add(ran);
        self.busy.add(ran);
    }

    /// The worker falls asleep.
    pub(crate) fn falls_asleep(&self, now: u64) {
        self.asleep_since.store(now.max(1), Ordering::Relaxed);
    }

    /// The worker wakes up.
    pub(crate) fn wakes_up(&self, now: u64) {
        let since = self.asleep_since.swap(0, Ordering::Relaxed);
        if since != 0 {
            self.asleep.add(now.saturating_sub(since));
        }
    }

    /// How long it ran tasks, and how long it slept, until now.
    pub(super) fn so_far(&self, now: u64) -> (u64, u64) {
        let open = |since: &AtomicU64| match since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        (self.busy.get() + open(&self.turn_since), self.asleep.get() + open(&self.asleep_since))
    }
}

/// Times of a task that its nursery does not know yet, in ticks. In the task's frame.
#[derive(Debug, Default)]
pub(crate) struct TaskTimes {
    ran: Cell<u64>,
    waited: Cell<u64>,
    starved: Cell<u64>,
    /// Since when it waits; 0 if it does not.
    parked: Cell<u64>,
}

impl TaskTimes {
    /// It had a turn of this length.
    pub(crate) fn ran(&self, ticks: u64) {
        self.ran.set(self.ran.get() + ticks);
    }

    /// It waits from now on.
    pub(crate) fn parks(&self, now: u64) {
        self.parked.set(now.max(1));
    }

    /// It goes on, and could have since `ready`.
    pub(crate) fn goes_on(&self, ready: u64, now: u64) {
        let parked = self.parked.take();
        if parked != 0 {
            self.waited.set(self.waited.get() + ready.saturating_sub(parked));
        }
        self.starved.set(self.starved.get() + now.saturating_sub(ready));
    }

    /// Tells the nursery.
    pub(crate) fn flush(&self, tally: &Tally) {
        tally.spend_time(self.ran.take(), self.waited.take(), self.starved.take());
    }
}
