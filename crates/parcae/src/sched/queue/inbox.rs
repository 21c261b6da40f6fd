//! The tasks that other threads hand to one worker.
//!
//! A stack of records with one word, `top`. A pusher links its record to the top and replaces the
//! word with a compare-and-swap. A taker replaces it with null and gets all records, newest first,
//! which it reverses. So tasks come out in the order in which their pushes took effect.
//!
//! # Why this and not Vyukov's linked queue
//!
//! In Vyukov's queue a pusher swaps itself in first and links its predecessor to itself
//! afterwards. Between the two, everything behind it cannot be reached, although pushes
//! there have returned: the owner has to tell "empty" from "not linked yet", and wait for
//! a thread that may have been preempted. Its push is wait-free, which ours is not: a
//! compare-and-swap that fails is repeated, and each failure means that another push or a
//! take succeeded. In exchange
//!
//! - a push takes effect in one instant: the task is there, whole;
//! - "empty" is one load of one word, so that a worker's last look before it sleeps is
//!   exact (see [`super`]);
//! - any number of takers is allowed: each swap gets a different set of records. Hence a
//!   thief can rescue the tasks of a worker that sleeps or is stuck in foreign code.
//!
//! # Why ABA cannot hurt
//!
//! A lone record is never popped: the word goes to null and all links become private to
//! the taker. A pusher that read top = A, and succeeds after A was taken and pushed again,
//! has linked its record to A, which is the top: correct, whatever happened in between.

use super::link::{Chain, Linked, enter, next, set_next};
use crate::base::shim::atomic::{AtomicPtr, Ordering};
use std::fmt;
use std::ptr::{self, NonNull};

/// Tasks for one worker, pushed by any thread.
pub(crate) struct Inbox<T> {
    /// The task pushed last, or null. Its link leads to the one before it.
    top: AtomicPtr<T>,
}

impl<T: Linked> Inbox<T> {
    /// An empty inbox.
    pub(crate) fn new() -> Inbox<T> {
        Inbox { top: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a task. Returns whether the inbox was empty.
    ///
    /// If it was, the caller has to make sure that the owner is awake: full fence, then check
    /// whether it sleeps. If it was not, that is the duty of the pusher that found it empty, which
    /// has done it or is about to ([`super`], "Sleep").
    ///
    /// # Safety
    ///
    /// `task` is live, in no queue, the caller's to hand over, and stays live until it is
    /// taken out again. The caller does not touch it after this call.
    #[inline]
    #[must_use = "the first one in has to wake the owner"]
    pub(crate) unsafe fn push(&self, task: NonNull<T>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { enter(task) };
        // A guess; the exchange below verifies it.
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the task is ours until the exchange succeeds.
            unsafe { set_next(task, top) };
            // Release: the record, with its link, is complete for the taker; pairs with
            // the swap in `drain`. Later pushes are read-modify-writes of the same word,
            // so that a taker that sees one of them synchronizes with this one too.
            // Nothing of the record is touched from here on: it may have run and be gone.
            match self.top.compare_exchange_weak(
                top,
                task.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed, // a failure only gives the next guess
            ) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Whether there is nothing in it. False for each push that happened before this call
    /// and was not taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: nothing is read through the pointer, and one word is always coherent.
        // Against a push that runs at the same time, the caller's full fence is what
        // counts; its partner is the fence between `push` and the look for sleepers.
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, in the order of the pushes.
    ///
    /// May run on several threads at a time: they get disjoint sets, each in order. The
    /// cost is one swap and a walk over the taken tasks; an empty inbox costs one load.
    pub(crate) fn drain(&self) -> Chain<T> {
        if self.is_empty() {
            return Chain::new(); // without a write to a line that pushers share
        }
        // Acquire: pairs with the exchange of every `push` whose task is taken here. It
        // need not release anything: the next pusher gets a null from it.
        let Some(top) = NonNull::new(self.top.swap(ptr::null_mut(), Ordering::Acquire)) else {
            return Chain::new(); // another taker was faster
        };
        let mut head = top;
        let mut after = ptr::null_mut(); // what follows `head` in the order of the pushes
        let mut len = 1;
        loop {
            // SAFETY: the swap made every record from `top` down ours.
            let before = unsafe { next(head) };
            // SAFETY: as above.
            unsafe { set_next(head, after) };
            let Some(before) = NonNull::new(before) else { break };
            after = head.as_ptr();
            head = before;
            len += 1;
        }
        // SAFETY: the loop linked `len` records that are ours from `head` to `top`, whose
        // link it made null.
        unsafe { Chain::from_linked(head, top, len) }
    }

    /// Takes everything on behalf of a worker that does not: a thief's [`drain`].
    ///
    /// Safe next to the owner's `drain`, and next to other thieves. The thief must pass on
    /// tasks that it may not run itself (started fibers belong to their worker).
    ///
    /// [`drain`]: Inbox::drain
    pub(crate) fn rescue(&self) -> Chain<T> {
        self.drain()
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut`: no other thread is left.
        let top = self.top.load(Ordering::Relaxed);
        debug_assert!(
            top.is_null() || std::thread::panicking(),
            "an inbox was dropped with tasks in it"
        );
    }
}
