//! The mutex without its data.
//!
//! # The word
//!
//! | bit | set | cleared | changed under |
//! |---|---|---|---|
//! | `LOCKED` | when the mutex is locked | when it is unlocked; stays when it is handed over | nothing |
//! | `QUEUED` | when a waiter joins the queue | when the queue is empty | the short lock |
//! | `CALLED` | when the first waiter is called | when it has tried, or has given up | the short lock |
//! | `FAIR` | when the first waiter has failed [`FAIR_AFTER`] times | when it has left the queue | the short lock |
//!
//! Lock and unlock without contention are one compare-and-swap each, `0 → LOCKED → 0`. Where their
//! order is recorded or repeated (`sched::journal`), they take the short lock for that.
//!
//! # Barging and hand-over
//!
//! An unlock with waiters releases the mutex and *calls* the first waiter. The next task that tries
//! gets the mutex: a running task may *barge*, which saves the two switches that a hand-over to a
//! parked task costs for every critical section. A waiter that was called and finds the mutex
//! locked waits on, at the head of the queue. After [`FAIR_AFTER`] attempts it sets `FAIR`: from
//! then on the mutex is not released but *handed over* to it, and no task can barge. So barging is
//! bounded, and the queue itself is first come, first served.
//!
//! # Why no waiter sleeps while the mutex is free
//!
//! Joining the queue sets `QUEUED` by the same compare-and-swap that finds `LOCKED` set. So the
//! holder's fast unlock fails, and it takes the short lock, under which it finds the node. A fast
//! unlock with `CALLED` set leaves the mutex to the waiter that was called. That waiter tries. If
//! it fails, it clears `CALLED` by the compare-and-swap that finds `LOCKED`, so the next unlock
//! calls again. If it gives up instead, it calls the next waiter if the mutex is free. The
//! invariant under the short lock: *free with waiters ⇒ the first one is called*.

use super::constructor;
use super::primitive::Primitive;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::sched::worker::forget_address;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock, hold_order};
use crate::wait::{Grant, Queue, Removed, WaitNode, WaitStanding, Wake};

const LOCKED: usize = 1;
const QUEUED: usize = 2;
const CALLED: usize = 4;
const FAIR: usize = 8;

/// Attempts of the first waiter before the mutex is handed over to it. A hand-over costs a switch
/// per critical section while it lasts; four attempts keep most of the benefit of barging, with a
/// bound.
#[cfg(not(loom))]
const FAIR_AFTER: u32 = 4;
#[cfg(loom)]
const FAIR_AFTER: u32 = 1;

pub(super) struct RawMutex<W> {
    word: AtomicUsize,
    waiters: Lock<Waiters<W>>,
}

/// The key is the number of failed attempts after a call.
type Waiters<W> = Queue<W, u32>;

impl<W> RawMutex<W> {
    constructor! {
        pub(super) fn new() -> RawMutex<W> {
            RawMutex { word: AtomicUsize::new(0), waiters: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        let _order = hold_order(&self.waiters);
        // Acquire, wherever the mutex is locked: pairs with the Release of every `unlock`, and
        // makes the last holder's writes visible.
        match self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => self.try_barge(word),
        }
    }

    #[cold]
    fn try_barge(&self, mut word: usize) -> bool {
        while word & LOCKED == 0 {
            // Acquire: as in `try_lock`.
            match self.word.compare_exchange_weak(
                word,
                word | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & LOCKED != 0 // a hint: orders nothing
    }
}

impl<W: Wake> RawMutex<W> {
    /// Unlocks the mutex, which the caller holds.
    #[inline]
    pub(super) fn unlock(&self) {
        let order = hold_order(&self.waiters);
        // Release: pairs with the Acquire in `try_lock`, `attempt` and `call_back`.
        let fast = self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed);
        drop(order);
        if let Err(word) = fast {
            self.unlock_contended(word);
        }
    }

    #[cold]
    fn unlock_contended(&self, mut word: usize) {
        // A waiter was called and will try: the queue needs no attention.
        while word & QUEUED == 0 || word & (CALLED | FAIR) == CALLED {
            match self.word.compare_exchange_weak(
                word,
                word & !LOCKED,
                Ordering::Release, // as in `unlock`
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let mut waiters = self.waiters.lock();
        // Relaxed: no other thread changes the word now, we hold the mutex and the short lock.
        let woken = if self.word.load(Ordering::Relaxed) & FAIR != 0 {
            let queued = if waiters.has_many() { QUEUED } else { 0 };
            // Before the grant, after which the new holder may unlock. Relaxed: the grant, which is
            // published with Release, makes our writes under the mutex visible.
            self.word.store(LOCKED | queued, Ordering::Relaxed);
            waiters.grant(Grant::Own)
        } else if waiters.is_empty() {
            self.word.store(0, Ordering::Release); // as in `unlock`
            None
        } else {
            let waiter = waiters.call();
            self.word.store(QUEUED | CALLED, Ordering::Release); // as in `unlock`
            waiter
        };
        drop(waiters);
        if let Some(waiter) = woken {
            waiter.wake();
        }
    }
}

impl<W> Drop for RawMutex<W> {
    #[inline]
    fn drop(&mut self) {
        forget_address(self);
    }
}

impl<W: Wake> Primitive<W> for RawMutex<W> {
    type State = Waiters<W>;
    type Key = u32;

    fn lock(&self) -> Guard<'_, Waiters<W>> {
        self.waiters.lock()
    }

    fn queue(waiters: &mut Waiters<W>) -> &mut Waiters<W> {
        waiters
    }

    fn attempt<'p>(
        &'p self,
        waiters: Guard<'p, Waiters<W>>,
        _: u32,
    ) -> Result<Grant, Guard<'p, Waiters<W>>> {
        let mut word = self.word.load(Ordering::Relaxed); // the compare-and-swap decides
        loop {
            let locked = word & LOCKED != 0;
            let next = word | if locked { QUEUED } else { LOCKED };
            // Acquire, for the case that it was free: as in `try_lock`. Joining the queue needs no
            // order of its own, the short lock gives it.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) if locked => return Err(waiters),
                Ok(_) => return Ok(Grant::Own),
                Err(now) => word = now,
            }
        }
    }

    unsafe fn call_back(
        &self,
        node: &WaitNode<W, u32>,
        waiter: impl FnOnce() -> W,
    ) -> Option<Grant> {
        let mut waiters = self.waiters.lock();
        let others = !waiters.is_alone(node);
        // SAFETY: the caller upholds the contract, here and below.
        let lost = unsafe { waiters.key(node) };
        *lost += 1;
        let fair = if *lost >= FAIR_AFTER { FAIR } else { 0 };
        let mut word = self.word.load(Ordering::Relaxed); // the compare-and-swap decides
        loop {
            let locked = word & LOCKED != 0;
            let next = match locked {
                true => (word & !CALLED) | fair,
                false => LOCKED | if others { QUEUED } else { 0 },
            };
            // Acquire: as in `attempt`.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) if locked => break,
                Ok(_) => {
                    // SAFETY: as above. A node that was called holds no waiter.
                    unsafe { waiters.remove(node) };
                    return Some(Grant::Own);
                }
                Err(now) => word = now,
            }
        }
        // SAFETY: as above.
        unsafe { waiters.requeue(node, waiter()) };
        None
    }

    fn gave_up<'p>(
        &'p self,
        mut waiters: Guard<'p, Waiters<W>>,
        _: u32,
        removed: &Removed<W>,
    ) -> Option<Grant> {
        if let WaitStanding::Granted(_) = removed.standing {
            drop(waiters);
            self.unlock(); // the mutex is ours: hand it on
            return None;
        }
        let queued = if waiters.is_empty() { 0 } else { QUEUED };
        let mut word = self.word.load(Ordering::Relaxed); // the compare-and-swap decides
        let called = loop {
            let mut next = (word & !QUEUED) | queued;
            if removed.standing == WaitStanding::Called {
                next &= !CALLED;
            }
            if removed.was_first {
                next &= !FAIR;
            }
            let call = next & (LOCKED | CALLED) == 0 && queued != 0;
            if call {
                next |= CALLED;
            }
            // Relaxed: this neither locks nor unlocks.
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break if call { waiters.call() } else { None },
                Err(now) => word = now,
            }
        };
        drop(waiters);
        if let Some(waiter) = called {
            waiter.wake();
        }
        None
    }
}
