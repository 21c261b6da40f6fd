//! The timers of one incarnation, by key.
//!
//! They belong to the actor's own task, which waits until the earliest of them. So they end with
//! the incarnation, and a timer that was cancelled or set again cannot fire late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Timers {
    by_key: BTreeMap<Arc<str>, Timer>,
    /// The earliest of them: asked for before each message.
    earliest: Option<Instant>,
}

struct Timer {
    at: Instant,
    period: Option<Duration>,
}

/// A timer that is due.
pub(crate) struct Tick {
    pub(crate) key: Arc<str>,
    /// Periods that passed without a tick of their own.
    pub(crate) missed: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, key: Arc<str>, at: Instant, period: Option<Duration>) {
        let period = period.filter(|period| !period.is_zero());
        self.by_key.insert(key, Timer { at, period });
        self.look();
    }

    pub(crate) fn cancel(&mut self, key: &str) -> bool {
        let removed = self.by_key.remove(key).is_some();
        self.look();
        removed
    }

    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// After each change.
    fn look(&mut self) {
        self.earliest = self.by_key.values().map(|timer| timer.at).min();
    }

    /// Takes the earliest timer that is due. A periodic one is set again, for the first point in
    /// time that is still to come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Tick> {
        let due = self.by_key.iter().filter(|(_, timer)| timer.at <= now);
        let key = Arc::clone(due.min_by_key(|(_, timer)| timer.at)?.0);
        let timer = self.by_key.get_mut(&key)?;
        let mut missed = 0;
        match timer.period {
            None => {
                self.by_key.remove(&key);
            }
            Some(period) => {
                let late = now.duration_since(timer.at).as_nanos() / period.as_nanos();
                missed = u64::try_from(late).unwrap_or(u64::MAX);
                let periods = u32::try_from(late + 1).unwrap_or(u32::MAX);
                timer.at += period * periods;
            }
        }
        self.look();
        Some(Tick { key, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_counted_and_not_made_up_for() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        let second = Duration::from_secs(1);
        timers.set("beat".into(), start + second, Some(second));
        timers.set("once".into(), start + 2 * second, None);
        assert!(timers.take_due(start).is_none());
        let tick = timers.take_due(start + second * 7 / 2).unwrap();
        assert_eq!((&*tick.key, tick.missed), ("beat", 2));
        let tick = timers.take_due(start + second * 7 / 2).unwrap();
        assert_eq!((&*tick.key, tick.missed), ("once", 0));
        assert!(timers.take_due(start + second * 7 / 2).is_none());
        assert_eq!(timers.earliest(), Some(start + 4 * second));
        assert!(timers.cancel("beat") && !timers.cancel("once"));
    }
}
