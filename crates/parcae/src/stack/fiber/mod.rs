//! Fibers: a stack and a context that run one closure after another.
//!
//! This is the floor that the scheduler stands on, public for those who build a
//! scheduler of their own. A fiber is *asymmetric*: whoever resumes it gets control back
//! when it suspends or ends. A fiber may start and resume others.
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
//! `Fiber` is neither `Send` nor `Sync`: a started fiber stays on its thread, because
//! values on its stack need not be `Send` and compilers cache addresses of thread-local
//! variables. No thread-local variable is held over a switch: everything is reached
//! through the `Fiber` or through the [`Suspender`] that the closure is given.
//! The suspender cannot leave the closure (its lifetime), nor its thread (`!Sync`), so
//! `suspend` can only be called on the stack that it suspends.
//!
//! # Ends
//!
//! A closure that returns or panics brings its fiber back to Idle; the payload of a panic
//! is handed to whoever resumed it. Dropping a suspended fiber resumes it once more with
//! the order to unwind: `suspend` raises a panic that runs no hook and that only the base
//! is meant to catch. Code that catches it anyway gets it again at its next `suspend`.
//! If the closure never ends, neither does the drop. A fiber that is leaked
//! (`mem::forget`) keeps its stack for ever, which is sound.
//!
//! No switch happens while the thread is panicking, because the count of panics is the
//! thread's: [`Refused::Panicking`]. The one exception is the drop of a suspended fiber
//! during an unwind, which enters, unwinds and comes back in strict nesting.
//!
//! # What safe code has to know
//!
//! - Two fibers of a thread take turns, so calls on them interleave and need not nest.
//!   Libraries that keep a pointer to a stack variable
//!   in a thread-local variable for the duration of a call ("scoped" thread-locals) assume
//!   that such calls nest; do not suspend inside of one.
//! - Unwinding needs stack. A fiber that was suspended near the end of its stack can
//!   overflow it when it is dropped; so can one whose destructors are deep.
//! - A frame that cannot be unwound (a callback that C code called) turns the drop of a
//!   suspended fiber into an abort. Resume such a fiber to its end instead.
//! - Do not drop suspended fibers in a panic hook: the standard library does not count a
//!   panic that is raised there, and destructors on the fiber are told that there is none.

mod backtrace;
pub(crate) mod contain;
mod error;
mod hooks;
pub(crate) mod strand;

pub use backtrace::FiberBacktrace;
pub use error::{FiberError, Refused};

use crate::stack::Stack;
use crate::stack::arch::{self, Context};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A stack and a context that run one closure after another. See the [module](self).
///
/// A fiber keeps its stack until it is dropped, also while it is idle. Dropping a suspended
/// fiber unwinds it: the destructors of everything on its stack run, on that stack, before
/// the drop returns. A destructor that panics meanwhile aborts the process, as it does in
/// any unwind; a payload that the closure ends with is discarded.
///
/// ```
/// use parcae::fiber::{Fiber, Step};
/// use parcae::stack::{StackPool, StackSize};
/// use std::{cell::Cell, rc::Rc};
///
/// // Values pass through what the closure shares with its resumer.
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
    /// At the top of `stack`, valid as long as that.
    core: NonNull<FiberCore>,
    stack: ManuallyDrop<Stack>,
    id: u64,
    /// A started fiber must stay on its thread.
    _not_send: PhantomData<*mut ()>,
}

/// What resuming a fiber led to.
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
    /// Goes on with the closure's panic here, if it panicked; otherwise says whether the
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

/// What both sides of a fiber share. Lives at the top of the fiber's stack.
///
/// Only one side runs at a time and both are on one thread, so plain cells suffice; no
/// reference to a field is held over a switch.
#[repr(C)] // `inner` first: `contain` finds the core by it
struct FiberCore {
    /// Where the fiber goes on; meaningful while it does not run.
    inner: UnsafeCell<Context>,
    /// Where the resumer goes on; meaningful while the fiber runs.
    outer: UnsafeCell<Context>,
    state: Cell<FiberState>,
    /// What the resumer wants of a fiber that it enters; `Continue` unless it is just
    /// being entered for something else.
    order: Cell<Order>,
    /// The payload of a panic, on its way out.
    panic: Cell<Option<Box<dyn Any + Send>>>,
    /// While a closure runs whose overflow is contained, otherwise null; read by the overflow
    /// handler.
    containment: Cell<*const contain::Containment>,
    hooks: hooks::Hooks,
    #[cfg(debug_assertions)]
    fp_control: Cell<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FiberState {
    Idle,
    Running,
    Suspended,
}

#[derive(Clone, Copy)]
enum Order {
    /// Go on where you were.
    Continue,
    /// Run this closure.
    Run(FiberJob),
    /// Unwind to your base.
    Unwind,
    /// Leave your stack for good.
    Exit,
}

/// A closure in the frame of the `start` that began it: read out of there before
/// `start` gets control back.
#[derive(Clone, Copy)]
struct FiberJob {
    call: unsafe fn(*mut (), &Suspender<'_>),
    closure: *mut (),
}

impl Fiber {
    /// A fiber on this stack. It holds the stack and runs nothing yet.
    ///
    /// `name` appears in overflow reports; it is cut at 48 bytes.
    ///
    /// # Errors
    ///
    /// [`FiberError::ShadowStack`] where the hardware forbids switching stacks;
    /// [`FiberError::Stack`] if this thread cannot get a signal stack.
    pub fn new(stack: Stack, name: &str) -> Result<Fiber, FiberError> {
        if arch::shadow_stack_active() {
            return Err(FiberError::ShadowStack);
        }
        stack.arm_thread().map_err(FiberError::Stack)?;
        // Relaxed: only its uniqueness counts.
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        stack.label().set(id, name);

        let room = size_of::<FiberCore>().next_multiple_of(64);
        // SAFETY: the usable top is 64-aligned, and every stack has room for the core
        // and the first frame below it. Nobody else uses the stack.
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

    /// Goes on with a suspended fiber until it suspends again or ends.
    ///
    /// # Errors
    ///
    /// [`Refused::Idle`] if there is nothing to go on with, [`Refused::Panicking`] while
    /// the thread unwinds.
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

    /// A number that no other fiber of this process has; overflow reports name it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that overflow reports print, as far as it fits there.
    pub fn name(&self) -> String {
        self.stack.label().to_name()
    }

    /// The stack that the fiber runs on.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// How many bytes of its stack a suspended fiber uses at the moment; `None` if it is
    /// not suspended. What it ever used is [`Stack::high_water`].
    pub fn depth(&self) -> Option<usize> {
        // SAFETY: nobody writes to a suspended context while its fiber is borrowed.
        let sp = || unsafe { (*self.core().inner.get()).stack_pointer() };
        self.is_suspended().then(|| self.stack.top().addr() - sp())
    }

    /// Takes the stack out of a fiber that is not suspended.
    ///
    /// # Errors
    ///
    /// Gives the fiber back if its closure has not ended.
    pub fn into_stack(self) -> Result<Stack, Fiber> {
        if self.is_suspended() {
            return Err(self);
        }
        let mut this = ManuallyDrop::new(self);
        this.retire();
        // SAFETY: `this` is not dropped, and not used again.
        Ok(unsafe { ManuallyDrop::take(&mut this.stack) })
    }

    /// Where a suspended fiber waits: its frames, innermost first.
    ///
    /// `None` if it is not suspended.
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

    /// Switches to the fiber, which follows its order, and says why it came back.
    ///
    /// # Safety
    ///
    /// The fiber does not run, and can follow the order: `Run` and `Exit` if it is idle,
    /// `Continue` and `Unwind` if it is suspended. The thread is not panicking, unless
    /// the order is one that ends on the fiber's side without another suspension.
    #[inline]
    unsafe fn enter(&mut self) -> Step {
        let core = self.core();
        core.state.set(FiberState::Running);
        #[cfg(debug_assertions)]
        core.fp_control.set(arch::fp_control());
        // SAFETY: `inner` was prepared, or saved by the fiber's last switch out; nobody
        // runs on the stack, which the fiber holds; `outer` is valid as long as that.
        unsafe {
            core.hooks.before_enter();
            arch::switch(core.outer.get(), core.inner.get());
            #[cfg(any(parcae_asan, parcae_tsan))]
            if core.state.get() == FiberState::Running {
                core.hooks.before_exit(); // it was made to leave, and could not say so
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

    /// Leaves an idle fiber's stack with nothing on it.
    fn retire(&mut self) {
        debug_assert_eq!(self.core().state.get(), FiberState::Idle);
        self.core().order.set(Order::Exit);
        // SAFETY: idle, and `Exit` ends on the other side.
        let _finished = unsafe { self.enter() };
        self.core().hooks.destroy();
        self.stack.label().clear();
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.core().state.get() == FiberState::Running {
            // Its own closure ends the process: `exit` runs the destructors of this thread's
            // variables on the fiber's stack. The frames on it never go on; leave them.
            return;
        }
        // Kept to the end: a payload whose own drop panics must not keep the stack.
        let mut _last = Step::Finished;
        while self.is_suspended() {
            if cfg!(panic = "abort") {
                return; // cannot be unwound: its stack is never used again
            }
            self.core().order.set(Order::Unwind);
            // SAFETY: suspended. The unwind ends on the fiber's side: `suspend` refuses
            // while it lasts. A closure that catches it and suspends again is told again.
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

/// What a closure on a fiber suspends itself with. It cannot leave the closure.
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

impl Suspender<'_> {
    /// Gives control back to whoever resumed this fiber; returns when it is resumed again.
    ///
    /// # Errors
    ///
    /// [`Refused::Panicking`] while the thread unwinds from a panic, which means: in a
    /// destructor. Anywhere else it is `Ok`.
    ///
    /// # Panics
    ///
    /// If the fiber was dropped meanwhile: the closure is unwound, so that everything it
    /// owns is released. No panic hook runs. Do not catch it; if you do, let the closure
    /// end. In debug builds also if the closure changed floating-point control bits.
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

#[cfg(debug_assertions)]
const FP_CONTROL_CHANGED: &str = "floating-point control bits were changed and not put back \
                                  before the fiber was left; see CONTEXT-SWITCH-INVARIANTS.md";

impl FiberCore {
    /// Whether the thread's floating-point control bits are those that the fiber was entered
    /// with.
    #[cfg(debug_assertions)]
    fn kept_fp_control(&self) -> bool {
        arch::fp_control() == self.fp_control.get()
    }

    /// Switches from the fiber to its resumer; returns when it is entered again.
    ///
    /// # Safety
    ///
    /// Runs on this fiber's stack, which was entered through `outer`.
    #[inline]
    unsafe fn leave(&self) {
        // SAFETY: see the caller's obligations.
        unsafe {
            self.hooks.before_leave();
            arch::switch(self.inner.get(), self.outer.get());
            self.hooks.after_leave();
        }
    }
}

/// The payload of the panic that clears a dropped fiber's stack: which fiber's.
struct Unwound(*mut ());

// SAFETY: an address to compare with, never followed.
unsafe impl Send for Unwound {}

#[cold]
fn unwind(core: &FiberCore) -> ! {
    resume_unwind(Box::new(Unwound(std::ptr::from_ref(core).cast_mut().cast())))
}

/// The base of every fiber: one closure after another, until told to leave.
///
/// # Safety
///
/// `arg` is the fiber's core; called by `janus_fiber_entry` on the fiber's stack.
unsafe extern "C" fn fiber_main(arg: *mut ()) {
    // SAFETY: the core outlives everything that runs on its stack.
    let core = unsafe { &*arg.cast::<FiberCore>() };
    // SAFETY: first code on the stack.
    unsafe { core.hooks.after_leave() };
    while let Order::Run(job) = core.order.get() {
        core.order.set(Order::Continue);
        let suspender = Suspender { core: NonNull::from(core), _lives_in_the_closure: PhantomData };
        // SAFETY: the job's closure waits in the frame of `start`, which has not got
        // control back; this is the one time that it is moved out.
        let run = || unsafe { (job.call)(job.closure, &suspender) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            // Only the unwind that this fiber was ordered to do; a payload that somebody
            // caught in another one and passes on is a panic like any other.
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

/// Leaves a fiber's stack for good, when `fiber_main` has returned.
///
/// # Safety
///
/// As for [`fiber_main`]; nothing is left on the stack.
unsafe extern "C" fn fiber_exit(arg: *mut ()) -> ! {
    // SAFETY: as above.
    let core = unsafe { &*arg.cast::<FiberCore>() };
    core.state.set(FiberState::Idle);
    // SAFETY: the resumer waits in `outer`; nobody resumes `inner` again.
    unsafe {
        core.hooks.before_exit();
        arch::switch(core.inner.get(), core.outer.get());
    }
    // Somebody resumed a fiber that had ended: there is nothing to go back to.
    std::process::abort()
}

#[cfg(test)]
#[allow(unused_must_use, reason = "tests look at a step where it matters")]
mod tests;
