//! Timers as receivers of points in time.
//!
//! There is no channel behind a timer and no sender: a receive reads the clock. So timers cost
//! nothing until a receiver waits, need no runtime, and leave nothing behind when dropped. A lock
//! guards the receive state: whether an [`After`] was received, and when the next of [`Ticks`] is
//! due. So each point in time is received once, by one of its waiters.
//!
//! Points in time are on the clock of [`time::now`]: the runtime's clock on a task, the system's
//! elsewhere.

use super::error::{Reason, RecvError};
use super::operation::{charge, may_wait, prepare};
use crate::base::lock::Lock;
use crate::scope::cx::Here;
use crate::scope::cx::parking::{Deadline, wait};
use crate::sync::select::{NeverCase, TimerCase};
use crate::sync::time;
use crate::wait::Why;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// A receiver of one value, the deadline itself, when `time` has passed from now.
///
/// For a case of `select!` whose time counts from here, not from each call:
///
/// ```
/// use parcae::channel::{after, channel};
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let sum = rt.run(|cx| {
///     cx.nursery(|n| {
///         let (tx, rx) = channel(4);
///         n.spawn(move |cx| {
///             for i in 1.. {
///                 cx.sleep(Duration::from_secs(1))?;
///                 if tx.send(i).is_err() {
///                     break; // the receiver has closed
///                 }
///             }
///             Ok(())
///         })?;
///         let enough = after(Duration::from_millis(3_500));
///         let mut sum = 0;
///         loop {
///             parcae::select! {
///                 recv(rx) -> i => sum += i?,
///                 recv(enough) -> _ => break,
///             }?;
///         }
///         drop(rx);
///         Ok(sum)
///     })
/// })?;
/// assert_eq!(sum, 1 + 2 + 3);
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn after(time: Duration) -> After {
    After { due: Lock::new(time::now().checked_add(time)) }
}

/// A receiver of one value, `instant`, once that time has come.
///
/// ```
/// use parcae::channel::at;
/// use parcae::time;
/// use std::time::Duration;
///
/// let noon = time::now() + Duration::from_millis(2);
/// let bell = at(noon);
/// assert!(bell.try_recv().is_err());
/// assert_eq!(bell.recv()?, noon);
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn at(instant: Instant) -> After {
    After { due: Lock::new(Some(instant)) }
}

/// A receiver of the time every `period`, first after one period.
///
/// A tick that is not received in time is kept, and the ticks it delays are skipped: ticks stay at
/// multiples of the period. [`Interval`](crate::time::Interval) offers other policies.
///
/// ```
/// use parcae::channel::tick;
/// use parcae::prelude::*;
/// use parcae::time;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|_| {
///     let (start, minutes) = (time::now(), tick(Duration::from_secs(60)));
///     for minute in 1..=3 {
///         assert_eq!(minutes.recv()?, start + minute * Duration::from_secs(60));
///     }
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Panics
///
/// If the period is zero.
pub fn tick(period: Duration) -> Ticks {
    assert!(!period.is_zero(), "the period must not be zero");
    Ticks { next: Lock::new(time::now().checked_add(period)), period }
}

/// A receiver that never gets a value, for a case of `select!` that is disabled at the moment.
///
/// ```
/// use parcae::channel::{Receiver, channel, never};
///
/// let (tx, rx) = channel(1);
/// tx.send(7)?;
/// let nothing = never::<u8>();
/// let got = parcae::select! {
///     recv(rx) -> v => v?,
///     recv(nothing) -> v => v?,
/// }?;
/// assert_eq!(got, 7);
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn never<T>() -> Never<T> {
    Never(PhantomData)
}

/// A point in time that comes once; see [`after`] and [`at`]. One receive gets it. A later one
/// waits until it is cancelled.
pub struct After {
    /// `None` once it was received, or if it is beyond the range of the clock.
    due: Lock<Option<Instant>>,
}

/// A periodic point in time; see [`tick`]. One receive gets each tick.
pub struct Ticks {
    next: Lock<Option<Instant>>,
    period: Duration,
}

/// A receiver that never gets a value; see [`never()`].
pub struct Never<T>(PhantomData<fn() -> T>);

/// A source of points in time.
pub(crate) trait Timer {
    /// The next point in time. `None` if there is none.
    fn due(&self) -> Option<Instant>;

    /// Takes the point in time that is due by now.
    fn take(&self, now: Instant) -> Option<Instant>;
}

impl Timer for After {
    fn due(&self) -> Option<Instant> {
        *self.due.lock()
    }

    fn take(&self, now: Instant) -> Option<Instant> {
        self.due.lock().take_if(|due| *due <= now)
    }
}

impl Timer for Ticks {
    fn due(&self) -> Option<Instant> {
        *self.next.lock()
    }

    fn take(&self, now: Instant) -> Option<Instant> {
        let mut next = self.next.lock();
        let due = next.filter(|&due| due <= now)?;
        // To the next multiple of the period. Less than a period away, so it fits if the period
        // does.
        let late = (now - due).as_nanos() % self.period.as_nanos();
        let left = self.period - Duration::from_nanos(u64::try_from(late).unwrap_or(0));
        *next = now.checked_add(left);
        Some(due)
    }
}

fn interrupted(error: crate::Error) -> RecvError {
    RecvError::new(Reason::Interrupted(error))
}

/// Waits for the next point in time. A cancel point, charged like a receive.
fn recv(timer: &dyn Timer, name: &'static str) -> Result<Instant, RecvError> {
    let here = Here::new();
    let payer = prepare(&here).map_err(interrupted)?;
    loop {
        let now = time::now();
        if let Some(due) = timer.take(now) {
            charge(payer);
            return Ok(due);
        }
        let (deadline, why) = match timer.due() {
            Some(due) => (Deadline::after(due.saturating_duration_since(now)), Why::Sleep(None)),
            None => (Deadline::Never, Why::signal(name, timer)),
        };
        may_wait(payer).and_then(|()| wait(payer, deadline, why)).map_err(interrupted)?;
    }
}

fn try_recv(timer: &dyn Timer) -> Result<Instant, RecvError> {
    let here = Here::new();
    let payer = prepare(&here).map_err(interrupted)?;
    let due = timer.take(time::now()).ok_or_else(|| RecvError::new(Reason::WouldWait))?;
    charge(payer);
    Ok(due)
}

/// Methods of both timers.
macro_rules! timer {
    ($Timer:ident, $name:literal, $due:ident) => {
        impl $Timer {
            /// Waits for the next point in time, and returns it. The present may be later. A cancel
            /// point, charged like a receive from a channel.
            ///
            /// # Errors
            ///
            /// If the task is cancelled or its budget is exhausted. The point in time can still be
            /// received.
            pub fn recv(&self) -> Result<Instant, RecvError> {
                recv(self, $name)
            }

            /// Receives the point in time if it has come.
            ///
            /// # Errors
            ///
            /// As for `recv`, or the call would have to wait.
            pub fn try_recv(&self) -> Result<Instant, RecvError> {
                try_recv(self)
            }

            /// This timer as a case of `select!`.
            #[doc(hidden)]
            pub fn __select(&self) -> TimerCase<'_> {
                TimerCase::new(self)
            }
        }

        impl fmt::Debug for $Timer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let due = *self.$due.lock(); // not held while formatting
                f.debug_struct(stringify!($Timer)).field("due", &due).finish_non_exhaustive()
            }
        }
    };
}

timer!(After, "a time that has passed", due);
timer!(Ticks, "a tick", next);

impl<T> Never<T> {
    /// This receiver as a case of `select!`.
    #[doc(hidden)]
    pub fn __select(&self) -> NeverCase<T> {
        NeverCase::new()
    }
}

impl<T> Clone for Never<T> {
    fn clone(&self) -> Never<T> {
        never()
    }
}

impl<T> fmt::Debug for Never<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Never")
    }
}
