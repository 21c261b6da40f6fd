//! Who decides a select: a word that can be set once.
//!
//! A select waits in several channels at the same time. Whoever makes one of its cases possible
//! *claims* the select for that case before it touches anything; only one claim succeeds, so only
//! one case ever happens. What lost, or came too late, passes on to the next who waits.

use crate::base::shim::atomic::{AtomicUsize, Ordering};

/// Nobody has claimed it.
const OPEN: usize = usize::MAX;

/// The winner of a select, once there is one.
#[derive(Debug)]
pub(crate) struct Claim(AtomicUsize);

impl Claim {
    pub(crate) fn new() -> Claim {
        Claim(AtomicUsize::new(OPEN))
    }

    /// Decides for a case; false if it is decided already.
    pub(crate) fn fire(&self, case: usize) -> bool {
        // AcqRel. Release: pairs with the Acquire of `winner`: what the claimer did before is seen
        // by whoever acts on the result. Acquire: the one who fails knows that the winner came first. What
        // a claimer does *after* it is ordered by the lock of its channel, under which it claims.
        self.0.compare_exchange(OPEN, case, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The case that happened or is about to.
    pub(crate) fn winner(&self) -> Option<usize> {
        // Acquire: pairs with the Release of `fire`.
        let case = self.0.load(Ordering::Acquire);
        (case != OPEN).then_some(case)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.winner().is_none()
    }
}
