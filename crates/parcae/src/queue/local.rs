//! A worker's own tasks: first in, first out, for nobody else.

use super::link::{Chain, Linked};
use std::ptr::NonNull;

/// The queue of a worker's started fibers, which may not move to another thread.
///
/// Only the worker has it (`&mut`), so that there is nothing to synchronize: the links are
/// read and written with plain moves. It is `Send` all the same, because a worker that is
/// restarted after a panic takes its queues along.
#[derive(Debug, Default)]
pub(crate) struct Local<T: Linked> {
    tasks: Chain<T>,
}

impl<T: Linked> Local<T> {
    /// An empty queue.
    pub(crate) const fn new() -> Local<T> {
        Local { tasks: Chain::new() }
    }

    /// How many tasks wait.
    #[inline]
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether none waits.
    #[inline]
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Adds a task at the end: the place of one that yields.
    ///
    /// # Safety
    ///
    /// `task` is live, in no queue, this worker's to run, and stays live until it is taken
    /// out again.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, task: NonNull<T>) {
        // SAFETY: the caller's promise.
        unsafe { self.tasks.push_back(task) }
    }

    /// Adds a task at the front: the place of one that was picked and could not run yet.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Local::push_back).
    #[inline]
    #[cfg(all(test, not(loom)))]
    pub(crate) unsafe fn push_front(&mut self, task: NonNull<T>) {
        // SAFETY: the caller's promise.
        unsafe { self.tasks.push_front(task) }
    }

    /// Takes the task that waits longest.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<T>> {
        self.tasks.pop_front()
    }

    /// Adds a chain at the end, in constant time: what came in through the inbox.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn append(&mut self, chain: Chain<T>) {
        self.tasks.append(chain);
    }

    /// Takes everything: a worker that ends leaves nothing behind.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn take(&mut self) -> Chain<T> {
        std::mem::take(&mut self.tasks)
    }
}
