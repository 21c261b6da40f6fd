//! The word of a future's cell: whether there is a reason to poll, and the number of references.
//!
//! ```text
//!  63                              1       0
//! ┌─────────────────────────────────┬──────────┐
//! │ references: the task, wakers    │ NOTIFIED │
//! └─────────────────────────────────┴──────────┘
//! ```
//!
//! NOTIFIED is set by wakes, and once more by the end of the task; cleared by a call directly
//! before its poll. The header of the folder has the protocol.

use crate::base::shim::atomic::{AtomicUsize, Ordering, fence};

const NOTIFIED: usize = 1;
const REFERENCE: usize = 2;
/// More references than this are a leak, which must not wrap around.
const MOST: usize = isize::MAX as usize;

/// The word.
pub(super) struct FutureWord(AtomicUsize);

/// The next step of a waker that has set NOTIFIED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The caller unparks the task.
    First,
    /// Another one does, or did, or the task has ended.
    Again,
}

impl FutureWord {
    /// With one reference: the task's.
    pub(super) fn new() -> FutureWord {
        FutureWord(AtomicUsize::new(REFERENCE))
    }

    /// There is a reason to poll. For all holders of a reference.
    pub(super) fn notify(&self) -> Notice {
        // Release: pairs with the Acquire in `begin_poll`: the poll sees the writes before the
        // wake. A read-modify-write, so that those of an earlier waker are passed on.
        let before = self.0.fetch_or(NOTIFIED, Ordering::Release);
        if before & NOTIFIED == 0 { Notice::First } else { Notice::Again }
    }

    /// Whether there is a reason to poll. By the call of the task.
    pub(super) fn is_notified(&self) -> bool {
        // Relaxed: `begin_poll` acquires. If a wait in the poll has consumed the unpark of a waker,
        // the state word has ordered this load after the waker's `notify`.
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }

    /// A poll begins: wakes from now on are for the next one.
    pub(super) fn begin_poll(&self) {
        self.0.fetch_and(!NOTIFIED, Ordering::Acquire); // pairs with the Release in `notify`
    }

    /// The future is gone: later wakes have nothing to do.
    pub(super) fn end(&self) {
        self.0.fetch_or(NOTIFIED, Ordering::Relaxed); // pairs with nothing: there is no poll left
    }

    /// One more reference.
    pub(super) fn add(&self) {
        // Relaxed: the caller has one already, as with any count of references.
        if self.0.fetch_add(REFERENCE, Ordering::Relaxed) > MOST {
            std::process::abort();
        }
    }

    /// One reference less. True for the last one: the caller frees the cell.
    #[must_use]
    pub(super) fn remove(&self) -> bool {
        // Release: pairs with the fence below: all uses of the cell come before its end.
        if self.0.fetch_sub(REFERENCE, Ordering::Release) >= 2 * REFERENCE {
            return false;
        }
        // Pairs with the Release above, in `remove` of the others.
        fence(Ordering::Acquire);
        true
    }
}

#[cfg(all(test, loom))]
mod models;
