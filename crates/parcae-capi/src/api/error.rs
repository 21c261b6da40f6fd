//! The last error.

use crate::decl::{Int, c_api};
use crate::flow;
use std::ffi::{CStr, c_char};

c_api! {
    /// What the last call that failed had to say; empty if none has. The text stays valid until the
    /// same caller has failed 16 more times, or has ended: two of them fit into one printf.
    /// parcae_clear_error does not free it.
    fn parcae_last_error() -> *const c_char {
        Ok(flow::current(|flow| flow.error_text()))
    }

    /// Copies that text, as snprintf does: at most size bytes with the 0 at the end, which is
    /// always there if size is not 0. Returns how long the text is, without the 0. buffer may be
    /// NULL if size is 0.
    fn parcae_last_error_copy(buffer: *mut c_char, size: usize) -> usize {
        let text = flow::current(|flow| flow.error_text());
        // SAFETY: a text of the caller's flow, which ends with a 0.
        let text = unsafe { CStr::from_ptr(text) };
        if size > 0 && !buffer.is_null() {
            let length = text.count_bytes().min(size - 1);
            // SAFETY: the caller says that there is room for `size`.
            unsafe {
                buffer.copy_from_nonoverlapping(text.as_ptr(), length);
                buffer.add(length).write(0);
            }
        }
        Ok(text.count_bytes())
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
