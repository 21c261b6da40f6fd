//! The poller of a worker: the one place where it sleeps.
//!
//! At first a futex. When a task of the worker first waits for a descriptor, the worker
//! gets (`Poller::install`) the kernel's events ([`KernelEvents`]: an epoll instance and an
//! eventfd), for good: from then on it sleeps there and nowhere else. Other threads reach it only
//! through `wake` and `call`, whichever it is.
//!
//! # What a poller guarantees
//!
//! The idle protocol ([`super`]) relies on three things:
//!
//! 1. *A token is kept.* A `wake` or `call` that comes after the worker's last look and before it
//!    sleeps makes `sleep` return at once. The word of the [`Parker`] has the argument, for the
//!    futex and for the kernel's events.
//! 2. *Everything before a wake is seen after the sleep.* Waking is a release, returning from
//!    `sleep` an acquire.
//! 3. *Events of the kernel end the sleep.* Work that comes without a wake, a descriptor that
//!    becomes ready, is in the set that `sleep` waits on. It needs no fence of the protocol: the
//!    kernel's ready list is the queue, and sleeping looks at it.
//!
//! `sleep` may return early, for a token of an earlier call: its caller looks at everything again.
//!
//! # Who asks, and when
//!
//! Only the worker asks for events: while it sleeps, and without sleeping every `FAIRNESS` picks
//! (`PickHooks::periodic`), more often while one task computes alone (`worker::turn`), in each
//! round of a spin, and when its queues are empty and the last look found
//! [several](Poller::is_busy). Tasks that events wake are pushed by the worker to its own queues,
//! before `sleep` or `look` returns.
//!
//! The deterministic executor has no pollers; its conductor has one [`Parker`] for all workers.

use super::Parker;
use crate::base::time::Nanos;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// By a wake.
    Woken,
    /// By events of the kernel, and no wake.
    Events,
    /// The time was up.
    TimedOut,
}

/// The kernel's events for the descriptors of one worker.
#[cfg_attr(not(feature = "io"), allow(unreachable_pub, reason = "public with that feature"))]
pub trait KernelEvents: Any + Send + Sync {
    /// Takes events that have happened, and wakes the tasks that wait for them. Waits for the first
    /// one for so long, or for any time without a timeout; may return early. Returns the number of
    /// events, without rings. Called by the worker alone.
    fn poll(&self, timeout: Option<Duration>) -> usize;

    /// Ends the present `poll`, or the next one that waits. Called by any thread.
    fn ring(&self);

    /// Whether any descriptor is registered: a worker stays for its descriptors.
    fn is_watching(&self) -> bool;

    /// The worker has ended, and its tasks with it. Wakes the tasks of other schedulers that wait
    /// for events here: they wait elsewhere. Called on the worker's thread.
    fn close(&self);

    /// The backends in force, for dumps: "epoll, 3 descriptors". Called by any thread.
    fn describe(&self) -> String {
        String::new()
    }

    /// The number of descriptors with input that the worker has not taken. It must not take events
    /// away from the worker, which is stuck. Called by any thread.
    fn neglected(&self) -> usize {
        0
    }
}

/// The way in which tasks use sockets: see
/// [`Builder::sockets`](crate::runtime::Builder::sockets).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SocketBackend {
    /// Readiness by epoll, then a system call that does not wait.
    #[default]
    Epoll,
    /// Operations of io_uring, submitted in batches. Where the kernel does not allow it: epoll.
    Ring,
}

/// The sleeping place of one worker.
#[derive(Default)]
pub(crate) struct Poller {
    parker: Parker,
    /// Time of the last call. For the spin policy, which needs no exact value.
    called: AtomicU64,
    /// Set once, by the worker.
    events: OnceLock<Arc<dyn KernelEvents>>,
    /// Number of events of the last look or sleep. Used by the worker alone.
    found: AtomicUsize,
}

impl Poller {
    /// Sleeps until woken, or until a point in time. Called by the worker.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Slept {
        let Some(events) = self.events.get() else {
            return if self.parker.park_until(until) { Slept::Woken } else { Slept::TimedOut };
        };
        if !self.parker.enter_poller() {
            return Slept::Woken;
        }
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let found = events.poll(timeout);
        self.found.store(found, Ordering::Relaxed); // the worker's alone
        match (self.parker.leave_poller(), found) {
            (true, _) => Slept::Woken,
            (false, 0) => Slept::TimedOut,
            (false, _) => Slept::Events,
        }
    }

    /// Takes events of the kernel that have happened; whether there were any. Called by the worker.
    pub(crate) fn look(&self) -> bool {
        let Some(events) = self.events.get() else { return false };
        let found = events.poll(Some(Duration::ZERO));
        self.found.store(found, Ordering::Relaxed); // the worker's alone
        found > 0
    }

    /// Whether the last look found several events: the next one will probably find some, too.
    /// Otherwise a worker without work sleeps at once, which is a look as well.
    pub(crate) fn is_busy(&self) -> bool {
        self.found.load(Ordering::Relaxed) > 1 // the worker's alone
    }

    /// Whether descriptors are registered. Asked by the worker.
    pub(crate) fn is_watching(&self) -> bool {
        self.events.get().is_some_and(|events| events.is_watching())
    }

    /// The backends in force; `None` until a task has waited for a descriptor.
    pub(crate) fn describe(&self) -> Option<String> {
        self.events.get().map(|events| events.describe())
    }

    /// The number of descriptors with input that the worker has not taken.
    pub(crate) fn neglected(&self) -> usize {
        self.events.get().map_or(0, |events| events.neglected())
    }

    /// The kernel's events, once a task has waited for a descriptor.
    #[cfg(feature = "io")]
    pub(crate) fn events(&self) -> Option<&Arc<dyn KernelEvents>> {
        self.events.get()
    }

    /// From now on the worker sleeps in `events`. Called by the worker, while it is awake.
    #[cfg(any(feature = "io", all(test, loom)))]
    pub(crate) fn install(&self, events: Arc<dyn KernelEvents>) {
        let _ = self.events.set(events); // the worker has looked before: there was none
    }

    /// The worker has ended. Called on its thread.
    pub(crate) fn close(&self) {
        if let Some(events) = self.events.get() {
            events.close();
        }
    }

    /// Ends the present sleep or the next one. Called by any thread.
    pub(crate) fn wake(&self) {
        self.parker.unpark_or(|| {
            // Found: the worker was seen to sleep there.
            if let Some(events) = self.events.get() {
                events.ring();
            }
        });
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

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("parker", &self.parker).finish_non_exhaustive()
    }
}
