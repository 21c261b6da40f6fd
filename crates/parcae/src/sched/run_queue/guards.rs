//! Guards of tasks that are between two queues. While a panic of the runtime unwinds they put their
//! tasks back; otherwise they are forgotten and cost nothing.

use super::RunQueue;
use crate::sched::queue::Chain;
use crate::sched::task::{Priority, Task};
use std::mem::forget;
use std::ptr::NonNull;

/// A task that was taken out of a queue. Put back into the pinned queue: the worker may own it
/// already, and then no other may take it.
pub(crate) struct TaskGuard<'q> {
    queue: &'q RunQueue,
    pub(crate) task: NonNull<Task>,
}

impl<'q> TaskGuard<'q> {
    #[inline(always)]
    pub(crate) fn new(queue: &'q RunQueue, task: NonNull<Task>) -> TaskGuard<'q> {
        TaskGuard { queue, task }
    }

    /// Hands the task on: to a queue, or to itself.
    #[inline(always)]
    pub(crate) fn give(self) -> NonNull<Task> {
        let task = self.task;
        forget(self);
        task
    }
}

impl Drop for TaskGuard<'_> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: in hand, hence in no queue, and this worker's to run.
        unsafe {
            let lane = (*self.task.as_ptr()).traits.get().lane;
            self.queue.push_pinned(self.task, lane);
        }
    }
}

/// Tasks that were taken out of a queue together. Put back into the pinned queue if they may not
/// move, else into the global one.
pub(crate) struct ChainGuard<'q> {
    queue: &'q RunQueue,
    pub(crate) chain: Chain<Task>,
}

impl<'q> ChainGuard<'q> {
    #[inline(always)]
    pub(crate) fn new(queue: &'q RunQueue, chain: Chain<Task>) -> ChainGuard<'q> {
        ChainGuard { queue, chain }
    }

    /// Hands all tasks on.
    pub(crate) fn give(mut self) -> Chain<Task> {
        let chain = std::mem::take(&mut self.chain);
        forget(self);
        chain
    }
}

impl Drop for ChainGuard<'_> {
    fn drop(&mut self) {
        while let Some(task) = self.chain.pop_front() {
            // SAFETY: in hand: QUEUED, in no queue, and this worker's to run or to hand on.
            unsafe {
                let this = task.as_ref();
                let traits = this.traits.get();
                if (this.has_started() || this.is_pinned()) && !traits.is_migratable() {
                    self.queue.push_pinned(task, traits.lane);
                } else {
                    let usual = traits.lane.with_priority(Priority::Normal);
                    self.queue.all().push_global(usual, task);
                }
            }
        }
    }
}
