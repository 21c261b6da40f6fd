//! Waiting, for tasks and for threads.
//!
//! Everything that waits does it in the same steps:
//!
//! 1. *try*: if it can be done now, it is done, and nobody waits;
//! 2. *publish*: a [`Waiter`] is put where whoever makes it possible will find it;
//! 3. *re-check*: between 1 and 2 it may have become possible;
//! 4. *park*: [`wait`] until woken, cancelled, or a deadline passes; may return early;
//! 5. *unpublish*: the waiter is taken out again, whatever the outcome, before the call returns.
//!
//! # Why no wake-up is lost
//!
//! Whoever makes it possible does so first and looks for waiters afterwards, under the lock (or by the same
//! word) under which the waiter was published. So it finds the waiter, or the waiter's re-check comes
//! later and finds that it is possible. A wake that comes before the park is latched, by the
//! state word of the task or the token of the thread.
//!
//! # Who keeps the scheduler
//!
//! To wake a task takes its scheduler. A [`Waiter`] that anybody may have for any time keeps it by a count, which all
//! workers share: to count up and down for every wait makes them wait for each other. So a waiter that
//! is put into a line or a place, and is out of it before the wait returns, is [`lent`](Waiter::lent): as long
//! as it is there its task waits, and a task keeps its scheduler. Whoever takes it out to wake it does
//! so under the same lock, and [keeps](Waiter::keep) it there: by a count of its own, or, being a worker of that
//! scheduler, by nothing at all, for a worker keeps it too, and wakes before it does anything else.
//!
//! # Waits that are over at once
//!
//! A wait with nothing to wait for (a sleep that is due, a future that woke itself during its poll, a deadline
//! that has passed) must not be free: a task that loops around it would keep its worker for ever, cost
//! nothing and never learn that it was cancelled. Such a wait *passes* ([`pass`]): it is a checkpoint,
//! which charges one op, then a yield. A passed deadline of [`wait`] only yields, because the operation that
//! waits has been charged by its own rules before it came here.
//!
//! Yielding and charging may park the task, and so consume a wake-up that was meant for the wait. So both come
//! before the caller looks again at what it waits for, never between that look and the park.
//!
//! On a task the task is parked, and the call is a cancel point; on any other thread the thread is
//! blocked, and there is nobody to cancel it.

pub(crate) mod claim;
mod end;
pub(crate) mod places;
pub(crate) mod wake;
mod why;

pub(crate) use claim::Claim;
pub use end::Ends;
pub(crate) use end::{End, Polled, TaskEnd};
pub(crate) use places::{PlaceEnd, Places, Ticket, Waiting};
pub(crate) use wake::{Wake, Wakes};
pub(crate) use why::{Channelled, Holder, Told, Why};

use crate::base::error::{Error, ErrorKind, Result, discard};
use crate::sched::Shared;
use crate::sched::task::TaskRef;
use crate::sched::task::waker::Waker;
use crate::sched::timers::{Due, Nanos};
use crate::sched::worker;
use crate::scope::cx;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Somebody who waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Task(Waker),
    /// As [`lent`](Waiter::lent) says.
    Lent(Lent),
    Thread(Thread),
    /// Somebody else's future.
    Future(task::Waker),
}

/// A task that waits, and so keeps its scheduler; or was taken out by a worker, which keeps it.
#[derive(Clone)]
pub(crate) struct Lent {
    shared: NonNull<Shared>,
    task: TaskRef,
}

// SAFETY: a reference to what all threads share, for as long as `lent` says.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Somebody woke us, or nobody did: look again.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

impl Waiter {
    /// The running task, or this thread.
    pub(crate) fn current() -> Waiter {
        cx::current()
            .map_or_else(|| Waiter::Thread(std::thread::current()), |f| Waiter::Task(f.waker()))
    }

    /// The same, for a place that it is taken out of before the wait returns, by its owner or, with
    /// [`keep`](Waiter::keep), by whoever wakes it; always under the lock that guards the place.
    ///
    /// # Safety
    ///
    /// That is so.
    pub(crate) unsafe fn lent() -> Waiter {
        let lent = |frame: &cx::Frame| {
            let shared = NonNull::from(&*frame.terms().shared);
            Waiter::Lent(Lent { shared, task: frame.task_ref() })
        };
        cx::current().map_or_else(|| Waiter::Thread(std::thread::current()), lent)
    }

    /// Called under the lock that guards the place, by whoever takes it out to wake it as the next thing that
    /// it does. From then on it is good though its task may have gone on.
    pub(crate) fn keep(&mut self) {
        if let Waiter::Lent(Lent { shared, task }) = self {
            // SAFETY: its task waits, since it was found in its place, and keeps its scheduler.
            let shared = unsafe { shared.as_ref() };
            if worker::current_of(shared).is_none() {
                *self = Waiter::Task(Waker::new(shared.counted(), *task));
            }
        }
    }

    /// Wakes it, from anywhere, at any time. Idempotent.
    pub(crate) fn wake(&self) {
        match self {
            Waiter::Task(waker) => waker.wake(),
            // SAFETY: kept by a worker of that scheduler, which runs this.
            Waiter::Lent(lent) => unsafe { lent.shared.as_ref() }.unpark(lent.task),
            Waiter::Thread(thread) => thread.unpark(),
            // Code of the program, which may be run by a worker.
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
            Waiter::Task(_) | Waiter::Lent(_) => "Waiter::Task",
            Waiter::Thread(_) => "Waiter::Thread",
            Waiter::Future(_) => "Waiter::Future",
        })
    }
}

/// When to stop waiting, by the clock of whoever waits: that of the task's scheduler, which may
/// be virtual, or of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Task(Nanos),
    Thread(Instant),
    Never,
}

impl Deadline {
    /// A time from now.
    pub(crate) fn after(time: Duration) -> Deadline {
        match cx::current() {
            Some(frame) => Deadline::Task(frame.terms().shared.later(time)),
            None => Instant::now().checked_add(time).map_or(Deadline::Never, Deadline::Thread),
        }
    }

    /// A point in time, by the clock of [`time::now`](crate::time::now).
    pub(crate) fn at(at: Instant) -> Deadline {
        match cx::current() {
            Some(frame) => Deadline::Task(frame.terms().shared.nanos(at)),
            None => Deadline::Thread(at),
        }
    }

    /// What is left of it; none if there is no end to it.
    fn left(self) -> Option<Duration> {
        match self {
            Deadline::Task(at) => {
                let now = cx::current()?.terms().shared.now();
                Some(Duration::from_nanos(at.saturating_sub(now)))
            }
            Deadline::Thread(at) => Some(at.saturating_duration_since(Instant::now())),
            Deadline::Never => None,
        }
    }
}

/// A checkpoint of the running task: charges one op, lets others run at the end of the turn, is a cancel point.
///
/// # Errors
///
/// As for [`Cx::checkpoint`](crate::Cx::checkpoint).
#[inline]
pub(crate) fn checkpoint(frame: &cx::Frame) -> Result<()> {
    if frame.tick() { Ok(()) } else { frame.attend() }
}

/// A wait that is over at once: a checkpoint, and others run.
///
/// # Errors
///
/// As for [`checkpoint`].
pub(crate) fn pass(frame: &cx::Frame) -> Result<()> {
    checkpoint(frame)?;
    frame.yield_now()
}

/// Charges a wait one op. If there was more to it than that, the task may have run out of its turn or waited for budget,
/// and a wake-up that was meant for the wait may be gone: then it counts as woken, and the caller looks again.
pub(crate) fn charge() -> Option<Result<Ended>> {
    let frame = cx::current().filter(|_| !std::thread::panicking())?;
    if frame.tick() { None } else { Some(frame.attend().map(|()| Ended::Woken)) }
}

/// Waits to be woken. A task that unwinds cannot: nothing may run on its thread meanwhile, perhaps not
/// even the holder of what it waits for.
#[inline]
pub(crate) fn park(deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    if std::thread::panicking() && cx::current().is_some() {
        return Err(Error::new(ErrorKind::Unwinding));
    }
    wait(deadline, why)
}

/// Step 4: waits until the current [`Waiter`] is woken, or until the deadline. `why` is for others to see.
///
/// # Errors
///
/// If the task was cancelled. The caller unpublishes and passes it on: the operation has not
/// happened.
pub(crate) fn wait(deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    if !matches!(deadline, Deadline::Never) {
        return wait_until(deadline, why);
    }
    match cx::current() {
        Some(frame) => frame.park(why)?,
        None => std::thread::park(),
    }
    Ok(Ended::Woken)
}

/// The same, for a deadline that there is.
#[inline(never)]
fn wait_until(deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    let left = deadline.left();
    if left.is_some_and(|left| left.is_zero()) {
        if let Some(frame) = cx::current() {
            frame.yield_now()?; // a loop around a deadline that has passed lets others run
        }
        return Ok(Ended::TimedOut);
    }
    match (cx::current(), left) {
        (Some(frame), left) => {
            let shared = &frame.terms().shared;
            let _timer = match deadline {
                Deadline::Task(at) if left.is_some() => {
                    Some(shared.at(at, Due::Wake(frame.task_ref())))
                }
                _ => None,
            };
            frame.seen().timed.set(left.is_some());
            frame.park(why)?;
        }
        (None, Some(left)) => std::thread::park_timeout(left),
        (None, None) => std::thread::park(),
    }
    Ok(Ended::Woken)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The five steps, for a flag.
    fn wait_for(flag: &AtomicBool, waiters: &std::sync::Mutex<Vec<Waiter>>) -> Result<()> {
        waiters.lock().unwrap().push(Waiter::current());
        while !flag.load(Ordering::Acquire) {
            wait(Deadline::Never, Why::Wake)?;
        }
        Ok(())
    }

    #[test]
    fn tasks_and_threads_wait_for_the_same() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        for _ in 0..50 {
            let (flag, waiters) = (AtomicBool::new(false), std::sync::Mutex::default());
            std::thread::scope(|s| {
                let thread = s.spawn(|| wait_for(&flag, &waiters));
                let task = s.spawn(|| rt.run(|_| wait_for(&flag, &waiters)));
                flag.store(true, Ordering::Release);
                while !(thread.is_finished() && task.is_finished()) {
                    waiters.lock().unwrap().iter().for_each(Waiter::wake);
                    std::thread::yield_now();
                }
                thread.join().unwrap().unwrap();
                task.join().unwrap().unwrap();
            });
        }
    }

    #[test]
    fn deadlines_pass_for_tasks_and_threads() {
        let time_out = || {
            let deadline = Deadline::after(Duration::from_millis(2));
            while wait(deadline, Why::Wake)? != Ended::TimedOut {}
            Ok(())
        };
        time_out().unwrap();
        Runtime::builder().build().unwrap().run(|_| time_out()).unwrap();
        let hours = || {
            let deadline = Deadline::after(Duration::from_secs(7_200));
            while wait(deadline, Why::Wake)? != Ended::TimedOut {}
            Ok(())
        };
        Runtime::builder().deterministic(3).build().unwrap().run(|_| hours()).unwrap();
        assert!(Deadline::after(Duration::MAX).left().is_none_or(|left| left.as_secs() > 1 << 30));
    }

    #[test]
    fn whoever_takes_a_lent_waiter_out_keeps_its_scheduler() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let taken = rt.run(|_| {
            // SAFETY: the task is here until both were taken out.
            let (mut here, mut there) = unsafe { (Waiter::lent(), Waiter::lent()) };
            here.keep();
            assert!(matches!(here, Waiter::Lent(_)), "a worker keeps its scheduler anyway");
            here.wake();
            std::thread::scope(|scope| scope.spawn(|| there.keep()).join()).unwrap();
            assert!(matches!(there, Waiter::Task(_)), "nobody keeps it for this thread");
            Ok(there)
        });
        drop(rt);
        taken.unwrap().wake(); // its task is gone, its scheduler is not
    }

    #[test]
    fn a_wait_is_a_cancel_point_of_a_task() {
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| cx.forever(|| wait(Deadline::Never, Why::Wake).map(drop)))?;
                cx.yield_now()?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}
