//! Contained overflow: a closure that may overflow its stack without ending the process.
//!
//! The closure runs on a fiber of its own that is private to this module. If it hits the guard of
//! that stack, the handler (`stack/overflow.rs`) makes the thread switch to the fiber's resumer, as
//! if the closure had suspended. The fiber's state is then still *Running*, which is how the
//! resumer recognises an overflow. The abandoned stack is in the middle of a function. It is never
//! entered, unwound, reused or unmapped.

use super::{Fiber, FiberCore, FiberState, Refused, Step};
use crate::stack::arch::{self, Context};
use crate::stack::{CONTAINED, Stack};
use std::cell::Cell;
use std::mem::ManuallyDrop;

/// The data that a contained fiber and the overflow handler exchange.
pub(crate) struct Containment {
    /// The signals that the thread had blocked when the closure was entered.
    pub(crate) mask: u64,
    /// Set by the handler when it abandons the closure.
    pub(crate) overflow: Cell<Option<StackOverflow>>,
}

/// How a stack overflowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackOverflow {
    /// Bytes of the stack that were free.
    pub(crate) left: usize,
    /// Bytes that were needed, at least.
    pub(crate) needed: usize,
}

/// How a contained closure ended.
pub(crate) enum Contained {
    /// The closure returned or panicked; the stack is reusable.
    Ended(Step, Stack),
    /// The stack overflowed, and is in quarantine.
    Overflowed(StackOverflow),
}

impl Containment {
    fn new() -> Containment {
        Containment { mask: blocked_signals(), overflow: Cell::new(None) }
    }

    /// The containment of a fiber and its two contexts, given the address of its inner context.
    ///
    /// # Safety
    ///
    /// `inner` is the context of a fiber that runs a contained closure on this thread.
    pub(crate) unsafe fn of<'c>(
        inner: *mut Context,
    ) -> (Option<&'c Containment>, *mut Context, *const Context) {
        // SAFETY: the first field of the core, which outlives everything on its stack.
        let core = unsafe { &*inner.cast::<FiberCore>() };
        // SAFETY: set by `contain`, which waits for the closure, or null.
        (unsafe { core.containment.get().as_ref() }, core.inner.get(), core.outer.get())
    }
}

impl Fiber {
    /// Runs a closure to its end, or until it overflows the fiber's stack.
    ///
    /// # Errors
    ///
    /// [`Refused::Panicking`] while the thread unwinds. The closure is dropped unused.
    ///
    /// # Safety
    ///
    /// The closure may be abandoned at any point where it uses stack, as
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow) requires.
    pub(crate) unsafe fn contain<F>(mut self, name: &str, closure: F) -> Result<Contained, Refused>
    where
        F: FnOnce() + 'static,
    {
        let containment = Containment::new();
        self.core().containment.set(&raw const containment);
        let fp_control = arch::fp_control();
        self.stack.label().set(CONTAINED, name);
        let step = self.start(move |_| closure());
        self.stack.label().set(self.id, name);
        self.core().containment.set(std::ptr::null());
        if self.core().state.get() != FiberState::Running {
            let step = step?;
            return match self.into_stack() {
                Ok(stack) => Ok(Contained::Ended(step, stack)),
                Err(_) => unreachable!("the closure has no suspender"),
            };
        }
        // SAFETY: between two statements, so no value is in a floating-point register.
        unsafe { arch::set_fp_control(fp_control) };
        let mut this = ManuallyDrop::new(self);
        this.core().hooks.destroy();
        // SAFETY: `this` is not dropped, and not used again.
        unsafe { ManuallyDrop::take(&mut this.stack) }.quarantine();
        let overflow = containment.overflow.get();
        Ok(Contained::Overflowed(overflow.unwrap_or(StackOverflow { left: 0, needed: 0 })))
    }
}

/// The signals that this thread blocks, as the kernel keeps them.
fn blocked_signals() -> u64 {
    // SAFETY: only queries the mask. All zeroes is a valid set, and the kernel's set is its first
    // word.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
        (&raw const set).cast::<u64>().read()
    }
}
