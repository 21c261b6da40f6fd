//! Periodic ticks.

use super::{now, sleep_until};
use crate::base::error::Result;
use std::time::{Duration, Instant};

/// The policy for ticks that were missed because the caller was late.
///
/// With a period of 10, after the tick for 10 was taken at 35:
///
/// | | the next ticks are at |
/// |---|---|
/// | `Burst` | 35 (for 20), 35 (for 30), 40, 50 |
/// | `Delay` | 45, 55, 65 |
/// | `Skip` | 40, 50, 60 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTicks {
    /// Missed ticks come at once, one after another: as many ticks as periods have passed.
    #[default]
    Burst,
    /// The next tick comes one period after the late one: two ticks are never closer than a period.
    Delay,
    /// Missed ticks are skipped: ticks stay at multiples of the period.
    Skip,
}

/// Periodic ticks; see [`interval`].
#[derive(Debug, Clone)]
pub struct Interval {
    next: Instant,
    period: Duration,
    missed: MissedTicks,
}

/// Ticks every `period`, first after one period.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::time;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|_| {
///     let start = time::now();
///     let mut ticks = time::interval(Duration::from_secs(60));
///     for _ in 0..3 {
///         ticks.tick()?;
///     }
///     assert!(time::now() - start >= Duration::from_secs(180));
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Panics
///
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    interval_at(later(now(), period), period)
}

/// Ticks every `period`, first at a point in time.
///
/// # Panics
///
/// If the period is zero.
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period must not be zero");
    Interval { next: first, period, missed: MissedTicks::default() }
}

impl Interval {
    /// Sets the policy for missed ticks.
    #[must_use]
    pub fn missed(mut self, missed: MissedTicks) -> Interval {
        self.missed = missed;
        self
    }

    /// Waits for the next tick, and returns the time at which it was due. A checkpoint like
    /// [`sleep`](super::sleep), even if the tick is late. A tick whose wait was cancelled is not
    /// lost.
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or its budget is exhausted.
    pub fn tick(&mut self) -> Result<Instant> {
        let due = self.next;
        sleep_until(due)?;
        self.next = self.after(due, now());
        Ok(due)
    }

    /// The tick that follows the one due at `due` and taken at `now`.
    fn after(&self, due: Instant, now: Instant) -> Instant {
        let next = later(due, self.period);
        if now < next {
            return next; // on time
        }
        match self.missed {
            MissedTicks::Burst => next,
            MissedTicks::Delay => later(now, self.period),
            MissedTicks::Skip => {
                let late = now.saturating_duration_since(due).as_nanos();
                let period = self.period.as_nanos();
                let left = period - late % period; // at least 1
                later(now, Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
            }
        }
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Restarts the interval: the next tick is one period from now.
    pub fn reset(&mut self) {
        self.next = later(now(), self.period);
    }
}

/// A point in time after `from`, saturated to one that is practically never.
fn later(from: Instant, time: Duration) -> Instant {
    let never = || from + Duration::from_secs(1 << 32);
    from.checked_add(time).unwrap_or_else(never)
}
