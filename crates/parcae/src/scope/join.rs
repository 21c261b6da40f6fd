//! Joining a task: the part that handles of children and of root tasks share.
//!
//! A handle has three things: a test for the end, the `End` that its waiters queue at, and the
//! result, which is taken once. A child keeps its result in its record, and its end is made on
//! first use; a root task has both in an allocation of its own, because it may outlive every
//! record. All forms of joining follow from these.

use crate::base::error::{Detail, Error, ErrorKind, Result};
use crate::base::reason::CancelReason;
use crate::sched::Shared;
use crate::scope::cx::parking::{Deadline, Ended, wait_for_end};
use crate::scope::cx::{Frame, Here};
use crate::wait::{Ends, Why};
use std::sync::Arc;
use std::time::Duration;

/// The handle of a task that can be joined.
pub(crate) trait Joinable: Ends + Sized {
    /// The result of the task.
    type Value;

    /// The task's number, and its scheduler: for reports.
    fn identity(&self) -> (u64, &Arc<Shared>);

    /// The result of a task that has ended.
    fn take_result(self) -> Result<Self::Value>;

    /// The outcome of a wait that failed because the caller was cancelled.
    fn interrupted(self, error: Error) -> Result<Self::Value> {
        Err(error)
    }

    /// The caller, if it is a task of the same runtime.
    fn sibling<'h>(&self, here: &'h Here) -> Option<&'h Frame> {
        here.frame().filter(|frame| Arc::ptr_eq(&frame.settings().shared, self.identity().1))
    }

    /// Waits until the task has ended, without consuming the handle. A cancel point.
    fn wait_until(&self, deadline: Deadline) -> Result<Ended> {
        if self.has_ended() {
            return Ok(Ended::Woken);
        }
        let why = match self.sibling(&Here::new()) {
            Some(_) => Why::Task(self.identity().0),
            None => Why::Elsewhere,
        };
        wait_for_end(self.end().0, deadline, why)
    }

    /// The result if the task has ended, otherwise the handle.
    fn try_take(self) -> Result<Result<Self::Value>, Self> {
        if self.has_ended() { Ok(self.take_result()) } else { Err(self) }
    }

    /// The result if the task ends in time, otherwise the handle.
    fn take_within(self, time: Duration) -> Result<Result<Self::Value>, Self> {
        match self.wait_until(Deadline::after(time)) {
            Ok(Ended::Woken) => Ok(self.take_result()),
            Ok(Ended::TimedOut) => Err(self),
            Err(error) => Ok(self.interrupted(error)),
        }
    }
}

/// Adds to an explicit cancellation the place where it was asked for.
pub(crate) fn with_place(error: Error, at: Option<Detail>) -> Error {
    match error.kind() {
        ErrorKind::Cancelled(CancelReason::Explicit) => error.detailed(at),
        _ => error,
    }
}
