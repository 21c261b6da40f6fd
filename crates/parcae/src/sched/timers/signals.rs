//! The thread that raises signals in time: it makes a worker look up when a deadline of its own has
//! passed, while the worker runs a task.
//!
//! Without tenants and scheduling contexts there is no such thread: a worker looks at its deadlines
//! between two tasks. With them a deadline may wake a task that is to run at once, and the budget
//! of a context ends at a certain time. So a worker that begins a turn tells this thread *when* it
//! has to look up ([`Shared::look_up_at`]): at its first deadline or the end of the budget. At that
//! time the thread raises the signal of the task that the worker runs (`run_queue::running`).
//!
//! Between the deadline and the switch lie the wake-up of this thread (its timer slack is set to a
//! nanosecond; the host may run other threads first) and the distance between two checkpoints of
//! the task. Code without checkpoints is not stopped.
//!
//! # Why it does not oversleep
//!
//! The protocol and its proof are those of [`Horizon`](super::thread::Horizon), as used by the
//! timer thread: `due` of a worker takes the place of `next` of a wheel. A worker that moves its
//! time to a later one does not wake the thread, which then wakes up once for nothing and reads the
//! new time.
//!
//! A worker writes `due` and the thread takes it by an exchange, so a time is acted on once. A
//! worker whose time was taken has the signal raised, or runs no task and looks by itself.

use super::deadlines::NEVER;
use super::thread::{DeadlineThread, Deadlines};
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::base::time::Nanos;
use crate::sched::Shared;

/// When each worker has to look up.
pub(crate) struct LookUpTimes {
    due: Box<[AtomicU64]>,
}

/// The thread that raises signals in time.
pub(crate) type SignalTimer = DeadlineThread<LookUpTimes>;

impl LookUpTimes {
    pub(crate) fn new(workers: usize) -> LookUpTimes {
        LookUpTimes { due: (0..workers).map(|_| AtomicU64::new(NEVER)).collect() }
    }
}

impl Deadlines for LookUpTimes {
    const THREAD: &'static str = "parcae-signals";

    fn earliest(&self, _: &Shared) -> Nanos {
        // Relaxed, here and below: ordered by the fences of the horizon.
        self.due.iter().map(|due| due.load(Ordering::Relaxed)).min().unwrap_or(NEVER)
    }

    fn act(&self, shared: &Shared, now: Nanos) {
        for (worker, due) in self.due.iter().enumerate() {
            let at = due.load(Ordering::Relaxed); // see `earliest`
            // An exchange: the worker may have written a later time meanwhile.
            if at <= now
                && due.compare_exchange(at, NEVER, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                shared.queues.interrupt(worker);
            }
        }
    }

    fn begin(&self) {
        #[cfg(target_os = "linux")]
        // SAFETY: sets the timer slack of this thread; refused at worst.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64);
        }
    }
}

impl DeadlineThread<LookUpTimes> {
    /// The worker, which begins to run a task, has to look up at this time. Called on its thread.
    /// Returns whether the thread has to be [told](DeadlineThread::tell).
    #[must_use]
    pub(crate) fn set(&self, worker: usize, at: Nanos) -> bool {
        let due = &self.deadlines.due[worker];
        // Relaxed, both: see `earliest`.
        if due.load(Ordering::Relaxed) == at {
            return false;
        }
        due.store(at, Ordering::Relaxed); // see above
        at != NEVER && self.horizon.must_tell(at)
    }
}
