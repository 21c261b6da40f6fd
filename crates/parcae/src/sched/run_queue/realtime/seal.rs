//! Seals: breaches of the tasks of a context, if they are stages of an island.
//!
//! A seal belongs to a context. The stage itself enforces it (`scope::cx::frame`) and counts here;
//! the counters are read by observers. All of it is off the usual paths.

use crate::base::error::IslandRefused;
use crate::base::lock::Lock;
use crate::sched::run_queue::RunQueues;
use crate::sched::task::ContextIndex;
use crate::sched::timers::Expire;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The seal of one context. Relaxed, all of it: counters, and a setting that is written before the
/// first task of the context starts.
pub(crate) struct Seal {
    /// Whether the first breach ends the context.
    stops: AtomicBool,
    /// Allocations of sealed code, their bytes, and those of them that were not reported yet.
    allocations: AtomicU64,
    bytes: AtomicU64,
    unreported: AtomicU64,
    /// Operations that were refused.
    refused: AtomicU64,
    /// The first breach.
    first: Lock<Option<IslandRefused>>,
}

/// The counters of a seal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SealFigures {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
    pub(crate) refused: u64,
    pub(crate) first: Option<IslandRefused>,
}

impl Seal {
    pub(super) fn new() -> Seal {
        Seal {
            stops: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            first: Lock::new(None),
        }
    }

    /// As new.
    pub(crate) fn reset(&self, stops: bool) {
        self.stops.store(stops, Ordering::Relaxed); // see the type
        for counter in [&self.allocations, &self.bytes, &self.unreported, &self.refused] {
            counter.store(0, Ordering::Relaxed); // see the type
        }
        *self.first.lock() = None;
    }

    /// Sealed code has allocated.
    pub(crate) fn allocated(&self, bytes: usize) {
        self.allocations.fetch_add(1, Ordering::Relaxed); // see the type
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed); // see the type
        self.unreported.fetch_add(1, Ordering::Relaxed); // see the type
    }

    /// The allocations since the last call, as a breach.
    pub(crate) fn take_allocations(&self) -> Option<IslandRefused> {
        let times = self.unreported.swap(0, Ordering::Relaxed); // see the type
        let bytes = self.bytes.load(Ordering::Relaxed); // see the type
        (times > 0).then_some(IslandRefused::Allocation { times, bytes })
    }

    /// Counts a breach. Returns whether it ends the context.
    pub(crate) fn breached(&self, what: IslandRefused) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed); // see the type
        self.first.lock().get_or_insert(what);
        self.stops.load(Ordering::Relaxed) // see the type
    }

    pub(crate) fn figures(&self) -> SealFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // see the type
        SealFigures {
            allocations: read(&self.allocations),
            bytes: read(&self.bytes),
            refused: read(&self.refused),
            first: *self.first.lock(),
        }
    }
}

impl RunQueues {
    /// The seal of a context.
    pub(crate) fn seal(&self, context: ContextIndex) -> Option<&Seal> {
        self.realtime().map(|table| table.seal(context))
    }

    /// Ends a context for good, if it was not revoked: to be called without a lock.
    pub(crate) fn context_end(&self, context: ContextIndex) -> Option<Weak<dyn Expire>> {
        self.realtime()?.context_end(context)
    }
}
