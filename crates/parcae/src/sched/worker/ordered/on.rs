//! The locks of objects, with the last worker; and a worker's entries in its journal.

use crate::base::lock::{Guard, Lock};
use crate::sched::journal::{JournalEntry, JournalLog, StripeGuard, hold_atomic};
use crate::sched::lab::{Turn, is_any_alive};
use crate::sched::task::Task;
use crate::sched::worker::events::{YieldNote, YieldedTo};
use crate::sched::worker::point::switch_at_point;
use crate::sched::worker::{Worker, with_current};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The tag of an object that no recorded worker has used.
const UNTAGGED: u32 = 0;

/// The lock of an object whose operations are ordered.
pub(crate) struct ObjectLock<T>(Lock<Tagged<T>>);

struct Tagged<T> {
    /// The worker of the last recorded operation.
    tag: u32,
    value: T,
}

/// Access to the object until it is dropped.
#[must_use = "the lock is released at once"]
pub(crate) struct ObjectGuard<'l, T>(Guard<'l, Tagged<T>>);

impl<T> ObjectLock<T> {
    pub(crate) const fn new(value: T) -> ObjectLock<T> {
        ObjectLock(Lock::new(Tagged { tag: UNTAGGED, value }))
    }

    #[inline]
    pub(crate) fn lock(&self) -> ObjectGuard<'_, T> {
        if is_any_alive() { self.lock_in_order() } else { ObjectGuard(self.0.lock()) }
    }

    #[inline(never)]
    fn lock_in_order(&self) -> ObjectGuard<'_, T> {
        let operation = begin();
        let mut object = self.0.lock();
        if let Operation::Recorded(log) = operation {
            // SAFETY: of the worker that runs here.
            let tag = unsafe { log.as_ref() }.tag();
            if object.tag != tag {
                let before = std::mem::replace(&mut object.tag, tag);
                if before != UNTAGGED {
                    changes_worker();
                }
            }
        }
        ObjectGuard(object)
    }

    /// `None` if the lock is taken. For observers: not an operation of a task.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<ObjectGuard<'_, T>> {
        self.0.try_lock().map(ObjectGuard)
    }
}

impl<T> Deref for ObjectGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for ObjectGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

/// An operation that begins.
enum Operation {
    /// It is written to this log, of the worker that runs here, if its object had another worker.
    Recorded(NonNull<JournalLog>),
    Unrecorded,
}

/// The running task begins an operation, before it takes the lock. In a replay, others may go on.
#[inline]
fn begin() -> Operation {
    if std::thread::panicking() {
        return Operation::Unrecorded;
    }
    let begun = with_current(|worker| {
        worker.current.get()?;
        match worker.journal() {
            Some(log) if !worker.unordered.get() => {
                log.counts();
                Some(Ok(NonNull::from(log)))
            }
            Some(_) => None,
            None => worker.replays_operation().map(Err),
        }
    });
    match begun.flatten() {
        Some(Ok(log)) => Operation::Recorded(log),
        Some(Err(turn)) => {
            switch_at_point(turn);
            Operation::Unrecorded
        }
        None => Operation::Unrecorded,
    }
}

/// The operation of the running task is the first one on its object after one of another worker.
/// Called with the right to it.
#[cold]
#[inline(never)]
fn changes_worker() {
    with_current(|worker| {
        let clock = worker.journal_clock();
        worker.journal().inspect(|log| log.write(JournalEntry::Change(log.count(), clock)));
    });
}

/// The right to operate on an object without its lock: other recorded operations wait.
pub(crate) struct HeldOrder<'l, T> {
    _lock: Option<ObjectGuard<'l, T>>,
    _stripe: Option<StripeGuard>,
}

/// Begins an operation without the lock of its object, which is taken if the operation is ordered.
#[inline(always)]
pub(crate) fn hold_order<T>(lock: &ObjectLock<T>) -> HeldOrder<'_, T> {
    HeldOrder { _lock: keeps_order().then(|| lock.lock()), _stripe: None }
}

/// Begins an operation on an object without a lock.
#[inline(always)]
pub(crate) fn hold_order_of<T: ?Sized>(object: &T) -> HeldOrder<'static, ()> {
    let address = (&raw const *object).cast::<()>().addr();
    let stripe = if is_any_alive() { hold_stripe(address) } else { None };
    HeldOrder { _lock: None, _stripe: stripe }
}

#[cold]
#[inline(never)]
fn hold_stripe(address: usize) -> Option<StripeGuard> {
    let Operation::Recorded(log) = begin() else { return None };
    // SAFETY: of the worker that runs here.
    let (stripe, changes) = hold_atomic(address, unsafe { log.as_ref() }.tag());
    if changes {
        changes_worker();
    }
    Some(stripe)
}

/// Begins an access to another object within an operation that has begun: under its lock, or after
/// an [`ordered_point`]. An entry here says when that operation was, more exactly than the one at
/// its beginning, if there is one: in between, no other operation on its object was possible.
#[inline(always)]
pub(crate) fn hold_within<T>(object: &T) -> HeldOrder<'static, ()> {
    let address = (&raw const *object).addr();
    let stripe = if is_any_alive() { hold_stripe_within(address) } else { None };
    HeldOrder { _lock: None, _stripe: stripe }
}

#[cold]
#[inline(never)]
fn hold_stripe_within(address: usize) -> Option<StripeGuard> {
    let tag = with_current(|worker| {
        worker.current.get()?;
        Some(worker.journal()?.tag())
    });
    let (stripe, changes) = hold_atomic(address, tag.flatten()?);
    if changes {
        changes_worker();
    }
    Some(stripe)
}

/// Whether the operations of the running task are recorded or repeated.
#[inline(always)]
pub(crate) fn keeps_order() -> bool {
    is_any_alive() && is_ordered()
}

#[cold]
#[inline(never)]
fn is_ordered() -> bool {
    with_current(|worker| worker.journal().is_some() || worker.replays()) == Some(true)
}

/// The running task does an operation on no object.
#[inline(always)]
pub(crate) fn ordered_point() {
    if is_any_alive() {
        begin();
    }
}

/// Does operations under the lock of another object: they are part of that operation.
pub(crate) fn unordered<R>(act: impl FnOnce() -> R) -> R {
    /// Restores the mark, also if the operations panic.
    struct Unordered(bool);
    impl Drop for Unordered {
        fn drop(&mut self) {
            with_current(|worker| worker.unordered.set(self.0));
        }
    }
    if !is_any_alive() {
        return act();
    }
    let _before = with_current(|worker| Unordered(worker.unordered.replace(true)));
    act()
}

/// A deadline of the running task has passed.
#[inline(always)]
pub(crate) fn timed_out() {
    if is_any_alive() {
        write_timeout();
    }
}

#[cold]
#[inline(never)]
fn write_timeout() {
    with_current(|worker| {
        let clock = worker.journal_clock();
        worker.journal().inspect(|log| log.write(JournalEntry::TimedOut(log.count(), clock)));
    });
}

/// Whether a replay lets the deadline of the running task pass here. If so, others go on first, up
/// to that time.
#[inline(always)]
pub(crate) fn replayed_timeout() -> bool {
    is_any_alive() && replay_timeout()
}

#[cold]
#[inline(never)]
fn replay_timeout() -> bool {
    if std::thread::panicking() {
        return false;
    }
    let turn = with_current(|worker| {
        let (lab, task) = (worker.shared.lab.as_ref()?, worker.current.get()?);
        let mut state = lab.lock();
        worker.tell_ready(&mut state);
        // SAFETY: the running task.
        state.replays_timeout(unsafe { task.as_ref() }.id())
    });
    match turn.flatten() {
        Some(turn) => {
            switch_at_point(turn);
            true
        }
        None => false,
    }
}

/// A number that the running task has drawn. A replay asks the lab for numbers.
pub(crate) fn recorded_number(number: usize) -> usize {
    let entry = JournalEntry::Number(number as u64);
    with_current(|worker| worker.journal().inspect(|log| log.write(entry)).is_some());
    number
}

/// A time that the running task has read; in a replay, the one that was recorded.
#[inline(always)]
pub(crate) fn recorded_time(nanos: u64) -> u64 {
    if is_any_alive() { recorded_time_of_task(nanos) } else { nanos }
}

#[cold]
#[inline(never)]
fn recorded_time_of_task(nanos: u64) -> u64 {
    let replayed = with_current(|worker| {
        let (task, entry) = (worker.current.get()?, JournalEntry::Time(nanos));
        worker.journal().inspect(|log| log.write(entry));
        // SAFETY: the running task.
        worker.shared.lab.as_ref()?.lock().replayed_time(unsafe { task.as_ref() }.id())
    });
    replayed.flatten().unwrap_or(nanos)
}

/// Writes the turn that begins. Cannot panic.
pub(in crate::sched::worker) struct JournalNote<'w>(&'w JournalLog);

impl YieldNote for JournalNote<'_> {
    #[inline(always)]
    fn note(&self, next: &Task, then: YieldedTo) {
        // One that has not started is noted when it does; one that goes on has no new turn.
        if then == YieldedTo::Resumed {
            self.0.turn(next.id());
        }
    }
}

impl Worker {
    /// Its log; `None` without a journal.
    #[inline(always)]
    fn journal(&self) -> Option<&JournalLog> {
        // SAFETY: of `shared`, which the worker keeps.
        unsafe { self.journal.as_ref() }
    }

    /// The clock of the journal, after this thread's earlier reads of memory.
    fn journal_clock(&self) -> u64 {
        self.shared.tracer.clock.ticks_after_reads()
    }

    /// The next task was queued by another worker.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_took(&self) {
        self.journal().inspect(|log| log.write(JournalEntry::Took(self.journal_clock())));
    }

    /// A turn of a task begins. True if nothing else has to hear of it.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_turn(&self, task: &Task) -> bool {
        self.journal().inspect(|log| log.turn(task.id())).is_some()
            && !self.shared.tracer.is_heard()
    }

    /// If nothing else is on and due: a note of the next task, for a turn that ends.
    #[inline]
    pub(in crate::sched::worker) fn journal_note(&self) -> Option<JournalNote<'_>> {
        if self.shared.tracer.is_heard() || self.has_other_duties() {
            return None;
        }
        self.journal().map(JournalNote)
    }

    /// The running task has spawned another one. True if nothing else has to hear of it.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_spawn(&self, task: u64) -> bool {
        self.journal().inspect(|log| log.spawn(task)).is_some() && !self.shared.tracer.is_heard()
    }

    /// Whether it is that of a replay.
    fn replays(&self) -> bool {
        self.shared.lab.as_ref().is_some_and(|lab| lab.lock().replays())
    }

    /// The running task is about to do an operation. `None` if this is no replay.
    #[cold]
    fn replays_operation(&self) -> Option<Turn> {
        let (lab, task) = (self.shared.lab.as_ref()?, self.current.get()?);
        let mut state = lab.lock();
        if !state.replays() || self.unordered.get() {
            return None;
        }
        self.tell_ready(&mut state);
        // SAFETY: the running task.
        Some(state.ordered_point(unsafe { task.as_ref() }.id()))
    }
}
