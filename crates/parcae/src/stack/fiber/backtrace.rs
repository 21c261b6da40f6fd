//! The backtrace of a suspended fiber; `stack/frames.rs` explains how it is taken.

use crate::stack::arch::Context;
use crate::stack::frames::Frames;
use std::fmt::{self, Write};

/// The frames of a suspended fiber, innermost first, down to its base.
///
/// Function names are resolved when it is displayed.
pub struct FiberBacktrace(Frames);

impl FiberBacktrace {
    /// The backtrace of `context`.
    ///
    /// # Safety
    ///
    /// `context` is suspended and stays so during the call.
    pub(super) unsafe fn of(context: *const Context) -> FiberBacktrace {
        // SAFETY: as the caller says.
        FiberBacktrace(unsafe { Frames::whole(context) })
    }
}

impl fmt::Display for FiberBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = self.0.all_functions();
        functions
            .iter()
            .enumerate()
            .try_for_each(|(at, function)| writeln!(f, "{at:4}: {function}"))
    }
}

impl fmt::Debug for FiberBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('\n')?;
        fmt::Display::fmt(self, f)
    }
}
