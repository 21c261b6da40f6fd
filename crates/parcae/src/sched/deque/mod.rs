//! A worker's queue of stealable tasks: a bounded Chase–Lev deque of pointers.
//!
//! The owner pushes and pops at the bottom (last in, first out), thieves take from the top
//! (first in, first out). The deque holds addresses; it never reads the tasks behind
//! them, never frees them, and forgets its content when it is dropped.
//!
//! # Indices and ownership
//!
//! ```text
//!                top                     bottom
//!                 │                        │
//!   … taken …     ▼   tasks, oldest first  ▼    free
//!   ─────────────┬────┬────┬────┬────┬────┬───────────
//!                │ t  │t+1 │ …  │    │b-1 │
//!   ─────────────┴────┴────┴────┴────┴────┴───────────   task i is in slot i mod CAPACITY
//! ```
//!
//! | word | written by | moves |
//! |---|---|---|
//! | `top` | owner and thieves that claim the oldest tasks, by CAS | only up |
//! | `bottom` | the owner | up by a push, down by a pop, which may take it back |
//! | slot | the owner, in `push` | |
//! | `top_seen` | the owner, for itself | only up, `top_seen <= top` |
//!
//! Between two operations of the owner `top <= bottom <= top + CAPACITY`; within `pop`,
//! `bottom` may be one below `top`. A task with an index in `top..bottom` is in the deque, any
//! other is not. Indices count all pushes since creation, in 64 bits: at one push per
//! nanosecond they last 584 years, so they never wrap and `top` never has a value twice (no
//! ABA).
//!
//! # Protocol
//!
//! - **push**: write the slot, then publish it with a release store of `bottom`. Full is known
//!   from `top_seen`; `top` itself is read only when that says "full".
//! - **pop**, two or more tasks by `top_seen`: take `bottom` down to `b`, full fence, read `top`.
//!   Below `b`: task `b` is ours. Equal: the last task, thieves may be after it, so claim it on
//!   `top` like one of them. Above: a thief has it. After the last two, `bottom` goes back up.
//! - **pop**, one task by `top_seen`: claim it on `top` at once. No other thread moves `bottom`, so
//!   there is nothing to take down, and nothing to fence. This is the case of a worker that
//!   spawns and runs tasks one by one.
//! - **steal**: read `top`, full fence, read `bottom`, read the slot, claim by CAS on `top`.
//! - **`take_half`**: one CAS moves `top` past several tasks. Only the owner may do that.
//! - **`steal_batch`**: one steal per task. A thief cannot move `top` past several: the owner
//!   pops every task but the last without touching `top`, so a range claimed with an old
//!   `bottom` could hold tasks that are already popped. The fence and the read of `bottom` are
//!   therefore due for each task, and the CAS with them; only `top` is known from the CAS
//!   before. The thief was idle; it has the time.
//!
//! # Why no task is lost or doubled
//!
//! 1. *Claims on `top` are disjoint.* `top` only grows, and each step of it is one CAS by one
//!    thread. Claimed tasks are below `bottom`: the owner knows `bottom`, thieves see 2.
//! 2. *A pop without CAS and a steal never meet.* Let the owner pop task `b` because it read
//!    `top < b` after its fence, and let a thief claim `b`: it read `top == b`, went through
//!    its fence and read `bottom > b`, the value from before. If the owner's fence is first, the
//!    thief's read of `bottom` sees the owner's decrement: `bottom <= b`, contradiction. If the
//!    thief's is first, the owner's read of `top` sees at least what the thief had read before
//!    its fence: `top >= b`, contradiction. Both fences are needed, neither alone decides.
//! 3. *Taking `bottom` back up hides nothing and shows nothing.* It happens only when `top` has
//!    reached the restored value: the deque is empty before and after.
//! 4. *A thief claims what it read.* It reads slot `t` before the CAS from `t`. The owner reuses
//!    that slot for task `t + CAPACITY` only after it has seen `top > t`. If the CAS succeeds, it
//!    is itself that step of `top`, so it was before; if it fails, the value that was read is
//!    discarded. For this the CAS releases and every read that feeds `top_seen` acquires.
//! 5. *Writes to a task before `push` are seen by its taker.* A thief reads `bottom`
//!    with acquire from the push's release store, or from the decrement of a later pop, which
//!    for this reason releases too: since C++20 a plain store does not continue the release
//!    sequence of an older one.
//!
//! # Cost
//!
//! On the machine of DESIGN §14: push and pop of one task 8 ns, whether it is the last one (a
//! CAS) or not (a fence); steal 17 ns, in a batch 13 ns per task.
//!
//! # Rejected
//!
//! - *Growing.* It needs memory reclamation (epochs or leaked buffers) and allocates on a path
//!   that must not. A full deque means that there is enough to steal; the rest goes to the
//!   global queue by `take_half`.
//! - *`bottom.swap` in `pop` instead of store and fence.* 14.7 against 7.8 ns: the locked
//!   operation waits for the push's store to the same line. And loom takes `SeqCst` accesses
//!   for `AcqRel`, so that no model could judge it. All proofs here rest on fences.
//! - *Reading `top` first in `pop`*, to find the last task, instead of keeping `top_seen`: 10.5
//!   against 7.8 ns for a push and a pop of a single task. *Lê et al. as published*, with fence
//!   and CAS for the last task: 13.6 ns.
//! - *`top.swap(bottom)` to claim the last task.* It is right (the value that it may overwrite
//!   is the same), but not faster than the CAS that the specification names.
//! - *No fence in `pop` while there are many tasks.* However many there are, thieves can take
//!   all but one between two instructions of the owner; a cached `top` bounds nothing. "Laws of
//!   Order" (Attiya et al. 2011) shows that it cannot be had for an exact deque.
//! - *A private part that thieves cannot see* (split deques). Tasks would be stuck behind a
//!   long-running one, and an idle worker could not know.
//! - *`membarrier` in the thief instead of the fence in the owner.* A system call per steal.
//! - *A `SeqCst` load of `bottom` after the CAS instead of a fence per task in `steal_batch`.*
//!   It would be enough in C++20 and save the thief a fence per task, but loom cannot judge it.
//! - *Values instead of pointers.* A thief's read of a slot races with the owner's write; only an
//!   atomic word may do that without undefined behaviour.
//!
//! References: Chase and Lev, "Dynamic Circular Work-Stealing Deque" (2005); Lê, Pop, Cohen and
//! Zappa Nardelli, "Correct and Efficient Work-Stealing for Weak Memory Models" (2013).

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::base::shim::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::base::shim::atomic::{AtomicPtr, AtomicU64, fence};
use std::cell::Cell;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// How many tasks fit. A power of two, so that an index becomes a slot by masking.
///
/// Deep enough that a burst of a thousand spawns does not overflow, which would cost each of its
/// tasks a passage through the global queue (measured: 17 instead of 21 million tasks a
/// second with 256 slots); 16 KiB of slots for each worker.
pub(crate) const CAPACITY: usize = if cfg!(loom) { 4 } else { 2048 };

/// At most so many are taken by one `take_half`: they pass over the caller's stack, which may be
/// a small one.
const OVERFLOW: usize = if CAPACITY < 256 { CAPACITY / 2 } else { 128 };

const _: () = assert!(CAPACITY.is_power_of_two());

/// A word on cache lines of its own: two of them, because x86 fetches lines in pairs.
#[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
struct PaddedWord(AtomicU64);

/// The part that owner and thieves share. The module header has the table of writers.
struct Deque<T> {
    top: PaddedWord,
    bottom: PaddedWord,
    slots: [AtomicPtr<T>; CAPACITY],
}

impl<T> Deque<T> {
    fn slot(&self, index: u64) -> &AtomicPtr<T> {
        &self.slots[index as usize % CAPACITY]
    }
}

/// A new deque, in two halves. The owner stays with its worker, the stealer is cloned for all
/// others. This is the only allocation.
pub(crate) fn deque<T>() -> (DequeOwner<T>, Stealer<T>) {
    let deque = Arc::new(Deque {
        top: PaddedWord(AtomicU64::new(0)),
        bottom: PaddedWord(AtomicU64::new(0)),
        slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
    });
    (DequeOwner { deque: Arc::clone(&deque), top_seen: Cell::new(0) }, Stealer { deque })
}

/// The half that pushes and pops. There is one, and one thread at a time uses it: it can be
/// sent, but neither shared nor cloned.
pub(crate) struct DequeOwner<T> {
    deque: Arc<Deque<T>>,
    /// A value that `top` had. It saves reading `top`, whose line thieves write; and it makes
    /// the type `!Sync`, as it has to be.
    top_seen: Cell<u64>,
}

impl<T> DequeOwner<T> {
    /// Adds a task at the bottom.
    ///
    /// # Errors
    ///
    /// Gives the task back if the deque is full.
    #[inline]
    pub(crate) fn push(&self, task: NonNull<T>) -> Result<(), NonNull<T>> {
        let bottom = self.bottom();
        if bottom - self.top_seen.get() >= CAPACITY as u64 && self.room(bottom) == 0 {
            return Err(task);
        }
        // Published by the store below. That no thief still wants the slot's former task is
        // known from `top_seen` (header, 4).
        self.deque.slot(bottom).store(task.as_ptr(), Relaxed);
        // Pairs with the load of `bottom` in `claim`: a thief that sees the index sees the slot
        // and all that was written to the task before.
        self.deque.bottom.0.store(bottom + 1, Release);
        Ok(())
    }

    /// Takes the task that was pushed last.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        let bottom = self.bottom();
        match bottom - self.top_seen.get() {
            0 => None,
            1 => self.claim_last(bottom - 1),
            _ => self.pop_fenced(bottom - 1),
        }
    }

    /// Pops task `last`, which thieves may be after if it is the only one.
    #[inline]
    fn pop_fenced(&self, last: u64) -> Option<NonNull<T>> {
        // Pairs with the load of `bottom` in `claim`: a thief that sees this value takes
        // a task below it, and has to see that task's slot and contents (header, 5).
        self.deque.bottom.0.store(last, Release);
        // Pairs with the thief's in `claim` (header, 2): the store above before the
        // load below.
        fence(SeqCst); // the owner's
        let top = self.look_at_top();
        if top < last {
            return self.own(last);
        }
        let task = if top == last { self.claim_last(last) } else { None };
        // Back to where it was; `top` is there too. Relaxed, because its reader, the load of
        // `bottom` in `claim`, takes no task on account of it: there is none below, and
        // every steal that succeeded came before the acquire read of `top` above.
        self.deque.bottom.0.store(last + 1, Relaxed);
        task
    }

    /// Claims task `last`, the only one, or finds that a thief was faster. Empty after both.
    #[inline]
    fn claim_last(&self, last: u64) -> Option<NonNull<T>> {
        // Competes with the CAS in `claim`: one of the two takes `top` from `last` on.
        // On failure Acquire pairs with that CAS, because `top_seen` moves (header, 4); on
        // success the specification says SeqCst, and nothing needs it: the task is our own.
        let claimed = self.deque.top.0.compare_exchange(last, last + 1, SeqCst, Acquire);
        self.top_seen.set(last + 1);
        if claimed.is_ok() { self.own(last) } else { None }
    }

    /// Takes the oldest half, rounded up, but no more than [`OVERFLOW`], and hands it out oldest
    /// first. For a full deque: the taken tasks go to a queue that all workers look at.
    ///
    /// `into` may push to this deque. It must not panic: the tasks that it was not yet called
    /// with would be lost.
    pub(crate) fn take_half(&self, mut into: impl FnMut(NonNull<T>)) {
        let bottom = self.bottom();
        let mut top = self.look_at_top();
        let count = loop {
            let count = (bottom - top).div_ceil(2).min(OVERFLOW as u64);
            if count == 0 {
                break 0;
            }
            // Competes with the CAS in `claim`. All of `top..top + count` is in the
            // deque: the one thread that could pop from it is here. On failure Acquire, as in
            // `look_at_top`, for the value becomes `top_seen`. Success: as in `claim_last`.
            match self.deque.top.0.compare_exchange(top, top + count, SeqCst, Acquire) {
                Ok(_) => break count,
                Err(newer) => top = newer,
            }
        };
        // All slots are read before `into` runs, for a push from there may reuse them.
        let mut taken = [None; OVERFLOW];
        for (index, task) in (top..top + count).zip(&mut taken) {
            *task = self.own(index);
        }
        self.top_seen.set(top + count);
        taken.into_iter().map_while(|task| task).for_each(&mut into);
    }

    /// How many tasks are in the deque. Thieves may make it fewer at any time.
    pub(crate) fn len(&self) -> usize {
        // A figure that is old when it is used: orders nothing.
        let top = self.deque.top.0.load(Relaxed);
        (self.bottom() - top) as usize
    }

    /// The index of the next task that is pushed: above those of all tasks in the deque.
    pub(crate) fn end(&self) -> u64 {
        self.bottom()
    }

    /// Whether there is nothing to pop. `true` stays so until the next push.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tasks can be pushed. Thieves may make it more at any time.
    fn room(&self, bottom: u64) -> usize {
        CAPACITY - (bottom - self.look_at_top()) as usize
    }

    /// `top` as it is, and keeps it as `top_seen`.
    #[inline]
    fn look_at_top(&self) -> u64 {
        // Pairs with the CAS in `claim`: a thief's read of a slot comes before the push
        // that reuses it on account of this value (header, 4).
        let seen = self.deque.top.0.load(Acquire);
        self.top_seen.set(seen);
        seen
    }

    /// `bottom`, as this half left it.
    fn bottom(&self) -> u64 {
        // Only the owner writes it: it reads its own last store.
        let bottom = self.deque.bottom.0.load(Relaxed);
        let seen = self.top_seen.get();
        debug_assert!(seen <= bottom && bottom - seen <= CAPACITY as u64, "{seen}..{bottom}");
        bottom
    }

    /// The task at an index that was claimed. `Some` always: `push` has filled the slot.
    fn own(&self, index: u64) -> Option<NonNull<T>> {
        // Only the owner writes slots: it reads what its own `push` has stored.
        let task = NonNull::new(self.deque.slot(index).load(Relaxed));
        debug_assert!(task.is_some(), "slot of task {index} was never filled");
        task
    }
}

impl<T> fmt::Debug for DequeOwner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DequeOwner").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Outcome of an attempt to steal.
pub(crate) enum Steal<T> {
    /// There was nothing to take.
    Empty,
    /// Another thread took the task. There may be more, and trying again is worth it.
    Retry,
    /// A task. It is the caller's now.
    Task(NonNull<T>),
}

/// The half that takes from the top. Any thread may have one.
pub(crate) struct Stealer<T> {
    deque: Arc<Deque<T>>,
}

impl<T> Stealer<T> {
    /// Takes the oldest task.
    #[inline]
    pub(crate) fn steal(&self) -> Steal<T> {
        self.claim(self.look_at_top()).0
    }

    /// `top` as it is.
    #[inline]
    fn look_at_top(&self) -> u64 {
        // Pairs with the CAS in `claim` of other thieves. The fence there would give as much; the
        // specification says Acquire, and it costs nothing.
        self.deque.top.0.load(Acquire)
    }

    /// Takes task `top`, if it is the oldest, and returns the number of tasks that there were. The
    /// caller has read or written that value of `top`, and the fence relies on it.
    #[inline]
    fn claim(&self, top: u64) -> (Steal<T>, usize) {
        // Pairs with the owner's in `pop_fenced` (header, 2): what the caller knows of `top`
        // before the load below.
        fence(SeqCst); // the thief's
        // Pairs with the release stores of `bottom` in `push` and `pop_fenced` (header, 5).
        let bottom = self.deque.bottom.0.load(Acquire);
        if bottom <= top {
            return (Steal::Empty, 0);
        }
        // Filled by the push that the load of `bottom` has seen, or reused since; then the CAS
        // fails and the value is not used.
        let task = self.deque.slot(top).load(Relaxed);
        // Competes with the other claims on `top`. Its release half pairs with the owner's
        // acquire reads of `top`: the read of the slot is over when the owner may reuse it
        // (header, 4). SeqCst by specification. After a failure nothing that was read is used.
        if self.deque.top.0.compare_exchange(top, top + 1, SeqCst, Relaxed).is_err() {
            return (Steal::Retry, 0);
        }
        match NonNull::new(task) {
            Some(task) => (Steal::Task(task), (bottom - top) as usize),
            None => unreachable!("slot of task {top} was never filled"),
        }
    }

    /// Takes the oldest task to run, and moves more of them to the thief's own deque, as long
    /// as no other thread competes: at most `limit`, at most what fits there, and at most half of
    /// the tasks (rounded up) with the one to run.
    ///
    /// The moved tasks keep their order: the youngest is the next that `into` pops.
    pub(crate) fn steal_batch(&self, into: &DequeOwner<T>, limit: usize) -> Steal<T> {
        let oldest = self.look_at_top();
        let (first, count) = self.claim(oldest);
        let more = count.div_ceil(2).saturating_sub(1).min(limit);
        if more > 0 {
            let more = more.min(into.room(into.bottom())) as u64;
            for next in oldest + 1..=oldest + more {
                let Steal::Task(task) = self.claim(next).0 else { break };
                if into.push(task).is_err() {
                    unreachable!("there was room, and only the owner takes it");
                }
            }
        }
        first
    }

    /// The index of the oldest task, which no other task ever has, and the number of tasks. `None`
    /// if there seems to be no task.
    pub(crate) fn oldest(&self) -> Option<(u64, u64)> {
        // Two figures that need not belong together: order nothing.
        let top = self.deque.top.0.load(Relaxed);
        let bottom = self.deque.bottom.0.load(Relaxed);
        (bottom > top).then(|| (top, bottom - top))
    }

    /// How many tasks there are, more or less. For choosing a victim.
    pub(crate) fn len_hint(&self) -> usize {
        // Two figures that need not belong together: order nothing, hence the clamps.
        let top = self.deque.top.0.load(Relaxed);
        let bottom = self.deque.bottom.0.load(Relaxed);
        (bottom.saturating_sub(top) as usize).min(CAPACITY)
    }
}

impl<T> Clone for Stealer<T> {
    fn clone(&self) -> Stealer<T> {
        Stealer { deque: Arc::clone(&self.deque) }
    }
}

impl<T> fmt::Debug for Stealer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stealer").field("len_hint", &self.len_hint()).finish_non_exhaustive()
    }
}
