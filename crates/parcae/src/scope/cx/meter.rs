//! Checkpoints of code that returns no errors: they unwind the task.

use super::Here;
use super::frame::{Frame, RED_ZONE};
use crate::base::error::{Error, ErrorKind, Stop};
use std::fmt;
use std::ptr::NonNull;

/// The counter of code that was instrumented by `#[budgeted]`.
#[derive(Clone, Copy)]
pub struct Meter {
    frame: Option<NonNull<Frame>>,
}

impl Meter {
    /// At the entry of a function: charges one op and checks the stack. Counts nothing outside of a
    /// task, or on the stack of a [`Fiber`](crate::fiber::Fiber), which is not the task's.
    ///
    /// # Safety
    ///
    /// Only the calling function uses the meter, and only while it runs: the task may be gone
    /// later.
    #[inline]
    pub unsafe fn enter() -> Meter {
        let here = Here::new();
        let Some(frame) = here.frame() else { return Meter { frame: None } };
        if !frame.is_here() {
            frame.check_stack_away();
            return Meter { frame: None };
        }
        let left = frame.stack_left();
        // A second panic, in a destructor that runs because of a panic, would abort the process.
        if left < RED_ZONE && !std::thread::panicking() {
            Stop::unwind(Error::new(ErrorKind::StackOverflow { left, needed: RED_ZONE }));
        }
        let meter = Meter { frame: Some(NonNull::from(frame)) };
        meter.tick();
        meter
    }

    /// At each back-edge of a loop: charges one op. Unwinds the task if it is cancelled or out of
    /// budget.
    #[inline(always)]
    pub fn tick(self) {
        // SAFETY: the frame of the running task is at the base of its stack, below the function
        // that holds this, as `enter` demands.
        if let Some(frame) = self.frame.map(|frame| unsafe { frame.as_ref() })
            && !frame.tick()
        {
            Meter::checkpoint_slow(frame);
        }
    }

    #[cold]
    fn checkpoint_slow(frame: &Frame) {
        if std::thread::panicking() {
            return; // cleaning up: neither waits nor panics again
        }
        if let Err(error) = frame.checkpoint_slow() {
            Stop::unwind(error);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}
