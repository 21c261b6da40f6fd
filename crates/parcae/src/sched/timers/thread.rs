//! The watch: a thread that acts on deadlines when their worker does not.
//!
//! A worker acts on its own wheel. One that is stuck in a task cannot, and perhaps it is that very task whose time is
//! over. So a thread, started with the first deadline, waits until something is *overdue*: due for [`GRACE`](super::deadlines::GRACE)
//! and not looked at by its worker since; what threads outside of the scheduler have set has nobody else, and is overdue when
//! it is due. [`Shared::fire_overdue`] does the work and may be called by any thread, at any time.
//!
//! # When it is woken
//!
//! The word `until` says how long it sleeps. Whoever sets a deadline that would be overdue earlier tells it. What it was told it
//! keeps to, also if that deadline is taken back at once: only when the time has come it looks for the next. So a
//! wait with a timeout of a second that is over in a microsecond, a million times in a row, tells it once a second.
//! While many deadlines pass it wakes once for each grace period; without deadlines it sleeps.
//!
//! ```text
//! whoever sets a deadline               the watch
//!   1. writes `next` of the wheel         1. writes `until`, from what is in the wheels
//!   2. full fence                         2. full fence
//!   3. reads `until`: if the deadline     3. reads `next` of all wheels: if one is earlier,
//!      is overdue earlier, lowers it         starts again
//!      and unparks the watch              4. sleeps until `until`
//! ```
//!
//! # Why it does not oversleep
//!
//! The fences are in one total order. If that of the setter comes first, the watch reads its `next` in step 3. If that of
//! the watch comes first, the setter reads the new `until`, or a lower one that another setter has written, who unparks. An unpark that comes
//! before the sleep is latched by the [`Parker`].
//!
//! The thread holds the scheduler weakly, and only while it looks: it does not keep one alive that nobody uses.

use super::deadlines::{NEVER, Nanos};
use crate::base::shim::atomic::{AtomicU64, Ordering, fence};
use crate::sched::Shared;
use crate::sched::idle::Parker;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

/// How long the watch sleeps.
pub(crate) struct Horizon {
    until: AtomicU64,
}

impl Horizon {
    pub(crate) fn new() -> Horizon {
        Horizon { until: AtomicU64::new(NEVER) }
    }

    /// After a deadline was put into a wheel: whether the watch has to be unparked for it to be in time.
    #[must_use]
    pub(crate) fn must_tell(&self, overdue: Nanos) -> bool {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst); // the setter's
        // Relaxed: ordered by the fence. Of several that are earlier, the first tells: the minimum decides.
        overdue < self.until.load(Ordering::Relaxed)
            && overdue < self.until.fetch_min(overdue, Ordering::Relaxed)
    }

    /// Before the watch sleeps: how long it may; none if it has to look again. `overdue` reads the wheels.
    pub(crate) fn sleep(&self, now: Nanos, overdue: impl Fn() -> Nanos) -> Option<Nanos> {
        // Relaxed: a setter that lowers it meanwhile unparks as well.
        let promised = self.until.load(Ordering::Relaxed);
        let until = if promised > now { overdue().min(promised) } else { overdue() };
        self.until.store(until, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `must_tell`.
        fence(Ordering::SeqCst); // the watch's
        (overdue() >= until).then_some(until)
    }
}

/// The thread, and what it shares with others.
pub(crate) struct TimerThread {
    pub(crate) horizon: Horizon,
    parker: Parker,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TimerThread {
    pub(crate) fn new() -> Arc<TimerThread> {
        Arc::new(TimerThread {
            horizon: Horizon::new(),
            parker: Parker::default(),
            stopping: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    /// Unparks the thread; starts it if there is none.
    #[cold]
    pub(crate) fn tell(self: &Arc<TimerThread>, shared: &Weak<Shared>) {
        self.parker.unpark();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.is_stopping() {
            let (watch, shared) = (Arc::clone(self), Weak::clone(shared));
            let started = std::thread::Builder::new()
                .name("parcae-watch".into())
                .spawn(move || watch.run(&shared));
            // Without a thread to be had, workers act on what is theirs; the next deadline tries again.
            *thread = started.ok();
            if thread.is_none() {
                self.horizon.until.store(NEVER, Ordering::Relaxed); // ordered by the lock
            }
        }
    }

    fn run(&self, shared: &Weak<Shared>) {
        while !self.is_stopping() {
            let Some(shared) = shared.upgrade() else { return };
            let now = shared.now();
            shared.fire_overdue(now);
            let Some(until) = self.horizon.sleep(now, || shared.timers.overdue()) else { continue };
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
        self.stopping.store(true, std::sync::atomic::Ordering::Release); // pairs with `is_stopping`
        self.parker.unpark();
    }

    /// As [`stop`](TimerThread::stop), and waits for it, unless this is that thread.
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
