//! Times of workers, and of tasks on their way to the tally of their nursery. In ticks.
//!
//! A task adds up its own times in its frame, where only its present owner writes. Now and then
//! they are moved to the tally, which all tasks of a nursery share ([`TaskTimes::take`]).

use super::counter::Counter;
use super::histogram::HistogramCounts;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Times of one worker. Written by the worker alone, read by any thread.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
pub(crate) struct WorkerTimes {
    /// From ready to running.
    pub(crate) wakes: HistogramCounts,
    /// Turns: from start or resume to yield, park or end.
    pub(crate) runs: HistogramCounts,
    busy: Counter,
    asleep: Counter,
    /// Start of the present turn or sleep; 0 if there is none. Relaxed: statistics only.
    turn_since: AtomicU64,
    asleep_since: AtomicU64,
}

impl WorkerTimes {
    /// A turn begins. Called by the worker.
    pub(crate) fn begin(&self, now: u64) {
        self.turn_since.store(now.max(1), Ordering::Relaxed); // statistics
    }

    /// A turn of this length ends. Called by the worker.
    pub(crate) fn end(&self, ran: u64) {
        self.turn_since.store(0, Ordering::Relaxed); // statistics
        self.runs.add(ran);
        self.busy.add(ran);
    }

    /// The worker falls asleep.
    pub(crate) fn falls_asleep(&self, now: u64) {
        self.asleep_since.store(now.max(1), Ordering::Relaxed); // statistics
    }

    /// The worker wakes up.
    pub(crate) fn wakes_up(&self, now: u64) {
        let since = self.asleep_since.swap(0, Ordering::Relaxed); // statistics
        if since != 0 {
            self.asleep.add(now.saturating_sub(since));
        }
    }

    /// Total time of running tasks and of sleep, until now.
    pub(crate) fn so_far(&self, now: u64) -> (u64, u64) {
        let open = |since: &AtomicU64| match since.load(Ordering::Relaxed) {
            0 => 0, // a Relaxed load: statistics
            since => now.saturating_sub(since),
        };
        (self.busy.get() + open(&self.turn_since), self.asleep.get() + open(&self.asleep_since))
    }
}

/// Times of a task that were not moved to a tally yet. Part of the task's frame; written by the
/// task itself and by the worker that owns it.
#[derive(Debug, Default)]
pub(crate) struct TaskTimes {
    ran: Cell<u64>,
    waited: Cell<u64>,
    starved: Cell<u64>,
    /// Start of the present wait; 0 if there is none.
    parked: Cell<u64>,
    /// When the task became ready; 0 if it runs or waits.
    ready: Cell<u64>,
}

impl TaskTimes {
    /// The task had a turn of this length.
    pub(crate) fn ran(&self, ticks: u64) {
        self.ran.set(self.ran.get() + ticks);
    }

    /// The task waits from now on.
    pub(crate) fn parks(&self, now: u64) {
        self.parked.set(now.max(1));
    }

    /// The task is ready: it was woken, or has yielded.
    pub(crate) fn ready(&self, now: u64) {
        self.ready.set(now.max(1));
    }

    /// The task runs again. Returns how long it was ready; `None` if that is not known.
    pub(crate) fn resume(&self, now: u64) -> Option<u64> {
        let ready = self.ready.take();
        if ready == 0 {
            return None;
        }
        let parked = self.parked.take();
        if parked != 0 {
            self.waited.set(self.waited.get() + ready.saturating_sub(parked));
        }
        let starved = now.saturating_sub(ready);
        self.starved.set(self.starved.get() + starved);
        Some(starved)
    }

    /// Takes the sums out: time spent running, waiting, and ready.
    pub(crate) fn take(&self) -> [u64; 3] {
        [self.ran.take(), self.waited.take(), self.starved.take()]
    }
}
