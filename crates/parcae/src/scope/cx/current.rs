//! Access to the frame of the running task.
//!
//! The frame is at the base of the stack of its task. Code that runs on the task, and only that
//! code, may use it; the frame is there until the task's last call has returned. [`Here`] is the
//! place of such a call: a value without content on its stack. A reference to the frame borrows the
//! place, so it ends with the call at the latest and cannot be kept, returned or sent away.
//!
//! A call stays on its task: if it waits, another worker may resume it, with the same stack and the
//! same frame. On the stack of a [`Fiber`](crate::fiber::Fiber) the frame is that of the task that
//! has resumed the fiber. A call that waits there parks the whole task; the fiber is suspended, and
//! maybe resumed by another task, only between such calls.

use super::Frame;
use crate::sched::worker::{self, Worker};
use std::marker::PhantomData;
use std::panic::Location;

/// The place of a call on the running task, if there is one.
pub(crate) struct Here(PhantomData<*const Frame>);

impl Here {
    /// The place of the caller, which keeps it in a variable.
    #[inline(always)]
    pub(crate) fn new() -> Here {
        Here(PhantomData)
    }

    /// The frame of the running task, and the worker on which the task runs until the next switch.
    /// None outside of tasks.
    ///
    /// # Safety
    ///
    /// The worker is not used after anything that may switch: the task may go on elsewhere.
    #[inline(always)]
    pub(crate) unsafe fn place(&self) -> Option<(&Worker, &Frame)> {
        // SAFETY: as for `frame`; the worker outlives its tasks.
        unsafe {
            let worker = worker::here()?;
            let frame = worker.running()?.as_ref().frame().cast::<Frame>().as_ref()?;
            Some((worker, frame))
        }
    }

    /// The frame of the running task. None outside of tasks.
    #[inline(always)]
    pub(crate) fn frame(&self) -> Option<&Frame> {
        // SAFETY: of the running task. The reference ends with the caller's call: see the header.
        unsafe { worker::running()?.as_ref().frame().cast::<Frame>().as_ref() }
    }
}

/// Calls `with` with the frame of the running task. None outside of tasks.
#[inline]
pub(crate) fn with_current<R>(with: impl FnOnce(&Frame) -> R) -> Option<R> {
    Here::new().frame().map(with)
}

/// The place where the task that runs on this thread was spawned. For signal handlers: it neither
/// allocates nor locks.
pub(crate) fn spawned_at() -> Option<&'static Location<'static>> {
    with_current(|frame| frame.origin().spawned_at)
}
