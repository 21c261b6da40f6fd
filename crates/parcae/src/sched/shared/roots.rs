//! Counts root tasks: tasks without a group.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of root tasks that were spawned, and that have ended. Spawners write one count and
/// workers the other, each on a cache line of its own. Relaxed throughout: figures for observers,
/// which order nothing.
#[derive(Debug, Default)]
pub(crate) struct RootCount {
    spawned: CountLine,
    ended: CountLine,
}

#[derive(Debug, Default)]
#[cfg_attr(not(feature = "unpadded"), repr(align(64)))]
struct CountLine(AtomicU64);

impl RootCount {
    pub(crate) fn spawned(&self) {
        self.spawned.0.fetch_add(1, Ordering::Relaxed); // see the type
    }

    /// A root task has ended, or was refused.
    pub(crate) fn ended(&self) {
        self.ended.0.fetch_add(1, Ordering::Relaxed); // see the type
    }

    /// As new. No other thread uses it.
    pub(crate) fn reset(&self) {
        self.spawned.0.store(0, Ordering::Relaxed); // one thread
        self.ended.0.store(0, Ordering::Relaxed);
    }

    /// Number of root tasks that have not ended, roughly while some are spawned or end.
    pub(crate) fn live(&self) -> usize {
        let ended = self.ended.0.load(Ordering::Relaxed); // see the type
        // Relaxed: see the type. Read later than the other, so that the difference is not negative.
        let spawned = self.spawned.0.load(Ordering::Relaxed);
        usize::try_from(spawned.saturating_sub(ended)).unwrap_or(usize::MAX)
    }
}
