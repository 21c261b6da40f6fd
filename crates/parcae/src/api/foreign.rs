//! The base of adapters to other languages. Not public API.
//!
//! It has the operations that the safe interface cannot offer, because their preconditions can only
//! be met by an adapter:
//!
//! - [`OpenNursery`]: a nursery that is opened by one call and closed by another;
//! - one [word](set_local) of task-local storage for the adapter;
//! - the [meter] of the running task, for checkpoints that are inlined into other code;
//! - [memory](hold_memory) of a heap that the allocator does not see;
//! - [generated code](announce_code) in backtraces;
//! - a runtime whose profile is [chosen at run time](erase), and [contexts](under) of it.

mod nursery;

pub use crate::stack::generated::{AnnouncedCode, GeneratedFunction, announce_code};
pub use nursery::OpenNursery;

use crate::api::runtime::Runtime;
use crate::base::error::{Error, Result, TaskId};
use crate::budget::Account;
use crate::scope::budget::Budget;
use crate::scope::cx::{self, Cx};
use crate::scope::profile::{Profile, Service};

/// The words that a checkpoint reads. `slice` is private to the task; `limit` and `signal` point to
/// words that other threads raise.
///
/// If `slice > *limit | *signal`, a checkpoint subtracts one from `slice` and continues. Otherwise
/// it calls [`checkpoint_slow`]. The pointers are read anew at each checkpoint: `limit` changes
/// with the task's nurseries.
#[repr(C)]
#[derive(Debug)]
pub struct MeterWords {
    /// Ops until the end of the turn.
    pub slice: u64,
    /// Raised when the task is cancelled.
    pub limit: *const u64,
    /// Raised when the task must take the slow path for another reason.
    pub signal: *const u32,
}

/// The caller runs on another stack than that of the running task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongStack;

/// The adapter's word of the running task: `None` outside of tasks, null if it was never set.
///
/// # Errors
///
/// If the caller runs on another stack than that of the task.
#[inline]
pub fn local() -> Result<Option<*const ()>, WrongStack> {
    match cx::Here::new().frame() {
        None => Ok(None),
        Some(frame) if frame.local().is_null() || frame.is_here() => Ok(Some(frame.local())),
        Some(_) => Err(WrongStack),
    }
}

/// Sets the adapter's word of the running task. No effect outside of tasks.
pub fn set_local(local: *const ()) {
    if let Some(frame) = cx::Here::new().frame() {
        frame.set_local(local);
    }
}

/// The meter of the running task. Its address is stable until the task ends. Only the task itself
/// may use it.
#[inline]
pub fn meter() -> Option<*mut MeterWords> {
    // The first fields of a frame are laid out as `MeterWords`, and are cells.
    cx::with_current(|frame| (&raw const *frame).cast_mut().cast::<MeterWords>())
}

/// Slow path of a checkpoint of the running task.
///
/// # Errors
///
/// As for [`Cx::checkpoint`](crate::Cx::checkpoint).
pub fn checkpoint_slow() -> Result<()> {
    cx::Here::new().frame().map_or(Ok(()), |frame| frame.checkpoint_slow())
}

/// Yields, if called on a task.
///
/// # Errors
///
/// If the task was cancelled.
pub fn yield_now() -> Result<()> {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else {
        std::thread::yield_now();
        return Ok(());
    };
    frame.yield_now()
}

/// Charges the running task. No effect outside of tasks.
///
/// # Errors
///
/// As for [`Cx::charge`](crate::Cx::charge).
pub fn charge(cost: Budget) -> Result<()> {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else { return Ok(()) };
    frame.checkpoint_for(cost)
}

/// Counts memory of the adapter's own heap against the budget of the running task; see
/// [`release_memory`]. No effect outside of tasks.
///
/// # Errors
///
/// If there is no budget for it; then nothing is counted.
pub fn hold_memory(bytes: usize) -> Result<()> {
    cx::Here::new().frame().map_or(Ok(()), |frame| frame.hold(bytes))
}

/// Credits memory to the running task that it has counted by [`hold_memory`].
pub fn release_memory(bytes: usize) {
    if let Some(frame) = cx::Here::new().frame() {
        frame.freed(bytes);
    }
}

/// Balance of the running task; unlimited outside of tasks.
pub fn balance() -> Budget {
    cx::Here::new().frame().map_or(Budget::UNLIMITED, |frame| frame.balance())
}

/// Account of the running task.
pub fn account() -> Option<Account> {
    cx::with_current(|frame| Account::of(frame.settings(), frame.pool()))
}

/// The number of the running task.
pub fn task_id() -> Option<TaskId> {
    cx::with_current(|frame| TaskId(frame.record().id()))
}

/// Tests whether the running task was cancelled.
///
/// # Errors
///
/// If it was.
pub fn check_cancelled() -> Result<()> {
    cx::Here::new().frame().map_or(Ok(()), |frame| frame.check_cancelled())
}

/// Bytes of stack that are left below the caller; `None` outside of tasks.
pub fn stack_left() -> Option<usize> {
    cx::with_current(|frame| frame.stack_left())
}

/// Ends the running task with an error, by unwinding it.
pub fn stop(error: Error) -> ! {
    crate::base::error::Stop::unwind(error)
}

/// The same runtime without its profile in the type. The adapter must do the checks of the types at
/// run time (see [`ProfileId`](crate::profile::ProfileId)).
pub fn erase<P: Profile>(runtime: Runtime<P>) -> Runtime<Service> {
    runtime.erase()
}

/// The context of a task of an [erased](erase) runtime under the profile that it was built with.
/// The adapter checks that it is this one (see [`ProfileId`](crate::profile::ProfileId)).
pub fn under<P: Profile>(cx: &Cx<Service>) -> &Cx<P> {
    cx.under()
}

const _: () = {
    assert!(std::mem::offset_of!(MeterWords, slice) == 0);
    assert!(std::mem::offset_of!(MeterWords, limit) == 8);
    assert!(std::mem::offset_of!(MeterWords, signal) == 16);
};

#[cfg(all(test, not(loom)))]
mod tests;
