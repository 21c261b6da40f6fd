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
mod sleeping;

pub use interval::{Interval, MissedTicks, interval, interval_at};
pub use sleeping::{SleepFuture, sleep_async, sleep_until_async};

use crate::base::error::Result;
use crate::sched::lab::is_any_alive;
use crate::sched::worker::ordered::recorded_time;
use crate::scope::cx;
use std::time::{Duration, Instant};

/// The current time: on a task by its runtime's clock, which may be virtual, elsewhere by the
/// system's. Not a checkpoint: a polling loop needs one of its own.
pub fn now() -> Instant {
    match cx::Here::new().frame() {
        Some(frame) => {
            let shared = &frame.settings().shared;
            let now = shared.now_instant();
            if is_any_alive() { shared.instant(recorded_time(shared.nanos(now))) } else { now }
        }
        None => Instant::now(),
    }
}

/// Whether a point in time has passed. In a task it reads no clock while that is more than about a
/// millisecond away.
///
/// ```
/// use std::time::Duration;
///
/// let soon = parcae::time::now() + Duration::from_millis(3);
/// assert!(!parcae::time::has_passed(soon + Duration::from_secs(60)));
/// parcae::time::sleep(Duration::from_millis(3))?;
/// assert!(parcae::time::has_passed(soon));
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn has_passed(at: Instant) -> bool {
    match cx::Here::new().frame() {
        Some(frame) => {
            let shared = &frame.settings().shared;
            !shared.seems_far(shared.nanos(at)) && at <= shared.now_instant()
        }
        None => at <= Instant::now(),
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
#[track_caller]
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
#[track_caller]
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

#[cfg(all(test, not(loom)))]
mod tests;
