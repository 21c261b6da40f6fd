//! Accounts of children that have ended, to be given back to their pool together.
//!
//! Children of one nursery mostly draw the same. Of those a worker sums up what they have used, and takes the pool's lock
//! when it turns to something else.

use crate::budget::{Budget, Pool, UNLIMITED};
use std::ptr::NonNull;

/// Accounts of one pool, of children that had drawn the same.
#[derive(Default)]
pub(super) struct Returned {
    pool: Option<NonNull<Pool>>,
    /// What each of them had drawn, and what they have used up of it together.
    each: Budget,
    used: Budget,
    children: u64,
}

impl Returned {
    /// Adds an account. What is `used` of components that are not counted may be anything.
    ///
    /// # Safety
    ///
    /// The pool lives until the next [`settle`](Returned::settle).
    #[inline]
    pub(super) unsafe fn add(&mut self, pool: &Pool, drawn: &Budget, used: &Budget) {
        if self.pool == Some(NonNull::from(pool)) && self.each == *drawn {
            // The sum of what is counted is no more than the pool has given out.
            self.used = self.used.zip(*used, u64::wrapping_add);
            self.children += 1;
            return;
        }
        self.settle();
        *self =
            Returned { pool: Some(NonNull::from(pool)), each: *drawn, used: *used, children: 1 };
    }

    /// Whether there is nothing to give back.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pool.is_none()
    }

    /// Gives back what there is.
    #[inline]
    pub(super) fn settle(&mut self) {
        if let Some(pool) = self.pool.take() {
            let drawn = self.each.times(self.children);
            let left = drawn.zip(self.used, |drawn, used| match drawn {
                UNLIMITED => UNLIMITED,
                _ => drawn - used,
            });
            // SAFETY: as `add` demands.
            unsafe { pool.as_ref() }.settle(drawn, left);
        }
    }
}
