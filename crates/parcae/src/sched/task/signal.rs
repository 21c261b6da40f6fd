//! The signal of a task: it makes the next checkpoint of the task take the slow path.
//!
//! A checkpoint of the fast path reads the signal and nothing else that others write about this
//! task alone. So a thread that asks a task to end writes two words: first `CANCEL` in the state
//! word, then the signal ([`request_end`]). The slow path takes the signal back first, and then
//! looks for requests.
//!
//! # Why no request is missed
//!
//! - A checkpoint that finds the signal lowered comes before the request in the order of the
//!   signal; a later one finds it raised.
//! - A checkpoint that takes the signal of a request sees the request: [`take`](TaskSignal::take)
//!   acquires what [`raise`](TaskSignal::raise) has released. Others raise the same signal for
//!   reasons of their own ([`hint`](TaskSignal::hint)), also after the request. They use a
//!   read-modify-write, which belongs to the release sequence of the request; a store would hide
//!   it.
//! - In a shield the slow path takes the signal and must not act on the request. The end of the
//!   shield looks at the state word, and raises the signal again
//!   ([`end_shield`](TaskSignal::end_shield)). Either the slow path in the shield took the signal
//!   of the request, and then the end of the shield sees the request; or the signal is still
//!   raised, or is raised later.
//!
//! A signal may reach the next task in the same record. That task takes the slow path once for
//! nothing.

use super::state::{Generation, StateWord, Woken};
use crate::base::shim::atomic::{AtomicU32, Ordering};

/// 0, or more than any count of a checkpoint.
#[repr(transparent)]
pub(crate) struct TaskSignal(AtomicU32);

impl TaskSignal {
    pub(crate) fn new() -> TaskSignal {
        TaskSignal(AtomicU32::new(0))
    }

    /// 0, or more than any count of a checkpoint. Relaxed: the slow path looks again.
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Raises it, after a request that the task is to see. Release: pairs with the Acquire in
    /// [`take`](TaskSignal::take).
    fn raise(&self) {
        self.0.fetch_or(u32::MAX, Ordering::Release);
    }

    /// Raises it, to have the task look for something that it is sure to find: by the task itself,
    /// or before a wake. Relaxed, but no plain store: see the header.
    pub(crate) fn hint(&self) {
        self.0.fetch_or(u32::MAX, Ordering::Relaxed);
    }

    /// Lowers it, before the task looks for requests. By the task itself. Acquire: pairs with the
    /// Release in [`raise`](TaskSignal::raise).
    pub(crate) fn take(&self) {
        self.0.swap(0, Ordering::Acquire);
    }

    /// At the end of a shield: if there is a request to end, the next checkpoint looks for it. By
    /// the task itself.
    pub(crate) fn end_shield(&self, state: &StateWord) {
        if state.is_cancelled() {
            self.hint();
        }
    }
}

/// Asks the task with this word and this signal to end. The signal comes after the request:
/// otherwise a checkpoint could take it before there is a request to see.
pub(crate) fn request_end(state: &StateWord, generation: Generation, signal: &TaskSignal) -> Woken {
    let woken = state.cancel(generation);
    signal.raise();
    woken
}

#[cfg(all(test, loom))]
mod models;
