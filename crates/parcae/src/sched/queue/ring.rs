//! A bounded ring that any thread pushes to and takes from, without locks.
//!
//! The ring counts positions, which only grow; position `p` lives in slot `p mod capacity`.
//! `tail` is the next position to push, `head` the next to take. Each slot has a sequence
//! number that says for which position it is ready, and for which end:
//!
//! ```text
//!   seq == p              free for the push of position p
//!   seq == p + 1          published: holds the task of position p
//!   seq == p + capacity   free for the push of the next lap
//! ```
//!
//! An end claims positions by moving its counter, after it saw in the sequence numbers that
//! the slots are ready for it; then it alone touches the slots' contents, and passes them on
//! by writing the next sequence number. Positions are words that do not wrap in the life of
//! a machine, so that a counter never shows an old value again. With one slot "published"
//! and "free for the next lap" would be the same number: a ring has at least two.
//!
//! Between claim and publication a position can be seen in `tail` but not be taken, and
//! hides those behind it. [`super::inject`] says why that loses nothing.

use super::link::{Chain, Linked, enter, leave};
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// How often a push tries before it reports failure. Each try that fails means that another
/// push got the position; more than a handful in a row was never seen. Small under loom, to
/// have the failure explored.
const TRIES: usize = if cfg!(loom) { 2 } else { 32 };

/// Maximum number of positions claimed at once. It bounds the work that is repeated when the
/// exchange fails, and the time that the last task stays hidden behind the first.
const BATCH: usize = 64;

/// Sequence number of a slot, relative to its position: ready to push.
const FREE: usize = 0;
/// Sequence number of a slot, relative to its position: ready to take.
const PUBLISHED: usize = 1;

/// A counter alone on its cache line, and on the one that is fetched along with it.
#[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
struct RingPosition(AtomicUsize);

/// See the module.
pub(super) struct InjectRing<T> {
    /// Next position to push. Moved by pushers.
    tail: RingPosition,
    /// Next position to take. Moved by takers.
    head: RingPosition,
    slots: Box<[RingSlot<T>]>,
}

struct RingSlot<T> {
    seq: AtomicUsize,
    /// Written by the pusher that claimed the position, read by the taker that did.
    task: UnsafeCell<*mut T>,
}

// SAFETY: the sequence numbers give a slot's `task` to one thread at a time, and `Linked`
// allows to hand pointers to tasks to other threads.
unsafe impl<T: Linked> Send for InjectRing<T> {}
// SAFETY: as above.
unsafe impl<T: Linked> Sync for InjectRing<T> {}

impl<T: Linked> InjectRing<T> {
    /// An empty ring. `capacity` is a power of two and at least 2.
    pub(super) fn new(capacity: usize) -> InjectRing<T> {
        assert!(capacity.is_power_of_two() && capacity >= 2, "capacity {capacity}");
        let slot = |p| RingSlot {
            seq: AtomicUsize::new(p + FREE),
            task: UnsafeCell::new(ptr::null_mut()),
        };
        InjectRing {
            tail: RingPosition(AtomicUsize::new(0)),
            head: RingPosition(AtomicUsize::new(0)),
            slots: (0..capacity).map(slot).collect(),
        }
    }

    /// Adds a task, or returns false: no room, or too many others push at the same moment.
    ///
    /// # Safety
    ///
    /// As for `Inject::push`; on failure the task is still the caller's.
    #[inline]
    pub(super) unsafe fn push(&self, task: NonNull<T>) -> bool {
        let Some((pos, _)) = self.claim(&self.tail, FREE, 1, TRIES) else { return false };
        // SAFETY: the caller's promise, and the position was claimed.
        unsafe { self.publish(pos, task) };
        true
    }

    /// Moves tasks from the front of the chain into the ring until one does not fit.
    pub(super) fn push_chain(&self, chain: &mut Chain<T>) {
        while !chain.is_empty() {
            let limit = chain.len().min(BATCH);
            let Some((first, count)) = self.claim(&self.tail, FREE, limit, TRIES) else { return };
            for i in 0..count {
                let task = chain.pop_front().expect("no more was claimed than the chain has");
                // SAFETY: the task left the chain, and its position was claimed.
                unsafe { self.publish(first.wrapping_add(i), task) };
            }
        }
    }

    /// Takes the first task, if it is published.
    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<T>> {
        let (pos, _) = self.claim(&self.head, PUBLISHED, 1, usize::MAX)?;
        // SAFETY: the position was claimed.
        Some(unsafe { self.take(pos) })
    }

    /// Takes the first tasks that are published, up to `limit`, to the end of the chain.
    pub(super) fn pop_chain(&self, limit: usize, chain: &mut Chain<T>) {
        let mut left = limit;
        while left > 0 {
            let limit = left.min(BATCH);
            let claim = self.claim(&self.head, PUBLISHED, limit, usize::MAX);
            let Some((first, count)) = claim else { return };
            for i in 0..count {
                // SAFETY: the position was claimed; the task is in no queue between the two.
                unsafe { chain.push_back(self.take(first.wrapping_add(i))) };
            }
            left -= count;
        }
    }

    /// How many positions are pushed or claimed, and not taken. At least the number of
    /// tasks whose push happened before this call and that were not taken.
    #[inline]
    pub(super) fn len(&self) -> usize {
        // Relaxed, both: a push that happened before this call moved `tail` before, and one
        // word is coherent. `head` may be newer than `tail` here, then all that `tail`
        // counted was taken. Against pushes at the same time, see `Inject::is_empty`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Relaxed);
        (tail.wrapping_sub(head) as isize).max(0) as usize
    }

    /// Claims up to `limit` positions at one end whose slots are in `phase`, or returns
    /// `None` where the first one is not, or after `tries`. Gives the first and the count.
    ///
    /// Every repetition starts from a larger position than the one before: an exchange
    /// fails because another thread moved the counter, and a slot that is ahead was made so
    /// by a thread that moved the counter before (its sequence number was acquired).
    #[inline]
    fn claim(
        &self,
        end: &RingPosition,
        phase: usize,
        limit: usize,
        tries: usize,
    ) -> Option<(usize, usize)> {
        // A guess; the exchange below verifies it.
        let mut first = end.0.load(Ordering::Relaxed);
        for _ in 0..tries {
            match self.lag(first, phase) {
                0 => {}
                behind if behind < 0 => return None, // full, or empty, or not published yet
                _ => {
                    // Another thread had this position: look where the end is now. The
                    // sequence number was acquired, so that this reads a newer value.
                    first = end.0.load(Ordering::Relaxed);
                    continue;
                }
            }
            let mut count = 1;
            while count < limit && self.lag(first.wrapping_add(count), phase) == 0 {
                count += 1;
            }
            // Relaxed: the counter shares out positions and nothing else; what is in the
            // slots is handed over by their sequence numbers. The slots that were seen
            // ready stay so until their position is claimed, which happens here.
            match end.0.compare_exchange_weak(
                first,
                first.wrapping_add(count),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some((first, count)),
                Err(now) => first = now,
            }
        }
        None
    }

    /// How far the slot of a position is before (-) or beyond (+) a phase of that position.
    #[inline]
    fn lag(&self, pos: usize, phase: usize) -> isize {
        // Acquire: pairs with the store in `publish` where a taker looks for a task, and
        // with the store in `take` where a pusher looks for room.
        let seq = self.slot(pos).seq.load(Ordering::Acquire);
        seq.wrapping_sub(pos.wrapping_add(phase)) as isize
    }

    /// Fills a slot and passes it to the takers.
    ///
    /// # Safety
    ///
    /// The caller claimed `pos` for a push, and the task is its own.
    #[inline]
    unsafe fn publish(&self, pos: usize, task: NonNull<T>) {
        let slot = self.slot(pos);
        // SAFETY: the task is the caller's; the slot is, from claim to publication.
        unsafe {
            enter(task);
            slot.task.with_mut(|place| *place = task.as_ptr());
        }
        // Release: slot and record are complete; pairs with the load in `lag` of a taker.
        // Nothing of the record is touched from here on: it may have run and be gone.
        slot.seq.store(pos.wrapping_add(PUBLISHED), Ordering::Release);
    }

    /// Empties a slot and passes it to the pushers of the next lap.
    ///
    /// # Safety
    ///
    /// The caller claimed `pos` for a take.
    #[inline]
    unsafe fn take(&self, pos: usize) -> NonNull<T> {
        let slot = self.slot(pos);
        // SAFETY: the slot is the caller's from claim to the store below, and a published
        // slot holds a task that was given to `publish`.
        let task = unsafe { NonNull::new_unchecked(slot.task.with(|place| *place)) };
        let lap = self.slots.len();
        // Release: the slot has been read; pairs with the load in `lag` of a pusher.
        slot.seq.store(pos.wrapping_add(lap), Ordering::Release);
        // SAFETY: the task just left the ring.
        unsafe { leave(task) };
        task
    }

    #[inline]
    fn slot(&self, pos: usize) -> &RingSlot<T> {
        &self.slots[pos & (self.slots.len() - 1)]
    }
}
