//! Groups: a task that waits until all tasks that it spawned have ended.
//!
//! The counter is *biased*. Only the owner spawns, so it counts children in a plain cell;
//! each child that ends takes one off an atomic that began at a number that no one reaches.
//! When the owner has spawned its last child it takes off what is missing to make zero mean
//! "all ended":
//!
//! ```text
//! remaining:  BIAS ──── ended children take 1 each ────►  BIAS − ended
//! close:      − (BIAS − spawned)                      ►  spawned − ended
//! ```
//!
//! Spawning thus costs no atomic operation, and ending costs one.
//!
//! # Why no wake-up is lost, and nobody touches a group that is gone
//!
//! The owner parks until it reads 0. Whoever brings the counter to 0 unparks the owner, after
//! the counter; the state word latches an unpark that comes early. The owner may read 0 and
//! go on (and free the group, which is on its stack) before the last child calls unpark: a
//! child therefore copies the owner's handle *before* it counts down, and touches nothing of the group after.

use super::TaskRef;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, PoisonError};
use std::any::Any;
use std::cell::Cell;

/// More than any number of children.
const BIAS: usize = 1 << (usize::BITS - 2);

/// Children and the task that waits for them.
pub(crate) struct Group {
    remaining: AtomicUsize,
    /// How many were spawned; the owner's.
    spawned: Cell<usize>,
    owner: TaskRef,
    /// The first panic of a child.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `spawned` is touched by the owner alone, which is one flow of control; the rest is
// made for sharing.
unsafe impl Sync for Group {}

impl Group {
    pub(crate) fn new(owner: TaskRef) -> Group {
        Group {
            remaining: AtomicUsize::new(BIAS),
            spawned: Cell::new(0),
            owner,
            panic: Mutex::new(None),
        }
    }

    /// Counts a child. The owner's.
    pub(crate) fn add(&self) {
        self.spawned.set(self.spawned.get() + 1);
    }

    /// Says that there will be no more children. The owner's, once.
    pub(crate) fn close(&self) {
        // Relaxed: `is_empty` below acquires what the children released.
        self.remaining.fetch_sub(BIAS - self.spawned.get(), Ordering::Relaxed);
    }

    /// Whether all children have ended, after `close`.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release of `complete`: what the children did is seen.
        self.remaining.load(Ordering::Acquire) == 0
    }

    /// Counts a child that has ended; returns the owner if it has to be woken.
    ///
    /// # Safety
    ///
    /// Called once for each child, when nothing of it is left that could use what the owner lent it. The
    /// group may be gone when this returns.
    pub(crate) unsafe fn complete(group: *const Group) -> Option<TaskRef> {
        // SAFETY: the owner does not leave before this child is counted.
        unsafe {
            let owner = (*group).owner;
            // AcqRel. Release: pairs with the Acquire of `is_empty`. Acquire: the last one
            // orders the others before its wake.
            let before = (*group).remaining.fetch_sub(1, Ordering::AcqRel);
            (before == 1).then_some(owner)
        }
    }

    /// Keeps the first panic; gives others back, to be dropped where that does no harm.
    pub(crate) fn panicked(&self, payload: Box<dyn Any + Send>) -> Option<Box<dyn Any + Send>> {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_some() {
            return Some(payload);
        }
        *first = Some(payload);
        None
    }

    /// The first panic of a child, when all have ended.
    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
