//! The event log of the deterministic executor: all events in order, with virtual time.
//!
//! Events have the same encoding as in rings (`kind.rs`).

use super::kind::is_start_of;
use super::ring::Words;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// All events of a run. Behind a mutex because a foreign thread may spawn or wake; such a run is
/// not reproducible.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Advanced by the executor alone. Relaxed: its readers are on the same thread.
    now: AtomicU64,
    /// Whether events are kept; if not, it is only a clock. Relaxed: changed by the lab alone,
    /// between two schedules.
    keeps: AtomicBool,
    events: Mutex<Vec<Words>>,
}

impl EventLog {
    pub(crate) fn new(keeps: bool) -> EventLog {
        EventLog { now: AtomicU64::new(0), keeps: AtomicBool::new(keeps), events: Mutex::default() }
    }

    /// The number of the step.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed) // see `now`
    }

    /// As new. Called by the lab, between two schedules.
    pub(crate) fn reset(&self, keeps: bool) {
        self.now.store(0, Ordering::Relaxed); // see `now`
        if self.keeps() {
            self.lock().clear();
        }
        self.keeps.store(keeps, Ordering::Relaxed); // see `keeps`
    }

    /// Whether events are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed) // see `keeps`
    }

    pub(crate) fn advance(&self) {
        self.now.fetch_add(1, Ordering::Relaxed); // see `now`
    }

    /// Moves the clock forward.
    pub(crate) fn advance_to(&self, time: u64) {
        self.now.fetch_max(time, Ordering::Relaxed); // see `now`
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Words>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next event needs more memory.
    pub(crate) fn is_full(&self) -> bool {
        self.keeps() && {
            let events = self.lock();
            events.len() == events.capacity()
        }
    }

    /// Makes room for the next events. Called while no task is charged for memory.
    pub(crate) fn grow(&self) {
        self.lock().reserve(1);
    }

    pub(crate) fn push(&self, event: Words) {
        if self.keeps() {
            self.lock().push(event);
        }
    }

    /// Completes the start event of a task with its name and spawn location.
    pub(crate) fn amend(&self, task: u64, origin: u64) {
        if !self.keeps() {
            return;
        }
        if let Some(last) = self.lock().last_mut().filter(|words| is_start_of(words, task)) {
            last[3] = origin;
        }
    }

    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The events from number `first` on.
    pub(crate) fn since(&self, first: usize) -> Vec<Words> {
        self.lock()[first..].to_vec()
    }

    /// The log as bytes: equal bytes mean equal runs, on any machine.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }
}
