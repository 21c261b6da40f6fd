//! Who is told that a task has ended: one word in its record.
//!
//! Either the task that joins, of the same scheduler, which is unparked: no allocation. Or an [`End`], at which any
//! number of others wait. The lowest bit tells them apart.
//!
//! The word is written once, by the holder of the handle, before it sets JOIN; whoever finishes the task reads it if
//! JOIN is set (`task::state` has the orders). An `End` is counted, and JOIN has one count: it goes to whoever takes
//! JOIN out of the state word, by finishing the task or by letting go of it.

use super::Task;
use crate::sched::Shared;
use crate::wait::{End, Waiter};
use std::ptr::NonNull;
use std::sync::Arc;

/// Marks an end. Records are aligned to cache lines, ends to words.
const END: usize = 1;

/// Who is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joiner(NonNull<()>);

impl Joiner {
    /// A task of the same scheduler.
    pub(crate) fn task(task: NonNull<Task>) -> Joiner {
        Joiner(task.cast())
    }

    /// All who wait there. The count is JOIN's.
    pub(crate) fn end(end: Arc<End<Waiter>>) -> Joiner {
        // SAFETY: not null, being an `Arc`'s.
        let end = unsafe { NonNull::new_unchecked(Arc::into_raw(end).cast_mut()) };
        Joiner(end.cast().map_addr(|at| at | END))
    }

    /// The end, if it is one, with JOIN's count.
    ///
    /// # Safety
    ///
    /// The caller has taken JOIN out of the state word, or has not set it.
    pub(crate) unsafe fn into_end(self) -> Option<Arc<End<Waiter>>> {
        if self.0.addr().get() & END == 0 {
            return None;
        }
        let end = self.0.as_ptr().map_addr(|at| at & !END);
        // SAFETY: made by `end`; the count is the caller's.
        Some(unsafe { Arc::from_raw(end.cast::<End<Waiter>>()) })
    }

    /// The task has ended.
    ///
    /// # Safety
    ///
    /// The caller has taken JOIN out of the state word of a task of this scheduler.
    #[inline]
    pub(crate) unsafe fn tell(self, shared: &Shared) {
        // SAFETY: as the caller says.
        match unsafe { self.into_end() } {
            Some(end) => end.notify(),
            None => shared.unpark_whoever(self.0.cast()),
        }
    }
}
