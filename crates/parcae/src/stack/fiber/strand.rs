//! Strands: the stacks that a worker's loop and its tasks run on.
//!
//! A [`Fiber`](super::Fiber) belongs to somebody who resumes it. A strand belongs to the
//! scheduler: at its base runs the worker's loop, which calls tasks directly. While no task
//! waits, one strand carries everything, and a task costs no switch. A task that has to
//! wait keeps the strand that it is on, loop and all, and the worker goes on on another
//! one; when the task has ended, the loop below it goes on as the loop of whichever worker
//! it is on by then.
//!
//! So a strand is, at any time, *running* (its worker's `strand`), *kept* by a task that
//! waits in the middle of it, or *spare*: suspended in its loop, with no task, ready to
//! take over. The loop owns nothing at the place where it is suspended as a spare, so a
//! spare may be given back without being run again.

use crate::stack::arch::{self, Context};
use crate::stack::{Stack, StackSize, TASK};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::hooks::SwitchHooks;

/// The record of a strand, at the top of its own stack.
pub(crate) struct Strand {
    context: UnsafeCell<Context>,
    stack: ManuallyDrop<Stack>,
    /// The next one in a list of spares.
    pub(crate) next: Cell<Option<NonNull<Strand>>>,
    hooks: SwitchHooks,
}

impl Strand {
    /// A strand that will run `main` when it is first switched to. `main` must not return.
    pub(crate) fn new(stack: Stack, main: unsafe extern "C" fn(*mut ())) -> NonNull<Strand> {
        let room = size_of::<Strand>().next_multiple_of(64);
        // SAFETY: the usable top is 64-aligned, and every stack has room for the record and
        // the first frame below it. Nobody else uses the stack.
        unsafe {
            let place = stack.usable_top().sub(room).cast::<Strand>();
            let context = Context::prepare(place.cast(), main, std::ptr::null_mut(), returned);
            let hooks = SwitchHooks::new(&stack);
            stack.label().set(TASK, "");
            place.write(Strand {
                context: UnsafeCell::new(context),
                stack: ManuallyDrop::new(stack),
                next: Cell::new(None),
                hooks,
            });
            (*place).stack.label().set_context((*place).context.get());
            NonNull::new_unchecked(place)
        }
    }

    /// The size of its stack.
    #[inline]
    pub(crate) fn size(&self) -> StackSize {
        self.stack.size()
    }

    /// Says whose stack it is, for the report of an overflow.
    pub(crate) fn label(&self, name: &str) {
        self.stack.label().set(TASK, name);
    }

    /// Where it was left, for an observer; it must not run meanwhile.
    pub(crate) fn context(&self) -> *const Context {
        self.context.get()
    }

    /// The lowest address of its stack.
    pub(crate) fn stack_end(&self) -> usize {
        self.stack.bottom().addr()
    }

    /// Takes the stack out of a strand.
    ///
    /// # Safety
    ///
    /// The strand is spare or was never run, and is not used again.
    pub(crate) unsafe fn into_stack(strand: NonNull<Strand>) -> Stack {
        // SAFETY: the caller gives the strand up; the record needs no drop of its own.
        unsafe {
            (*strand.as_ptr()).hooks.destroy();
            (*strand.as_ptr()).stack.label().clear();
            ManuallyDrop::take(&mut (*strand.as_ptr()).stack)
        }
    }

    /// Leaves `self`, on whose stack this runs, for `to`.
    ///
    /// # Safety
    ///
    /// `to` is suspended, nobody else will resume it, and it stays valid. No reference to
    /// thread-local data is held over the call: it may return on another thread.
    #[inline]
    pub(crate) unsafe fn switch_to(&self, to: &Strand) {
        // SAFETY: as the caller says.
        unsafe {
            self.hooks.before_switch_to(&to.hooks);
            arch::switch(self.context.get(), to.context.get());
            self.hooks.after_switch();
        }
    }
}

/// A thread's own stack, from which strands are entered and to which they go back.
pub(crate) struct ThreadStack {
    context: UnsafeCell<Context>,
    hooks: SwitchHooks,
}

impl ThreadStack {
    pub(crate) fn new() -> ThreadStack {
        ThreadStack {
            context: UnsafeCell::new(Context::empty()),
            hooks: SwitchHooks::thread_stack(),
        }
    }

    /// Leaves the thread's own stack for `to`; returns when a strand comes back.
    ///
    /// # Safety
    ///
    /// As for [`Strand::switch_to`]; this runs on the thread's own stack, and the thread stack is
    /// not left already.
    pub(crate) unsafe fn switch_to(&self, to: &Strand) {
        // SAFETY: as the caller says.
        unsafe {
            self.hooks.before_switch_to(&to.hooks);
            arch::switch(self.context.get(), to.context.get());
            self.hooks.after_switch();
        }
    }

    /// Leaves `from`, on whose stack this runs, for the thread stack.
    ///
    /// # Safety
    ///
    /// As for [`Strand::switch_to`]; the thread stack was left by this thread.
    pub(crate) unsafe fn return_from(&self, from: &Strand) {
        // SAFETY: as the caller says.
        unsafe {
            from.hooks.before_switch_to(&self.hooks);
            arch::switch(from.context.get(), self.context.get());
            from.hooks.after_switch();
        }
    }
}

/// A strand's main function has returned, which it must not.
unsafe extern "C" fn returned(_: *mut ()) -> ! {
    std::process::abort()
}

impl Strand {
    /// First thing on a new strand.
    ///
    /// # Safety
    ///
    /// Runs on this strand, which was just entered for the first time.
    pub(crate) unsafe fn entered(&self) {
        // SAFETY: as the caller says.
        unsafe { self.hooks.after_switch() };
    }
}
