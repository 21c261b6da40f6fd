//! The deque alone, and deadlines alone, for benchmarks.

use crate::sched::Shared;
use crate::sched::deque::{self, Steal};
use crate::sched::timers::{ArmedTimer, Due};
use crate::sched::worker;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// A deadline that wakes a task, as waits set it. Dropping it takes it back.
pub struct Alarm(#[allow(dead_code)] ArmedTimer<Arc<Shared>>);

/// Has the running task woken after a time; none outside of tasks.
pub fn alarm(time: Duration) -> Option<Alarm> {
    worker::with_current(|worker| {
        let due = Due::wake(worker.task()?);
        Some(Alarm(worker.shared.at_for(worker.shared.later(time), due)))
    })
    .flatten()
}

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Alarm")
    }
}

/// A deque of references, which cannot dangle whatever becomes of it.
pub fn bare_deque() -> (BareOwner, BareStealer) {
    let (owner, stealer) = deque::deque();
    (BareOwner(owner), BareStealer(stealer))
}

/// The half that pushes and pops.
#[derive(Debug)]
pub struct BareOwner(deque::DequeOwner<u64>);

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
    /// The oldest item; none also if another thread was faster.
    #[inline]
    pub fn steal(&self) -> Option<&'static u64> {
        match self.0.steal() {
            // SAFETY: as above.
            Steal::Task(item) => Some(unsafe { item.as_ref() }),
            Steal::Empty | Steal::Retry => None,
        }
    }
}
