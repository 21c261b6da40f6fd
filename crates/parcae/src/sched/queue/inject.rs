//! The global queue: a lock-free ring, and a list behind a lock for tasks that do not fit.
//!
//! # Order
//!
//! While the list is not empty, pushes go to the list; takers empty the ring first, then
//! take from the list and move up to [`REFILL`] tasks from it to the ring. Consequences:
//!
//! - Nothing in the list starves. A task in the list can be overtaken by the tasks that the ring
//!   held, and one push (or chain) per thread that had found the list empty just before.
//! - Tasks of one producer keep their order. Its task A in the list, its next task B:
//!   either the list still shows non-empty, then B goes behind A in the list; or A has been
//!   taken, or has its position in the ring, and B gets a later one.
//! - The one exception: another pusher sleeps between claim and publication of its slot, and
//!   the list is not empty. Takers then serve the list, rather than none, and tasks
//!   behind that slot in the ring are overtaken.
//!
//! A backlog that stays larger than the ring costs a lock for each push and one for every
//! `REFILL` takes. That is the price of the bounded ring, and the order is kept for it.
//!
//! # What `is_empty` and `pop` promise
//!
//! *If a push happened before `is_empty`, and its task was not taken, the answer is false.*
//! A push into the ring has moved `tail`, a push into the list has made `spilled` non-zero,
//! and one word is coherent. A task that moves from the list to the ring is seen in one or
//! the other: it is in the ring before `spilled` goes down (release), and `is_empty` reads
//! `spilled` first (acquire) and the ring afterwards. The other way round it could miss it.
//!
//! *If a push happened before `pop`, and its task was not taken, `pop` finds a task, unless
//! the ring's first position is claimed and not published, and the list is empty.* So `pop`
//! may return `None` although `is_empty` is false, for as long as some other thread is in
//! the middle of a push. A worker that re-checks with `is_empty` stays awake for that time.
//! It could as well sleep: the thread in the middle of its push has its look for sleepers
//! still before it, will find this worker and wake it, and the worker then takes the
//! hidden task and those behind it.
//!
//! `push` blocks on nothing but the list's lock, under which no thread waits or allocates and
//! at most [`REFILL`] tasks (and a caller's batch) are moved.

use super::lanes::Lanes;
use super::link::{Chain, Linked};
use super::ring::InjectRing;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::{Mutex, MutexGuard, PoisonError};
use std::fmt;
use std::ptr::NonNull;

/// Slots of the ring. 4096 is the number of the specification; four under loom.
const CAPACITY: usize = if cfg!(loom) { 4 } else { 4096 };

/// How many tasks go from the list to the ring at once: enough that the lock is rare, few
/// enough that it is held for less than a microsecond or so.
const REFILL: usize = 64;

/// The queue that all threads push to and all workers take from.
pub(crate) struct Inject<T: Linked> {
    ring: InjectRing<T>,
    /// Length of the list. Written under its lock; read without, to stay away from it.
    spilled: AtomicUsize,
    list: Mutex<Lanes<T>>,
}

impl<T: Linked> Inject<T> {
    /// An empty queue.
    pub(crate) fn new() -> Inject<T> {
        Inject::with_capacity(CAPACITY)
    }

    /// An empty queue whose ring has `capacity` slots: a power of two, at least 2.
    pub(crate) fn with_capacity(capacity: usize) -> Inject<T> {
        Inject {
            ring: InjectRing::new(capacity),
            spilled: AtomicUsize::new(0),
            list: Mutex::new(Lanes::new()),
        }
    }

    /// Adds a task. The caller then looks for a worker to wake: full fence, then the
    /// sleepers. Every push has to, whatever was in the queue before.
    ///
    /// # Safety
    ///
    /// `task` is live, in no queue, the caller's to hand over, and stays live until it is
    /// taken out again. The caller does not touch it after this call.
    #[inline]
    pub(crate) unsafe fn push(&self, task: NonNull<T>) {
        // SAFETY: the caller's promise; if the ring refuses the task it is still ours.
        if self.may_use_ring() && unsafe { self.ring.push(task) } {
            return;
        }
        let mut one = Chain::new();
        // SAFETY: as above.
        unsafe { one.push_back(task) };
        self.spill(one);
    }

    /// Adds the tasks of a chain, in their order: one claim for each 64, or one lock for
    /// all that do not fit. The caller then wakes as for [`push`](Inject::push).
    pub(crate) fn push_chain(&self, mut chain: Chain<T>) {
        if self.may_use_ring() {
            self.ring.push_chain(&mut chain);
        }
        if !chain.is_empty() {
            self.spill(chain);
        }
    }

    /// Takes a task. The module header defines `None`.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        let spilled = self.has_spilled();
        if let Some(task) = self.ring.pop() {
            return Some(task);
        }
        if !spilled { None } else { self.pop_spilled(1).pop_front() }
    }

    /// Takes up to `limit` tasks. May return fewer although there are more, and none only if
    /// [`pop`](Inject::pop) would find none.
    pub(crate) fn pop_batch(&self, limit: usize) -> Chain<T> {
        let spilled = self.has_spilled();
        let mut chain = Chain::new();
        self.ring.pop_chain(limit, &mut chain);
        if chain.is_empty() && spilled { self.pop_spilled(limit) } else { chain }
    }

    /// Whether the queue is empty: the last check of a worker before it sleeps. The module header
    /// has the guarantee.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // The list first, then the ring: tasks move in that direction. Against a push that
        // runs at the same time, the caller's full fence is what counts; its partner is
        // the fence between `push` and the look for sleepers.
        !self.has_spilled() && self.ring.len() == 0
    }

    /// Approximate number of tasks, for statistics and for the size of a batch.
    pub(crate) fn len_hint(&self) -> usize {
        // Relaxed: a figure; nothing depends on it.
        self.ring.len() + self.spilled.load(Ordering::Relaxed)
    }

    /// Whether a push may go to the ring without overtaking the list.
    #[inline]
    fn may_use_ring(&self) -> bool {
        // Acquire: pairs with the store in `set_spilled`. Zero says that what this
        // producer had in the list was taken or has its position in the ring, before the
        // one that we are about to claim.
        self.spilled.load(Ordering::Acquire) == 0
    }

    /// Whether a taker has to look into the list.
    #[inline]
    pub(super) fn has_spilled(&self) -> bool {
        // Acquire: pairs with the store in `set_spilled`. Zero says that the former
        // content of the list is now to be found in the ring, by the loads that follow.
        let spilled = self.spilled.load(Ordering::Acquire);
        spilled != 0
    }

    /// Puts tasks at the end of the list.
    #[cold]
    fn spill(&self, chain: Chain<T>) {
        let mut list = self.lock();
        list.append(chain);
        self.set_spilled(&list);
    }

    /// Takes up to `limit` tasks when the ring was empty and the list was not.
    #[cold]
    fn pop_spilled(&self, limit: usize) -> Chain<T> {
        let mut list = self.lock();
        // Another taker may have moved tasks to the ring since; these are older.
        let mut taken = Chain::new();
        self.ring.pop_chain(limit, &mut taken);
        let missing = limit - taken.len();
        list.take(missing, &mut taken);
        let mut refill = Chain::new();
        list.take(REFILL, &mut refill);
        self.ring.push_chain(&mut refill);
        list.prepend(refill); // what the ring does not take
        self.set_spilled(&list);
        taken
    }

    /// Publishes the length of the list. Under its lock, after the tasks have moved.
    fn set_spilled(&self, list: &MutexGuard<'_, Lanes<T>>) {
        // Release: a reader of zero finds the moved tasks in the ring; pairs
        // with the loads in `has_spilled` and `may_use_ring`.
        self.spilled.store(list.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<T>> {
        // Nothing under the lock panics, except assertions about the caller.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Linked> fmt::Debug for Inject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inject").field("len_hint", &self.len_hint()).finish_non_exhaustive()
    }
}

impl<T: Linked> Drop for Inject<T> {
    fn drop(&mut self) {
        debug_assert!(
            self.is_empty() || std::thread::panicking(),
            "the global queue was dropped with tasks in it"
        );
    }
}
