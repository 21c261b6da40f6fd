//! Checkpoints of code that returns no errors: they unwind the task.

use super::frame::{Frame, RED_ZONE, current};
use crate::base::error::{Error, ErrorKind, Stop};
use std::fmt;
use std::ptr::NonNull;

/// The counter of code that was instrumented by `#[budgeted]`.
#[derive(Clone, Copy)]
pub struct Meter {
    frame: Option<NonNull<Frame>>,
}

impl Meter {
    /// At the entry of a function: one op, and a look at the stack. Nothing is counted outside of a
    /// task, and on the stack of a [`Fiber`](crate::fiber::Fiber), which is not the task's.
    ///
    /// # Safety
    ///
    /// The meter is used only by the function that calls this, while it runs: the task that it
    /// counts for may be gone later.
    #[inline]
    pub unsafe fn enter() -> Meter {
        let Some(frame) = current() else { return Meter { frame: None } };
        if !frame.is_here() {
            frame.check_stack_away();
            return Meter { frame: None };
        }
        let left = frame.stack_left();
        // In a destructor that runs because of a panic another one would end the process.
        if left < RED_ZONE && !std::thread::panicking() {
            Stop::unwind(Error::new(ErrorKind::StackOverflow { left, needed: RED_ZONE }));
        }
        let meter = Meter { frame: Some(NonNull::from(frame)) };
        meter.tick();
        meter
    }

    /// At each back-edge of a loop: one op. Unwinds the task if it is to end.
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
