//! The last error.

use crate::caller;
use crate::decl::{Int, c_api};
use std::ffi::{CStr, c_char};

c_api! {
    /// The text of the last error; empty if there was none. The text stays valid until the same
    /// caller has failed 16 more times, or has ended, so several texts can be arguments of one
    /// printf. parcae_clear_error does not free it.
    fn parcae_last_error() -> *const c_char {
        Ok(caller::current(|caller| caller.error_text()))
    }

    /// Copies the text of the last error, as snprintf does: at most size bytes, including the 0 at
    /// the end, which is always written if size is not 0. Returns the length of the text without
    /// the 0. buffer may be NULL if size is 0.
    fn parcae_last_error_copy(buffer: *mut c_char, size: usize) -> usize {
        let text = caller::current(|caller| caller.error_text());
        // SAFETY: a text of the caller's context, which ends with a 0.
        let text = unsafe { CStr::from_ptr(text) };
        if size > 0 && !buffer.is_null() {
            let length = text.count_bytes().min(size - 1);
            // SAFETY: the caller promises room for `size` bytes.
            unsafe {
                buffer.copy_from_nonoverlapping(text.as_ptr(), length);
                buffer.add(length).write(0);
            }
        }
        Ok(text.count_bytes())
    }

    /// The kind of the last error: PARCAE_E_NONE and so on.
    fn parcae_last_error_kind() -> Int {
        Ok(Int(caller::current(|caller| caller.error_kind())))
    }

    /// Clears the last error.
    fn parcae_clear_error() -> () {
        caller::current(|caller| caller.clear_error());
        Ok(())
    }
}
