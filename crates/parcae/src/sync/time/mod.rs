//! Time: sleeping, intervals, deadlines.
//!
//! Points in time are [`Instant`]s, of the clock of whoever asks: on a task that of its runtime,
//! elsewhere the monotonic clock of the system. Under the deterministic executor the two differ:
//! time there is virtual, and passes at once when nobody can run. So on a task ask [`now`], not
//! [`Instant::now`].
//!
//! No wait ends before its time. How late it ends is not guaranteed; at present the runtime adds up
//! to 66 µs to what the system takes, half a millisecond where it has many deadlines, 4 ms if a
//! worker is stuck in another task. Deadlines more than 146 years away are that far away.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::time;
//! use std::time::Duration;
//!
//! let rt = Runtime::builder().deterministic(1).build()?;
//! rt.run(|_| {
//!     let start = time::now();
//!     time::sleep(Duration::from_secs(3_600))?; // at once: nobody else is there
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

/// What time it is: on a task by its runtime's clock, which may be virtual; elsewhere by the
/// system's. Not a checkpoint: a polling loop needs one of its own.
pub fn now() -> Instant {
    match cx::current() {
        Some(frame) => {
            let shared = &frame.settings().shared;
            shared.instant(shared.now())
        }
        None => Instant::now(),
    }
}

/// Waits for a time. On a task the task is parked, elsewhere the thread is blocked.
///
/// A checkpoint, which charges one op, and others run, also if there is nothing to wait for:
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
/// If the task was cancelled, or has used up its budget.
pub fn sleep(time: Duration) -> Result<()> {
    match now().checked_add(time) {
        Some(at) => sleep_until(at),
        None => loop {
            sleep_until(now() + Duration::from_secs(1 << 30))?; // for ever
        },
    }
}

/// Waits until a point in time, by the clock of [`now`]. A checkpoint, and others run, also if that
/// has passed: see [`sleep`].
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
    let Some(frame) = cx::current() else {
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
    /// Waits until a time of the scheduler. A checkpoint; others run also if that time has passed.
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
    /// Runs a closure with a timeout: after that time everything in it that is a cancel point
    /// fails, and so do the nurseries that it has opened. A checkpoint.
    ///
    /// The time is looked at where the closure can be cancelled, not elsewhere. A closure that gets
    /// done all the same, because it comes to no cancel point or does not care, has its result
    /// returned, late as it is. A [`blocking`](crate::blocking()) call that has begun is waited
    /// for, and may make this late; the error says so then.
    /// [`blocking_static`](crate::blocking_static) is left behind when the time is over.
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
    /// [`ErrorKind::TimedOut`] if the closure failed after the time was over, whatever with: a
    /// channel, say, that was closed because its other end was in here too. Or what it failed with
    /// before.
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
            // The nursery says so if it was this deadline, and not something that came before it.
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
