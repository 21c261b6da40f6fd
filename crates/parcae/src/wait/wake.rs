//! Waking: the [`Wake`] trait, the [`Waiter`] that implements it, and lists of waiters to be woken
//! after a lock was released.
//!
//! # Borrowed waiters
//!
//! Waking a task needs its scheduler, a `Shared`. A long-lived waiter holds an `Arc<Shared>`.
//! Cloning that on every wait would make all workers contend for one count, so a waiter that is
//! removed before its wait returns borrows it instead ([`Waiter::Borrowed`]): while the waiter is
//! queued, its task waits, and a waiting task keeps its scheduler alive.
//!
//! The thread that removes a waiter in order to wake it calls [`Wake::upgrade`] while it still
//! holds the queue's lock. A worker of the same scheduler needs nothing more: it keeps the
//! scheduler alive itself, and wakes before it does anything else. Any other thread takes a count
//! of its own.

use crate::base::error::discard;
use crate::sched::run_queue::ContextLoan;
use crate::sched::task::TaskRef;
use crate::sched::task::waker::Waker;
use crate::sched::worker::Worker;
use crate::sched::{Shared, worker};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task;
use std::thread::Thread;

/// A waiter that can be woken. In the models, which have no scheduler, a thread or a flag.
pub(crate) trait Wake {
    /// Wakes the waiter, from any thread, at any time. Idempotent.
    fn wake(&self);

    /// Makes the waiter independent of its wait. Called under the queue's lock by the thread that
    /// removed the waiter and will wake it: once that lock is released, the wait may return.
    fn upgrade(&mut self) {}

    /// The task behind the waiter, if this worker, on whose thread the caller runs, may wake it
    /// without an upgrade. Dropping such a waiter does nothing.
    #[inline(always)]
    fn task_for(&self, worker: &Worker) -> Option<TaskRef> {
        let _ = worker;
        None
    }
}

/// A task, a thread or a future that waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Task(Waker),
    /// A task, for the time of one wait: see the header.
    Borrowed(BorrowedTask),
    Thread(Thread),
    /// A future that another executor polls.
    Future(task::Waker),
}

/// A task and its scheduler, without a count of its own.
#[derive(Clone, Copy)]
pub(crate) struct BorrowedTask {
    shared: NonNull<Shared>,
    task: TaskRef,
}

// SAFETY: a reference to state that all threads share, valid for as long as `Waiter::borrowed`
// requires.
unsafe impl Send for BorrowedTask {}
// SAFETY: as above.
unsafe impl Sync for BorrowedTask {}

impl Waiter {
    /// A waiter for a queue that it leaves before the task's wait returns.
    ///
    /// # Safety
    ///
    /// The waiter is removed from the queue before the task's wait returns: by its owner, or by a
    /// thread that [upgrades](Wake::upgrade) it. Both under the lock that guards the queue.
    #[inline]
    pub(crate) unsafe fn borrowed(shared: &Shared, task: TaskRef) -> Waiter {
        Waiter::Borrowed(BorrowedTask { shared: NonNull::from(shared), task })
    }
}

impl Wake for Waiter {
    #[inline]
    fn wake(&self) {
        match self {
            // SAFETY: kept alive by a worker of that scheduler, which runs this; see `upgrade`.
            Waiter::Borrowed(waiter) => unsafe { waiter.shared.as_ref() }.unpark(waiter.task),
            other => other.wake_other(),
        }
    }

    #[inline(always)]
    fn task_for(&self, worker: &Worker) -> Option<TaskRef> {
        match self {
            Waiter::Borrowed(waiter) if worker.is_of(waiter.shared) => Some(waiter.task),
            _ => None,
        }
    }

    #[inline]
    fn upgrade(&mut self) {
        if let Waiter::Borrowed(BorrowedTask { shared, task }) = self {
            // SAFETY: the waiter was found in its queue, so its task waits and keeps its scheduler
            // alive.
            let shared = unsafe { shared.as_ref() };
            if !worker::is_current_of(shared) {
                *self = Waiter::Task(Waker::new(shared.counted(), *task));
            }
        }
    }
}

impl Waiter {
    /// As [`wake`](Wake::wake), and lends a context to a task of this thread's scheduler.
    #[cold]
    pub(crate) fn wake_lending(&self, loan: &Arc<ContextLoan>) {
        let lent = worker::with_current(|worker| {
            let task = match self {
                Waiter::Borrowed(waiter) if worker.is_of(waiter.shared) => waiter.task,
                _ => return false,
            };
            worker.unpark_lending(task, loan);
            true
        });
        if lent != Some(true) {
            self.wake();
        }
    }

    #[cold]
    fn wake_other(&self) {
        match self {
            Waiter::Task(waker) => waker.wake(),
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Borrowed(_) => unreachable!("woken by `wake`"),
            // User code, which may run on a worker.
            Waiter::Future(waker) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake_by_ref())) {
                    discard(payload);
                }
            }
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Task(_) | Waiter::Borrowed(_) => "Waiter::Task",
            Waiter::Thread(_) => "Waiter::Thread",
            Waiter::Future(_) => "Waiter::Future",
        })
    }
}

/// Waiters removed under a lock, to be woken after it is released.
#[must_use = "they wait to be woken"]
pub(crate) enum Wakes<W> {
    Nobody,
    One(W),
    Many(Vec<W>),
}

impl<W: Wake> Wakes<W> {
    #[inline]
    pub(crate) fn wake(self) {
        match self {
            Wakes::Nobody => {}
            Wakes::One(waiter) => waiter.wake(),
            Wakes::Many(waiters) => wake_all(waiters),
        }
    }
}

impl<W> From<Option<W>> for Wakes<W> {
    #[inline]
    fn from(waiter: Option<W>) -> Wakes<W> {
        waiter.map_or(Wakes::Nobody, Wakes::One)
    }
}

/// Wakes all of them.
#[cold]
pub(crate) fn wake_all<W: Wake>(waiters: Vec<W>) {
    waiters.iter().for_each(Wake::wake);
}

/// Waiters woken per critical section: enough to make the cost of the lock small, few enough for
/// any stack.
const BATCH: usize = 16;

/// A bounded number of waiters, without an allocation. For objects that wake any number of waiters
/// and need not end all their waits in one critical section.
pub(crate) struct Batch<W> {
    waiters: [Option<W>; BATCH],
    len: usize,
}

impl<W: Wake> Batch<W> {
    pub(crate) fn new() -> Batch<W> {
        Batch { waiters: [const { None }; BATCH], len: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub(crate) fn push(&mut self, waiter: W) {
        self.waiters[self.len] = Some(waiter);
        self.len += 1;
    }

    /// Wakes them. Must not be called under the lock.
    pub(crate) fn wake(self) {
        self.waiters.into_iter().flatten().for_each(|waiter| waiter.wake());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::scope::cx;

    #[test]
    fn a_thread_that_removes_a_borrowed_waiter_counts_its_scheduler() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let removed = rt.run(|_| {
            let here = cx::Here::new();
            let frame = here.frame().unwrap();
            // SAFETY: the task is here until both were removed.
            let borrow = || unsafe { Waiter::borrowed(&frame.settings().shared, frame.task_ref()) };
            let (mut kept, mut there) = (borrow(), borrow());
            kept.upgrade();
            assert!(matches!(kept, Waiter::Borrowed(_)), "a worker keeps its scheduler anyway");
            kept.wake();
            std::thread::scope(|scope| scope.spawn(|| there.upgrade()).join()).unwrap();
            assert!(matches!(there, Waiter::Task(_)), "nobody keeps it for this thread");
            Ok(there)
        });
        drop(rt);
        removed.unwrap().wake(); // its task is gone, its scheduler is not
    }
}
