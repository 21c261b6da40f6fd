//! Waiting until a token is cancelled.
//!
//! The steps are those of `wait`: the waiter joins the queue of the token's node under the lock
//! under which the node is marked, so it is woken or sees the mark. However the wait ends, the
//! waiter looks at the mark: a cancelled token is a success.

use super::{CancelReason, CancelToken};
use crate::base::error::{Error, ErrorKind, Result};
use crate::scope::cx;
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, charge, wait_in_queue};
use crate::wait::{WaitNode, Why};
use std::time::{Duration, Instant};

impl CancelToken {
    /// Waits until the token is cancelled, and says why it was. On a task the task is parked,
    /// elsewhere the thread is blocked. A checkpoint if it has to wait.
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
    /// If the task was cancelled and the token was not, or the task has no budget left for the
    /// wait. To wait for
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

    /// As [`wait`](CancelToken::wait), until a point in time by the clock of
    /// [`time::now`](crate::time::now).
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
        let (here, node) = (cx::Here::new(), WaitNode::new(()));
        let frame = here.frame();
        // SAFETY: the node stays here until it is granted or withdrawn, by `wait_in_queue` at the
        // latest, and the waiter with it. The frame is the caller's.
        let (_, ended) = unsafe {
            if self.node.subscribe(&node, borrowed_waiter(frame), None) {
                let why = Why::signal("cancellation of a token", &*self.node);
                wait_in_queue(&*self.node, &node, frame, why, deadline, || charge(frame))
            } else {
                (None, Ok(Ended::Woken))
            }
        };
        match (self.reason(), ended) {
            (Some(reason), _) => Ok(reason),
            (None, Ok(_)) => Err(Error::new(ErrorKind::TimedOut)),
            (None, Err(error)) => Err(error),
        }
    }
}
