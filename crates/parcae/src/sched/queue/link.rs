//! The link inside a task record, and the list that is made of such links.

use crate::base::shim::atomic::{AtomicPtr, Ordering};
use std::fmt;
use std::ptr::{self, NonNull};

/// A record that queues can link without allocating.
///
/// # Safety
///
/// - [`link`](Linked::link) returns the same address for the same record each time, inside
///   the record, and two records never share a link.
/// - Nothing but this module's queues touches the link's contents.
/// - A pointer to the record may be handed to another thread, and the link be used there.
///   (What else that thread may do with the record is the record's own protocol.)
pub(crate) unsafe trait Linked: Sized {
    /// Where the record's link is.
    ///
    /// # Safety
    ///
    /// `this` points to a live record.
    unsafe fn link(this: NonNull<Self>) -> NonNull<Link<Self>>;
}

/// The link of a record: the next record of the queue that it is in.
///
/// The pointer is written by the thread that has the record and read by the next one, never by
/// two at a time. It is atomic only because a queue's taker may belong to another thread
/// than its pusher; the order comes from the queue's own words, so that every access here
/// is relaxed, which is a plain move on the machines we run on.
pub(crate) struct Link<T> {
    next: AtomicPtr<T>,
    /// Whether the record is in a queue. Debug builds abort a second enqueue on the spot;
    /// `std`'s, because it is no part of any protocol and loom should not explore it.
    #[cfg(debug_assertions)]
    queued: std::sync::atomic::AtomicBool,
}

impl<T> Link<T> {
    /// The link of a record that is in no queue.
    pub(crate) fn new() -> Link<T> {
        Link {
            next: AtomicPtr::new(ptr::null_mut()),
            #[cfg(debug_assertions)]
            queued: std::sync::atomic::AtomicBool::new(false),
        }
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// The record after `task`, or null.
///
/// # Safety
///
/// The caller owns `task` through the queue that it is in.
#[inline]
pub(super) unsafe fn next<T: Linked>(task: NonNull<T>) -> *mut T {
    // SAFETY: the caller's; the record is live while it is in a queue.
    let link = unsafe { T::link(task).as_ref() };
    // Reads what `set_next` wrote; ordered by the queue that handed the record over.
    link.next.load(Ordering::Relaxed)
}

/// Makes `next` the record after `task`.
///
/// # Safety
///
/// As for [`next`].
#[inline]
pub(super) unsafe fn set_next<T: Linked>(task: NonNull<T>, next: *mut T) {
    // SAFETY: the caller's; the record is live while it is in a queue.
    let link = unsafe { T::link(task).as_ref() };
    // Read by `next`; ordered by the queue that hands the record over.
    link.next.store(next, Ordering::Relaxed);
}

/// Notes that `task` goes into a queue. Nothing in release builds.
///
/// # Safety
///
/// `task` is live and the caller has the right to queue it.
#[inline]
pub(super) unsafe fn enter<T: Linked>(task: NonNull<T>) {
    #[cfg(debug_assertions)]
    {
        // SAFETY: the caller's.
        let link = unsafe { T::link(task).as_ref() };
        // A figure for the assertion: its partner is `leave`, ordered by the queues.
        let twice = link.queued.swap(true, Ordering::Relaxed);
        assert!(!twice, "a task was put into a queue while it was in one");
    }
    #[cfg(not(debug_assertions))]
    let _ = task;
}

/// Notes that `task` left its queue. Nothing in release builds.
///
/// # Safety
///
/// The caller just took `task` out of its queue.
#[inline]
pub(super) unsafe fn leave<T: Linked>(task: NonNull<T>) {
    #[cfg(debug_assertions)]
    {
        // SAFETY: the caller's.
        let link = unsafe { T::link(task).as_ref() };
        // A figure for the assertion: its partner is `enter`, ordered by the queues.
        let queued = link.queued.swap(false, Ordering::Relaxed);
        assert!(queued, "a task came out of a queue twice");
    }
    #[cfg(not(debug_assertions))]
    let _ = task;
}

/// An owned list of tasks, first in, first out.
///
/// The owner of the chain has the right to run its tasks, and the duty: dropping a chain
/// that is not empty loses them, which debug builds report.
///
/// `head` and `tail` are both null or both not; `len` tasks hang between them, the last
/// one's link is null.
#[must_use = "the tasks in it would be lost"]
pub(crate) struct Chain<T> {
    head: *mut T,
    tail: *mut T,
    len: usize,
}

// SAFETY: a chain owns its tasks' links, and `Linked` promises that these may be used on
// another thread.
unsafe impl<T: Linked> Send for Chain<T> {}

impl<T: Linked> Chain<T> {
    /// An empty chain.
    pub(crate) const fn new() -> Chain<T> {
        Chain { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
    }

    /// A chain of `len` tasks that are linked already.
    ///
    /// # Safety
    ///
    /// `len` live tasks that the caller owns hang from `head` to `tail`; `len` is not zero
    /// and the link of `tail` is null.
    pub(super) unsafe fn from_linked(head: NonNull<T>, tail: NonNull<T>, len: usize) -> Chain<T> {
        Chain { head: head.as_ptr(), tail: tail.as_ptr(), len }
    }

    /// How many tasks there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a task at the end.
    ///
    /// # Safety
    ///
    /// `task` is live, in no queue, the caller's to run, and stays live until it is taken
    /// out again.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, task: NonNull<T>) {
        // SAFETY: the caller's promise; from here on the chain owns the task.
        unsafe {
            enter(task);
            set_next(task, ptr::null_mut());
        }
        match NonNull::new(self.tail) {
            // SAFETY: the tail is in this chain.
            Some(tail) => unsafe { set_next(tail, task.as_ptr()) },
            None => self.head = task.as_ptr(),
        }
        self.tail = task.as_ptr();
        self.len += 1;
    }

    /// Adds a task at the front.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Chain::push_back).
    #[inline]
    pub(crate) unsafe fn push_front(&mut self, task: NonNull<T>) {
        // SAFETY: the caller's promise; from here on the chain owns the task.
        unsafe {
            enter(task);
            set_next(task, self.head);
        }
        if self.tail.is_null() {
            self.tail = task.as_ptr();
        }
        self.head = task.as_ptr();
        self.len += 1;
    }

    /// The first task, which stays.
    #[inline]
    pub(super) fn front(&self) -> Option<NonNull<T>> {
        NonNull::new(self.head)
    }

    /// The tasks in the opposite order.
    pub(crate) fn reversed(mut self) -> Chain<T> {
        let mut reversed = Chain::new();
        while let Some(task) = self.pop_front() {
            // SAFETY: out of one chain, into another.
            unsafe { reversed.push_front(task) };
        }
        reversed
    }

    /// Takes the first task.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<T>> {
        let task = NonNull::new(self.head)?;
        // SAFETY: the head is in this chain, and leaves it here.
        unsafe {
            self.head = next(task);
            leave(task);
        }
        if self.head.is_null() {
            self.tail = ptr::null_mut();
        }
        self.len -= 1;
        Some(task)
    }
}

impl<T: Linked> Default for Chain<T> {
    fn default() -> Chain<T> {
        Chain::new()
    }
}

/// Takes tasks from the front, those that are left stay in the chain.
impl<T: Linked> Iterator for &mut Chain<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        self.pop_front()
    }
}

impl<T> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        debug_assert!(
            self.len == 0 || std::thread::panicking(),
            "a chain was dropped with {} tasks in it",
            self.len
        );
    }
}
