//! What adapters to other languages build on. Not for programs to use.
//!
//! Here is what the safe interface cannot offer, because it needs promises that only an adapter can make:
//!
//! - [`OpenNursery`]: a nursery that is opened by one call and closed by another;
//! - a [word](set_local) of the running task's own, for what the adapter keeps for it: it stays with the
//!   task wherever that goes on;
//! - the [meter] of the running task, for checkpoints that are inlined into other code;
//! - a runtime whose profile was [chosen at run time](erase).

pub use crate::scope::nursery::foreign::OpenNursery;

use crate::api::runtime::Runtime;
use crate::base::error::{Error, Result, TaskId};
use crate::budget::Account;
use crate::scope::budget::Budget;
use crate::scope::cx;
use crate::scope::profile::{Profile, Service};

/// What a checkpoint looks at. `slice` is the task's own; the other two point to words that others raise.
///
/// A checkpoint goes on if `slice > *limit | *signal`, and takes one off `slice`; otherwise it has to
/// [`attend`]. The pointers are read anew at each checkpoint: `limit` changes with the task's nurseries.
#[repr(C)]
#[derive(Debug)]
pub struct Meter {
    /// Ops until the next turn of others.
    pub slice: u64,
    /// Raised when the task is cancelled.
    pub limit: *const u64,
    /// Raised when the task has to look around.
    pub signal: *const u32,
}

/// A call that came on a stack which is not that of the running task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongStack;

/// What the adapter keeps for the running task; none outside of tasks, null if it keeps nothing for this one.
///
/// # Errors
///
/// If the caller runs on another stack than the task's own.
#[inline]
pub fn local() -> Result<Option<*const ()>, WrongStack> {
    match cx::current() {
        None => Ok(None),
        Some(frame) if frame.local().is_null() || frame.is_here() => Ok(Some(frame.local())),
        Some(_) => Err(WrongStack),
    }
}

/// Keeps something for the running task. Nothing happens outside of tasks.
pub fn set_local(local: *const ()) {
    if let Some(frame) = cx::current() {
        frame.set_local(local);
    }
}

/// The meter of the running task: at one address until the task ends. Only the task itself may use it.
#[inline]
pub fn meter() -> Option<*mut Meter> {
    // The first fields of a frame are laid out as `Meter`, and are cells.
    cx::current().map(|frame| (&raw const *frame).cast_mut().cast::<Meter>())
}

/// What a checkpoint of the running task does that cannot simply go on.
///
/// # Errors
///
/// As for [`Cx::checkpoint`](crate::Cx::checkpoint).
pub fn attend() -> Result<()> {
    cx::current().map_or(Ok(()), |frame| frame.attend())
}

/// Lets others run, if called on a task.
///
/// # Errors
///
/// If the task was cancelled.
pub fn yield_now() -> Result<()> {
    let Some(frame) = cx::current() else {
        std::thread::yield_now();
        return Ok(());
    };
    frame.yield_now()
}

/// Charges the running task; nothing happens outside of tasks.
///
/// # Errors
///
/// As for [`Cx::charge`](crate::Cx::charge).
pub fn charge(cost: Budget) -> Result<()> {
    let Some(frame) = cx::current() else { return Ok(()) };
    frame.checkpoint_for(cost)
}

/// What the running task has left; unlimited outside of tasks.
pub fn balance() -> Budget {
    cx::current().map_or(Budget::UNLIMITED, |frame| frame.balance())
}

/// What the running task draws on.
pub fn account() -> Option<Account> {
    cx::current().map(|frame| Account::of(frame.terms(), frame.pool()))
}

/// The number of the running task.
pub fn task_id() -> Option<TaskId> {
    cx::current().map(|frame| TaskId(frame.record().id()))
}

/// An error if the running task was asked to end.
///
/// # Errors
///
/// That it was.
pub fn check_cancelled() -> Result<()> {
    cx::current().map_or(Ok(()), |frame| frame.check_cancelled())
}

/// How much stack the running task has left below the caller; none outside of tasks.
pub fn stack_left() -> Option<usize> {
    cx::current().map(|frame| frame.stack_left())
}

/// Ends the running task with an error, by unwinding it.
pub fn stop(error: Error) -> ! {
    crate::base::error::Stop::unwind(error)
}

/// The same runtime, with its profile known to the adapter alone: that has to check what the types
/// would have checked (see [`ProfileId`](crate::profile::ProfileId)).
pub fn erase<P: Profile>(runtime: Runtime<P>) -> Runtime<Service> {
    runtime.erase()
}

const _: () = {
    assert!(std::mem::offset_of!(Meter, slice) == 0);
    assert!(std::mem::offset_of!(Meter, limit) == 8);
    assert!(std::mem::offset_of!(Meter, signal) == 16);
};

#[cfg(all(test, not(loom)))]
mod tests;
