//! Waiting until a token is cancelled.
//!
//! The steps are those of `wait`: a callback is registered under the lock of the node, which is marked under the same
//! lock, so the callback is called or the mark is seen. The callback wakes the waiter, which looks at the mark; dropping its
//! guard takes it back.

use super::{CancelReason, CancelToken};
use crate::base::error::{Error, ErrorKind, Result};
use crate::wait::{Deadline, Ended, Waiter, Why};
use crate::wait::{charge, park};
use std::time::{Duration, Instant};

impl CancelToken {
    /// Waits until the token is cancelled, and says why it was. On a task the task is parked, elsewhere the thread
    /// is blocked. A checkpoint if it has to wait.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let hangup = CancelToken::new();
    /// let theirs = hangup.clone();
    /// let thread = std::thread::spawn(move || theirs.wait()); // blocks the thread
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let cleaner = n.spawn(|_| hangup.wait())?; // parks the task
    ///         hangup.cancel();
    ///         assert_eq!(cleaner.join()?, CancelReason::Explicit);
    ///         Ok(())
    ///     })
    /// })?;
    /// assert_eq!(thread.join().unwrap()?, CancelReason::Explicit);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the task was cancelled and the token was not, or the task has no budget left for the wait. To wait for
    /// [the task's own token](crate::Cx::token) is a success when it is cancelled.
    pub fn wait(&self) -> Result<CancelReason> {
        self.wait_until(|| Deadline::Never)
    }

    /// As [`wait`](CancelToken::wait), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or as for [`wait`](CancelToken::wait).
    pub fn wait_timeout(&self, time: Duration) -> Result<CancelReason> {
        self.wait_until(|| Deadline::after(time))
    }

    /// As [`wait`](CancelToken::wait), until a point in time by the clock of [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`wait`](CancelToken::wait).
    pub fn wait_deadline(&self, at: Instant) -> Result<CancelReason> {
        self.wait_until(|| Deadline::at(at))
    }

    fn wait_until(&self, deadline: impl FnOnce() -> Deadline) -> Result<CancelReason> {
        if let Some(reason) = self.reason() {
            return Ok(reason);
        }
        let (waiter, deadline) = (Waiter::current(), deadline());
        let _registered = self.on_cancel(move |_| waiter.wake());
        let why = Why::signal("cancellation of a token", &*self.node);
        let mut ended = charge().unwrap_or_else(|| park(deadline, why));
        loop {
            if let Some(reason) = self.reason() {
                return Ok(reason);
            }
            if ended? == Ended::TimedOut {
                return Err(Error::new(ErrorKind::TimedOut));
            }
            ended = park(deadline, why);
        }
    }
}
