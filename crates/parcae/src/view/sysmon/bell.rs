//! How the monitor sleeps, and who wakes it.
//!
//! # Protocol
//!
//! ```text
//! the monitor, when all rest             a worker that goes back to work
//!   1. `asleep` = 1                        1. its `resting` = 0
//!   2. full fence                          2. full fence
//!   3. do all rest, and has nobody made    3. `asleep` = 1? sets it to 0; who did that
//!      a step since the last look?            unparks the monitor
//!      – yes: waits without a timeout       4. works: its steps are counted
//!      – no: `asleep` = 0, looks on         5. its `resting` = 1 (Release)
//! ```
//!
//! # Why no worker goes unwatched
//!
//! The fences are in one total order. If the worker's comes first, the monitor's third step sees that it does not
//! rest, or that it rests again (Acquire), and then also the steps that it has made. Otherwise the worker's third step sees `asleep`, and it or somebody before it rings.

use crate::base::shim::atomic::{AtomicUsize, Ordering, fence};
use crate::sched::idle::Parker;
use std::time::{Duration, Instant};

/// Where the monitor sleeps.
pub(crate) struct Bell {
    /// 1 while the monitor sleeps until somebody rings.
    asleep: AtomicUsize,
    /// 1 when it is to end. Set once.
    stopping: AtomicUsize,
    parker: Parker,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell {
            asleep: AtomicUsize::new(0),
            stopping: AtomicUsize::new(0),
            parker: Parker::default(),
        }
    }

    /// A worker goes back to work.
    pub(crate) fn back_to_work(&self, resting: &Resting) {
        if self.must_ring(resting) {
            self.parker.unpark();
        }
    }

    /// The part of `back_to_work` that is modelled.
    pub(super) fn must_ring(&self, resting: &Resting) -> bool {
        resting.0.store(0, Ordering::Relaxed); // ordered by the fence below
        // Pairs with the fence in `doze`.
        fence(Ordering::SeqCst); // the worker's
        // Relaxed, both: ordered by the fence; the swap decides who rings.
        self.asleep.load(Ordering::Relaxed) == 1 && self.asleep.swap(0, Ordering::Relaxed) == 1
    }

    /// The monitor is about to sleep until somebody rings; false if it has to look on.
    pub(super) fn doze(&self, all_rest: impl FnOnce() -> bool) -> bool {
        self.asleep.store(1, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `must_ring`.
        fence(Ordering::SeqCst); // the monitor's
        if all_rest() && !self.is_stopping() {
            return true;
        }
        // Relaxed: somebody may ring all the same, which costs one look.
        self.asleep.store(0, Ordering::Relaxed);
        false
    }

    /// Waits until somebody rings, or a time has passed.
    pub(super) fn wait(&self, time: Option<Duration>) {
        self.parker.park_until(time.map(|time| Instant::now() + time));
    }

    /// Whether the monitor sleeps until somebody rings.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) == 1 // a hint
    }

    /// Ends the monitor.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `is_stopping`. The token of the parker makes sure that it looks.
        self.stopping.store(1, Ordering::Release);
        self.parker.unpark();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) == 1 // pairs with the Release in `stop`
    }
}

/// Whether a worker searches or sleeps. Written by the worker.
#[derive(Debug)]
pub(crate) struct Resting(AtomicUsize);

impl Resting {
    /// Of a worker that has not begun yet: it counts as working, so that it is waited for.
    pub(crate) fn new() -> Resting {
        Resting(AtomicUsize::new(0))
    }

    pub(crate) fn begin(&self) {
        self.0.store(1, Ordering::Release); // pairs with the Acquire in `get`
    }

    pub(crate) fn get(&self) -> bool {
        // Acquire: pairs with the Release in `begin`, for the steps that it has made. The way back is ordered by the fence
        // in `doze`.
        self.0.load(Ordering::Acquire) == 1
    }
}
