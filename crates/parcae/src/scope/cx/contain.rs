//! [`Cx::contain_overflow`]: code that may overflow its stack without ending the process.
//!
//! `stack/overflow.rs` argues why this is sound and describes the handler; `frame/away.rs`
//! describes how calls into the runtime are refused meanwhile.

use super::{Cx, Here};
use crate::base::error::{Error, ErrorKind, Result, Stop};
use crate::scope::profile::Profile;
use crate::stack::fiber::contain::{Contained, StackOverflow};
use crate::stack::fiber::{Fiber, FiberError, Step};
use crate::stack::{StackSize, arm_containing};
use std::mem::MaybeUninit;
use std::panic::resume_unwind;

impl<P: Profile> Cx<P> {
    /// Runs a closure on a stack of its own, and returns an error if it overflows that stack.
    /// Anywhere else an overflow ends the process.
    ///
    /// For code that may recurse too deeply and cannot be [`budgeted`](crate::budgeted): a
    /// third-party parser, a C library. Code that can be changed is better off with `budgeted`,
    /// which unwinds and loses nothing.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::stack::StackSize;
    ///
    /// /// How deeply brackets are nested. Recurses for each.
    /// fn depth(text: &[u8]) -> usize {
    ///     let frame = std::hint::black_box([1_usize; 32]);
    ///     match text.split_first() {
    ///         Some((b'[', rest)) => frame[7] + depth(rest),
    ///         _ => 0,
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     let run = |text: Vec<u8>| {
    ///         // SAFETY: `depth` only computes. It takes no lock, changes nothing outside of it,
    ///         // and does not allocate.
    ///         unsafe { cx.contain_overflow(StackSize::CORE, move || depth(&text)) }
    ///     };
    ///     assert_eq!(run(b"[[[".to_vec())?, 3);
    ///
    ///     let error = run(vec![b'['; 1_000_000]).unwrap_err();
    ///     assert!(matches!(error.kind(), ErrorKind::StackOverflow { .. }));
    ///     Ok(()) // and everything goes on
    /// })?;
    /// assert_eq!(rt.stats().quarantined_stacks, 1);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// The closure has no use for the `Cx`, and cannot have it:
    ///
    /// ```compile_fail,E0521
    /// use parcae::prelude::*;
    /// use parcae::stack::StackSize;
    ///
    /// Runtime::builder().build()?.run(|cx| {
    ///     unsafe { cx.contain_overflow(StackSize::CORE, || cx.checkpoint()) }?
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # What an overflow costs
    ///
    /// The closure is abandoned. No destructor runs, and everything that it owns is leaked: its
    /// memory, its files. The stack is never used again and never unmapped. It counts as one of
    /// [`Builder::max_stacks`](crate::runtime::Builder::max_stacks), so that a limit there also
    /// bounds the loss;
    /// [`Snapshot::quarantined_stacks`](crate::stats::Snapshot::quarantined_stacks) tells how many
    /// there are. The stacks that share a mapping with it stay mapped too, when the runtime is
    /// gone.
    ///
    /// # What the closure may do
    ///
    /// Compute. It owns its data, and so does its result: both are `'static`, which rules out the
    /// `Cx`. Operations of tasks that need no `Cx` are excluded too: checkpoints, waits, and
    /// channel operations are refused with [`ErrorKind::Contained`], so that the mistake shows.
    /// Until the closure has returned, no other task of the worker runs; a cancellation is noticed
    /// at the first checkpoint after it. Allocations are charged to the task. `#[budgeted]`
    /// functions check the stack that they are on, count no ops, and fail softly: the call returns
    /// that error.
    ///
    /// # Where it aborts all the same
    ///
    /// If the overflow happens in the allocator, the C library, the loader or the unwinder, in a
    /// signal handler, or while the closure panics: the report says which. **A closure that
    /// allocates in every call overflows most likely in the allocator**, which goes deeper than the
    /// code around it. With [`parcae::Allocator`](crate::Allocator) as the global allocator it does
    /// not: that allocator checks the stack before each allocation. Statically linked programs
    /// abort at any overflow, because the allocator cannot be told from the program there.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::StackOverflow`] if the closure has overflowed its stack.
    /// - [`ErrorKind::NoStack`] if there is no stack for it.
    /// - [`ErrorKind::Unwinding`] in a destructor that runs because of a panic.
    ///
    /// # Panics
    ///
    /// If the closure panics: its panic is resumed here.
    ///
    /// # Safety
    ///
    /// Wherever the closure or a function that it calls uses stack, it may stop for ever, as if its
    /// thread had. The caller promises for all those places:
    ///
    /// - *No lock is held* that other code needs: neither by the code itself, nor by a function
    ///   that called it back, such as `std::io::stdout().lock()`, a `LazyLock` that is being
    ///   initialised, or an allocator which does not go by the names of C.
    /// - *Nothing is half-done* that other code sees: statics, thread-local variables, data shared
    ///   by `Arc` or `Rc`. The closure's own data does not matter: it is never read again.
    /// - *Parcae is not called*, except for `#[budgeted]` functions and the allocator: no task is
    ///   spawned, cancelled or woken, no lock of a runtime taken or released, no runtime built, run
    ///   or dropped, no fiber resumed that others know of. A refused call counts as a call.
    /// - *No frame below relies on being returned to*, other than by leaving its memory alone.
    ///   `std::thread::scope` does not: its threads may borrow from the abandoned stack for ever.
    /// - Code that is not Rust's touches its stack page by page (`-fstack-clash-protection`), or
    ///   has no frames that are larger than a page: a larger one may jump over the guard.
    pub unsafe fn contain_overflow<R, F>(&self, stack: StackSize, closure: F) -> Result<R>
    where
        F: FnOnce() -> R + 'static,
        R: 'static,
    {
        let frame = self.frame();
        if !Here::new().frame().is_some_and(|running| std::ptr::eq(running, frame)) {
            return Err(Error::msg("this `Cx` belongs to another task: use the task's own"));
        }
        if frame.is_away() {
            return Err(Error::new(ErrorKind::Contained));
        }
        arm_containing();
        // Not from the worker's cache: this is not a hot path, and the cache should stay small.
        let on = frame.settings().shared.stacks.acquire(stack);
        let on = on.map_err(|error| Error::new(ErrorKind::NoStack(error)))?;
        let end = on.bottom().addr();
        let name = frame.origin().name.as_deref().unwrap_or_default();
        let fiber = Fiber::new(on, name).map_err(no_fiber)?;
        let mut result = MaybeUninit::<R>::uninit();
        let place: *mut R = result.as_mut_ptr();
        let run = move || {
            let value = closure();
            // SAFETY: the place is in the frame of `contain_overflow`, which waits for this.
            unsafe { place.write(value) };
        };
        // SAFETY: the caller upholds the contract. If `run` is abandoned, it has only written
        // memory that is never read.
        match frame.away(end, || unsafe { fiber.contain(name, run) }) {
            Ok(Contained::Ended(step, on)) => {
                drop(on);
                match step {
                    // SAFETY: the closure has returned, and `run` has written its result.
                    Step::Finished => Ok(unsafe { result.assume_init() }),
                    Step::Panicked(payload) => match Stop::error(payload) {
                        Ok(error) => Err(error.noting(Some(noted(stack, "")))),
                        Err(payload) => resume_unwind(payload),
                    },
                    Step::Suspended => unreachable!("the closure has no suspender"),
                }
            }
            Ok(Contained::Overflowed(StackOverflow { left, needed })) => {
                let error = Error::new(ErrorKind::StackOverflow { left, needed });
                let noted = noted(stack, ", which is never used again");
                Err(error.noting(Some(noted)).in_task(|| frame.info()))
            }
            Err(_panicking) => Err(Error::new(ErrorKind::Unwinding)),
        }
    }
}

fn noted(stack: StackSize, fate: &str) -> std::sync::Arc<str> {
    let larger =
        if stack < StackSize::MAX { "; choose a larger one if the code needs it" } else { "" };
    format!("the code ran under `Cx::contain_overflow` on a stack of {stack}{fate}{larger}").into()
}

fn no_fiber(error: FiberError) -> Error {
    match error {
        FiberError::Stack(error) => Error::new(ErrorKind::NoStack(error)),
        other => other.into(),
    }
}
