//! Condition variables.
//!
//! A waiter joins the queue before it releases the mutex, so a change that is made under the mutex
//! and then signalled finds the waiter. If the receiver of a signal is cancelled, in the wait or
//! while it locks the mutex again, the signal passes to the next waiter.

use super::constructor;
use super::mutex::MutexGuard;
use super::primitive::{self, Primitive, WaitOutcome, grant_all_before};
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock};
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cx::parking::Deadline;
use crate::wait::{Grant, Queue, Removed, WaitStanding, Waiter, Wake, Why};
use std::fmt;
use std::time::{Duration, Instant};

/// A condition variable: waits until data in a [`Mutex`](super::Mutex) has changed.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::{Condvar, Mutex};
///
/// let (queue, filled) = (Mutex::new(Vec::new()), Condvar::new());
/// let rt = Runtime::builder().workers(2).build()?;
/// let sum = rt.run(|cx| {
///     cx.nursery(|n| {
///         let consumer = n.spawn(|_| {
///             let queue = filled.wait_while(queue.lock()?, |queue| queue.len() < 3)?;
///             Ok(queue.iter().sum::<i32>())
///         })?;
///         for i in 1..=3 {
///             queue.lock()?.push(i);
///             filled.notify_one();
///         }
///         consumer.join()
///     })
/// })?;
/// assert_eq!(sum, 6);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// A wait consumes the guard and returns it. If the wait fails, the guard is gone and the mutex is
/// unlocked, so that a cancelled task need not wait for the mutex again.
pub struct Condvar {
    raw: RawCondvar<Waiter>,
}

pub(super) struct RawCondvar<W> {
    waiters: Lock<Queue<W>>,
}

impl<W> RawCondvar<W> {
    constructor! {
        pub(super) fn new() -> RawCondvar<W> {
            RawCondvar { waiters: Lock::new(Queue::new()) }
        }
    }
}

impl<W: Wake> RawCondvar<W> {
    pub(super) fn notify_one(&self) {
        let waiter = self.waiters.lock().grant(Grant::Own);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    pub(super) fn notify_all(&self) {
        let arrivals = self.waiters.lock().arrivals();
        grant_all_before(self, arrivals, Grant::All);
    }

    /// Locks the mutex again after a wait. If that fails, the signal passes to the next waiter.
    ///
    /// # Errors
    ///
    /// The error of `lock`.
    pub(super) fn lock_again<G, E>(
        &self,
        outcome: WaitOutcome,
        lock: impl FnOnce() -> Result<G, E>,
    ) -> Result<(G, WaitOutcome), E> {
        let guard = lock().inspect_err(|_| {
            if let WaitOutcome::Waited(Grant::Own) = outcome {
                self.notify_one();
            }
        })?;
        Ok((guard, outcome))
    }
}

impl<W> Drop for RawCondvar<W> {
    #[inline]
    fn drop(&mut self) {
        forget_address(self);
    }
}

impl<W: Wake> Primitive<W> for RawCondvar<W> {
    type State = Queue<W>;
    type Key = ();

    fn lock(&self) -> Guard<'_, Queue<W>> {
        self.waiters.lock()
    }

    fn queue(waiters: &mut Queue<W>) -> &mut Queue<W> {
        waiters
    }

    /// Never succeeds at once: a condition variable keeps no signals.
    fn attempt<'p>(
        &'p self,
        waiters: Guard<'p, Queue<W>>,
        (): (),
    ) -> Result<Grant, Guard<'p, Queue<W>>> {
        Err(waiters)
    }

    fn gave_up<'p>(
        &'p self,
        waiters: Guard<'p, Queue<W>>,
        (): (),
        removed: &Removed<W>,
    ) -> Option<Grant> {
        drop(waiters);
        if removed.standing == WaitStanding::Granted(Grant::Own) {
            self.notify_one();
        }
        None
    }
}

impl Condvar {
    constructor! {
        /// A condition variable without waiters.
        pub fn new() -> Condvar {
            Condvar { raw: RawCondvar::new() }
        }
    }

    /// Unlocks the mutex, waits for a signal, and locks the mutex again. A cancel point.
    ///
    /// A signal says that the data may have changed. Check the condition again in a loop, or use
    /// [`wait_while`](Condvar::wait_while).
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, for the signal or for the mutex. The mutex is
    /// unlocked in that case.
    #[track_caller]
    pub fn wait<'m, T: ?Sized>(&self, guard: MutexGuard<'m, T>) -> Result<MutexGuard<'m, T>> {
        Ok(self.wait_until(guard, Deadline::Never)?.0)
    }

    /// Waits while the condition holds.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Condvar::wait).
    #[track_caller]
    pub fn wait_while<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'m, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Like [`wait_while`](Condvar::wait_while), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires and the condition still holds, or as for [`wait`](Condvar::wait). The
    /// mutex is unlocked in that case.
    #[track_caller]
    pub fn wait_while_timeout<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        time: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'m, T>> {
        if !condition(&mut guard) {
            return Ok(guard);
        }
        self.keep_waiting(guard, Deadline::after(time), condition)
    }

    /// Like [`wait_while`](Condvar::wait_while), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes and the condition still holds, or as for [`wait`](Condvar::wait). The
    /// mutex is unlocked in that case.
    #[track_caller]
    pub fn wait_while_deadline<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        at: Instant,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'m, T>> {
        if !condition(&mut guard) {
            return Ok(guard);
        }
        self.keep_waiting(guard, Deadline::at(at), condition)
    }

    /// Waits until the condition, which holds now, does not.
    fn keep_waiting<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        deadline: Deadline,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'m, T>> {
        loop {
            let outcome;
            (guard, outcome) = self.wait_until(guard, deadline)?;
            if !condition(&mut guard) {
                return Ok(guard);
            }
            outcome.in_time()?;
        }
    }

    #[track_caller]
    fn wait_until<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> Result<(MutexGuard<'m, T>, WaitOutcome)> {
        point_at(OpKind::Wait, &self.raw);
        let mutex = guard.mutex();
        let unlock = || {
            drop(guard); // the node is in the queue
            deadline
        };
        let outcome = primitive::wait(&self.raw, (), Why::signal("condvar", self), unlock)?;
        self.raw.lock_again(outcome, || mutex.lock())
    }

    /// Wakes the first waiter, if there is one. Not a checkpoint: a loop of such calls needs one of
    /// its own.
    #[track_caller]
    pub fn notify_one(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.notify_one();
    }

    /// Wakes all present waiters. Not a checkpoint: a loop of such calls needs one of its own.
    #[track_caller]
    pub fn notify_all(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.notify_all();
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
