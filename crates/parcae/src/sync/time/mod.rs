//! Time: sleeping, intervals, deadlines.
//!
//! Points in time are [`Instant`]s on the caller's clock: on a task that of its runtime, elsewhere
//! the system's monotonic clock. Under the deterministic executor the two differ: its time is
//! virtual, and jumps ahead when no task can run. So tasks should call [`now`], not
//! [`Instant::now`].
//!
//! No wait ends early. There is no guarantee on how late it ends. At present the runtime adds up to
//! 66 µs to the delay of the system, half a millisecond with many deadlines, and 4 ms if a worker
//! is stuck in another task. Deadlines more than 146 years away are treated as 146 years away.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::time;
//! use std::time::Duration;
//!
//! let rt = Runtime::builder().deterministic(1).build()?;
//! rt.run(|_| {
//!     let start = time::now();
//!     time::sleep(Duration::from_secs(3_600))?; // virtual time: returns at once
//!     assert!(time::now() - start >= Duration::from_secs(3_600));
//!     Ok(())
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```

mod interval;

pub use interval::{Interval, MissedTicks, interval, interval_at};

use crate::base::error::{Detail, Error, ErrorKind, Result};
use crate::sched::timers::{Due, Nanos};
use crate::scope::cx::parking;
use crate::scope::cx::{self, Cx, Frame};
use crate::scope::profile::Spawns;
use crate::wait::Why;
use crate::{CancelReason, NurseryOpts};
use std::time::{Duration, Instant};

/// The current time: on a task by its runtime's clock, which may be virtual, elsewhere by the
/// system's. Not a checkpoint: a polling loop needs one of its own.
pub fn now() -> Instant {
    match cx::Here::new().frame() {
        Some(frame) => {
            let shared = &frame.settings().shared;
            shared.instant(shared.now())
        }
        None => Instant::now(),
    }
}

/// Sleeps for a time. Parks the task, or blocks a thread that runs no task.
///
/// A checkpoint, which charges one op and lets other tasks run, even if the time is zero:
/// `sleep(Duration::ZERO)` is a yield that costs an op.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::time;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().budget(Budget { ops: 1_000, ..Budget::UNLIMITED }).build()?;
/// let error = rt.run(|cx| cx.forever(|| time::sleep(Duration::ZERO))).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the task is cancelled, or its budget is exhausted.
pub fn sleep(time: Duration) -> Result<()> {
    match now().checked_add(time) {
        Some(at) => sleep_until(at),
        None => loop {
            sleep_until(now() + Duration::from_secs(1 << 30))?; // forever
        },
    }
}

/// Sleeps until a point in time on the clock of [`now`]. A checkpoint that lets other tasks run,
/// even if that time has passed; see [`sleep`].
///
/// ```
/// use parcae::time;
/// use std::time::Duration;
///
/// let at = time::now() + Duration::from_millis(2);
/// time::sleep_until(at)?;
/// assert!(time::now() >= at);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// As for [`sleep`].
pub fn sleep_until(at: Instant) -> Result<()> {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left);
        }
    };
    let shared = &frame.settings().shared;
    let due = shared.nanos(at);
    frame.sleep_until(due)?;
    frame.check_cancelled()
}

impl Frame {
    /// Sleeps until a time of the scheduler. A checkpoint; other tasks run even if that time has
    /// passed.
    pub(crate) fn sleep_until(&self, due: Nanos) -> Result<()> {
        let shared = &self.settings().shared;
        if shared.now() >= due {
            return parking::pass(self);
        }
        parking::checkpoint(self)?;
        let _deadline = shared.at(due, Due::Wake(self.task_ref()));
        while shared.now() < due {
            self.park(Why::Sleep(Some(due)))?;
        }
        Ok(())
    }
}

impl<P: Spawns> Cx<P> {
    /// Runs a closure with a timeout. When the time is up, all cancel points in the closure fail,
    /// and the nurseries that it has opened are cancelled. A checkpoint.
    ///
    /// The timeout takes effect at cancel points only. A closure that completes nevertheless,
    /// because it reaches no cancel point or ignores the error, has its result returned, however
    /// late. A [`blocking`](crate::blocking()) call that has begun is waited for and may delay the
    /// return; the error says so. A [`blocking_static`](crate::blocking_static) call is left
    /// running when the time is up.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let outcome = rt.run(|cx| {
    ///     cx.timeout(Duration::from_millis(2), || cx.forever(|| Ok(())))
    /// });
    /// assert!(outcome.unwrap_err().is_timed_out());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if the closure failed after the time was up, whatever its error: it
    /// may be a closed channel, for example, whose other end was cancelled by the same timeout.
    /// Otherwise the error of the closure.
    pub fn timeout<R>(&self, time: Duration, body: impl FnOnce() -> Result<R>) -> Result<R> {
        self.checkpoint()?;
        let (mut output, mut token) = (None, None);
        let opened = self.nursery_with(NurseryOpts::new().timeout(time), |n| {
            token = Some(n.token());
            let failed = match output.insert(body()) {
                Ok(_) => None,
                Err(error) => Some(error.clone()),
            };
            failed.map_or(Ok(()), Err)
        });
        let timed_out = token.and_then(|token| token.reason()) == Some(CancelReason::Timeout);
        match (output, opened) {
            (Some(Ok(value)), _) => Ok(value),
            // The nursery reports whether this deadline cancelled it, or an earlier cause.
            (Some(Err(inner)), Err(error)) if timed_out && error.is_cancelled() => {
                let detail = Some(Detail::After(Some(time)));
                let late = Error::new(ErrorKind::TimedOut).detailed(detail).noting(inner.note());
                Err(late.with_others(error.others()))
            }
            (Some(Err(error)), _) => Err(error),
            (None, opened) => {
                Err(opened.err().unwrap_or_else(|| Error::new(ErrorKind::NurseryNotActive)))
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
