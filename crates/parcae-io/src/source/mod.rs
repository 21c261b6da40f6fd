//! A source: a descriptor, and the one way to operate on it.
//!
//! # An operation
//!
//! | step | in a task | on a thread |
//! |---|---|---|
//! | 1. charge | ops and syscalls; a checkpoint, hence a cancel point | – |
//! | 2. attempt, if the direction may be ready | a system call that does not wait | the same |
//! | 3. wait, if the attempt would have to | parks the task: a cancel point, with the deadline | blocks the thread in `poll(2)` |
//! | 4. again from 2 | | |
//!
//! An operation that ends without an attempt that succeeded (cancelled, timed out) has had no
//! effect, and its charge is taken back. After a [short](Attempt::Short) attempt the next one waits
//! without asking the kernel: there was nothing left.
//!
//! A task whose operations never wait lets others run after [`STREAK`] of them.
//!
//! # States
//!
//! A source has no slot until one of its operations has to wait in a task; threads never need one.
//! With a slot it is registered, in one poller, until it is dropped: removed from the poller first,
//! closed afterwards, because a child process may have inherited the descriptor and would keep the
//! registration alive.

mod alarm;
mod polled;
pub(crate) mod ready;
pub(crate) mod slot;
mod socket;

pub(crate) use alarm::Alarm;
pub(crate) use socket::SocketOp;

use crate::error::{self, from_task};
use crate::sys;
use parcae::io::{IoPlace, WaitEnd};
use ready::Direction;
use slot::Slot;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Operations in a row without a wait, after which the task yields.
const STREAK: u32 = 32;

/// A descriptor that tasks and threads wait for.
pub(crate) struct Source<S: AsFd> {
    slot: OnceLock<&'static Slot>,
    /// Operations since the last wait.
    streak: AtomicU32,
    io: S,
}

/// How long an operation may wait.
#[derive(Clone, Copy)]
pub(crate) enum Limit<'o> {
    Endless,
    /// From its first wait on.
    After(Duration),
    /// The same, by an alarm that the running task keeps for its next operation.
    Alarm(Duration, &'o Alarm),
    /// By the clock of the caller, [`parcae::time::now`].
    At(Instant),
}

impl Limit<'_> {
    pub(crate) fn of(timeout: Option<Duration>) -> Limit<'static> {
        timeout.map_or(Limit::Endless, Limit::After)
    }

    pub(crate) fn until(until: Option<Instant>) -> Limit<'static> {
        until.map_or(Limit::Endless, Limit::At)
    }

    /// The end of a wait that begins now. Reads no clock unless it has to.
    pub(crate) fn at(self) -> Option<Instant> {
        match self {
            Limit::Endless => None,
            Limit::After(time) | Limit::Alarm(time, _) => parcae::io::after(time),
            Limit::At(until) => Some(until),
        }
    }
}

/// An operation, as all backends see it.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'o> {
    pub(crate) direction: Direction,
    /// Ops and syscalls.
    pub(crate) cost: u64,
    pub(crate) limit: Limit<'o>,
    /// "reading from", and the object: for observers.
    pub(crate) what: &'static str,
    pub(crate) object: &'o dyn fmt::Display,
}

/// Outcome of an attempt that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt<T> {
    /// The next attempt may succeed, too.
    Full(T),
    /// It took less than it could have: there is no more at this moment.
    Short(T),
}

/// An operation that was charged. If it does not succeed the charge is taken back.
pub(crate) struct Charge(Cell<u64>);

impl Charge {
    pub(crate) fn new(cost: u64) -> io::Result<Charge> {
        parcae::io::charge(cost).map_err(from_task)?;
        Ok(Charge(Cell::new(cost)))
    }

    /// The operation has happened.
    pub(crate) fn keep(&self) {
        self.0.set(0);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let cost = self.0.get();
        if cost > 0 {
            parcae::io::refund(cost);
        }
    }
}

impl<S: AsFd> Source<S> {
    pub(crate) fn new(io: S) -> Source<S> {
        Source { slot: OnceLock::new(), streak: AtomicU32::new(0), io }
    }

    pub(crate) fn get(&self) -> &S {
        &self.io
    }

    /// Gives the descriptor back, registered nowhere.
    pub(crate) fn into_inner(self) -> S
    where
        S: From<std::os::fd::OwnedFd> + Into<std::os::fd::OwnedFd>,
    {
        self.close_slot();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: moved out once: `this` is not dropped, and its other fields own nothing.
        unsafe { std::ptr::read(&raw const this.io) }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }

    fn close_slot(&self) {
        if let Some(slot) = self.slot.get() {
            slot.close(self.fd());
        }
    }

    /// Does an operation, with all steps.
    pub(crate) fn operate<T>(
        &self,
        operation: Operation<'_>,
        attempt: impl FnMut(&S) -> io::Result<Attempt<T>>,
    ) -> io::Result<T> {
        match parcae::io::place() {
            IoPlace::Task => self.operate_in_task(operation, attempt),
            IoPlace::Thread => self.operate_on_thread(operation, attempt),
            IoPlace::Simulated => Err(error::not_replayable(operation.what, operation.object)),
        }
    }

    #[inline]
    fn operate_in_task<T>(
        &self,
        operation: Operation<'_>,
        mut attempt: impl FnMut(&S) -> io::Result<Attempt<T>>,
    ) -> io::Result<T> {
        let charge = Charge::new(operation.cost)?;
        let direction = operation.direction;
        let mut until = None;
        loop {
            let slot = self.slot.get();
            let seen = slot.map(|slot| slot.ready.word());
            // Without a slot no one keeps a record: the kernel is asked.
            if seen.is_none_or(|seen| seen & direction.bit() != 0) {
                let outcome = attempt(&self.io);
                if let (Some(slot), Some(seen)) = (slot, seen) {
                    match &outcome {
                        Ok(Attempt::Full(_)) => {}
                        Ok(Attempt::Short(_)) => slot.ready.came_short(direction, seen),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            slot.ready.drained(direction, seen);
                        }
                        Err(_) => {}
                    }
                }
                match outcome {
                    Ok(Attempt::Full(value) | Attempt::Short(value)) => {
                        charge.keep();
                        self.after_success();
                        return Ok(value);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        charge.keep(); // it has happened, and failed
                        return Err(error);
                    }
                }
            }
            self.streak.store(0, Ordering::Relaxed); // a hint
            if self.wait(&operation, &mut until)? == WaitEnd::TimedOut {
                return Err(error::timed_out(operation.what, operation.object));
            }
        }
    }

    /// The slot of the source, taken by the first call.
    fn slot(&self) -> io::Result<&'static Slot> {
        if let Some(slot) = self.slot.get() {
            return Ok(slot);
        }
        let fresh = slot::take()?;
        if self.slot.set(fresh).is_err() {
            fresh.close(self.fd()); // another thread was faster
        }
        Ok(self.slot.get().copied().unwrap_or(fresh))
    }

    /// An attempt of a task that waits for several sources: if it would have to wait, the task
    /// becomes a waiter of this source, and leaves when the result is dropped.
    pub(crate) fn try_or_publish(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(&S) -> io::Result<()>,
    ) -> io::Result<Option<slot::Published>> {
        let slot = self.slot()?;
        loop {
            let seen = slot.ready.word();
            match attempt(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => return done.map(|()| None),
            }
            slot.ready.drained(direction, seen);
            if let Some(published) = slot.publish(self.fd(), direction)? {
                return Ok(Some(published));
            }
        }
    }

    /// Waits in a task until the direction is ready, as far as is known. May return early.
    #[inline]
    fn wait(&self, operation: &Operation<'_>, until: &mut Option<Instant>) -> io::Result<WaitEnd> {
        let slot = self.slot()?;
        if let Limit::Alarm(time, alarm) = operation.limit {
            return self.wait_with_alarm(operation, until, (time, alarm), slot);
        }
        if until.is_none() {
            *until = operation.limit.at();
        }
        let Some(_published) = slot.publish(self.fd(), operation.direction)? else {
            return Ok(WaitEnd::Woken);
        };
        parcae::io::wait(*until, operation.what, operation.object).map_err(from_task)
    }

    /// As [`wait`](Source::wait).
    fn wait_with_alarm(
        &self,
        operation: &Operation<'_>,
        until: &mut Option<Instant>,
        (time, alarm): (Duration, &Alarm),
        slot: &'static Slot,
    ) -> io::Result<WaitEnd> {
        let now = parcae::time::now();
        if until.is_none() {
            *until = now.checked_add(time);
        }
        if until.is_some_and(|until| until <= now) {
            return Ok(WaitEnd::TimedOut);
        }
        let Some(_published) = slot.publish(self.fd(), operation.direction)? else {
            return Ok(WaitEnd::Woken);
        };
        // The wait itself has no deadline if there is an alarm.
        let by_itself = until.filter(|until| !alarm.arm(*until, now));
        parcae::io::wait(by_itself, operation.what, operation.object).map_err(from_task)
    }

    /// Lets other tasks run, if this one has not waited for long.
    #[inline]
    fn after_success(&self) {
        // Relaxed, both: a hint.
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= STREAK {
            self.streak.store(0, Ordering::Relaxed);
            // Not a cancel point: the operation has happened, and the task must not count as told
            // of a cancellation that its next operation reports.
            parcae::io::let_others_run();
        }
    }

    #[cold]
    fn operate_on_thread<T>(
        &self,
        operation: Operation<'_>,
        mut attempt: impl FnMut(&S) -> io::Result<Attempt<T>>,
    ) -> io::Result<T> {
        let until = operation.limit.at();
        loop {
            // Events may be delivered meanwhile; this thread does without, and clears no bit.
            match attempt(&self.io) {
                Ok(Attempt::Full(value) | Attempt::Short(value)) => return Ok(value),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !sys::block(self.fd(), operation.direction.poll_events(), until)? {
                        return Err(error::timed_out(operation.what, operation.object));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<S: AsFd> Drop for Source<S> {
    fn drop(&mut self) {
        self.close_slot();
    }
}

impl<S: AsFd + fmt::Debug> fmt::Debug for Source<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.io, f)
    }
}
