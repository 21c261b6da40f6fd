//! Tasks whose code runs on another stack for a while: see [`Cx::contain_overflow`].
//!
//! That code may be abandoned wherever it overflows its stack, and must not be inside the runtime
//! at that point. Its author has promised not to call the runtime. Calls that happen nevertheless
//! are refused, before they change anything where such a check is free. Fast paths have no
//! additional instruction: the frame is set up so that each of them takes its slow path.
//!
//! - The slice is put aside: each checkpoint and channel operation goes to
//!   [`Frame::checkpoint_slow`].
//! - The node is one that is cancelled: each cancel point goes to `check_closely`.
//! - The end of the stack is above every address: `#[budgeted]` code concludes that it is not on
//!   the task's stack, and its slow path finds the end of the stack that it is on.
//!
//! All these slow paths check [`Frame::is_away`] first.
//!
//! [`Cx::contain_overflow`]: crate::Cx::contain_overflow

use super::{Frame, RED_ZONE, ScopeRef};
use crate::base::error::{Error, ErrorKind, Result, Stop};
use crate::scope::cancel::{CancelNode, CancelReason};
use std::ptr::NonNull;

/// Set in `stack_end` while the task is away; the rest is the end of the stack that it is on. No
/// address of a stack has this bit, so none is above the sum.
const AWAY: usize = 1 << (usize::BITS - 1);

/// Stack that an allocation requires at least: far more than the allocator of the C library uses,
/// and less than the distance at which the overflow handler treats an access as a wild pointer.
const ALLOCATOR_ROOM: usize = 4 * 1024;

impl Frame {
    /// Runs code of the task on another stack, which ends at `end`. It does not unwind.
    pub(in crate::scope::cx) fn away<R>(&self, end: usize, code: impl FnOnce() -> R) -> R {
        self.unsubscribe(); // from the node of this scope
        let closed = CancelNode::root();
        closed.cancel(CancelReason::Explicit);
        let scope = self.scope.get();
        let stack_end = self.stack_end.replace(end | AWAY);
        self.scope.set(ScopeRef { node: NonNull::from(&closed), ..scope });
        let slice = self.slice.take();
        let result = code();
        self.slice.set(slice);
        self.scope.set(scope);
        self.stack_end.set(stack_end);
        // The next checkpoint takes the slow path, in case of a request in the meantime.
        self.record().signal.hint();
        result
    }

    /// Whether the task's code runs on another stack.
    pub(in crate::scope::cx) fn is_away(&self) -> bool {
        self.stack_end.get() & AWAY != 0
    }

    /// Refuses an operation that would not notice by itself that the task is away.
    pub(crate) fn refuse_contained(&self) -> Result<()> {
        if self.is_away() { Err(self.refuse_away()) } else { Ok(()) }
    }

    /// The error of runtime operations while the task is away.
    #[cold]
    pub(super) fn refuse_away(&self) -> Error {
        Error::new(ErrorKind::Contained)
    }

    /// The bytes left of the stack that the task is on while it is away. None if it is not away, or
    /// on yet another stack below.
    fn left_away(&self) -> Option<usize> {
        let here = 0_u8;
        let end = self.is_away().then(|| self.stack_end.get() & !AWAY)?;
        (&raw const here).addr().checked_sub(end)
    }

    /// At the entry of a `#[budgeted]` function that does not run on the task's own stack.
    #[cold]
    pub(in crate::scope::cx) fn check_stack_away(&self) {
        if let Some(left) = self.left_away()
            && left < RED_ZONE
            && !std::thread::panicking()
        {
            Stop::unwind(Error::new(ErrorKind::StackOverflow { left, needed: RED_ZONE }));
        }
    }

    /// Called before an allocation of a task without a slice. If the task is away and its stack
    /// nearly used up, it overflows here, where nothing is half-done, and not in the allocator,
    /// which cannot be abandoned.
    #[cold]
    #[inline(never)]
    pub(super) fn allocates_without_slice(&self) {
        if self.left_away().is_some_and(|left| left < ALLOCATOR_ROOM) {
            let guard = (self.stack_end.get() & !AWAY) - 1;
            overflow(guard);
        }
    }
}

/// Overflows the stack whose guard ends at this address.
fn overflow(guard: usize) {
    // SAFETY: the last byte of the guard below the stack that this runs on, which faults. The
    // handler abandons the stack, or ends the process: either way the code does not go on.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(guard).write_volatile(0) };
    std::process::abort()
}
