//! The cell of a future: its memory, and the wakers that point to it.

use super::word::{FutureWord, Notice};
use crate::base::error::Result;
use crate::sched::Shared;
use crate::sched::task::TaskRef;
use crate::scope::cx::{Frame, TaskSettings};
use crate::wait::{WaitNode, WaitStanding, Waitable, Waiter};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// The part of a cell that does not depend on the future: all that wakers know.
pub(super) struct FutureHead {
    pub(super) word: FutureWord,
    /// Written by the first call, before there is a waker.
    task: Cell<Option<TaskRef>>,
    shared: Arc<Shared>,
    /// Frees the cell, in which no future is any more.
    free: unsafe fn(NonNull<FutureHead>),
    /// In the queue of the nursery's node from the first park on; used by the calls of the task.
    subscription: WaitNode<Waiter>,
}

/// A head and the future behind it.
#[repr(C)]
pub(super) struct FutureCell<F> {
    head: FutureHead,
    /// Dropped by the last call. Accessed by the call of the task.
    future: UnsafeCell<ManuallyDrop<F>>,
}

// Debug builds and loom have larger parts elsewhere.
#[cfg(not(any(debug_assertions, loom)))]
const _: () = assert!(size_of::<FutureHead>() + size_of::<crate::sched::task::Task>() <= 256);

/// A future that no task has started to poll.
pub(super) struct OwnedFuture<F>(NonNull<FutureCell<F>>);

// SAFETY: it owns the cell, whose future is `Send`; the head is made for sharing.
unsafe impl<F: Send> Send for OwnedFuture<F> {}

impl<F> OwnedFuture<F> {
    pub(super) fn new(shared: &Arc<Shared>, future: F) -> OwnedFuture<F> {
        let head = FutureHead {
            word: FutureWord::new(),
            task: Cell::new(None),
            shared: Arc::clone(shared),
            free: free::<F>,
            subscription: WaitNode::new(()),
        };
        let future = UnsafeCell::new(ManuallyDrop::new(future));
        OwnedFuture(NonNull::from(Box::leak(Box::new(FutureCell { head, future }))))
    }

    /// The cell of the running task, which polls the future from now on and has the reference.
    pub(super) fn start(self, task: TaskRef) -> NonNull<FutureHead> {
        let head = ManuallyDrop::new(self).0.cast::<FutureHead>();
        // SAFETY: ours; there is no waker yet.
        unsafe { head.as_ref() }.task.set(Some(task));
        head
    }
}

impl<F> Drop for OwnedFuture<F> {
    fn drop(&mut self) {
        // SAFETY: the future was not polled, and there are no wakers.
        unsafe {
            FutureCell::<F>::drop_future(self.0.cast());
            FutureHead::release(self.0.cast());
        }
    }
}

impl<F> FutureCell<F> {
    /// The future, which does not move until it is dropped.
    ///
    /// # Safety
    ///
    /// The cell has an `F`. The caller is the call of the task, and uses it as pinned.
    pub(super) unsafe fn future<'c>(head: NonNull<FutureHead>) -> &'c mut F {
        // SAFETY: the head is the first field of the cell; the rest as the caller says.
        unsafe { &mut *head.cast::<FutureCell<F>>().as_ref().future.get() }
    }

    /// Drops the future.
    ///
    /// # Safety
    ///
    /// As for [`future`](FutureCell::future); it is not used again.
    pub(super) unsafe fn drop_future(head: NonNull<FutureHead>) {
        // SAFETY: as the caller says.
        unsafe { ManuallyDrop::drop(&mut *head.cast::<FutureCell<F>>().as_ref().future.get()) };
    }
}

/// # Safety
///
/// The cell has no future any more, and the caller the last reference.
unsafe fn free<F>(head: NonNull<FutureHead>) {
    // SAFETY: made from a box by `OwnedFuture::new`. The future is not touched.
    drop(unsafe { Box::from_raw(head.cast::<FutureCell<F>>().as_ptr()) });
}

impl FutureHead {
    /// Gives a reference up.
    ///
    /// # Safety
    ///
    /// The caller has one, and does not use it again.
    pub(super) unsafe fn release(head: NonNull<FutureHead>) {
        // SAFETY: as the caller says; the last one frees it.
        unsafe {
            if head.as_ref().word.remove() {
                (head.as_ref().free)(head);
            }
        }
    }

    /// The waker for a poll, without a reference of its own. The pointer is that to the whole cell.
    pub(super) fn waker(head: NonNull<FutureHead>) -> ManuallyDrop<Waker> {
        let raw = RawWaker::new(head.as_ptr().cast_const().cast(), &VTABLE);
        // SAFETY: the functions keep the contract of wakers; not dropped, so nothing is given up.
        ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
    }

    /// Sees to it that a cancellation of the task wakes it. By its call, before it parks.
    ///
    /// # Errors
    ///
    /// If the task is cancelled.
    pub(super) fn watch(&self, frame: &Frame) -> Result<()> {
        frame.check_cancelled()?;
        if self.subscription.standing() == WaitStanding::Queued {
            return Ok(());
        }
        // SAFETY: not queued, and the task's own. It leaves the queue in `unwatch`, before the task
        // ends; until then the task keeps its scheduler alive.
        unsafe {
            self.subscription.reset();
            let waiter = Waiter::borrowed(&self.shared, frame.task_ref());
            frame.settings().node.subscribe(&self.subscription, waiter, None);
        }
        frame.check_cancelled() // again: see the header of `cx::frame::watch`
    }

    /// Takes [`watch`](FutureHead::watch) back: the task ends.
    pub(super) fn unwatch(&self, settings: &TaskSettings) {
        if self.subscription.standing() == WaitStanding::Queued {
            // SAFETY: the task's own, in the queue of this node.
            unsafe { settings.node.withdraw(&self.subscription) };
        }
    }

    fn wake(&self) {
        if self.word.notify() == Notice::First
            && let Some(task) = self.task.get()
        {
            self.shared.unpark(task);
        }
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// # Safety
///
/// As for all functions of the table: `data` is a head, of which the waker has a reference, or the
/// call that lent it.
unsafe fn head<'h>(data: *const ()) -> &'h FutureHead {
    // SAFETY: as the caller says.
    unsafe { &*data.cast::<FutureHead>() }
}

/// # Safety
///
/// See [`head`].
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: as the caller says.
    unsafe { head(data) }.word.add();
    RawWaker::new(data, &VTABLE)
}

/// # Safety
///
/// See [`head`]; the reference is given up.
unsafe fn wake(data: *const ()) {
    // SAFETY: as the caller says.
    unsafe {
        wake_by_ref(data);
        drop_waker(data);
    }
}

/// # Safety
///
/// See [`head`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as the caller says.
    unsafe { head(data) }.wake();
}

/// # Safety
///
/// See [`head`]; the reference is given up.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: not null; as the caller says.
    unsafe { FutureHead::release(NonNull::new_unchecked(data.cast_mut().cast())) };
}
