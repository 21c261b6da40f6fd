//! The event log of the deterministic executor: what happened, in order, with virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Spawn = 1,
    Start,
    Resume,
    Yield,
    Park,
    Wake,
    Steal,
    Finish,
    Sleep,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// Virtual time: the number of the step.
    pub(crate) time: u64,
    /// The worker; `u16::MAX` for the outside.
    pub(crate) worker: u16,
    pub(crate) kind: Kind,
    /// The task's id.
    pub(crate) task: u64,
    /// Depends on the kind: the victim of a steal, the worker that a woken task goes to.
    pub(crate) detail: u64,
}

/// All events of a run. Behind a mutex because a foreign thread may spawn or wake; a run in
/// which one does is not the same every time, of course.
#[derive(Debug)]
pub(crate) struct Log {
    /// Advanced by the executor alone. Relaxed: its readers are on the same thread.
    now: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { now: AtomicU64::new(0), events: Mutex::new(Vec::new()) }
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self) {
        self.now.fetch_add(1, Ordering::Relaxed);
    }

    /// Jumps forward.
    pub(crate) fn advance_to(&self, time: u64) {
        self.now.fetch_max(time, Ordering::Relaxed);
    }

    pub(crate) fn push(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// The log as bytes: equal bytes mean equal runs, on any machine.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in self.events.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            bytes.extend(event.time.to_le_bytes());
            bytes.extend(event.worker.to_le_bytes());
            bytes.push(event.kind as u8);
            bytes.extend(event.task.to_le_bytes());
            bytes.extend(event.detail.to_le_bytes());
        }
        bytes
    }
}
