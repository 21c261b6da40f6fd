//! The mutex without its data.
//!
//! # The word
//!
//! | bit | set | cleared | changed under |
//! |---|---|---|---|
//! | `LOCKED` | by who takes the lock | by who gives it back; stays when it is handed over | nothing |
//! | `QUEUED` | when somebody joins the line | when the line is empty | the small lock |
//! | `CALLED` | when the first in line is called | when it has come, or has gone | the small lock |
//! | `FAIR` | when the first in line has come in vain [`PATIENCE`] times | when it has left the line | the small lock |
//!
//! Lock and unlock without contention are one compare-and-swap each, `0 → LOCKED → 0`.
//!
//! # Who gets it
//!
//! An unlock with somebody in line gives the lock back and *calls* the first in line. Whoever
//! comes first takes it: a task that runs now may *barge*, which saves the two switches that
//! a hand-over to a parked task costs for every critical section. One who was called and finds it taken waits on, at
//! the head of the line. After [`PATIENCE`] times it sets `FAIR`: from then on the lock is not given
//! back but *handed over* to it, and nobody can barge. So nobody is overtaken without end, and the
//! line itself is first come, first served.
//!
//! # Why nobody sleeps while it is free
//!
//! Joining the line sets `QUEUED` by the same compare-and-swap that finds `LOCKED` set, so the holder's fast
//! unlock fails, and it comes for the small lock, behind which it finds the node. A fast unlock with
//! `CALLED` set leaves the lock to the one who was called, which will come: when it has tried in vain it clears
//! `CALLED` by the compare-and-swap that finds `LOCKED`, so the next unlock calls again; when it gives up instead, it
//! calls the next one if the lock is free. Always, under the small lock: *free with a line ⇒ its first is called*.

use super::Waited;
use super::constructor;
use super::line::{Grant, Line, Node, Standing, Wake};
use crate::base::lock::{Guard, Lock};
use crate::base::shim::atomic::{AtomicUsize, Ordering};

const LOCKED: usize = 1;
const QUEUED: usize = 2;
const CALLED: usize = 4;
const FAIR: usize = 8;

/// How often the first in line comes in vain before the lock is handed over to it. A hand-over costs everybody a
/// switch per critical section while it lasts; four gives barging most of its use, and a bound.
#[cfg(not(loom))]
const PATIENCE: u32 = 4;
#[cfg(loom)]
const PATIENCE: u32 = 1;

pub(super) struct RawMutex<W> {
    word: AtomicUsize,
    line: Lock<Line<W>>,
}

impl<W> RawMutex<W> {
    constructor! {
        pub(super) fn new() -> RawMutex<W> {
            RawMutex { word: AtomicUsize::new(0), line: Lock::new(Line::new()) }
        }
    }

    fn line(&self) -> Guard<'_, Line<W>> {
        self.line.lock()
    }

    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        // Acquire, as wherever the lock is taken: pairs with the Release of every unlock, and makes what
        // the last holder wrote visible.
        match self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => self.try_barge(word),
        }
    }

    #[cold]
    fn try_barge(&self, mut word: usize) -> bool {
        while word & LOCKED == 0 {
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
        self.word.load(Ordering::Relaxed) & LOCKED != 0 // a hint
    }
}

impl<W: Wake> RawMutex<W> {
    /// Gives the lock back, which the caller has.
    #[inline]
    pub(super) fn unlock(&self) {
        // Release: pairs with the Acquire of whoever takes the lock next.
        let fast = self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed);
        if let Err(word) = fast {
            self.unlock_contended(word);
        }
    }

    #[cold]
    fn unlock_contended(&self, mut word: usize) {
        // Somebody was called and will come: nothing to do for the line.
        while word & QUEUED == 0 || word & (CALLED | FAIR) == CALLED {
            match self.word.compare_exchange_weak(
                word,
                word & !LOCKED,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let waker = {
            let mut line = self.line();
            // Nobody else changes the word now: we have LOCKED, and the small lock.
            if self.word.load(Ordering::Relaxed) & FAIR != 0 {
                let waker = line.grant(Grant::Own);
                let queued = if line.is_empty() { 0 } else { QUEUED };
                // The new holder reads its grant under the small lock, which orders it after us.
                self.word.store(LOCKED | queued, Ordering::Relaxed);
                waker
            } else if line.is_empty() {
                self.word.store(0, Ordering::Release); // as in `unlock`
                None
            } else {
                let waker = line.call();
                self.word.store(QUEUED | CALLED, Ordering::Release); // as in `unlock`
                waker
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<W: Wake> Waited<W> for RawMutex<W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        let mut line = self.line();
        // SAFETY: as the caller says, here and below.
        let standing = unsafe { line.standing(node) };
        let (called, impatient) = match standing {
            Standing::Waiting => return false, // woken by somebody else
            Standing::Granted(_) => {
                // SAFETY: as above.
                unsafe { line.remove(node) };
                return true;
            }
            Standing::Called { lost } => (true, lost + 1 >= PATIENCE),
            Standing::Idle => (false, false),
        };
        let others = called && !line.is_alone(node);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let taken = word & LOCKED != 0;
            let next = match (taken, called) {
                (true, true) => (word & !CALLED) | if impatient { FAIR } else { 0 },
                (true, false) => word | QUEUED,
                (false, true) => LOCKED | if others { QUEUED } else { 0 },
                (false, false) => word | LOCKED,
            };
            // Acquire for the case that it is taken: as in `try_lock`. Joining needs no order, the
            // small lock gives it.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) if taken => break,
                Ok(_) => {
                    if called {
                        // SAFETY: as above.
                        unsafe { line.remove(node) };
                    }
                    return true;
                }
                Err(now) => word = now,
            }
        }
        let waiter = waiter();
        // SAFETY: as above.
        unsafe {
            if called {
                line.recall(node, waiter);
            } else {
                line.push(node, waiter);
            }
        }
        false
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        let mut line = self.line();
        let was_first = line.is_first(node);
        // SAFETY: as the caller says.
        let (standing, unused) = unsafe { line.remove(node) };
        let mut waker = None;
        match standing {
            Standing::Idle => {}
            Standing::Granted(_) => {
                drop(line);
                self.unlock(); // the lock is ours: hand it on
                return false;
            }
            Standing::Waiting | Standing::Called { .. } => {
                let queued = if line.is_empty() { 0 } else { QUEUED };
                let mut word = self.word.load(Ordering::Relaxed);
                loop {
                    let mut next = (word & !QUEUED) | queued;
                    if standing != Standing::Waiting {
                        next &= !CALLED;
                    }
                    if was_first {
                        next &= !FAIR;
                    }
                    let call = next & (LOCKED | CALLED) == 0 && queued != 0;
                    if call {
                        next |= CALLED;
                    }
                    // Relaxed: nothing is taken nor given back.
                    match self.word.compare_exchange_weak(
                        word,
                        next,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => {
                            if call {
                                waker = line.call();
                            }
                            break;
                        }
                        Err(now) => word = now,
                    }
                }
            }
        }
        drop(line);
        drop(unused);
        if let Some(waker) = waker {
            waker.wake();
        }
        false
    }
}
