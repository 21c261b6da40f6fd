//! Heartbeats: whether a worker rests, makes steps, or is still.

use std::time::{Duration, Instant};

/// The progress of a worker from check to check.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pulse: u64,
    /// When this pulse was first seen.
    since: Instant,
    /// Processor time of its thread when it was first seen still.
    pub(super) on_cpu: Option<Duration>,
    /// Whether its thread slept in the kernel at the last check.
    pub(super) blocked: bool,
    /// Whether this stall was reported.
    pub(super) reported: bool,
}

/// State of a worker, by its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It searches or sleeps.
    Resting,
    /// It has made a step since the last check.
    Moving,
    /// It has made no step for this long.
    Still(Duration),
}

impl Heartbeat {
    pub(super) fn new(now: Instant) -> Heartbeat {
        Heartbeat { pulse: 0, since: now, on_cpu: None, blocked: false, reported: false }
    }

    pub(super) fn pulse(&self) -> u64 {
        self.pulse
    }

    /// The worker has no thread, or has rested until now.
    pub(super) fn forget(&mut self, now: Instant) {
        *self = Heartbeat { pulse: self.pulse, ..Heartbeat::new(now) };
    }

    pub(super) fn check(&mut self, now: Instant, pulse: u64, rests: bool) -> Verdict {
        if rests || pulse != self.pulse {
            *self = Heartbeat { pulse, ..Heartbeat::new(now) };
            return if rests { Verdict::Resting } else { Verdict::Moving };
        }
        Verdict::Still(now.duration_since(self.since))
    }
}
