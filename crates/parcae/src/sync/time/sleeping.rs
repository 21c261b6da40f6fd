//! Sleeping in async code.
//!
//! A timer wakes the future's waker, which lies behind a lock because the timer may fire on another
//! thread than the one that polls. The waker is in place before the timer is armed, and a later
//! waker replaces it under the lock: the timer finds the present one, or has set `fired`, which the
//! poll looks at after it has put its waker there.

use crate::base::error::{Error, Result};
use crate::base::lock::Lock;
use crate::sched::Shared;
use crate::sched::timers::{ArmedTimer, Due, Expire};
use crate::scope::cx::Here;
use crate::scope::cx::parking::checkpoint;
use crate::wait::{Waiter, Wake};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Sleeps for a time in async code that a task polls; see [`sleep`](super::sleep).
///
/// ```
/// use parcae::prelude::*;
/// use parcae::time;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let start = rt.run(|cx| {
///     let start = time::now();
///     cx.nursery(|n| n.spawn_future(time::sleep_async(Duration::from_secs(60)))?.join())?;
///     assert!(time::now() - start >= Duration::from_secs(60));
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn sleep_async(time: Duration) -> SleepFuture {
    SleepFuture { at: super::now().checked_add(time), alarm: None, timer: None }
}

/// Sleeps until a point in time on the clock of [`now`](super::now), in async code that a task
/// polls.
pub fn sleep_until_async(at: Instant) -> SleepFuture {
    SleepFuture { at: Some(at), alarm: None, timer: None }
}

/// The future of [`sleep_async`] and [`sleep_until_async`]. A poll is a checkpoint.
///
/// Its error: the task is cancelled, its budget is exhausted, or no task polls it, so that there is
/// no clock.
#[must_use = "futures do nothing unless they are polled"]
pub struct SleepFuture {
    /// None: for ever.
    at: Option<Instant>,
    alarm: Option<Arc<SleepAlarm>>,
    /// Disarmed with the future.
    timer: Option<ArmedTimer<Arc<Shared>>>,
}

impl SleepFuture {
    /// The end of the sleep; `None` if it is beyond all clocks.
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }
}

struct SleepAlarm(Lock<SleepState>);

struct SleepState {
    waker: Option<Waker>,
    fired: bool,
}

impl Expire for SleepAlarm {
    fn expire(self: Arc<SleepAlarm>) {
        let mut state = self.0.lock();
        state.fired = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            Waiter::Future(waker).wake();
        }
    }

    fn end_grace(self: Arc<SleepAlarm>) {}
}

impl Future for SleepFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let here = Here::new();
        let Some(frame) = here.frame() else {
            let text = "an async sleep needs a task: spawn the future, or use `time::sleep`";
            return Poll::Ready(Err(Error::msg(text)));
        };
        checkpoint(frame)?;
        let Some(at) = this.at else { return Poll::Pending };
        let shared = &frame.settings().shared;
        let at = shared.nanos(at);
        loop {
            if shared.now() >= at {
                (this.timer, this.alarm) = (None, None);
                return Poll::Ready(Ok(()));
            }
            let waker = context.waker().clone(); // user code, before the lock is taken
            if let Some(alarm) = &this.alarm {
                let mut state = alarm.0.lock();
                if !state.fired {
                    let old = state.waker.replace(waker);
                    drop(state);
                    drop(old);
                    return Poll::Pending;
                }
                drop(state);
                (this.timer, this.alarm) = (None, None);
                continue; // it is time, or the task has moved to a clock that is behind
            }
            let state = SleepState { waker: Some(waker), fired: false };
            let alarm = Arc::new(SleepAlarm(Lock::new(state)));
            this.timer = Some(shared.at_for(at, Due::expire(&alarm)));
            this.alarm = Some(alarm);
            return Poll::Pending;
        }
    }
}

impl fmt::Debug for SleepFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepFuture").field("at", &self.at).finish_non_exhaustive()
    }
}
