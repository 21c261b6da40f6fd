//! The idle protocol: workers search for work, then sleep, and are woken for new work.
//!
//! # States of a worker
//!
//! | state | means | counted in |
//! |---|---|---|
//! | busy | it has work | – |
//! | searching | it looks for work in other queues | the upper half of `counts` |
//! | sleeping | its bit is set; it sleeps in its [`Poller`] | the lower half of `counts`, and `sleepers` |
//!
//! # Protocol
//!
//! ```text
//! a publisher of work                     a worker that found none
//!   1. pushes it into a queue               1. becomes a sleeper: count, then bit
//!   2. full fence                           2. full fence
//!   3. searchers = 0 and sleepers > 0?      3. looks at every queue that it may take from
//!      takes a sleeper's bit, counts it        – found: takes its bit back and works
//!      as a searcher, wakes its poller         – nothing: sleeps in its poller
//! ```
//!
//! # Why no work is stranded
//!
//! The two fences are in one total order. If the publisher's comes first, the worker's look at the
//! queues sees the work. If the worker's comes first, the publisher sees the sleeper and wakes it,
//! unless there is a searcher. A searcher that finds nothing becomes a sleeper itself and looks
//! again *after* its fence, so it sees the work or is seen. The last searcher that finds other work
//! wakes another worker (`stop_searching` says so), because publishers relied on its search.
//!
//! The argument leans on two other modules: the last look answers *not empty* for every push that
//! happened before (`run_queue`), and a wake between that look and the sleep ends the sleep
//! ([`poller`], which lists the guarantees of a poller).
//!
//! # Events of descriptors
//!
//! A sleeper may also be woken by the kernel, for tasks that only it may run. Then it takes its bit
//! back by [`retire`](Idle::retire) and works; it is no searcher. No publisher relies on it: while
//! its bit was set it was a sleeper, and a publisher that took the bit has made it a searcher,
//! which `retire` reports. So an event wakes one worker, and not a second one to search in its
//! place.
//!
//! # Why no more workers are woken than needed
//!
//! One unit of work wakes at most one worker, and none while one is searching; a woken worker
//! counts as a searcher from the moment it is chosen.
//!
//! Work that only one worker may take (its pinned inbox) wakes that worker if its bit is set, by
//! the same fences.
//!
//! # Rejected
//!
//! A condition variable over one mutex: every submit takes it. Waking on every push: nine of ten
//! wake-ups found nothing.

mod linger;
mod parker;
mod poller;
mod spin;

pub(crate) use linger::Linger;
pub(crate) use parker::Parker;
#[cfg(feature = "io")]
pub use poller::KernelEvents;
#[cfg(all(test, loom, not(feature = "io")))]
pub(crate) use poller::KernelEvents;
pub use poller::SocketBackend;
pub(crate) use poller::{Poller, Slept};
pub(crate) use spin::{Spin, SpinPolicy};

use crate::base::shim::atomic::{AtomicU64, Ordering, fence};

const SLEEPING: u64 = 1;
const SEARCHING: u64 = 1 << 32;

/// Outcome of choosing one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notified {
    /// It was awake.
    Awake,
    /// It slept: the caller unparks it.
    Chosen,
    /// Another thread was faster. For a moment there seemed to be one searcher more than there was;
    /// a publisher that woke no worker because of it is made up for by `notify_any`.
    Raced,
}

/// The searchers and sleepers of a scheduler.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Searchers in the upper half, sleepers in the lower.
    counts: AtomicU64,
    /// A bit for each sleeper.
    sleepers: Box<[AtomicU64]>,
    /// A bit for each worker that takes no work of others: it is not chosen. A hint: a worker that
    /// is chosen nevertheless passes the choice on (`run_queue::realtime::lease`).
    away: Box<[AtomicU64]>,
    workers: usize,
}

impl Idle {
    /// For so many workers and temporary workers.
    pub(crate) fn new(workers: usize, temporary: usize) -> Idle {
        let words = (workers + temporary).div_ceil(64);
        let bits = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Idle { counts: AtomicU64::new(0), sleepers: bits(), away: bits(), workers }
    }

    /// All workers are awake. No other thread uses it.
    pub(crate) fn reset(&self) {
        self.counts.store(0, Ordering::Relaxed); // one thread
        for word in self.sleepers.iter().chain(&self.away) {
            word.store(0, Ordering::Relaxed); // as above
        }
    }

    /// Becomes a searcher, unless half of the workers are.
    pub(crate) fn try_search(&self) -> bool {
        // Relaxed: a limit; exceeding it by a few does no harm.
        let searching = self.counts.load(Ordering::Relaxed) / SEARCHING;
        if 2 * searching as usize >= self.workers.max(2) {
            return false;
        }
        // Relaxed: the count keeps publishers from waking others, and the fence in `fall_asleep`
        // makes up for that.
        self.counts.fetch_add(SEARCHING, Ordering::Relaxed);
        true
    }

    /// Stops being a searcher because work was found; says whether to wake another worker.
    pub(crate) fn stop_searching(&self) -> bool {
        // AcqRel: pairs with the other changes of `counts`, here and in `claim`: the last searcher
        // is ordered after the others that took work.
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
        // Pairs with the fences in `notify_any`, `notify` and `choose`.
        fence(Ordering::SeqCst); // the sleeper's
    }

    /// Stops being a sleeper and becomes a searcher: there is work, and its publisher may have
    /// woken no worker because this one was searching before. False if another thread has chosen
    /// this worker meanwhile: a wake of its poller is on its way.
    pub(crate) fn stay_awake(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // AcqRel: pairs with the other read-modify-writes of this word (`claim`, `retire`,
        // `fall_asleep`): of two threads that clear the bit, one finds it cleared.
        let mine = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if mine {
            // AcqRel: as in `claim`.
            self.counts.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::AcqRel);
        }
        mine
    }

    /// A sleeper leaves for good: it is neither chosen nor counted any more.
    pub(crate) fn leave(&self, worker: usize) {
        if self.stay_awake(worker) {
            // Relaxed: all tasks have ended, so no publisher relies on the count.
            self.counts.fetch_sub(SEARCHING, Ordering::Relaxed);
        }
    }

    /// A sleeper leaves while other workers continue. False if it was chosen meanwhile: then it is
    /// a searcher and stays. Otherwise it is not a searcher, so no publisher relies on it.
    pub(crate) fn retire(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // AcqRel: as in `stay_awake`.
        let retired = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if retired {
            // AcqRel: as in `claim`. Until then it is counted, and its bit is not found.
            self.counts.fetch_sub(SLEEPING, Ordering::AcqRel); // one sleeper less
        }
        retired
    }

    /// Whether any worker sleeps or searches, at this moment.
    pub(crate) fn anybody(&self) -> bool {
        self.counts.load(Ordering::Relaxed) != 0 // a hint, which orders nothing
    }

    /// Whether one of so many workers is awake besides the caller, at this moment.
    pub(crate) fn is_another_awake(&self, workers: usize) -> bool {
        // Relaxed: a hint, which orders nothing.
        let sleeping = self.counts.load(Ordering::Relaxed) % SEARCHING;
        (sleeping as usize) + 1 < workers
    }

    /// Chooses a sleeper for work that any worker can take and that was published before. The
    /// caller wakes it.
    #[must_use]
    pub(crate) fn notify_any(&self) -> Option<usize> {
        // Pairs with the fence in `fall_asleep`.
        fence(Ordering::SeqCst); // the publisher's
        // Relaxed: ordered by the fence above.
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
                // Relaxed, both: `claim` decides; and a hint.
                let seen = word.load(Ordering::Relaxed) & !self.away[index].load(Ordering::Relaxed);
                (seen != 0).then(|| index * 64 + seen.trailing_zeros() as usize)
            })?;
            if self.claim(found) {
                return Some(found);
            }
            // The sleeper took its bit back, and may have retired. A publisher that took us for a
            // searcher meanwhile has woken no worker, so we look on for its work, too. Pairs with
            // the fence in `fall_asleep`.
            fence(Ordering::SeqCst); // after a choice in vain
        }
    }

    /// Whether the worker takes no work of others from now on.
    pub(crate) fn set_away(&self, worker: usize, is_away: bool) {
        let (word, bit) = (&self.away[worker / 64], 1 << (worker % 64));
        match is_away {
            true => word.fetch_or(bit, Ordering::Relaxed), // a hint
            false => word.fetch_and(!bit, Ordering::Relaxed), // as above
        };
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
        word.load(Ordering::Relaxed) & bit != 0 // Relaxed: a hint, or ordered by the caller's fence
    }

    /// Takes a sleeper's bit and counts it as a searcher.
    fn claim(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        let change = SEARCHING.wrapping_sub(SLEEPING);
        // AcqRel: pairs with the other changes of `counts`. Counted before the bit is cleared: a
        // worker that finds its bit cleared takes itself for a searcher. If another thread was
        // faster the counts are off for a moment; a reader then finds no bit, or a searcher about
        // to search.
        self.counts.fetch_add(change, Ordering::AcqRel);
        // AcqRel: as in `stay_awake`.
        let mine = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if !mine {
            // AcqRel: pairs with the other changes of `counts`, as the addition above.
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
