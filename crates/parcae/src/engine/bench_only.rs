//! The deque by itself, so that it can be measured. Nothing else has a use for it.

use crate::deque::{self, Steal};
use std::ptr::NonNull;

/// A deque of references, which cannot dangle whatever becomes of it.
pub fn bare_deque() -> (BareOwner, BareStealer) {
    let (owner, stealer) = deque::deque();
    (BareOwner(owner), BareStealer(stealer))
}

/// The half that pushes and pops.
#[derive(Debug)]
pub struct BareOwner(deque::Owner<u64>);

/// The half that steals.
#[derive(Debug)]
pub struct BareStealer(deque::Stealer<u64>);

impl BareOwner {
    /// False if the deque is full.
    #[inline]
    pub fn push(&self, item: &'static u64) -> bool {
        self.0.push(NonNull::from(item)).is_ok()
    }

    /// The item that was pushed last.
    #[inline]
    pub fn pop(&self) -> Option<&'static u64> {
        // SAFETY: `push` takes nothing that is not shared for good.
        self.0.pop().map(|item| unsafe { item.as_ref() })
    }
}

impl BareStealer {
    /// The oldest item; none also if somebody else was faster.
    #[inline]
    pub fn steal(&self) -> Option<&'static u64> {
        match self.0.steal() {
            // SAFETY: as above.
            Steal::Task(item) => Some(unsafe { item.as_ref() }),
            Steal::Empty | Steal::Retry => None,
        }
    }
}
