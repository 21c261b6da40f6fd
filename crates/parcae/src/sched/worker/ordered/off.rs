//! The twin of `on` without a recorder: nothing, and no instruction.

use crate::sched::task::Task;
use crate::sched::worker::Worker;
use std::marker::PhantomData;

pub(crate) use crate::base::lock::{Guard as ObjectGuard, Lock as ObjectLock};

/// The right to operate on an object without its lock.
pub(crate) struct NoOrder<'l, T>(PhantomData<&'l T>);

impl<T> Drop for NoOrder<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Begins an operation without the lock of its object.
#[inline(always)]
pub(crate) fn hold_order<T>(_: &ObjectLock<T>) -> NoOrder<'_, T> {
    NoOrder(PhantomData)
}

/// Begins an operation on an object without a lock.
#[inline(always)]
pub(crate) fn hold_order_of<T: ?Sized>(_: &T) -> NoOrder<'static, ()> {
    NoOrder(PhantomData)
}

/// Begins an access within an operation that has begun.
#[inline(always)]
pub(crate) fn hold_within<T>(_: &T) -> NoOrder<'static, ()> {
    NoOrder(PhantomData)
}

/// Whether the operations of the running task are recorded or repeated.
#[inline(always)]
pub(crate) fn keeps_order() -> bool {
    false
}

/// The running task does an operation on no object.
#[inline(always)]
pub(crate) fn ordered_point() {}

/// Does operations under the lock of another object.
#[inline(always)]
pub(crate) fn unordered<R>(act: impl FnOnce() -> R) -> R {
    act()
}

/// A deadline of the running task has passed.
#[inline(always)]
pub(crate) fn timed_out() {}

/// Whether a replay lets the deadline of the running task pass here.
#[inline(always)]
pub(crate) fn replayed_timeout() -> bool {
    false
}

/// A number that the running task has drawn.
#[inline(always)]
pub(crate) fn recorded_number(number: usize) -> usize {
    number
}

/// A time that the running task has read.
#[inline(always)]
pub(crate) fn recorded_time(nanos: u64) -> u64 {
    nanos
}

impl Worker {
    /// The next task was queued by another worker.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_took(&self) {}

    /// A turn of a task begins. True if nothing else has to hear of it.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_turn(&self, _: &Task) -> bool {
        false
    }

    /// The running task has spawned another one. True if nothing else has to hear of it.
    #[inline(always)]
    pub(in crate::sched::worker) fn journal_spawn(&self, _: u64) -> bool {
        false
    }
}
