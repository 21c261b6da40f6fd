//! The last error.

use crate::decl::{Int, c_api};
use crate::flow;
use std::ffi::c_char;

c_api! {
    /// What the last call that failed had to say; empty if none has. The text is the caller's until its next failure.
    fn parcae_last_error() -> *const c_char {
        Ok(flow::current(|flow| flow.error_text()))
    }

    /// The kind of the last error: PARCAE_E_NONE and so on.
    fn parcae_last_error_kind() -> Int {
        Ok(Int(flow::current(|flow| flow.error_kind())))
    }

    /// Forgets the last error.
    fn parcae_clear_error() -> () {
        flow::current(|flow| flow.clear_error());
        Ok(())
    }
}
