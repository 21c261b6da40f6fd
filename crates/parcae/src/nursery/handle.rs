//! Handles: the result of one child.

use super::{Account, Core, OnFailure};
use crate::budget::{Budget, Pool};
use crate::cx;
use crate::error::{Error, ErrorKind, Result, TaskId};
use crate::task::state::LetGo;
use crate::task::{Task, TaskRef};
use crate::wait::Why;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A child and its result. See [`Nursery::spawn`](crate::Nursery::spawn).
///
/// Dropping it lets the child run on; the nursery waits for it.
pub struct TaskHandle<'scope, T> {
    task: TaskRef,
    core: &'scope Core,
    /// The child's own pool, if it has one.
    pool: Option<Arc<Pool>>,
    _result: PhantomData<fn() -> T>,
}

// SAFETY: made for any thread: the state word decides who takes the result, which is `Send`.
unsafe impl<T: Send> Send for TaskHandle<'_, T> {}
// SAFETY: shared, it only asks.
unsafe impl<T: Send> Sync for TaskHandle<'_, T> {}

impl<'scope, T> TaskHandle<'scope, T> {
    pub(super) fn new(
        task: TaskRef,
        core: &'scope Core,
        pool: Option<Arc<Pool>>,
    ) -> TaskHandle<'scope, T> {
        TaskHandle { task, core, pool, _result: PhantomData }
    }

    fn record(&self) -> &Task {
        // SAFETY: held by this handle.
        unsafe { self.task.task.as_ref() }
    }

    /// Waits until the child has ended and returns its result.
    ///
    /// A cancel point: if the caller is cancelled it returns at once, and the child goes on. Where the
    /// child's nursery is cancelled as a whole the child ends too, and is waited for: its own failure
    /// comes out, and not that it was cancelled.
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
        let mut this = std::mem::ManuallyDrop::new(self);
        drop(this.pool.take());
        // SAFETY: it has ended, so the record is ours; nobody has taken the result, for that
        // consumes the handle.
        let output = unsafe { this.output() };
        this.core.terms.shared.recycle(this.task.task);
        output
    }

    /// # Safety
    ///
    /// The child has ended, and nobody has taken its result.
    unsafe fn output(&self) -> Result<T> {
        if !self.record().has_output() {
            return Err(Error::new(ErrorKind::WorkerPanic)); // the runtime failed before there was one
        }
        // SAFETY: as the caller says; nurseries leave a `Result<T>`.
        unsafe { Task::take_output(self.task.task) }
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
                match frame.park(Why::Task(self.record().id())) {
                    Ok(()) => {}
                    // Its nursery was cancelled, perhaps because this very child has failed:
                    // it ends, and says how.
                    Err(_) if self.core.terms.node.is_cancelled() && !std::thread::panicking() => {
                        // Looked at again: its end may be what we were woken for.
                        if !self.is_finished() {
                            frame.leave_to_others(Why::Task(self.record().id()));
                        }
                    }
                    Err(error) => return Err(error),
                }
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
        self.core.terms.shared.ask_to_end(self.task);
    }

    /// The budget that the child draws on: its own, or its nursery's.
    pub fn account(&self) -> Account {
        let pool = self.pool.as_ref().unwrap_or(&self.core.terms.pool);
        Account::of(&self.core.terms, pool)
    }

    /// Moves budget from the nursery's to that of a child which has one of its own, and wakes
    /// it if it is suspended. To a child that shares the nursery's there is nothing to move.
    ///
    /// # Errors
    ///
    /// If the nursery has not as much; nothing is moved then.
    pub fn recharge(&self, amount: Budget) -> Result<()> {
        match &self.pool {
            Some(pool) => Ok(pool.recharge_from(&self.core.terms.pool, amount)?),
            None => Ok(()),
        }
    }

    /// The child's number, unique in its runtime.
    pub fn id(&self) -> TaskId {
        TaskId(self.record().id())
    }
}

impl<T> Drop for TaskHandle<'_, T> {
    fn drop(&mut self) {
        if self.record().state.let_go() == LetGo::Running {
            return;
        }
        // SAFETY: as in `take`; the handle is not used again.
        let output = unsafe { self.output() };
        self.core.terms.shared.recycle(self.task.task);
        if let Err(error) = output
            && self.core.on_failure != OnFailure::FailFast
            && !error.is_cancelled()
        {
            self.core.failed(error);
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
