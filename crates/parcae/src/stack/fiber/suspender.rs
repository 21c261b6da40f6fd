//! The closure's side of a fiber.

use super::Refused;
#[cfg(debug_assertions)]
use super::base::FP_CONTROL_CHANGED;
use super::base::{FiberCore, FiberState, Order, unwind};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::thread;

/// Lets a closure suspend the fiber that it runs on. It cannot leave the closure.
///
/// ```compile_fail,E0597
/// # use parcae::{fiber::{Fiber, Suspender}, stack::{StackPool, StackSize}};
/// # let pool = StackPool::new().unwrap();
/// # let mut fiber = Fiber::new(pool.acquire(StackSize::CORE).unwrap(), "").unwrap();
/// let local = String::from("on the caller's stack");
/// fiber.start(|_| println!("{}", local)); // may be resumed after `local` is gone
/// ```
///
/// ```compile_fail
/// # use parcae::{fiber::{Fiber, Suspender}, stack::{StackPool, StackSize}};
/// # let pool = StackPool::new().unwrap();
/// # let mut fiber = Fiber::new(pool.acquire(StackSize::CORE).unwrap(), "").unwrap();
/// fiber.start(|suspender| {
///     std::thread::scope(|s| { s.spawn(|| suspender.suspend()); }); // not on that thread
/// });
/// ```
///
/// ```compile_fail,E0277
/// # use parcae::fiber::Fiber;
/// fn movable<T: Send>() {}
/// movable::<Fiber>(); // a started fiber stays on its thread
/// ```
pub struct Suspender<'fiber> {
    core: NonNull<FiberCore>,
    _lives_in_the_closure: PhantomData<&'fiber FiberCore>,
}

impl<'fiber> Suspender<'fiber> {
    /// For the closure that the base of this fiber is about to run.
    #[inline]
    pub(super) fn of(core: &'fiber FiberCore) -> Suspender<'fiber> {
        Suspender { core: NonNull::from(core), _lives_in_the_closure: PhantomData }
    }

    /// Returns control to the resumer of this fiber; returns when the fiber is resumed again.
    ///
    /// # Errors
    ///
    /// [`Refused::Panicking`] while the thread unwinds from a panic, that is, in a destructor.
    /// Otherwise always `Ok`.
    ///
    /// # Panics
    ///
    /// If the fiber is dropped while it is suspended: the closure is unwound, which drops all its
    /// values. No panic hook runs. Do not catch this panic; if you do, let the closure end. In
    /// debug builds also if the closure changed floating-point control bits.
    #[inline]
    pub fn suspend(&self) -> Result<(), Refused> {
        if thread::panicking() {
            return Err(Refused::Panicking);
        }
        // SAFETY: the core is valid while the fiber has frames, of which this is one.
        let core = unsafe { self.core.as_ref() };
        #[cfg(debug_assertions)]
        assert!(core.kept_fp_control(), "{FP_CONTROL_CHANGED}");
        core.state.set(FiberState::Suspended);
        // SAFETY: `outer` was saved when this fiber was entered and not used since; this
        // code runs on the fiber's stack (see the module header), which `inner` describes
        // until the fiber is entered again.
        unsafe { core.leave() };
        if !matches!(core.order.get(), Order::Continue) {
            unwind(core);
        }
        Ok(())
    }
}

impl fmt::Debug for Suspender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Suspender")
    }
}
