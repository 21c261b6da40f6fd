//! Handles: the result of one child.

use super::Core;
use crate::cx;
use crate::error::Result;
use crate::task::state::LetGo;
use crate::task::{Task, TaskRef};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A child and its result. See [`Nursery::spawn`](crate::Nursery::spawn).
///
/// Dropping it lets the child run on; the nursery waits for it.
pub struct TaskHandle<'scope, T> {
    task: TaskRef,
    core: &'scope Core,
    _result: PhantomData<fn() -> T>,
}

// SAFETY: made for any thread: the state word decides who takes the result, which is `Send`.
unsafe impl<T: Send> Send for TaskHandle<'_, T> {}
// SAFETY: shared, it only asks.
unsafe impl<T: Send> Sync for TaskHandle<'_, T> {}

impl<'scope, T> TaskHandle<'scope, T> {
    pub(super) fn new(task: TaskRef, core: &'scope Core) -> TaskHandle<'scope, T> {
        TaskHandle { task, core, _result: PhantomData }
    }

    fn record(&self) -> &Task {
        // SAFETY: held by this handle.
        unsafe { self.task.task.as_ref() }
    }

    /// Waits until the child has ended and returns its result. A cancel point: if the caller is
    /// cancelled it returns at once, and the child goes on until its nursery ends.
    ///
    /// # Errors
    ///
    /// What the child failed with, or that the caller was cancelled.
    pub fn join(self) -> Result<T> {
        self.wait()?;
        self.take()
    }

    /// The result if the child has ended, or the handle again.
    ///
    /// # Errors
    ///
    /// The handle, if the child has not ended.
    pub fn try_join(self) -> Result<Result<T>, TaskHandle<'scope, T>> {
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    /// The result of a child that has ended.
    fn take(self) -> Result<T> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: it has ended, so the record is ours; nobody has taken the result, for that
        // consumes the handle.
        let output = unsafe { Task::take_output(this.task.task) };
        this.core.terms.shared.recycle(this.task.task);
        output
    }

    fn wait(&self) -> Result<()> {
        if self.is_finished() {
            return Ok(());
        }
        let shared = &self.core.terms.shared;
        let Some(frame) = cx::current().filter(|cx| Arc::ptr_eq(&cx.terms().shared, shared)) else {
            // A thread that is none of the runtime's.
            while !self.is_finished() {
                std::thread::sleep(Duration::from_micros(50));
            }
            return Ok(());
        };
        self.record().joiner.set(Some(frame.task()));
        if self.record().state.join() {
            while !self.is_finished() {
                frame.park()?;
            }
        }
        Ok(())
    }

    /// Whether the child has ended.
    pub fn is_finished(&self) -> bool {
        self.record().state.is_done(self.task.generation)
    }

    /// Asks this child to end, without its siblings.
    pub fn cancel(&self) {
        // Relaxed: makes its next checkpoint look around; the state word says what for.
        self.record().signal.store(u32::MAX, Ordering::Relaxed);
        self.core.terms.shared.cancel(self.task);
    }

    /// The child's number, unique in its runtime.
    pub fn id(&self) -> u64 {
        self.record().id.get()
    }
}

impl<T> Drop for TaskHandle<'_, T> {
    fn drop(&mut self) {
        if self.record().state.let_go() == LetGo::Running {
            return;
        }
        // SAFETY: as in `take`; the handle is not used again.
        let output: Result<T> = unsafe { Task::take_output(self.task.task) };
        self.core.terms.shared.recycle(self.task.task);
        if let Err(error) = &output
            && !error.is_cancelled()
        {
            self.core.unheard(error);
        }
    }
}

impl<T> fmt::Debug for TaskHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
