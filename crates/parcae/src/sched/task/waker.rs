//! Waking a task from anywhere.

use super::TaskRef;
use crate::sched::Shared;
use crate::sched::worker::{self, Worker};
use std::sync::Arc;

/// Wakes a task.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
    task: TaskRef,
}

impl Waker {
    pub(crate) fn new(shared: Arc<Shared>, task: TaskRef) -> Waker {
        Waker { shared, task }
    }

    /// The waker of the running task.
    pub fn current() -> Waker {
        let of = |worker: &Worker| Some(Waker::new(Arc::clone(&worker.shared), worker.task()?));
        worker::with_current(of).flatten().expect("called on a task")
    }

    /// Wakes the task, from anywhere, at any time.
    pub fn wake(&self) {
        self.shared.unpark(self.task);
    }

    /// Cancels the task. For tests of the scheduler: a program that may wake a task may not cancel
    /// it.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn cancel(&self) {
        self.shared.cancel(self.task);
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waker").field("task", &self.task).finish_non_exhaustive()
    }
}
