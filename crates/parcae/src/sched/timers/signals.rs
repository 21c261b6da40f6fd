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
//! The protocol and its proof are those of [`Horizon`], as used by the timer thread: `due` of a
//! worker takes the place of `next` of a wheel. A worker that moves its time to a later one does
//! not wake the thread, which then wakes up once for nothing and reads the new time.
//!
//! A worker writes `due` and the thread takes it by an exchange, so a time is acted on once. A
//! worker whose time was taken has the signal raised, or runs no task and looks by itself.

use super::deadlines::NEVER;
use super::thread::Horizon;
use crate::base::cpu;
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::idle::Parker;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

/// The thread, and when it has to act for each worker.
pub(crate) struct SignalTimer {
    horizon: Horizon,
    due: Box<[AtomicU64]>,
    parker: Parker,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SignalTimer {
    pub(crate) fn new(workers: usize) -> Arc<SignalTimer> {
        Arc::new(SignalTimer {
            horizon: Horizon::new(),
            due: (0..workers).map(|_| AtomicU64::new(NEVER)).collect(),
            parker: Parker::default(),
            stopping: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    /// The earliest time of any worker.
    fn earliest(&self) -> Nanos {
        // Relaxed, here and below: ordered by the fences of the horizon.
        self.due.iter().map(|due| due.load(Ordering::Relaxed)).min().unwrap_or(NEVER)
    }

    /// The worker, which begins to run a task, has to look up at this time. Called on its thread.
    /// Returns whether the thread has to be [told](SignalTimer::tell).
    #[must_use]
    pub(crate) fn set(&self, worker: usize, at: Nanos) -> bool {
        let due = &self.due[worker];
        // Relaxed, both: see `earliest`.
        if due.load(Ordering::Relaxed) == at {
            return false;
        }
        due.store(at, Ordering::Relaxed); // see above
        at != NEVER && self.horizon.must_tell(at)
    }

    /// Unparks the thread; starts it if there is none.
    #[cold]
    pub(crate) fn tell(self: &Arc<SignalTimer>, shared: &Weak<Shared>) {
        self.parker.unpark();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.is_stopping() {
            let (timer, shared) = (Arc::clone(self), Weak::clone(shared));
            let started = std::thread::Builder::new()
                .name("parcae-signals".into())
                .spawn(move || timer.run(&shared));
            // If no thread can be started, workers still look between two tasks; the next deadline
            // tries again.
            *thread = started.ok();
            if thread.is_none() {
                self.horizon.forget();
            }
        }
    }

    fn run(&self, shared: &Weak<Shared>) {
        let _listed = cpu::enter();
        #[cfg(target_os = "linux")]
        // SAFETY: sets the timer slack of this thread; refused at worst.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64);
        }
        while !self.is_stopping() {
            let Some(shared) = shared.upgrade() else { return };
            let now = shared.now();
            for (worker, due) in self.due.iter().enumerate() {
                let at = due.load(Ordering::Relaxed); // see `earliest`
                // An exchange: the worker may have written a later time meanwhile.
                if at <= now
                    && due.compare_exchange(at, NEVER, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                {
                    shared.queues.interrupt(worker);
                }
            }
            let Some(until) = self.horizon.sleep(now, || self.earliest()) else { continue };
            let until = (until != NEVER).then(|| shared.instant(until));
            drop(shared);
            self.parker.park_until(until);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(std::sync::atomic::Ordering::Acquire) // pairs with the Release in `stop`
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `is_stopping`.
        self.stopping.store(true, std::sync::atomic::Ordering::Release);
        self.parker.unpark();
    }

    /// As [`stop`](SignalTimer::stop), and joins the thread, unless it is the calling one.
    pub(crate) fn stop_and_join(&self) {
        self.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
