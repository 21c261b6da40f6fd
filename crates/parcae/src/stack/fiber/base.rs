//! The base of a fiber: the state that it shares with its resumer, and the loop at the bottom of
//! its stack that follows the resumer's orders.

use super::{Suspender, contain, hooks};
use crate::stack::arch::{self, Context};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The state that a fiber and its resumer share. Lives at the top of the fiber's stack.
///
/// Only one side runs at a time and both are on one thread, so plain cells suffice; no
/// reference to a field is held over a switch.
#[repr(C)] // `inner` first: `contain` finds the core by it
pub(super) struct FiberCore {
    /// The fiber's saved context; meaningful while it does not run.
    pub(super) inner: UnsafeCell<Context>,
    /// The resumer's saved context; meaningful while the fiber runs.
    pub(super) outer: UnsafeCell<Context>,
    pub(super) state: Cell<FiberState>,
    /// The resumer's order to the fiber; `Continue` unless the fiber is being entered for another
    /// purpose.
    pub(super) order: Cell<Order>,
    /// The payload of a panic, on its way to the resumer.
    pub(super) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The containment of the running closure, or null; read by the overflow handler.
    pub(super) containment: Cell<*const contain::Containment>,
    pub(super) hooks: hooks::Hooks,
    #[cfg(debug_assertions)]
    pub(super) fp_control: Cell<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FiberState {
    Idle,
    Running,
    Suspended,
}

#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Continue after the last switch.
    Continue,
    /// Run this closure.
    Run(FiberJob),
    /// Unwind to the base.
    Unwind,
    /// Leave the stack permanently.
    Exit,
}

/// A closure in the frame of the `start` call that runs it. It is moved out before `start` gets
/// control back.
#[derive(Clone, Copy)]
pub(super) struct FiberJob {
    pub(super) call: unsafe fn(*mut (), &Suspender<'_>),
    pub(super) closure: *mut (),
}

#[cfg(debug_assertions)]
pub(super) const FP_CONTROL_CHANGED: &str = "floating-point control bits were changed and not put back \
                                  before the fiber was left; see CONTEXT-SWITCH-INVARIANTS.md";

impl FiberCore {
    /// Whether the thread's floating-point control bits are those that the fiber was entered
    /// with.
    #[cfg(debug_assertions)]
    pub(super) fn kept_fp_control(&self) -> bool {
        arch::fp_control() == self.fp_control.get()
    }

    /// Switches from the fiber to its resumer; returns when it is entered again.
    ///
    /// # Safety
    ///
    /// Runs on this fiber's stack, which was entered through `outer`.
    #[inline]
    pub(super) unsafe fn leave(&self) {
        // SAFETY: see the caller's obligations.
        unsafe {
            self.hooks.before_leave();
            arch::switch(self.inner.get(), self.outer.get());
            self.hooks.after_leave();
        }
    }
}

/// The payload of the panic that unwinds a dropped fiber: the address of the fiber's core.
pub(super) struct Unwound(*mut ());

// SAFETY: the address is compared and never dereferenced.
unsafe impl Send for Unwound {}

#[cold]
pub(super) fn unwind(core: &FiberCore) -> ! {
    resume_unwind(Box::new(Unwound(std::ptr::from_ref(core).cast_mut().cast())))
}

/// The base of every fiber: runs one closure after another, until it is ordered to exit.
///
/// # Safety
///
/// `arg` is the fiber's core; called by `janus_fiber_entry` on the fiber's stack.
pub(super) unsafe extern "C" fn fiber_main(arg: *mut ()) {
    // SAFETY: the core outlives everything that runs on its stack.
    let core = unsafe { &*arg.cast::<FiberCore>() };
    // SAFETY: first code on the stack.
    unsafe { core.hooks.after_leave() };
    while let Order::Run(job) = core.order.get() {
        core.order.set(Order::Continue);
        let suspender = Suspender::of(core);
        // SAFETY: the closure is in the frame of `start`, which does not run before the fiber
        // switches back; it is moved out only here.
        let run = || unsafe { (job.call)(job.closure, &suspender) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            // Only the unwind that this fiber was ordered to do. A payload that was caught on
            // another fiber and passed on is an ordinary panic.
            let ordered = payload.downcast_ref::<Unwound>().is_some_and(|unwound| unwound.0 == arg);
            if !(ordered && matches!(core.order.get(), Order::Unwind)) {
                core.panic.set(Some(payload));
            }
        }
        #[cfg(debug_assertions)]
        if !core.kept_fp_control() {
            let panic = core.panic.take();
            core.panic.set(panic.or_else(|| Some(Box::new(FP_CONTROL_CHANGED))));
        }
        core.state.set(FiberState::Idle);
        // SAFETY: on the fiber's stack; the resumer waits in `outer`.
        unsafe { core.leave() };
    }
}

/// Leaves a fiber's stack permanently, when `fiber_main` has returned.
///
/// # Safety
///
/// As for [`fiber_main`]; nothing is left on the stack.
pub(super) unsafe extern "C" fn fiber_exit(arg: *mut ()) -> ! {
    // SAFETY: as above.
    let core = unsafe { &*arg.cast::<FiberCore>() };
    core.state.set(FiberState::Idle);
    // SAFETY: the resumer waits in `outer`; `inner` is not resumed again.
    unsafe {
        core.hooks.before_exit();
        arch::switch(core.inner.get(), core.outer.get());
    }
    // A fiber that had exited was resumed: there is nothing to return to.
    std::process::abort()
}
