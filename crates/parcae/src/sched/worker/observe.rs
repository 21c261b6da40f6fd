//! Observing a worker from a signal handler, and trimming it.

use super::Worker;
use crate::base::error::TaskInfo;

impl Worker {
    /// The running task, for a signal handler that has interrupted this worker's thread.
    ///
    /// The task may be about to start or to end, and its record half-written. So the frame is
    /// trusted only if it lies on the worker's current stack, which is mapped, and names this task.
    ///
    /// # Safety
    ///
    /// To be called on the worker's own thread.
    pub(crate) unsafe fn observe(&self) -> Option<TaskInfo> {
        let (task, strand) = (self.current.get()?, self.strand.get()?);
        // SAFETY: the record and the strand that the thread is on are live; the stack of that
        // strand is mapped.
        unsafe {
            // The record of the strand is at the top of its stack.
            let stack = strand.as_ref().stack_end()..strand.as_ptr().addr();
            self.shared.host.frames().running_task(task.as_ref().frame(), stack, task)
        }
    }

    /// Whether the worker is temporary: started because others were stuck.
    pub(crate) fn is_temporary(&self) -> bool {
        self.index >= self.shared.config.workers
    }

    /// Gives back spare strands and free records.
    pub(crate) fn trim(&self) {
        while let Some(strand) = self.spares.get() {
            // SAFETY: spares belong to the worker, and are not used again.
            unsafe {
                self.spares.set(strand.as_ref().next.take());
                (*self.stacks.get())
                    .release(crate::stack::fiber::strand::Strand::into_stack(strand));
            }
        }
        self.spare_count.set(0);
        // SAFETY: one thread; no other reference at the same time.
        unsafe { (*self.records.get()).clear(&self.shared.slab) };
    }
}
