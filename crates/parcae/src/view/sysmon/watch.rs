//! What the monitor knows of a worker: whether it is there, rests, moves or is still.

use super::bell::Resting;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// What the monitor sees of a worker, beside its counters.
pub(crate) struct Presence {
    /// The system's id of the worker's thread; 0 while there is none. Written under the lock of the crew.
    tid: AtomicI32,
    /// Whether it may be asked where it is.
    askable: AtomicBool,
    pub(crate) resting: Resting,
}

impl Presence {
    pub(crate) fn new() -> Presence {
        Presence {
            tid: AtomicI32::new(0),
            askable: AtomicBool::new(false),
            resting: Resting::new(),
        }
    }

    /// Whether there is a thread.
    pub(crate) fn is_present(&self) -> bool {
        self.tid() != 0
    }

    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) // a hint, or read under the lock
    }

    /// The worker's thread begins, or ends with 0. Under the lock of the crew.
    pub(crate) fn set_tid(&self, tid: i32, askable: bool) {
        // Relaxed, both: read under the same lock where it matters.
        self.tid.store(tid, Ordering::Relaxed);
        self.askable.store(askable, Ordering::Relaxed);
    }

    /// The thread, if it may be asked where it is. Under the lock of the crew.
    pub(crate) fn askable(&self) -> Option<i32> {
        self.askable.load(Ordering::Relaxed).then(|| self.tid()) // written under the same lock
    }

    pub(crate) fn rests(&self) -> bool {
        self.resting.get()
    }
}

/// What was seen of a worker, look by look.
#[derive(Debug)]
pub(super) struct Watch {
    pulse: u64,
    /// When it was first seen with this pulse.
    since: Instant,
    /// How long its thread had been on a processor when it was first seen still.
    pub(super) on_cpu: Option<Duration>,
    /// Whether its thread slept in the kernel at the last look.
    pub(super) blocked: bool,
    /// Whether this stall was reported.
    pub(super) reported: bool,
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It searches or sleeps.
    Resting,
    /// It has made a step since the last look.
    Moving,
    /// It has made none for so long.
    Still(Duration),
}

impl Watch {
    pub(super) fn new(now: Instant) -> Watch {
        Watch { pulse: 0, since: now, on_cpu: None, blocked: false, reported: false }
    }

    pub(super) fn pulse(&self) -> u64 {
        self.pulse
    }

    /// There is nobody to watch.
    pub(super) fn forget(&mut self, now: Instant) {
        *self = Watch { pulse: self.pulse, ..Watch::new(now) };
    }

    pub(super) fn look(&mut self, now: Instant, pulse: u64, rests: bool) -> Verdict {
        if rests || pulse != self.pulse {
            *self = Watch { pulse, ..Watch::new(now) };
            return if rests { Verdict::Resting } else { Verdict::Moving };
        }
        Verdict::Still(now.duration_since(self.since))
    }
}
