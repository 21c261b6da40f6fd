//! The completion of one operation: the protocol between the reaper and the task that waits.
//!
//! | state | result | waiter | |
//! |---|---|---|---|
//! | on its way | none | none | the task looks, or is about to |
//! | awaited | none | one | the task is parked |
//! | landed | one | none | final |
//!
//! The task looks at the result and publishes its waiter in one critical section; the reaper sets
//! the result and takes the waiter in one. So either the task sees the result, or the reaper sees
//! the waiter. A task whose wait has ended takes its waiter back, unless the reaper has it.
//!
//! The cancel of a task changes nothing here: only the completion lands an operation, once.
//!
//! The record is shared by counts, one of them the kernel's: the reaper may still be leaving the
//! lock when the task has seen the result and is gone.

#[cfg(all(test, loom))]
mod models;

use crate::shim::{Mutex, MutexGuard};
use crate::source::ready::Wakes;
use std::sync::PoisonError;

/// One operation on its way.
pub(crate) struct RingOp<W> {
    state: Mutex<OpState<W>>,
}

struct OpState<W> {
    result: Option<i32>,
    waiter: Option<W>,
}

impl<W: Wakes> RingOp<W> {
    pub(crate) fn new() -> RingOp<W> {
        RingOp { state: Mutex::new(OpState { result: None, waiter: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, OpState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result; or publishes the waiter, in place of an earlier one of the same task.
    pub(crate) fn result_or_wait(&self, waiter: impl FnOnce() -> W) -> Option<i32> {
        let mut state = self.lock();
        if state.result.is_none() {
            state.waiter = Some(waiter());
        }
        state.result
    }

    /// Takes the waiter back, if the reaper has not.
    pub(crate) fn withdraw(&self) {
        let waiter = self.lock().waiter.take();
        drop(waiter);
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.lock().result.is_some()
    }

    /// The completion: keeps the result, and wakes the task.
    pub(crate) fn land(&self, result: i32) {
        let mut state = self.lock();
        state.result = Some(result);
        let waiter = state.waiter.take().map(Wakes::taken);
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}
