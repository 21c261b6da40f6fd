//! Who searches, who sleeps, and who is woken.
//!
//! # States of a worker
//!
//! *Busy* (has work), *searching* (looks for work in other queues), *sleeping* (its bit is
//! set; it waits on its futex). One word counts searchers and sleepers; a bitmap says who sleeps.
//!
//! # Protocol
//!
//! ```text
//! whoever publishes work                  a worker that found none
//!   1. puts it into a queue                 1. becomes a sleeper: count, then bit
//!   2. full fence                           2. full fence
//!   3. searchers = 0 and sleepers > 0?      3. looks at every queue that it may take from
//!      takes a sleeper's bit, counts it        – found: takes its bit back and works
//!      as a searcher, unparks it               – nothing: waits on its futex
//! ```
//!
//! # Why no work is stranded
//!
//! The two fences are in one total order. If the publisher's comes first, the worker's look at the queues sees
//! the work. If the worker's comes first, the publisher sees the sleeper and wakes it, unless there is
//! a searcher. A searcher that finds nothing becomes a sleeper itself and looks again *after*
//! its fence, so it sees the work or is seen. A searcher that finds something else
//! and was the last one wakes another (`stop_searching` says so): the work that its presence
//! kept others from being woken for is not forgotten.
//!
//! # Why not more are woken than needed
//!
//! One unit of work wakes at most one worker, and none while one is searching; each woken
//! worker counts as a searcher from the moment it is chosen.
//!
//! Work that only one worker may take (its inbox) wakes that worker if its bit is set, by
//! the same fences.
//!
//! What was rejected: a condition variable over one mutex (every submit takes it), and
//! waking on every push (S4's trap 25: nine of ten wake-ups found nothing).

mod parker;
mod poller;
mod spin;

pub(crate) use parker::Parker;
pub(crate) use poller::{Poller, Slept};
pub(crate) use spin::{Spin, SpinPolicy};

use crate::base::shim::atomic::{AtomicU64, Ordering, fence};

const SLEEPING: u64 = 1;
const SEARCHING: u64 = 1 << 32;

/// What became of choosing one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notified {
    /// It was awake.
    Awake,
    /// It slept: the caller unparks it.
    Chosen,
    /// Another was faster. For a moment there seemed to be one searcher more than there
    /// was; who was kept from waking somebody by that is made up for by `notify_any`.
    Raced,
}

/// Who searches and who sleeps.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Searchers in the upper half, sleepers in the lower.
    counts: AtomicU64,
    /// A bit for each sleeper.
    sleepers: Box<[AtomicU64]>,
    workers: usize,
}

impl Idle {
    /// For so many workers, and temporary ones.
    pub(crate) fn new(workers: usize, temporary: usize) -> Idle {
        let words = (workers + temporary).div_ceil(64);
        let sleepers = (0..words).map(|_| AtomicU64::new(0)).collect();
        Idle { counts: AtomicU64::new(0), sleepers, workers }
    }

    /// Becomes a searcher, unless half of the workers are.
    pub(crate) fn try_search(&self) -> bool {
        // Relaxed: a limit that may be exceeded by a few does no harm.
        let searching = self.counts.load(Ordering::Relaxed) / SEARCHING;
        if 2 * searching as usize >= self.workers.max(2) {
            return false;
        }
        // Relaxed: being counted keeps publishers from waking others; the fence in
        // `fall_asleep` makes up for that.
        self.counts.fetch_add(SEARCHING, Ordering::Relaxed);
        true
    }

    /// Stops being a searcher because work was found; says whether to wake another.
    pub(crate) fn stop_searching(&self) -> bool {
        // AcqRel: whoever reads the count afterwards sees that this worker took its work.
        let before = self.counts.fetch_sub(SEARCHING, Ordering::AcqRel);
        before / SEARCHING == 1
    }

    /// Becomes a sleeper. The caller looks at every queue after this, before it sleeps.
    pub(crate) fn fall_asleep(&self, worker: usize, was_searching: bool) {
        let change = if was_searching { SLEEPING.wrapping_sub(SEARCHING) } else { SLEEPING };
        // Relaxed: ordered by the fence below.
        self.counts.fetch_add(change, Ordering::Relaxed);
        let (word, bit) = self.bit(worker);
        word.fetch_or(bit, Ordering::Relaxed); // ordered by the fence below
        // Pairs with the fences in `notify_any` and `notify`.
        fence(Ordering::SeqCst); // the sleeper's
    }

    /// Stops being a sleeper and becomes a searcher: there is work, and whoever published
    /// it may have woken nobody because this worker was searching before. False if somebody
    /// has chosen this worker meanwhile: its futex is about to be set.
    pub(crate) fn stay_awake(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // AcqRel: of two who clear the bit, one sees that the other did.
        let mine = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if mine {
            // As in `claim`.
            self.counts.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::AcqRel);
        }
        mine
    }

    /// A sleeper leaves for good: it is neither chosen nor counted any more.
    pub(crate) fn leave(&self, worker: usize) {
        if self.stay_awake(worker) {
            // Relaxed: there is no more work that anybody could be kept from.
            self.counts.fetch_sub(SEARCHING, Ordering::Relaxed);
        }
    }

    /// A sleeper leaves while others go on. False if it was chosen meanwhile: then it is a searcher and stays.
    /// Never a searcher itself, so nobody relies on it.
    pub(crate) fn retire(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // AcqRel: as in `stay_awake`.
        let retired = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if retired {
            // AcqRel: as in `claim`. Until then it is counted, and nobody finds its bit.
            self.counts.fetch_sub(SLEEPING, Ordering::AcqRel); // one sleeper less
        }
        retired
    }

    /// Whether anybody sleeps or searches, at this moment.
    pub(crate) fn anybody(&self) -> bool {
        self.counts.load(Ordering::Relaxed) != 0 // a hint
    }

    /// Chooses a sleeper for work that any worker can take and that was published before.
    /// The caller unparks it.
    #[must_use]
    pub(crate) fn notify_any(&self) -> Option<usize> {
        // Pairs with the fence in `fall_asleep`.
        fence(Ordering::SeqCst); // the publisher's
        // Relaxed: ordered by the fence.
        let counts = self.counts.load(Ordering::Relaxed);
        if counts >= SEARCHING || counts & (SEARCHING - 1) == 0 {
            return None;
        }
        self.choose()
    }

    #[cold]
    fn choose(&self) -> Option<usize> {
        loop {
            let found = self.sleepers.iter().enumerate().find_map(|(index, word)| {
                let seen = word.load(Ordering::Relaxed); // `claim` decides
                (seen != 0).then(|| index * 64 + seen.trailing_zeros() as usize)
            })?;
            if self.claim(found) {
                return Some(found);
            }
            // It took its bit back, and may have retired. Whoever took us for a searcher meanwhile has woken
            // nobody: we look for those that it would have woken, too. Pairs with the fence in `fall_asleep`.
            fence(Ordering::SeqCst); // who chose in vain
        }
    }

    /// Chooses this worker, for work that only it can take and that was published before.
    #[must_use]
    pub(crate) fn notify(&self, worker: usize) -> Notified {
        // Pairs with the fence in `fall_asleep`.
        fence(Ordering::SeqCst); // the sender's
        if !self.is_asleep(worker) {
            Notified::Awake
        } else if self.claim(worker) {
            Notified::Chosen
        } else {
            Notified::Raced
        }
    }

    /// Whether the worker's bit is set.
    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        word.load(Ordering::Relaxed) & bit != 0 // a hint, or ordered by the caller's fence
    }

    /// Takes a sleeper's bit and counts it as a searcher.
    fn claim(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        let change = SEARCHING.wrapping_sub(SLEEPING);
        // AcqRel: counted before the bit is gone, since whoever finds its bit gone takes
        // itself for a searcher. If another was faster the counts are off for a moment;
        // who reads them then finds no bit, or a searcher that is about to search.
        self.counts.fetch_add(change, Ordering::AcqRel);
        // AcqRel: as in `stay_awake`.
        let mine = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if !mine {
            self.counts.fetch_sub(change, Ordering::AcqRel);
        }
        mine
    }

    fn bit(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.sleepers[worker / 64], 1 << (worker % 64))
    }
}

#[cfg(all(test, loom))]
mod models;
