//! The lab's part in the scheduler: the operations that tasks are about to do, and the choice of
//! the task that goes on.
//!
//! Everything here is pure: it knows tasks and objects by numbers, and no worker or queue. The
//! worker reports operations (`worker::point`), the deterministic executor asks for the next task.

mod op;
mod strategy;

pub use op::OpKind;
pub use strategy::Strategy;

use crate::base::rng::Rng;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of schedulers with a lab. While it is 0, a point is one load and one branch.
///
/// Relaxed, all accesses: it orders nothing. A task of a lab runs on the thread that made the lab,
/// which sees its own write.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether there is a lab in this process.
#[inline(always)]
pub(crate) fn is_any_alive() -> bool {
    ALIVE.load(Ordering::Relaxed) != 0 // see `ALIVE`
}

/// The lab of one scheduler. Used by the thread of its executor; locked, because the scheduler is
/// shared.
pub(crate) struct Lab {
    state: Mutex<LabState>,
}

/// The state of a schedule.
pub(crate) struct LabState {
    rng: Rng,
}

impl Lab {
    pub(crate) fn new(seed: u64) -> Lab {
        ALIVE.fetch_add(1, Ordering::Relaxed); // see `ALIVE`
        Lab { state: Mutex::new(LabState { rng: Rng::new(seed, 1 << 20) }) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LabState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed); // see `ALIVE`
    }
}

impl LabState {
    /// Whether another task goes on at this operation.
    pub(crate) fn switches(&mut self) -> bool {
        self.rng.below(3) == 0
    }
}
