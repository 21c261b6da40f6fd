//! The steps of an operation on a simulated socket: the same as on a descriptor (`source`), with
//! the state of the network in place of the kernel.
//!
//! All tasks of a deterministic runtime run on one thread, and an attempt does not switch tasks. So
//! nothing happens between an attempt that has to wait and the publication of the waiter.

use crate::error::{from_task, not_simulated, timed_out};
use crate::source::{Charge, Operation};
use parcae::io::{IoPlace, IoTimer, IoWaiter, WaitEnd};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
///
/// Some changes are known before they happen: a segment arrives at its time. Then the waiters sleep
/// until then ([`wake_by`](WaitList::wake_by)) instead of being woken to find that out.
#[derive(Debug, Default)]
pub(super) struct WaitList(Mutex<Waiters>);

/// Waiters in the order in which they came: mostly none or one.
#[derive(Debug, Default)]
struct Waiters {
    tickets: u64,
    first: Option<Waiting>,
    others: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    waiter: IoWaiter,
    /// When it wakes up by itself, or by the timer.
    by: Option<Instant>,
    timer: Option<IoTimer>,
}

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
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the running task, which leaves before its wait returns. `by`: when it wakes up by
    /// itself.
    pub(super) fn enter(&self, by: Option<Instant>) -> u64 {
        // SAFETY: removed by `leave`, which the callers call in a destructor, or by `wake`; both
        // under the lock.
        self.push(unsafe { IoWaiter::here() }, by)
    }

    /// Enters a future that is polled with this waker.
    pub(super) fn enter_waker(&self, waker: &std::task::Waker) -> u64 {
        self.push(IoWaiter::of(waker), None)
    }

    fn push(&self, waiter: IoWaiter, by: Option<Instant>) -> u64 {
        let mut list = self.lock();
        let ticket = list.tickets;
        list.tickets += 1;
        let waiting = Waiting { ticket, waiter, by, timer: None };
        if list.first.is_none() && list.others.is_empty() {
            list.first = Some(waiting);
        } else {
            list.others.push(waiting);
        }
        ticket
    }

    pub(super) fn leave(&self, ticket: u64) {
        let mut list = self.lock();
        let left = list.first.take_if(|other| other.ticket == ticket);
        if left.is_none() && !list.others.is_empty() {
            list.others.retain(|other| other.ticket != ticket);
        }
    }

    /// Wakes all: they try again.
    pub(super) fn wake(&self) {
        self.wake_those(|_| true);
    }

    /// Lets all wake up at a point in time, or before. Those that cannot are woken: they try again.
    pub(super) fn wake_by(&self, at: Instant) {
        self.wake_those(|waiting| {
            if waiting.by.is_none_or(|by| by > at) {
                waiting.timer = waiting.waiter.wake_at(at);
                waiting.by = Some(at);
                return waiting.timer.is_none();
            }
            false
        });
    }

    /// Wakes those that are chosen.
    fn wake_those(&self, mut choose: impl FnMut(&mut Waiting) -> bool) {
        let mut list = self.lock();
        let first = list.first.take_if(&mut choose).map(|waiting| waiting.waiter.taken());
        if list.others.is_empty() {
            drop(list);
            if let Some(first) = first {
                first.wake();
            }
            return;
        }
        let others = list.others.extract_if(.., |waiting| choose(waiting));
        let others: Vec<_> = others.map(|waiting| waiting.waiter.taken()).collect();
        drop(list);
        first.into_iter().chain(others).for_each(IoWaiter::wake);
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
    let until = operation.limit.at();
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
        let wake = [until, due].into_iter().flatten().min();
        let _listed = Listed { list, ticket: list.enter(wake) };
        let ended = parcae::io::wait(wake, what, object).map_err(from_task)?;
        if ended == WaitEnd::TimedOut && until.is_some_and(|until| parcae::time::now() >= until) {
            return Err(timed_out(what, object));
        }
    }
}
