//! An alarm: a timer that stays armed from one wait of a task to the next.
//!
//! A server gives a connection so much time for each request. Nearly always the request comes
//! first, and the deadline moves on. Arming and disarming a timer for each request costs more than
//! the wait, so the alarm stays as it is while it is early enough: then it wakes the task once in
//! that time, for nothing, and is armed again for the deadline of that moment.
//!
//! # Why no deadline is missed
//!
//! [`arm`](Alarm::arm) is called with a fresh reading of the clock, after which the task does
//! nothing that could consume a wake, and parks. A timer never fires early. So an alarm whose time
//! is later than the reading has not fired before it, and one that fires afterwards ends the park.

use parcae::io::IoTimer;
use std::cell::Cell;
use std::time::Instant;

/// The alarm of one task.
#[derive(Default)]
pub(crate) struct Alarm(Cell<Option<(Instant, IoTimer)>>);

impl Alarm {
    /// The running task wakes up at `until`, or before. False if there is no task.
    pub(super) fn arm(&self, until: Instant, now: Instant) -> bool {
        let kept = self.0.take().filter(|(at, _)| now < *at && *at <= until);
        let armed = kept.or_else(|| Some((until, parcae::io::alarm(until)?)));
        let is_armed = armed.is_some();
        self.0.set(armed);
        is_armed
    }
}
