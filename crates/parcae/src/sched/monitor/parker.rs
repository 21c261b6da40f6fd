//! How the monitor sleeps while all workers rest, and how a worker wakes it.
//!
//! # Protocol
//!
//! ```text
//! monitor, when all workers rest          worker that goes back to work
//!   1. `asleep` = 1                         1. its `resting` = 0
//!   2. full fence                           2. full fence
//!   3. do all workers rest, and has none    3. `asleep` = 1? swaps it to 0; the worker
//!      made a step since the last check?       that did unparks the monitor
//!      – yes: parks without a timeout       4. works: its steps are counted
//!      – no: `asleep` = 0, continues        5. its `resting` = 1 (Release)
//! ```
//!
//! # Why no worker goes unmonitored
//!
//! The fences are in one total order. If the worker's comes first, the monitor's step 3 sees that
//! the worker does not rest; or it sees step 5 (Acquire), and then also the steps counted before.
//! Otherwise the worker's step 3 sees `asleep`, and it or an earlier worker unparks the monitor.

use crate::base::shim::atomic::{AtomicUsize, Ordering, fence};
use crate::sched::idle::Parker;
use std::time::{Duration, Instant};

/// Where the monitor sleeps.
pub(crate) struct MonitorParker {
    /// 1 while the monitor sleeps until a worker wakes it.
    asleep: AtomicUsize,
    /// 1 when the monitor has to stop. Set once.
    stopping: AtomicUsize,
    parker: Parker,
}

impl MonitorParker {
    pub(crate) fn new() -> MonitorParker {
        MonitorParker {
            asleep: AtomicUsize::new(0),
            stopping: AtomicUsize::new(0),
            parker: Parker::default(),
        }
    }

    /// A worker goes back to work.
    pub(crate) fn back_to_work(&self, resting: &Resting) {
        if self.must_wake(resting) {
            self.parker.unpark();
        }
    }

    /// The part of `back_to_work` that is modelled.
    pub(super) fn must_wake(&self, resting: &Resting) -> bool {
        resting.0.store(0, Ordering::Relaxed); // ordered by the fence below
        // Pairs with the fence in `try_sleep`.
        fence(Ordering::SeqCst); // the worker's
        // Relaxed, both: ordered by the fence; the swap decides which worker unparks.
        self.asleep.load(Ordering::Relaxed) == 1 && self.asleep.swap(0, Ordering::Relaxed) == 1
    }

    /// Prepares to sleep until a worker wakes the monitor; false if it has to continue.
    pub(crate) fn try_sleep(&self, all_rest: impl FnOnce() -> bool) -> bool {
        self.asleep.store(1, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `must_wake`.
        fence(Ordering::SeqCst); // the monitor's
        if all_rest() && !self.is_stopping() {
            return true;
        }
        // Relaxed: a worker may unpark nevertheless, which costs one check.
        self.asleep.store(0, Ordering::Relaxed);
        false
    }

    /// Parks until a worker unparks the monitor, or the time has passed.
    pub(crate) fn park(&self, time: Option<Duration>) {
        self.parker.park_until(time.map(|time| Instant::now() + time));
    }

    /// Whether the monitor sleeps until a worker wakes it.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) == 1 // a hint
    }

    /// Ends the monitor.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `is_stopping`. The token of the parker makes the
        // monitor read it.
        self.stopping.store(1, Ordering::Release);
        self.parker.unpark();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) == 1 // pairs with the Release in `stop`
    }
}

/// Whether a worker searches for work or sleeps. Written by the worker.
#[derive(Debug)]
pub(crate) struct Resting(AtomicUsize);

impl Resting {
    /// A worker that has not started yet counts as working, so the monitor waits for it.
    pub(crate) fn new() -> Resting {
        Resting(AtomicUsize::new(0))
    }

    pub(crate) fn begin(&self) {
        self.0.store(1, Ordering::Release); // pairs with the Acquire in `get`
    }

    pub(crate) fn get(&self) -> bool {
        // Acquire: pairs with the Release in `begin`, for the worker's counts of steps. The way
        // back is ordered by the fence in `try_sleep`.
        self.0.load(Ordering::Acquire) == 1
    }
}
