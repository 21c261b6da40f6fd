//! The backtrace of a fiber that does not run.
//!
//! Nothing is made to run on the suspended stack. `janus_context_observe` calls a
//! function on the *current* stack whose unwind information says that its caller is the
//! suspended context; an ordinary backtrace taken in that function therefore goes on in
//! the frames of the fiber and ends at its base. What lies above is the observer's own,
//! and is cut off when the backtrace is printed.

use crate::arch::{Context, janus_context_observe};
use std::backtrace::Backtrace;
use std::fmt::{self, Write};

/// The frames of a suspended fiber, innermost first.
///
/// Names are looked up when it is printed.
pub struct FiberBacktrace {
    /// With the observer's frames in front.
    captured: Backtrace,
}

/// The frame that stands between the observer and the fiber.
const SEAM: &str = "janus_context_observe";

impl FiberBacktrace {
    /// # Safety
    ///
    /// `context` is suspended and stays so during the call.
    pub(super) unsafe fn of(context: *const Context) -> FiberBacktrace {
        extern "C" fn capture(slot: *mut ()) {
            // SAFETY: the slot below, which outlives the call. A panic in here aborts,
            // because this is `extern "C"`.
            unsafe { *slot.cast::<Option<Backtrace>>() = Some(Backtrace::force_capture()) };
        }
        let mut slot: Option<Backtrace> = None;
        // SAFETY: the context is suspended (caller); `capture` does not unwind.
        unsafe { janus_context_observe(context, capture, (&raw mut slot).cast()) };
        FiberBacktrace { captured: slot.unwrap_or_else(Backtrace::disabled) }
    }
}

impl fmt::Display for FiberBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each frame is a line "  12: name", perhaps followed by "      at file:line".
        let text = self.captured.to_string();
        let mut frame = None;
        for line in text.lines() {
            let head = line.split_once(": ").filter(|(n, _)| n.trim().parse::<u32>().is_ok());
            match (head, &mut frame) {
                (Some((_, name)), None) if name.contains(SEAM) => frame = Some(0),
                (_, None) => {}
                (Some((_, name)), Some(number)) => {
                    writeln!(f, "{number:4}: {name}")?;
                    *number += 1;
                }
                // The place of the seam itself comes before the first frame.
                (None, Some(0)) => {}
                (None, Some(_)) => writeln!(f, "{line}")?,
            }
        }
        if frame.is_none() {
            // An unwinder that does not name the seam: better too much than nothing.
            f.write_str(&text)?;
        }
        Ok(())
    }
}

impl fmt::Debug for FiberBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('\n')?;
        fmt::Display::fmt(self, f)
    }
}
