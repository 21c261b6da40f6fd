//! The joiner of a task: one word in its record, for the waiter that is notified of its end.
//!
//! It is a task of the same scheduler, which is unparked and needs no allocation; or an object of
//! the layer above with a [`JoinHook`], which has any number of waiters (`wait::End`). The lowest
//! bit distinguishes them.
//!
//! The word is written once, by the holder of the handle, before it sets JOIN. The worker that
//! finishes the task reads it if JOIN is set (`task::state` has the orders). A hook is
//! reference-counted, and JOIN owns one count. That count goes to the thread that clears JOIN in
//! the state word, by finishing the task or by dropping its handle.

use super::Task;
use crate::sched::Shared;
use std::ptr::NonNull;

/// Marks a hook. Records are aligned to cache lines, hooks to words.
const HOOK: usize = 1;

/// Part of a counted object that is notified of the end of a task.
#[repr(C)]
pub(crate) struct JoinHook {
    /// Called once, with JOIN's count.
    pub(crate) tell: unsafe fn(NonNull<JoinHook>),
}

/// A task or a hook.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joiner(NonNull<()>);

impl Joiner {
    /// A task of the same scheduler.
    pub(crate) fn task(task: NonNull<Task>) -> Joiner {
        Joiner(task.cast())
    }

    /// A counted object. One count becomes JOIN's.
    pub(crate) fn hook(hook: NonNull<JoinHook>) -> Joiner {
        Joiner(hook.cast().map_addr(|at| at | HOOK))
    }

    /// The hook, if it is one.
    pub(crate) fn as_hook(self) -> Option<NonNull<JoinHook>> {
        if self.0.addr().get() & HOOK == 0 {
            return None;
        }
        NonNull::new(self.0.as_ptr().map_addr(|at| at & !HOOK).cast())
    }

    /// The task, if it is one. It may have ended, and its record may belong to another.
    pub(crate) fn as_task(self) -> Option<NonNull<Task>> {
        if self.as_hook().is_some() { None } else { Some(self.0.cast()) }
    }

    /// Notifies the joiner of the end of the task.
    ///
    /// # Safety
    ///
    /// The caller has taken JOIN out of the state word of a task of this scheduler.
    #[inline]
    pub(crate) unsafe fn tell(self, shared: &Shared) {
        match self.as_hook() {
            // SAFETY: the count, as the caller says, keeps the object.
            Some(hook) => unsafe { (hook.as_ref().tell)(hook) },
            None => shared.unpark_whoever(self.0.cast()),
        }
    }
}
