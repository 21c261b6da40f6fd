//! The steps of an operation on a simulated socket: the same as on a descriptor (`source`), with
//! the state of the network in place of the kernel.
//!
//! All tasks of a deterministic runtime run on one thread, and an attempt does not switch tasks. So
//! nothing happens between an attempt that has to wait and the publication of the waiter.

use crate::error::{from_task, not_simulated, timed_out};
use crate::source::{Charge, Operation};
use parcae::io::{IoPlace, IoWaiter, WaitEnd};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// An attempt without success.
pub(super) enum Stop {
    Failed(io::Error),
    /// It has to wait for others, or until a point in time.
    Wait(Option<Instant>),
}

impl From<io::ErrorKind> for Stop {
    fn from(kind: io::ErrorKind) -> Stop {
        Stop::Failed(kind.into())
    }
}

/// Tasks that wait for a change of an object.
#[derive(Debug, Default)]
pub(super) struct WaitList(Mutex<(u64, Vec<(u64, IoWaiter)>)>);

/// A task's place in a list, which it leaves when this is dropped.
struct Listed<'l> {
    list: &'l WaitList,
    ticket: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.list.leave(self.ticket);
    }
}

impl WaitList {
    fn publish(&self) -> Listed<'_> {
        Listed { list: self, ticket: self.enter() }
    }

    /// Enters the running task, which leaves before its wait returns.
    pub(super) fn enter(&self) -> u64 {
        // SAFETY: removed by `leave`, which the callers call in a destructor, or by `wake`; both
        // under the lock.
        self.push(unsafe { IoWaiter::here() })
    }

    /// Enters a future that is polled with this waker.
    pub(super) fn enter_waker(&self, waker: &std::task::Waker) -> u64 {
        self.push(IoWaiter::of(waker))
    }

    fn push(&self, waiter: IoWaiter) -> u64 {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = list.0;
        list.0 += 1;
        list.1.push((ticket, waiter));
        ticket
    }

    pub(super) fn leave(&self, ticket: u64) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.1.retain(|(other, _)| *other != ticket);
    }

    /// Wakes all: they try again.
    pub(super) fn wake(&self) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let woken: Vec<IoWaiter> = list.1.drain(..).map(|(_, waiter)| waiter.taken()).collect();
        drop(list);
        woken.into_iter().for_each(IoWaiter::wake);
    }
}

/// Does an operation. `list` has the waiters that are woken when an attempt may succeed.
pub(super) fn operate<T>(
    operation: Operation<'_>,
    list: &WaitList,
    mut attempt: impl FnMut() -> Result<T, Stop>,
) -> io::Result<T> {
    let Operation { what, object, .. } = operation;
    if parcae::io::place() != IoPlace::Simulated {
        return Err(not_simulated(what, object));
    }
    let charge = Charge::new(operation.cost)?;
    let until = operation.timeout.and_then(parcae::io::after);
    loop {
        let due = match attempt() {
            Ok(value) => {
                charge.keep();
                return Ok(value);
            }
            Err(Stop::Failed(error)) => {
                charge.keep();
                return Err(error);
            }
            Err(Stop::Wait(due)) => due,
        };
        let _listed = list.publish();
        let wake = [until, due].into_iter().flatten().min();
        let ended = parcae::io::wait(wake, what, object).map_err(from_task)?;
        if ended == WaitEnd::TimedOut && until.is_some_and(|until| parcae::time::now() >= until) {
            return Err(timed_out(what, object));
        }
    }
}
