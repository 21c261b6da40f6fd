//! The timer thread: fires deadlines when their worker does not. [`DeadlineThread`] is the part of
//! it that `signals` uses too.
//!
//! A worker fires the timers of its own wheel. A worker that is stuck in a task cannot, and perhaps
//! it is that very task whose time is over. So a thread, started with the first deadline, waits
//! until a timer is *overdue*: due for [`GRACE`](super::deadlines::GRACE) without its worker having
//! fired it. Timers of threads that are no workers have no worker, and are overdue when they are
//! due. [`Shared::fire_overdue`] does the work; any thread may call it, at any time.
//!
//! # Wake-ups
//!
//! The word `until` is the end of the thread's sleep. A setter of a deadline that would be overdue
//! earlier unparks the thread. The thread keeps to that time even if the deadline is disarmed at
//! once, and looks for the next one only when the time has come. So a wait with a timeout of a
//! second that is over in a microsecond, a million times in a row, unparks it once a second. While
//! many deadlines pass, it wakes up once per grace period; without deadlines it sleeps.
//!
//! ```text
//! setter of a deadline                  timer thread
//!   1. writes `next` of the wheel         1. writes `until`, from the wheels
//!   2. full fence                         2. full fence
//!   3. reads `until`: if the deadline     3. reads `next` of all wheels: if one is earlier,
//!      is overdue earlier, lowers it         starts again
//!      and unparks the thread             4. sleeps until `until`
//! ```
//!
//! # Why it does not oversleep
//!
//! The fences are in one total order. If the setter's comes first, the thread reads its `next` in
//! step 3. If the thread's comes first, the setter reads the new `until`, or a lower one that
//! another setter has written, which unparks. An unpark that comes before the sleep is latched by
//! the [`Parker`].
//!
//! The thread holds the scheduler weakly, and only while it checks: it does not keep it alive.

use super::deadlines::NEVER;
use crate::base::cpu;
use crate::base::shim::atomic::{AtomicU64, Ordering, fence};
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::idle::Parker;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

/// The end of the timer thread's sleep.
pub(crate) struct Horizon {
    until: AtomicU64,
}

impl Horizon {
    pub(crate) fn new() -> Horizon {
        Horizon { until: AtomicU64::new(NEVER) }
    }

    /// There is no thread that could sleep: the next deadline tells again. Called under the lock of
    /// the thread.
    pub(super) fn forget(&self) {
        self.until.store(NEVER, Ordering::Relaxed); // ordered by the lock
    }

    /// After a timer was armed: whether the thread has to be unparked to be in time.
    #[must_use]
    pub(crate) fn must_tell(&self, overdue: Nanos) -> bool {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst); // the setter's
        // Relaxed: ordered by the fence. Of several earlier deadlines one setter unparks: the
        // minimum decides.
        overdue < self.until.load(Ordering::Relaxed)
            && overdue < self.until.fetch_min(overdue, Ordering::Relaxed)
    }

    /// Before the thread sleeps: until when it may; `None` if it has to check again. `overdue`
    /// reads the wheels.
    pub(crate) fn sleep(&self, now: Nanos, overdue: impl Fn() -> Nanos) -> Option<Nanos> {
        // Relaxed: a setter that lowers it meanwhile also unparks.
        let promised = self.until.load(Ordering::Relaxed);
        let until = if promised > now { overdue().min(promised) } else { overdue() };
        self.until.store(until, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `must_tell`.
        fence(Ordering::SeqCst); // the watch's
        (overdue() >= until).then_some(until)
    }
}

/// Deadlines that a thread acts on.
pub(crate) trait Deadlines: Send + Sync + 'static {
    /// The name of the thread.
    const THREAD: &'static str;

    /// The time of the first one, or [`NEVER`].
    fn earliest(&self, shared: &Shared) -> Nanos;

    /// Acts on those that have passed.
    fn act(&self, shared: &Shared, now: Nanos);

    /// Called on the thread when it starts.
    fn begin(&self) {}
}

/// A thread that sleeps until the next deadline, and its shared state. It is started when it is
/// told for the first time.
pub(crate) struct DeadlineThread<D> {
    pub(crate) horizon: Horizon,
    pub(super) deadlines: D,
    parker: Parker,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The deadlines of timers whose worker does not fire them.
pub(crate) struct OverdueTimers;

/// The timer thread.
pub(crate) type TimerThread = DeadlineThread<OverdueTimers>;

impl Deadlines for OverdueTimers {
    const THREAD: &'static str = "parcae-watch";

    fn earliest(&self, shared: &Shared) -> Nanos {
        shared.timers.overdue()
    }

    fn act(&self, shared: &Shared, now: Nanos) {
        shared.fire_overdue(now);
    }
}

impl<D: Deadlines> DeadlineThread<D> {
    pub(crate) fn new(deadlines: D) -> Arc<DeadlineThread<D>> {
        Arc::new(DeadlineThread {
            horizon: Horizon::new(),
            deadlines,
            parker: Parker::default(),
            stopping: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    /// Unparks the thread; starts it if there is none.
    #[cold]
    pub(crate) fn tell(self: &Arc<DeadlineThread<D>>, shared: &Weak<Shared>) {
        self.parker.unpark();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.is_stopping() {
            let (this, shared) = (Arc::clone(self), Weak::clone(shared));
            let started =
                std::thread::Builder::new().name(D::THREAD.into()).spawn(move || this.run(&shared));
            // If no thread can be started, workers still look at their own deadlines between two
            // tasks; the next deadline tries again.
            *thread = started.ok();
            if thread.is_none() {
                self.horizon.forget();
            }
        }
    }

    fn run(&self, shared: &Weak<Shared>) {
        let _listed = cpu::enter();
        self.deadlines.begin();
        while !self.is_stopping() {
            let Some(shared) = shared.upgrade() else { return };
            let now = shared.now();
            self.deadlines.act(&shared, now);
            let earliest = || self.deadlines.earliest(&shared);
            let Some(until) = self.horizon.sleep(now, earliest) else { continue };
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

    /// As [`stop`](DeadlineThread::stop), and joins the thread, unless it is the calling one.
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
