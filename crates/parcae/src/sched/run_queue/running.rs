//! The task that each worker runs, for threads that want the worker to look up from it.
//!
//! A worker that schedules tenants or scheduling contexts picks when a task leaves. A task that is
//! more urgent may become ready before that on another thread: a wake, a spawn, a deadline. That
//! thread raises the signal of the running task. The next checkpoint of the task takes the slow
//! path, looks at the queues that others push to (`RunQueue::look_up`), and yields if the pick
//! would be another one. So a signal is a question and never an order: the answer is that of the
//! fair queue or of the contexts.
//!
//! | who raises it | when |
//! |---|---|
//! | a wake of a task that only this worker may run | it runs on a context, or its tenant has shorter slices than the one that runs |
//! | a push into the empty queue of a tenant that all workers share | the same; of the worker whose slices are longest |
//! | the thread of `timers::signals` | a deadline of the worker has passed, or the budget of a context has ended |
//!
//! # What is missed, and what bounds it
//!
//! ```text
//! a publisher                              the worker
//!   1. pushes the task                       1. looks at its queues, and picks
//!   2. full fence (of the announcement)      2. writes the task that it picked here
//!   3. reads the running task, raises        3. runs it
//! ```
//!
//! A publisher whose steps fall between 1 and 2 of the worker reads the task that ran before, and
//! its signal is lost. Nothing but time is: the worker finds the task at its next pick, after the
//! rest of the turn of one task at most. A fence in step 2 and a second look would prevent that, at
//! the price of a fence for each run of a task. The thread of `timers::signals` makes up for it
//! where a deadline is known.
//!
//! A signal may reach the next task in a record; that task takes the slow path once for nothing.
//! Records live as long as the scheduler, so the pointer may always be read.

use crate::base::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sched::task::Task;
use std::ptr::{NonNull, null_mut};

/// The running task of one worker. On lines of its own: the worker writes it for each task.
#[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
struct RunningTask {
    /// Null while none runs, and while there are neither tenants nor contexts.
    task: AtomicPtr<Task>,
    /// The length of the requests of its tenant, in the unit of charges; 0 on a context.
    slice: AtomicU32,
}

/// The running task of each worker.
pub(super) struct RunningTasks(Box<[RunningTask]>);

impl RunningTasks {
    pub(super) fn new(workers: usize) -> RunningTasks {
        let none = |_| RunningTask { task: AtomicPtr::new(null_mut()), slice: AtomicU32::new(0) };
        RunningTasks((0..workers).map(none).collect())
    }

    /// The worker begins to run a task. Called by the worker, as the next one.
    pub(super) fn begins(&self, worker: usize, task: NonNull<Task>, slice: u32) {
        // Relaxed, all in this file: see the header for what is missed.
        self.0[worker].slice.store(slice, Ordering::Relaxed);
        self.0[worker].task.store(task.as_ptr(), Ordering::Relaxed); // see above
    }

    /// The task has left.
    pub(super) fn ends(&self, worker: usize) {
        self.0[worker].task.store(null_mut(), Ordering::Relaxed); // see `begins`
    }

    /// Makes the worker look up at the next checkpoint of the task that it runs.
    pub(super) fn interrupt(&self, worker: usize) {
        let task = self.0[worker].task.load(Ordering::Relaxed); // see `begins`
        if let Some(task) = NonNull::new(task) {
            // SAFETY: records live as long as the scheduler.
            unsafe { task.as_ref() }.signal.hint();
        }
    }

    /// The same, if it runs a tenant with longer slices than this.
    pub(super) fn interrupt_longer(&self, worker: usize, slice: u32) {
        if self.0[worker].slice.load(Ordering::Relaxed) > slice {
            self.interrupt(worker); // see `begins`
        }
    }

    /// The same, for the worker with the longest slices among the first `workers`.
    pub(super) fn interrupt_longest(&self, workers: usize, slice: u32) {
        let runs = |worker: &usize| {
            !self.0[*worker].task.load(Ordering::Relaxed).is_null() // see `begins`
        };
        let slice_of = |worker: &usize| self.0[*worker].slice.load(Ordering::Relaxed); // as above
        if let Some(worker) = (0..workers).filter(runs).max_by_key(slice_of) {
            self.interrupt_longer(worker, slice);
        }
    }
}
