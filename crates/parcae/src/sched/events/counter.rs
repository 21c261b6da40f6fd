//! A counter with one writer, for statistics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Called by the owner.
    #[inline]
    pub(crate) fn bump(&self) {
        self.add(1);
    }

    /// Adds a number. Called by the owner.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // No read-modify-write: there is one writer. Release costs nothing on x86, and lets
        // `Shared::live` order the spawn of a task before its end: pairs with `get_ordered`.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Release);
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed); // by the lab, which has one thread
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) // statistics
    }

    /// As `get`, ordered before later reads of other counters.
    pub(crate) fn get_ordered(&self) -> u64 {
        self.0.load(Ordering::Acquire) // pairs with the Release in `add`
    }
}
