//! The deadlines of a scheduler: a wheel for each worker, and one for everybody else.
//!
//! Times are nanoseconds since the scheduler was made. With threads they come from the monotonic
//! clock. Under the deterministic executor time is virtual: a step takes a microsecond, and when nobody can run
//! the clock jumps to the next deadline.
//!
//! # Who puts in, who takes out
//!
//! | | puts in | acts when due | takes back |
//! |---|---|---|---|
//! | a worker's wheel | its tasks, while they run on it | the worker; if it is stuck, the [timer thread](super::thread) | anybody |
//! | the last wheel | threads that are no workers | the watch | anybody |
//!
//! Each wheel has a lock, which in the usual case one thread alone uses, and a word beside it, `next`: no later than
//! its earliest deadline. Reading that word is all that a worker with nothing due ever does.
//!
//! # States of a timer
//!
//! ```text
//!            insert                    fire                     act
//!   unset ───────────▶ armed ───────────────────▶ firing ──────────────▶ fired
//!                        │ take back
//!                        ▼
//!                    cancelled
//! ```
//!
//! *Armed*: its node is linked in a wheel. It leaves that state under the wheel's lock, once, because whoever unlinks a node
//! ends that life of it: one of fire and take back finds it there, the other finds another serial number. What is to happen is
//! moved out of the node in the same critical section, so nobody touches the node afterwards.
//!
//! *Firing*: what is to happen is a value on the stack of whoever fires; it is acted on after the lock was
//! released, so that callbacks may set and take back timers. Taking back a timer that is firing does nothing and
//! does not wait: its task may be woken, or its token cancelled, once more. Every wait allows for that (`wait`: look again),
//! wakes name record and generation, and tokens are held weakly.
//!
//! # Where the clock is read
//!
//! A busy worker looks at `next` every 61 picks, and only if there is a deadline at the clock; before it sleeps
//! always. It sleeps until `next`, not in ticks: nobody wakes for nothing. No other thread puts
//! anything into its wheel while it sleeps, so it cannot oversleep. After it has fired it sleeps for at least [`PACE`]:
//! where deadlines are dense, one wake serves many, and one that stands alone is as precise as can be.
//!
//! # How late
//!
//! Never early: a deadline is rounded up to a whole tick of [`REAL_UNIT`], 65.5 µs, about what the kernel takes the liberty of
//! being late by (its timer slack is 50 µs). So a timer is late by at most that, plus what it takes to wake a thread; where
//! deadlines are dense and workers idle, by [`PACE`] more, half a millisecond; if its worker is stuck in a task, by [`GRACE`] more. A tick of virtual time is a step: there is
//! nothing in between. There, timers fire in the order of their deadlines, those of the same step by worker and then as they were set.
//!
//! What was rejected: nodes on the stack of whoever waits (deadlines of tokens and nurseries move with their owners,
//! and 48 bytes in a slab cost no allocation either); a heap (logarithmic, and taking back leaves garbage or needs positions); cells without locks
//! (a foreign thread that takes back has to leave a message then, and the node lives on until it is read).

use super::wheel::{Tick, TimerEntry, Wheel};
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::base::shim::{Mutex, MutexGuard, PoisonError};
use crate::sched::Shared;
use crate::sched::task::TaskRef;
use crate::sched::worker::faults::contain;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

/// A point in time: nanoseconds since the scheduler was made.
pub(crate) type Nanos = u64;

/// What a step of the deterministic executor takes, and a tick of virtual time.
pub(crate) const STEP: Nanos = 1_000;
/// A tick of real time.
pub(crate) const REAL_UNIT: Nanos = 1 << 16;
/// How long a worker may leave its wheel alone, after something in it was due, until others act on it.
pub(crate) const GRACE: Nanos = 4_000_000;
/// A worker without work does not wake for deadlines more often than this.
pub(crate) const PACE: Nanos = 500_000;
/// As good as never, 146 years: a deadline that is further away is here. A multiple of both units.
pub(crate) const FOREVER: Nanos = (1 << 62) / (STEP * REAL_UNIT) * (STEP * REAL_UNIT);
/// No deadline.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// Timers that are taken out under one lock.
const BATCH: usize = 32;

/// An object that ends at a deadline: a cancel node.
pub(crate) trait Expire: Send + Sync {
    /// The deadline has passed.
    fn expire(self: Arc<Self>);

    /// The grace period of the shield around the object is over.
    fn end_grace(self: Arc<Self>);
}

/// What happens at a deadline.
pub(crate) enum Due {
    /// The object expires, if it is still there.
    Expire(Weak<dyn Expire>),
    /// The grace period of the object ends, if it is still there.
    EndGrace(Weak<dyn Expire>),
    /// The task is woken.
    Wake(TaskRef),
    /// The task is woken, and takes the slow path at its next checkpoint.
    Interrupt(TaskRef),
}

impl Due {
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
            Due::Wake(task) => {
                note(shared, task);
                shared.unpark(task);
            }
            Due::Interrupt(task) => {
                note(shared, task);
                shared.interrupt(task);
            }
        }
    }
}

/// Writes the event, and never unwinds: the task has to be woken whatever happens.
fn note(shared: &Shared, task: TaskRef) {
    if shared.tracer.is_on() {
        contain(|| shared.note_timer(task));
    }
}

/// Which timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerKey {
    wheel: u32,
    entry: TimerEntry,
}

/// A deadline that was set. Dropping it takes it back, on whichever thread.
pub(crate) struct ArmedTimer<S: Deref<Target = Shared>> {
    shared: S,
    key: TimerKey,
}

impl<S: Deref<Target = Shared>> ArmedTimer<S> {
    pub(crate) fn new(shared: S, key: TimerKey) -> ArmedTimer<S> {
        ArmedTimer { shared, key }
    }
}

impl ArmedTimer<&Shared> {
    /// The same deadline, with another hold on the same scheduler.
    pub(crate) fn owned<O: Deref<Target = Shared>>(self, shared: O) -> ArmedTimer<O> {
        let key = self.key;
        std::mem::forget(self); // has nothing but a reference
        ArmedTimer { shared, key }
    }
}

impl<S: Deref<Target = Shared>> Drop for ArmedTimer<S> {
    fn drop(&mut self) {
        self.shared.timers.take_back(self.key);
    }
}

/// What is still due after some have fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// As many as were asked for have fired.
    Unknown,
}

/// A wheel that threads share.
#[repr(align(128))]
pub(crate) struct SharedWheel<T> {
    unit: Nanos,
    wheel: Mutex<Wheel<T>>,
    /// No later than the earliest deadline; [`NEVER`] without one. Written under the lock.
    next: AtomicU64,
    /// When its worker last acted on what was due.
    looked: AtomicU64,
}

impl<T> SharedWheel<T> {
    pub(crate) fn new(unit: Nanos) -> SharedWheel<T> {
        SharedWheel {
            unit,
            wheel: Mutex::new(Wheel::new()),
            next: AtomicU64::new(NEVER),
            looked: AtomicU64::new(0),
        }
    }

    /// No later than the earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        // Relaxed: the worker reads what it wrote itself; for the watch see `Horizon`.
        self.next.load(Ordering::Relaxed)
    }

    /// Puts a timer in; says whether `next` is earlier than before.
    pub(crate) fn insert(&self, at: Nanos, what: T) -> (TimerEntry, bool) {
        let mut wheel = self.lock();
        let entry = wheel.insert(at.div_ceil(self.unit), what);
        let before = self.next();
        let next = self.publish_next(&wheel);
        (entry, next < before)
    }

    /// Takes a timer back; none if it has fired.
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
            // One that fails does not keep the others, which are in no wheel any more, from being acted on.
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

    /// Takes out what is due, as much as there is room for.
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
        let surplus = wheel.take_surplus();
        drop(wheel);
        drop(surplus); // outside of the lock
        taken
    }

    /// The worker has acted on what was due at `now`.
    pub(crate) fn looked(&self, now: Nanos) {
        self.looked.store(now, Ordering::Relaxed); // a hint for `overdue`
    }

    /// When the worker last acted on what was due.
    pub(crate) fn last_look(&self) -> Nanos {
        // Relaxed: for others, a worker that is seen to have looked earlier than it did is waited for no longer.
        self.looked.load(Ordering::Relaxed)
    }

    /// When others should act on what is due; `grace` after its worker should have.
    pub(crate) fn overdue(&self, grace: Nanos) -> Nanos {
        match self.next() {
            NEVER => NEVER,
            next => next.max(self.last_look()) + grace,
        }
    }

    fn publish_next(&self, wheel: &Wheel<T>) -> Nanos {
        let next = wheel.next().map_or(NEVER, |tick| tick * self.unit);
        // Relaxed: written under the lock; for the watch see `Horizon`.
        if next != self.next() {
            self.next.store(next, Ordering::Relaxed);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Wheel<T>> {
        // Nothing under the lock panics but running out of memory.
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The deadlines of a scheduler.
pub(crate) struct Timers {
    /// One for each worker; the last is everybody else's.
    rings: Box<[SharedWheel<Due>]>,
}

impl Timers {
    /// As many as there are.
    pub(crate) const ALL: usize = usize::MAX;

    pub(crate) fn new(workers: usize, unit: Nanos) -> Timers {
        Timers { rings: (0..=workers).map(|_| SharedWheel::new(unit)).collect() }
    }

    /// The wheel of a worker, or of everybody else.
    #[inline]
    pub(crate) fn of(&self, worker: Option<usize>) -> (usize, &SharedWheel<Due>) {
        let index = worker.unwrap_or(self.rings.len() - 1);
        (index, &self.rings[index])
    }

    /// All wheels, with what others have to wait for until they act on it.
    pub(crate) fn graces(&self) -> impl Iterator<Item = (&SharedWheel<Due>, Nanos)> {
        let last = self.rings.len() - 1;
        let grace = move |index| if index == last { 0 } else { GRACE };
        self.rings.iter().enumerate().map(move |(index, ring)| (ring, grace(index)))
    }

    pub(crate) fn key(&self, wheel: usize, entry: TimerEntry) -> TimerKey {
        TimerKey { wheel: wheel as u32, entry }
    }

    fn take_back(&self, key: TimerKey) {
        // Dropped here, outside of the lock.
        self.rings[key.wheel as usize].remove(key.entry);
    }

    /// When others should act next on what a worker has not.
    pub(crate) fn overdue(&self) -> Nanos {
        self.graces().map(|(ring, grace)| ring.overdue(grace)).min().unwrap_or(NEVER)
    }

    /// The wheel with the earliest deadline, and that; the first of those that have the same.
    pub(crate) fn earliest(&self) -> Option<(&SharedWheel<Due>, Nanos)> {
        let ring = self.rings.iter().min_by_key(|ring| ring.next())?;
        (ring.next() != NEVER).then(|| (ring, ring.next()))
    }

    /// How many were ever set, and how many are armed.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn counts(&self) -> (u64, usize) {
        let counts = self.rings.iter().map(|ring| ring.lock().counts());
        counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}
