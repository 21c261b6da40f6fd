//! Ticks.

use super::{now, sleep_until};
use crate::base::error::Result;
use std::time::{Duration, Instant};

/// What happens to ticks that were missed because nobody asked for them in time.
///
/// With ticks every 10, after one that was taken at 35 instead of 10:
///
/// | | the next are at |
/// |---|---|
/// | `Burst` | 35 (for 20), 35 (for 30), 40, 50 |
/// | `Delay` | 45, 55, 65 |
/// | `Skip` | 40, 50, 60 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTicks {
    /// They come at once, one after another: as many ticks as time has passed.
    #[default]
    Burst,
    /// The next one comes a whole period after the late one: never two closer than a period.
    Delay,
    /// They are left out: ticks stay at multiples of the period.
    Skip,
}

/// Ticks every so often; see [`interval`].
#[derive(Debug, Clone)]
pub struct Interval {
    next: Instant,
    period: Duration,
    missed: MissedTicks,
}

/// Ticks every so often, for the first time after one period.
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

/// Ticks every so often, for the first time at a point in time.
///
/// # Panics
///
/// If the period is zero.
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval without a period");
    Interval { next: first, period, missed: MissedTicks::default() }
}

impl Interval {
    /// What happens to ticks that were missed.
    #[must_use]
    pub fn missed(mut self, missed: MissedTicks) -> Interval {
        self.missed = missed;
        self
    }

    /// Waits for the next tick, and returns when it was due. A checkpoint, as
    /// [`sleep`](super::sleep), also if the tick is late. A tick whose wait was cancelled is still
    /// to come.
    ///
    /// # Errors
    ///
    /// If the task was cancelled, or has used up its budget.
    pub fn tick(&mut self) -> Result<Instant> {
        let due = self.next;
        sleep_until(due)?;
        self.next = self.after(due, now());
        Ok(due)
    }

    /// The tick after the one that was due and is taken now.
    fn after(&self, due: Instant, now: Instant) -> Instant {
        let next = later(due, self.period);
        if now < next {
            return next; // in time
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

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Starts anew: the next tick is one period from now.
    pub fn reset(&mut self) {
        self.next = later(now(), self.period);
    }
}

/// A point in time; one that is as good as never if it is too far away.
fn later(from: Instant, time: Duration) -> Instant {
    let never = || from + Duration::from_secs(1 << 32);
    from.checked_add(time).unwrap_or_else(never)
}
