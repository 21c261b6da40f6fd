//! The poller of a worker: the one place where it sleeps.
//!
//! Today a futex. A poller of descriptors (epoll and an eventfd) takes its place behind the same
//! interface: the worker sleeps nowhere else, and other threads reach it only through `wake` and
//! `call`.
//!
//! # What a poller guarantees
//!
//! The idle protocol ([`super`]) relies on three things:
//!
//! 1. *A token is kept.* A `wake` or `call` that comes after the worker's last look and before it
//!    sleeps makes `sleep` return at once. An eventfd keeps its count in the same way.
//! 2. *Everything before a wake is seen after the sleep.* Waking is a release, returning from
//!    `sleep` an acquire.
//! 3. *Events of the kernel end the sleep.* Work that comes without a wake, such as a descriptor
//!    that becomes ready, must be in the set that `sleep` waits on. It needs no fence of the
//!    protocol: the kernel's ready list is the queue, and sleeping looks at it.
//!
//! `sleep` may return early, for a token of an earlier call: its caller looks at everything again.
//!
//! A poller with events of the kernel is also asked without sleeping: every `FAIRNESS` picks
//! (`PickHooks::periodic`), and when the queues are empty, before the worker announces its sleep.
//! The deterministic executor has no pollers; its conductor has one [`Parker`] for all workers.

use super::Parker;
use crate::base::time::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// By a wake.
    Woken,
    /// The time was up.
    TimedOut,
}

/// The sleeping place of one worker.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    parker: Parker,
    /// Time of the last call. For the spin policy, which needs no exact value.
    called: AtomicU64,
}

impl Poller {
    /// Sleeps until woken, or until a point in time. Called by the worker.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Slept {
        if self.parker.park_until(until) { Slept::Woken } else { Slept::TimedOut }
    }

    /// Ends the present sleep or the next one. Called by any thread.
    pub(crate) fn wake(&self) {
        self.parker.unpark();
    }

    /// As [`wake`](Poller::wake), because there is work.
    pub(crate) fn call(&self, now: Nanos) {
        self.called.store(now, Ordering::Relaxed); // ordered by the token of the parker
        self.wake();
    }

    /// Time of the last call. Asked by the worker after its sleep.
    pub(crate) fn called(&self) -> Nanos {
        self.called.load(Ordering::Relaxed) // ordered by the token of the parker
    }
}
