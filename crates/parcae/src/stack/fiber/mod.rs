//! Fibers: a stack and a context that run one closure after another.
//!
//! The scheduler is built on the same context switch; fibers are public for building other
//! schedulers. A fiber is *asymmetric*: its resumer gets control back when it suspends or ends. A
//! fiber may start and resume other fibers.
//!
//! ```
//! use parcae::fiber::{Fiber, Step};
//! use parcae::stack::{StackPool, StackSize};
//!
//! let pool = StackPool::new()?;
//! let mut fiber = Fiber::new(pool.acquire(StackSize::SERVICE)?, "counter")?;
//!
//! let step = fiber.start(|here| {
//!     for n in 1..=2 {
//!         println!("in the fiber: {n}");
//!         here.suspend().expect("not called by a destructor");
//!     }
//! })?;
//! assert!(matches!(step, Step::Suspended));
//! assert!(matches!(fiber.resume()?, Step::Suspended));
//! assert!(matches!(fiber.resume()?, Step::Finished));
//!
//! // The same fiber, the same stack, the next closure.
//! assert!(matches!(fiber.start(|_| {})?, Step::Finished));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # States, and who owns the stack
//!
//! ```text
//!            start                 suspend
//!   Idle ───────────► Running ◄──────────────► Suspended
//!    ▲                 │   ▲       resume          │
//!    └─────────────────┘   └───────────────────────┘
//!      closure returned      dropped: unwinds to the base, then Idle
//!      or panicked
//! ```
//!
//! | state | the stack belongs to | frames on it |
//! |---|---|---|
//! | Idle | the `Fiber` | none, or the base loop, which owns nothing |
//! | Running | the code in the closure | the closure's |
//! | Suspended | the `Fiber` | the closure's: never freed without unwinding them |
//!
//! `Fiber` is neither `Send` nor `Sync`: a started fiber stays on its thread, because values on its
//! stack need not be `Send`, and compilers cache addresses of thread-local variables. Nothing is
//! kept in thread-local variables over a switch: all state is reached through the `Fiber` or
//! through the [`Suspender`] that the closure gets. The suspender can leave neither the closure
//! (its lifetime) nor its thread (`!Sync`), so `suspend` can only be called on the stack that it
//! suspends.
//!
//! # Ends
//!
//! A closure that returns or panics brings its fiber back to Idle; the resumer gets the payload of
//! a panic. Dropping a suspended fiber resumes it once more with the order to unwind: `suspend`
//! raises a panic that runs no hook and that only the base of the fiber is meant to catch. Code
//! that catches it anyway gets it again at its next `suspend`. If the closure never ends, neither
//! does the drop. A fiber that is leaked (`mem::forget`) keeps its stack forever, which is sound.
//!
//! A switch is refused while the thread is panicking ([`Refused::Panicking`]), because the standard
//! library counts panics per thread. The one exception is the drop of a suspended fiber during an
//! unwind, which enters, unwinds and returns in strict nesting.
//!
//! # Caveats
//!
//! - Two fibers of a thread take turns, so calls on them interleave and need not nest. Libraries
//!   that keep a pointer to a stack variable in a thread-local variable for the duration of a call
//!   ("scoped" thread-locals) assume that such calls nest; do not suspend inside such a call.
//! - Unwinding needs stack. A fiber that was suspended near the end of its stack can overflow it
//!   when it is dropped; so can a fiber whose destructors are deep.
//! - A frame that cannot be unwound (a callback that C code called) turns the drop of a suspended
//!   fiber into an abort. Resume such a fiber to its end instead.
//! - Do not drop suspended fibers in a panic hook: the standard library does not count a panic that
//!   is raised there, so `thread::panicking()` is false in destructors on the fiber.

mod backtrace;
mod base;
pub(crate) mod contain;
mod error;
mod hooks;
pub(crate) mod strand;
mod suspender;

pub use backtrace::FiberBacktrace;
pub use error::{FiberError, Refused};
pub use suspender::Suspender;

use crate::stack::Stack;
use crate::stack::arch::{self, Context};
use base::{FiberCore, FiberJob, FiberState, Order, fiber_exit, fiber_main};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A stack and a context that run one closure after another. See the [module](self).
///
/// A fiber keeps its stack until it is dropped, also while it is idle. Dropping a suspended
/// fiber unwinds it: the destructors of all values on its stack run, on that stack, before
/// the drop returns. A destructor that panics during the unwind aborts the process, as in any
/// unwind; the payload of a panic that ends the closure is discarded.
///
/// ```
/// use parcae::fiber::{Fiber, Step};
/// use parcae::stack::{StackPool, StackSize};
/// use std::{cell::Cell, rc::Rc};
///
/// // The closure and its resumer share a cell.
/// let next = Rc::new(Cell::new(0_u64));
/// let pool = StackPool::new()?;
/// let mut fibonacci = Fiber::new(pool.acquire(StackSize::CORE)?, "fibonacci")?;
/// let out = Rc::clone(&next);
/// let mut step = fibonacci.start(move |here| {
///     let (mut a, mut b) = (0, 1);
///     loop {
///         out.set(a);
///         here.suspend().expect("not called by a destructor");
///         (a, b) = (b, a + b);
///     }
/// })?;
/// let mut numbers = Vec::new();
/// while let Step::Suspended = step
///     && numbers.len() < 8
/// {
///     numbers.push(next.get());
///     step = fibonacci.resume()?;
/// }
/// assert_eq!(numbers, [0, 1, 1, 2, 3, 5, 8, 13]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fiber {
    /// At the top of `stack`, and valid as long as the stack is.
    core: NonNull<FiberCore>,
    stack: ManuallyDrop<Stack>,
    id: u64,
    /// A started fiber must stay on its thread.
    _not_send: PhantomData<*mut ()>,
}

/// The result of starting or resuming a fiber.
#[derive(Debug)]
#[must_use = "the closure may have panicked"]
pub enum Step {
    /// The fiber suspended itself; it can be resumed.
    Suspended,
    /// The closure returned; the fiber keeps its stack and can be started again.
    Finished,
    /// The closure panicked; the fiber can be started again. The payload is the
    /// panic's, as from [`std::thread::JoinHandle::join`].
    Panicked(Box<dyn Any + Send>),
}

impl Step {
    /// Resumes the closure's panic in the caller, if it panicked; otherwise returns whether the
    /// fiber is suspended.
    ///
    /// ```
    /// # use parcae::{fiber::Fiber, stack::{StackPool, StackSize}};
    /// # let pool = StackPool::new()?;
    /// # let mut fiber = Fiber::new(pool.acquire(StackSize::CORE)?, "twice")?;
    /// let mut suspended = fiber.start(|here| here.suspend().unwrap())?.propagate();
    /// while suspended {
    ///     suspended = fiber.resume()?.propagate();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn propagate(self) -> bool {
        match self {
            Step::Suspended => true,
            Step::Finished => false,
            Step::Panicked(payload) => resume_unwind(payload),
        }
    }
}

impl Fiber {
    /// An idle fiber on this stack. The fiber owns the stack.
    ///
    /// `name` appears in overflow reports; it is cut at 48 bytes.
    ///
    /// # Errors
    ///
    /// [`FiberError::ShadowStack`] if a hardware shadow stack is active on this thread;
    /// [`FiberError::Stack`] if this thread cannot get a signal stack.
    pub fn new(stack: Stack, name: &str) -> Result<Fiber, FiberError> {
        if arch::shadow_stack_active() {
            return Err(FiberError::ShadowStack);
        }
        stack.arm_thread().map_err(FiberError::Stack)?;
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: ids only have to be unique.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        stack.label().set(id, name);

        let room = size_of::<FiberCore>().next_multiple_of(64);
        // SAFETY: the usable top is 64-aligned, every stack has room for the core and the first
        // frame below it, and the fiber owns the stack.
        let core = unsafe {
            let place = stack.usable_top().sub(room).cast::<FiberCore>();
            let arg = place.cast::<()>();
            let inner = Context::prepare(place.cast(), fiber_main, arg, fiber_exit);
            place.write(FiberCore {
                inner: UnsafeCell::new(inner),
                outer: UnsafeCell::new(Context::empty()),
                state: Cell::new(FiberState::Idle),
                order: Cell::new(Order::Continue),
                panic: Cell::new(None),
                containment: Cell::new(std::ptr::null()),
                hooks: hooks::Hooks::new(&stack),
                #[cfg(debug_assertions)]
                fp_control: Cell::new(0),
            });
            stack.label().set_context((*place).inner.get());
            NonNull::new_unchecked(place)
        };
        Ok(Fiber { core, stack: ManuallyDrop::new(stack), id, _not_send: PhantomData })
    }

    /// Runs `closure` on this fiber until it suspends or ends. The closure owns what it uses:
    /// the fiber may outlive the frame that started it.
    ///
    /// # Errors
    ///
    /// [`Refused::Busy`] if the last closure has not ended, [`Refused::Panicking`] while
    /// the thread unwinds. The closure is dropped unused.
    #[inline]
    pub fn start<F>(&mut self, closure: F) -> Result<Step, Refused>
    where
        F: FnOnce(&Suspender<'_>) + 'static,
    {
        /// # Safety
        ///
        /// `closure` points to an `F`, which is moved out.
        unsafe fn call<F: FnOnce(&Suspender<'_>)>(closure: *mut (), suspender: &Suspender<'_>) {
            // SAFETY: the caller gives the closure up.
            let closure = unsafe { closure.cast::<F>().read() };
            closure(suspender);
        }

        self.expect(FiberState::Idle, Refused::Busy)?;
        let mut closure = ManuallyDrop::new(closure);
        let job = FiberJob { call: call::<F>, closure: std::ptr::from_mut(&mut closure).cast() };
        self.core().order.set(Order::Run(job));
        // SAFETY: the fiber is idle and the thread not panicking. The base loop moves the
        // closure out of this frame before it does anything that could come back here.
        Ok(unsafe { self.enter() })
    }

    /// Resumes a suspended fiber until it suspends again or ends.
    ///
    /// # Errors
    ///
    /// [`Refused::Idle`] if the fiber is not suspended, [`Refused::Panicking`] while the thread
    /// unwinds.
    #[inline]
    pub fn resume(&mut self) -> Result<Step, Refused> {
        self.expect(FiberState::Suspended, Refused::Idle)?;
        // SAFETY: the fiber is suspended and the thread not panicking; the order is to
        // continue.
        Ok(unsafe { self.enter() })
    }

    /// Whether there is a closure to [`resume`](Fiber::resume).
    pub fn is_suspended(&self) -> bool {
        self.core().state.get() == FiberState::Suspended
    }

    /// A number that is unique among the fibers of this process; overflow reports print it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that overflow reports print, cut at 48 bytes.
    pub fn name(&self) -> String {
        self.stack.label().to_name()
    }

    /// The stack that the fiber runs on.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// How many bytes of its stack a suspended fiber uses now; `None` if it is not suspended.
    /// [`Stack::high_water`] is the deepest use so far.
    pub fn depth(&self) -> Option<usize> {
        // SAFETY: a suspended context is not written to while its fiber is borrowed.
        let sp = || unsafe { (*self.core().inner.get()).stack_pointer() };
        self.is_suspended().then(|| self.stack.top().addr() - sp())
    }

    /// Takes the stack out of a fiber that is not suspended.
    ///
    /// # Errors
    ///
    /// Returns the fiber if its closure has not ended.
    pub fn into_stack(self) -> Result<Stack, Fiber> {
        if self.is_suspended() {
            return Err(self);
        }
        let mut this = ManuallyDrop::new(self);
        this.retire();
        // SAFETY: `this` is not dropped, and not used again.
        Ok(unsafe { ManuallyDrop::take(&mut this.stack) })
    }

    /// The frames of a suspended fiber, innermost first; `None` if it is not suspended.
    pub fn backtrace(&self) -> Option<FiberBacktrace> {
        // SAFETY: a suspended context stays so while its fiber is borrowed.
        self.is_suspended().then(|| unsafe { FiberBacktrace::of(self.core().inner.get()) })
    }

    #[inline]
    fn core(&self) -> &FiberCore {
        // SAFETY: valid as long as the stack, which the fiber holds.
        unsafe { self.core.as_ref() }
    }

    #[inline]
    fn expect(&self, state: FiberState, otherwise: Refused) -> Result<(), Refused> {
        if self.core().state.get() != state {
            return Err(otherwise);
        }
        if thread::panicking() {
            return Err(Refused::Panicking);
        }
        Ok(())
    }

    /// Switches to the fiber, which follows its order, and returns why it switched back.
    ///
    /// # Safety
    ///
    /// The fiber does not run, and can follow the order: `Run` and `Exit` if it is idle,
    /// `Continue` and `Unwind` if it is suspended. The thread is not panicking, unless the order
    /// is `Unwind` or `Exit`, which end without another suspension.
    #[inline]
    unsafe fn enter(&mut self) -> Step {
        let core = self.core();
        core.state.set(FiberState::Running);
        #[cfg(debug_assertions)]
        core.fp_control.set(arch::fp_control());
        // SAFETY: `inner` was prepared, or saved by the fiber's last switch; the fiber owns the
        // stack and does not run; `outer` is valid as long as the stack is.
        unsafe {
            core.hooks.before_enter();
            arch::switch(core.outer.get(), core.inner.get());
            #[cfg(any(parcae_asan, parcae_tsan))]
            if core.state.get() == FiberState::Running {
                core.hooks.before_exit(); // the overflow handler made it leave without the hook
            }
            core.hooks.after_enter();
        }
        match core.state.get() {
            FiberState::Suspended => Step::Suspended,
            _ => match core.panic.take() {
                None => Step::Finished,
                Some(payload) => Step::Panicked(payload),
            },
        }
    }

    /// Makes an idle fiber leave its stack, so that nothing is on it.
    fn retire(&mut self) {
        debug_assert_eq!(self.core().state.get(), FiberState::Idle);
        self.core().order.set(Order::Exit);
        // SAFETY: the fiber is idle, and `Exit` ends without another suspension.
        let _finished = unsafe { self.enter() };
        self.core().hooks.destroy();
        self.stack.label().clear();
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.core().state.get() == FiberState::Running {
            // The fiber's own closure called `exit`, which runs the destructors of this thread's
            // variables on the fiber's stack. Its frames never run again; leave them.
            return;
        }
        // Dropped last: a payload whose drop panics must not leak the stack.
        let mut _last = Step::Finished;
        while self.is_suspended() {
            if cfg!(panic = "abort") {
                return; // cannot be unwound: leak the stack
            }
            self.core().order.set(Order::Unwind);
            // SAFETY: suspended. The unwind ends on the fiber's side: `suspend` is refused during
            // it. A closure that catches the unwind and suspends again gets the order again.
            _last = unsafe { self.enter() };
        }
        self.retire();
        // SAFETY: the fiber is not used again, and nothing is left on the stack.
        unsafe { ManuallyDrop::drop(&mut self.stack) };
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("state", &self.core().state.get())
            .field("stack", &*self.stack)
            .finish()
    }
}

#[cfg(test)]
#[allow(unused_must_use, reason = "tests look at a step where it matters")]
mod tests;
