//! Strands: the stacks that a worker's loop and its tasks run on.
//!
//! A [`Fiber`](super::Fiber) belongs to its resumer. A strand belongs to the scheduler: the
//! worker's loop runs at its base and calls tasks directly. While no task waits, all tasks of a
//! worker run on one strand, and a task costs no switch. A task that has to wait keeps its strand,
//! including the loop below it, and the worker continues on another strand. When the task has
//! ended, the loop below it continues as the loop of the worker that the strand is on by then.
//!
//! A strand is, at any time, *running* (its worker's `strand`), *kept* by a task that waits in the
//! middle of it, or *spare*: suspended in its loop, without a task, ready to take over. The loop
//! owns nothing at the point where a spare is suspended, so the stack of a spare may be released
//! without running the strand again.

use crate::stack::arch::{self, Context};
use crate::stack::{Stack, StackSize, TASK, prefetch};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::hooks::SwitchHooks;

/// Cache lines above the stack pointer of a suspended task that its resumption reads: the frames of
/// the wait, from the switch up to the closure of a task of few calls.
const FETCHED_LINES: usize = 16;

/// The record of a strand, at the top of its own stack.
pub(crate) struct Strand {
    context: UnsafeCell<Context>,
    stack: ManuallyDrop<Stack>,
    /// The next one in a list of spares.
    pub(crate) next: Cell<Option<NonNull<Strand>>>,
    hooks: SwitchHooks,
}

impl Strand {
    /// A strand that runs `main` when it is first switched to. `main` must not return.
    pub(crate) fn new(stack: Stack, main: unsafe extern "C" fn(*mut ())) -> NonNull<Strand> {
        let room = size_of::<Strand>().next_multiple_of(64);
        // SAFETY: the usable top is 64-aligned, every stack has room for the record and the first
        // frame below it, and the strand owns the stack.
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

    /// Sets the name that an overflow report prints.
    pub(crate) fn label(&self, name: &str) {
        self.stack.label().set(TASK, name);
    }

    /// The saved context, for an observer. The strand must not run while it is observed.
    pub(crate) fn context(&self) -> *const Context {
        self.context.get()
    }

    /// Fetches the frames that a resumed task will touch first into the cache. The strand is
    /// suspended, and the caller's to resume.
    #[inline]
    pub(crate) fn prefetch_frames(&self) {
        // SAFETY: suspended, so no thread writes its context.
        let sp = unsafe { (*self.context.get()).stack_pointer() };
        for line in 0..FETCHED_LINES {
            prefetch(std::ptr::without_provenance::<u8>(sp + line * 64));
        }
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

    /// Switches from `self`, the running strand, to `to`.
    ///
    /// # Safety
    ///
    /// `to` is suspended, no other thread resumes it, and it stays valid. No reference to
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

/// A thread's own stack. The thread enters strands from it and returns to it.
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

    /// Switches from the thread stack to `to`; returns when a strand switches back.
    ///
    /// # Safety
    ///
    /// As for [`Strand::switch_to`]; the caller runs on the thread stack.
    pub(crate) unsafe fn switch_to(&self, to: &Strand) {
        // SAFETY: as the caller says.
        unsafe {
            self.hooks.before_switch_to(&to.hooks);
            arch::switch(self.context.get(), to.context.get());
            self.hooks.after_switch();
        }
    }

    /// Switches from `from`, the running strand, to the thread stack.
    ///
    /// # Safety
    ///
    /// As for [`Strand::switch_to`]; the thread stack belongs to this thread, which left it by
    /// [`switch_to`](ThreadStack::switch_to).
    pub(crate) unsafe fn return_from(&self, from: &Strand) {
        // SAFETY: as the caller says.
        unsafe {
            from.hooks.before_switch_to(&self.hooks);
            arch::switch(from.context.get(), self.context.get());
            from.hooks.after_switch();
        }
    }
}

/// Aborts: a strand's main function has returned, which it must not.
///
/// # Safety
///
/// Safe at any time; the signature is that of [`arch::Cleanup`].
unsafe extern "C" fn returned(_: *mut ()) -> ! {
    std::process::abort()
}

impl Strand {
    /// Completes the first switch to a new strand.
    ///
    /// # Safety
    ///
    /// The caller runs on this strand, which was just entered for the first time.
    pub(crate) unsafe fn entered(&self) {
        // SAFETY: as the caller says.
        unsafe { self.hooks.after_switch() };
    }
}
