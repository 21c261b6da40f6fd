//! The alternate signal stack of a thread, with a guard of its own.

use crate::stack::StackError;
use crate::stack::sys::{errno, page_size};
use std::cell::RefCell;
use std::ptr::NonNull;

/// Installs an alternate signal stack with a guard on this thread, unless it already has one from
/// here. It is removed when the thread ends.
pub(crate) fn arm_thread() -> Result<(), StackError> {
    thread_local! {
        static SIGNAL_STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
    }
    SIGNAL_STACK
        .try_with(|slot| -> Result<(), i32> {
            let mut slot = slot.borrow_mut();
            if slot.as_ref().is_none_or(|stack| !stack.is_installed()) {
                *slot = Some(SignalStack::install()?);
            }
            Ok(())
        })
        // The thread is ending and its thread-local slot is gone. Fibers in destructors of
        // thread-local variables are so rare that their signal stack may leak.
        .unwrap_or_else(|_| SignalStack::install().map(std::mem::forget))
        .map_err(|errno| StackError::SignalStack { errno })
}

/// A mapping: one guard page, then the stack.
struct SignalStack {
    base: NonNull<u8>,
    len: usize,
}

impl SignalStack {
    fn install() -> Result<SignalStack, i32> {
        let page = page_size();
        // SAFETY: queries a constant; 0 if the kernel does not provide it.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // A signal frame with all vector state, and room for a handler after ours.
        let size = (64 * 1024).max(4 * frame).next_multiple_of(page);
        let len = size + page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping overlaps no memory in use.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, rw, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(errno());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(libc::ENOMEM)?;
        let stack = SignalStack { base, len };
        let new = libc::stack_t {
            // SAFETY: one page into a mapping that is larger than that.
            ss_sp: unsafe { base.as_ptr().add(page) }.cast(),
            ss_flags: 0,
            ss_size: size,
        };
        // SAFETY: the mapping is new and unused. Its first page becomes the guard, the rest the
        // thread's signal stack, which stays mapped until `drop` has removed it.
        let ok = unsafe {
            libc::mprotect(base.as_ptr().cast(), page, libc::PROT_NONE) == 0
                && libc::sigaltstack(&new, std::ptr::null_mut()) == 0
        };
        // On failure `stack` is dropped, which unmaps it.
        if ok { Ok(stack) } else { Err(errno()) }
    }

    /// Whether this is still the thread's signal stack; the standard library removes the installed
    /// one when a thread ends.
    fn is_installed(&self) -> bool {
        // SAFETY: filled by the call.
        let current = unsafe {
            let mut current: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut current);
            current
        };
        current.ss_flags & libc::SS_DISABLE == 0
            && current.ss_sp.addr() == self.base.addr().get() + page_size()
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: removed as the thread's signal stack if it still is, then unmapped.
        unsafe {
            if self.is_installed() {
                let off = libc::stack_t {
                    ss_sp: std::ptr::null_mut(),
                    ss_flags: libc::SS_DISABLE,
                    ss_size: 0,
                };
                libc::sigaltstack(&off, std::ptr::null_mut());
            }
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}
