//! The deadlines of a scheduler: two timing wheels for each worker, and one for all other threads.
//!
//! Times are nanoseconds since the scheduler was made. With threads they come from the monotonic
//! clock. Under the deterministic executor time is virtual: a step takes a microsecond, and when no
//! task can run the clock jumps to the next deadline.
//!
//! # Access
//!
//! | | arms | fires | disarms |
//! |---|---|---|---|
//! | a worker's watched wheel | its tasks, while they run on it | the worker; if it is stuck, the [timer thread](super::thread) | any thread |
//! | a worker's sleepers | its tasks that may not move, to be woken | the worker | these tasks |
//! | the last wheel | threads that are no workers | the timer thread | any thread |
//!
//! A sleeper that only one worker may run gains nothing from another thread that fires its timer:
//! it has to wait for its worker in any case. So its wheel is not watched. The lock of that wheel
//! is one thread's, and arming a timer in it needs no fence.
//!
//! Each wheel has a lock, and beside it a word `next`: no later than its earliest deadline. A
//! worker without a due deadline reads these words and nothing else.
//!
//! # States of a timer
//!
//! ```text
//!            insert                    fire                     act
//!   unset ───────────▶ armed ───────────────────▶ firing ──────────────▶ fired
//!                        │ disarm
//!                        ▼
//!                    cancelled
//! ```
//!
//! *Armed*: its node is linked in a wheel. It leaves that state under the wheel's lock, once:
//! unlinking a node ends that life of it, so one of fire and disarm finds the node, and the other
//! finds another serial number. The action is moved out of the node in the same critical section,
//! and the node is not used afterwards.
//!
//! A word `elapsed` beside each wheel says which timers have left it: all whose tick is lower. It
//! is written under the lock after they were taken out, and only grows. A task that wakes up after
//! its timer has fired reads that word, and neither takes the lock nor reads the clock: a timer is
//! not taken out before its time. If the word is older than that, the task disarms the timer under
//! the lock, and finds that it is gone.
//!
//! *Firing*: the action is a value on the stack of the firing thread. It is carried out after the
//! lock was released, so that callbacks may arm and disarm timers. Disarming a timer that is firing
//! does nothing and does not wait: its task may be woken, or its token cancelled, once more. Every
//! wait tolerates that (`wait`: check again), wakes name record and generation, and tokens are held
//! weakly.
//!
//! # Reading the clock
//!
//! A busy worker reads `next` every 61 picks, and the clock only if there is a deadline, once for
//! all that are due; before it sleeps, always. It sleeps until `next`, not in ticks, so no wake-up
//! is wasted. No other thread arms a timer in its wheel while it sleeps, so it cannot oversleep.
//! After it has fired, it sleeps for at least [`PACE`]: where deadlines are dense, one wake-up
//! serves many; a single deadline is as precise as possible.
//!
//! # Lateness
//!
//! Timers are never early: a deadline is rounded up to a whole tick. That is
//! [`Builder::timer_grain`](crate::runtime::Builder::timer_grain), by default [`REAL_UNIT`], 65.5
//! µs, about the timer slack of the kernel (50 µs). So a timer is late by at most that and the time
//! to wake a thread; where deadlines are dense and workers idle, by [`PACE`] more, half a
//! millisecond; if its worker is stuck in a task, by [`GRACE`] more. A tick of virtual time is a
//! step. There, timers fire in the order of their deadlines; those of the same step fire by wheel,
//! then in the order of arming.
//!
//! Rejected: nodes on the stack of the waiting task (deadlines of tokens and nurseries move with
//! their owners, and 48 bytes in a slab cost no allocation either); a heap (logarithmic, and
//! disarming leaves garbage or needs positions); wheels without locks (a foreign thread that
//! disarms would have to leave a message, and the node would live on until it is read).

use super::wheel::{Tick, TimerEntry, Wheel};
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::base::shim::{Mutex, MutexGuard, PoisonError};
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::events::clock::STEP;
use crate::sched::task::TaskRef;
use crate::sched::worker::faults::contain;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

/// A tick of real time, unless the program sets another.
pub(crate) const REAL_UNIT: Nanos = 1 << 16;
/// Time after which other threads fire a worker's due timers.
pub(crate) const GRACE: Nanos = 4_000_000;
/// Least time between two wake-ups of an idle worker for deadlines.
pub(crate) const PACE: Nanos = 500_000;
/// The latest deadline, 146 years: later ones are clamped to it. A multiple of the virtual tick.
pub(crate) const FOREVER: Nanos = (1 << 62) / (STEP * REAL_UNIT) * (STEP * REAL_UNIT);
/// No deadline.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// The most timers that are taken out of a wheel under one lock.
const BATCH: usize = 32;

/// An object that ends at a deadline: a cancel node.
pub(crate) trait Expire: Send + Sync {
    /// The deadline has passed.
    fn expire(self: Arc<Self>);

    /// The grace period of the shield around the object is over.
    fn end_grace(self: Arc<Self>);
}

/// The action of a timer.
pub(crate) enum Due {
    /// The object expires, if it is still there.
    Expire(Weak<dyn Expire>),
    /// The grace period of the object ends, if it is still there.
    EndGrace(Weak<dyn Expire>),
    /// The task is woken. It may move to another worker.
    Wake(TaskRef),
    /// The task is woken. Only the worker that armed the timer may run it.
    WakePinned(TaskRef),
    /// The task is woken, and takes the slow path at its next checkpoint.
    Interrupt(TaskRef),
    /// The worker picks again: a scheduling context has budget.
    Release(usize),
}

impl Due {
    /// Wakes a task. Called by the task itself, which has waited before or is about to.
    pub(crate) fn wake(task: TaskRef) -> Due {
        // SAFETY: the running task's own record.
        if unsafe { task.task.as_ref() }.traits.get().is_migratable() {
            Due::Wake(task)
        } else {
            Due::WakePinned(task)
        }
    }

    /// Lets an object expire.
    pub(crate) fn expire<T: Expire + 'static>(object: &Arc<T>) -> Due {
        let object: Weak<T> = Arc::downgrade(object);
        Due::Expire(object)
    }

    /// Ends the grace period of an object.
    pub(crate) fn end_grace<T: Expire + 'static>(object: &Arc<T>) -> Due {
        let object: Weak<T> = Arc::downgrade(object);
        Due::EndGrace(object)
    }

    pub(crate) fn act(self, shared: &Shared) {
        match self {
            Due::Expire(object) => {
                if let Some(object) = object.upgrade() {
                    object.expire();
                }
            }
            Due::EndGrace(object) => {
                if let Some(object) = object.upgrade() {
                    object.end_grace();
                }
            }
            Due::Wake(task) | Due::WakePinned(task) => {
                note(shared, task);
                shared.unpark(task);
            }
            Due::Interrupt(task) => {
                note(shared, task);
                shared.interrupt(task);
            }
            Due::Release(worker) => {
                shared.queues.nudge(worker);
                shared.notify(worker);
            }
        }
    }
}

/// Writes the event. Never unwinds: the task has to be woken in any case.
pub(crate) fn note(shared: &Shared, task: TaskRef) {
    if shared.tracer.is_heard() {
        contain(|| shared.note_timer(task));
    }
}

/// Identifies a timer: its wheel and its entry there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerKey {
    wheel: u32,
    entry: TimerEntry,
}

/// A timer that was armed. Dropping it disarms the timer, on any thread.
pub(crate) struct ArmedTimer<S: Deref<Target = Shared>> {
    shared: S,
    key: TimerKey,
}

impl<S: Deref<Target = Shared>> ArmedTimer<S> {
    pub(crate) fn new(shared: S, key: TimerKey) -> ArmedTimer<S> {
        ArmedTimer { shared, key }
    }

    /// Whether the timer has been taken out of its wheel: its time has come. If not, it may have
    /// been all the same.
    pub(crate) fn has_fired(&self) -> bool {
        self.shared.timers.has_fired(self.key)
    }
}

impl ArmedTimer<&Shared> {
    /// Leaves the timer armed for good.
    pub(crate) fn leave_armed(self) {
        std::mem::forget(self); // it owns only a reference
    }

    /// The same timer, with another reference to the same scheduler.
    pub(crate) fn owned<O: Deref<Target = Shared>>(self, shared: O) -> ArmedTimer<O> {
        let key = self.key;
        std::mem::forget(self); // it owns only a reference
        ArmedTimer { shared, key }
    }
}

impl<S: Deref<Target = Shared>> Drop for ArmedTimer<S> {
    fn drop(&mut self) {
        if !self.has_fired() {
            self.shared.timers.take_back(self.key);
        }
    }
}

/// Whether timers are still due after some have fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// The limit was reached.
    Unknown,
}

/// A wheel with its lock.
#[repr(align(128))]
pub(crate) struct SharedWheel<T> {
    unit: Nanos,
    wheel: Mutex<Wheel<T>>,
    /// No later than the earliest deadline; [`NEVER`] without one. Written under the lock.
    next: AtomicU64,
    /// When its worker last fired its timers.
    looked: AtomicU64,
    /// No later than the tick before which all timers were taken out. Written under the lock.
    elapsed: AtomicU64,
}

impl<T> SharedWheel<T> {
    /// As new, at time zero. It is empty, and no other thread uses it.
    fn reset(&self) {
        // Relaxed: one thread.
        self.elapsed.store(0, Ordering::Relaxed);
        self.looked.store(0, Ordering::Relaxed);
        self.lock().reset();
    }

    pub(crate) fn new(unit: Nanos) -> SharedWheel<T> {
        SharedWheel {
            unit,
            wheel: Mutex::new(Wheel::new()),
            next: AtomicU64::new(NEVER),
            looked: AtomicU64::new(0),
            elapsed: AtomicU64::new(0),
        }
    }

    /// Whether a timer was taken out: all before `elapsed` were. False is no answer.
    #[inline]
    pub(crate) fn has_taken(&self, entry: TimerEntry) -> bool {
        // Relaxed: a node that is in no wheel is not touched by the caller, and the time only
        // grows. The store in `take` is its partner.
        entry.tick < self.elapsed.load(Ordering::Relaxed)
    }

    /// No later than the earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        // Relaxed: a worker reads its own value; the timer thread's reading is ordered by the
        // fences of `Horizon`.
        self.next.load(Ordering::Relaxed)
    }

    /// Arms a timer. Also returns whether `next` is earlier than before.
    pub(crate) fn insert(&self, at: Nanos, what: T) -> (TimerEntry, bool) {
        let mut wheel = self.lock();
        let entry = wheel.insert(at.div_ceil(self.unit), what);
        let before = self.next();
        let next = self.publish_next(&wheel);
        (entry, next < before)
    }

    /// Disarms a timer; `None` if it has fired.
    pub(crate) fn remove(&self, entry: TimerEntry) -> Option<T> {
        let mut wheel = self.lock();
        let what = wheel.remove(entry)?;
        self.publish_next(&wheel);
        let surplus = wheel.take_surplus();
        drop(wheel);
        drop(surplus); // outside of the lock
        Some(what)
    }

    /// Acts on up to `limit` timers that are due at `now`, the earliest first.
    pub(crate) fn fire(&self, now: Nanos, limit: usize, mut act: impl FnMut(T)) -> Rest {
        let now = now / self.unit;
        let mut fired = 0;
        while fired < limit {
            let wanted = BATCH.min(limit - fired);
            let mut due: [Option<T>; BATCH] = [const { None }; BATCH];
            let taken = self.take(now, &mut due[..wanted]);
            // A panic of one action does not stop the others, which are in no wheel any more.
            let mut failed = None;
            for due in due.into_iter().flatten() {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| act(due))) {
                    failed.get_or_insert(payload);
                }
            }
            if let Some(payload) = failed {
                resume_unwind(payload);
            }
            fired += taken;
            if taken < wanted {
                return Rest::Nothing;
            }
        }
        Rest::Unknown
    }

    /// Takes out due timers, as many as there is room for.
    fn take(&self, now: Tick, room: &mut [Option<T>]) -> usize {
        let mut wheel = self.lock();
        let mut taken = 0;
        for place in room {
            *place = wheel.pop(now);
            if place.is_none() {
                break;
            }
            taken += 1;
        }
        self.publish_next(&wheel);
        // Relaxed: read by `has_taken`.
        self.elapsed.store(wheel.elapsed(), Ordering::Relaxed);
        let surplus = wheel.take_surplus();
        drop(wheel);
        drop(surplus); // outside of the lock
        taken
    }

    /// The worker has fired the timers that were due at `now`.
    pub(crate) fn looked(&self, now: Nanos) {
        self.looked.store(now, Ordering::Relaxed); // a hint for `overdue`
    }

    /// When the worker last fired its timers.
    pub(crate) fn last_look(&self) -> Nanos {
        // Relaxed: a stale value only makes other threads act earlier.
        self.looked.load(Ordering::Relaxed)
    }

    /// When other threads should fire due timers: `grace` after the worker should have.
    pub(crate) fn overdue(&self, grace: Nanos) -> Nanos {
        match self.next() {
            NEVER => NEVER,
            next => next.max(self.last_look()) + grace,
        }
    }

    fn publish_next(&self, wheel: &Wheel<T>) -> Nanos {
        let next = wheel.next().map_or(NEVER, |tick| tick * self.unit);
        // Relaxed: written under the lock; the timer thread's reading is ordered by the fences of
        // `Horizon`.
        if next != self.next() {
            self.next.store(next, Ordering::Relaxed); // see above
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Wheel<T>> {
        // Only running out of memory panics under the lock.
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The deadlines of a scheduler.
pub(crate) struct Timers {
    /// A watched wheel for each worker; one for all other threads; the sleepers' wheels.
    rings: Box<[SharedWheel<Due>]>,
    workers: usize,
}

impl Timers {
    /// No limit.
    pub(crate) const ALL: usize = usize::MAX;

    pub(crate) fn new(workers: usize, unit: Nanos) -> Timers {
        let rings = (0..2 * workers + 1).map(|_| SharedWheel::new(unit)).collect();
        Timers { rings, workers }
    }

    /// As new. No timer is armed, and no other thread uses them.
    pub(crate) fn reset(&self) {
        self.rings.iter().for_each(SharedWheel::reset);
    }

    /// The wheel for an action of a worker, or of another thread.
    #[inline]
    pub(crate) fn wheel_for(&self, worker: Option<usize>, what: &Due) -> usize {
        match (worker, what) {
            (Some(worker), Due::WakePinned(_)) => self.workers + 1 + worker,
            (worker, _) => worker.unwrap_or(self.workers),
        }
    }

    /// Whether the timer thread fires the overdue timers of this wheel.
    #[inline]
    pub(crate) fn is_watched(&self, wheel: usize) -> bool {
        wheel <= self.workers
    }

    #[inline]
    pub(crate) fn ring(&self, wheel: usize) -> &SharedWheel<Due> {
        &self.rings[wheel]
    }

    /// The wheels of a worker: the watched one, and that of its sleepers.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> [&SharedWheel<Due>; 2] {
        [&self.rings[worker], &self.rings[self.workers + 1 + worker]]
    }

    /// All watched wheels, each with the grace that its worker has.
    pub(crate) fn graces(&self) -> impl Iterator<Item = (&SharedWheel<Due>, Nanos)> {
        let last = self.workers;
        let grace = move |index| if index == last { 0 } else { GRACE };
        self.rings[..=last].iter().enumerate().map(move |(index, ring)| (ring, grace(index)))
    }

    pub(crate) fn key(&self, wheel: usize, entry: TimerEntry) -> TimerKey {
        TimerKey { wheel: wheel as u32, entry }
    }

    fn has_fired(&self, key: TimerKey) -> bool {
        self.rings[key.wheel as usize].has_taken(key.entry)
    }

    fn take_back(&self, key: TimerKey) {
        // The action is dropped here, outside of the lock.
        self.rings[key.wheel as usize].remove(key.entry);
    }

    /// When timers will next be overdue.
    pub(crate) fn overdue(&self) -> Nanos {
        self.graces().map(|(ring, grace)| ring.overdue(grace)).min().unwrap_or(NEVER)
    }

    /// The earliest deadline with its wheel; the first wheel if several have the same.
    pub(crate) fn earliest(&self) -> Option<(&SharedWheel<Due>, Nanos)> {
        let ring = self.rings.iter().min_by_key(|ring| ring.next())?;
        (ring.next() != NEVER).then(|| (ring, ring.next()))
    }

    /// Number of timers that were ever armed, and that are armed now.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn counts(&self) -> (u64, usize) {
        let counts = self.rings.iter().map(|ring| ring.lock().counts());
        counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}
