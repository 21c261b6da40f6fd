//! Rate limits: a bucket that fills with time.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::rate::Limiter;
//! use std::time::Duration;
//!
//! let rt = Runtime::builder().deterministic(1).build()?;
//! rt.run(|cx| {
//!     // Two at once, and one more each half second.
//!     let limiter = Limiter::new(2, Duration::from_secs(1));
//!     assert!(limiter.try_take(1).is_ok() && limiter.try_take(1).is_ok());
//!     let wait = limiter.try_take(1).unwrap_err(); // how long until there is one
//!     assert!(wait <= Duration::from_millis(500));
//!     cx.sleep(wait)?;
//!     assert!(limiter.try_take(1).is_ok());
//!     Ok(limiter.take(1)?) // waits by itself
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! The bucket is one point in time: that at which it was, or would have been, empty (the *generic
//! cell rate algorithm*). Taking moves it forward; a bucket is full when that point is a whole
//! period in the past. So there is no timer and no task that fills it.

use parcae::time;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A limit of so many units in a period, on the clock of the runtime.
#[derive(Debug)]
pub struct Limiter {
    /// Time that one unit takes to come back.
    each: Duration,
    period: Duration,
    /// When the bucket was empty; before that, it is full.
    empty: Mutex<Option<Instant>>,
}

impl Limiter {
    /// Allows `units` at once, and as many in each period from then on.
    ///
    /// # Panics
    ///
    /// If there are no units, or the period is too short for them.
    pub fn new(units: u32, period: Duration) -> Limiter {
        assert!(units > 0, "a limit of no units allows nothing");
        let each = period / units;
        assert!(!each.is_zero(), "a unit takes at least a nanosecond");
        Limiter { each, period: each * units, empty: Mutex::new(None) }
    }

    /// Takes units, if there are enough.
    ///
    /// # Errors
    ///
    /// The time after which there are enough, if none is taken meanwhile; `Duration::MAX` for more
    /// units than the bucket holds. Then nothing was taken.
    pub fn try_take(&self, units: u32) -> Result<(), Duration> {
        let now = time::now();
        let cost = self.each.checked_mul(units).filter(|cost| *cost <= self.period);
        let Some(cost) = cost else { return Err(Duration::MAX) };
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let full = now.checked_sub(self.period);
        // Not before a full bucket.
        let from = match (*empty, full) {
            (Some(empty), Some(full)) => empty.max(full),
            (Some(empty), None) => empty,
            (None, full) => full.unwrap_or(now),
        };
        let after = from + cost;
        if after > now {
            return Err(after - now);
        }
        *empty = Some(after);
        Ok(())
    }

    /// Waits until there are enough units, and takes them. A cancel point.
    ///
    /// # Errors
    ///
    /// If the task is cancelled: then nothing was taken. For more units than the bucket holds.
    pub fn take(&self, units: u32) -> parcae::Result<()> {
        loop {
            match self.try_take(units) {
                Ok(()) => return Ok(()),
                Err(Duration::MAX) => {
                    let text = format!("{units} units are more than the limiter ever has at once");
                    let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
                    return Err(error.into());
                }
                Err(wait) => time::sleep(wait)?,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use parcae::prelude::*;

    /// However the calls are spread, no window of a period has more than twice the units, and the
    /// long run has the rate.
    #[test]
    fn the_long_run_has_the_rate() {
        for seed in 0..50 {
            let rt = Runtime::builder().deterministic(seed).build().unwrap();
            let taken = rt.run(|cx| {
                let limiter = Limiter::new(10, Duration::from_secs(1));
                let began = parcae::time::now();
                let mut taken = 0_u32;
                let mut state = seed;
                while parcae::time::now() - began < Duration::from_secs(20) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    cx.sleep(Duration::from_millis(state >> 59))?;
                    taken += u32::from(limiter.try_take(1).is_ok());
                }
                assert_eq!(limiter.try_take(11), Err(Duration::MAX));
                Ok(taken)
            });
            let taken = taken.unwrap();
            assert!((200..=211).contains(&taken), "{taken}");
        }
    }
}
