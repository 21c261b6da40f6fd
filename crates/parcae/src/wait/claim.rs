//! The claim of a select: a word that is set once.
//!
//! A select waits in several queues at the same time. The thread that makes one of its cases
//! possible *claims* the select for that case before it touches anything. Only one claim succeeds,
//! so only one case happens. A thread whose claim fails goes on to the next waiter. A claim lies on
//! the stack of its select; the header of `queue` says why that is sound.

use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::sched::worker::ordered::hold_within;

/// Not claimed yet.
const OPEN: usize = usize::MAX;

/// The winning case of a select, once there is one.
#[derive(Debug)]
pub(crate) struct Claim(AtomicUsize);

impl Claim {
    pub(crate) fn new() -> Claim {
        Claim(AtomicUsize::new(OPEN))
    }

    /// Decides the select for a case. Returns false if it is already decided.
    pub(crate) fn fire(&self, case: usize) -> bool {
        let _order = hold_within(self);
        // AcqRel. Release: pairs with the Acquire in `winner`, and makes the claimer's earlier
        // writes visible to the select. Acquire: pairs with the Release of the claim that came
        // first. The claimer's *later* writes are ordered by the lock of its object, under which it
        // claims.
        self.0.compare_exchange(OPEN, case, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The case that happened or is about to.
    pub(crate) fn winner(&self) -> Option<usize> {
        // Acquire: pairs with the Release in `fire`.
        let case = self.0.load(Ordering::Acquire);
        (case != OPEN).then_some(case)
    }

    /// Part of an ordered operation, like [`fire`](Claim::fire): under the lock of an object, or
    /// after a point of the select.
    pub(crate) fn is_open(&self) -> bool {
        let _order = hold_within(self);
        self.winner().is_none()
    }
}
