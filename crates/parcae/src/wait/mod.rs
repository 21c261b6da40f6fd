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
//! On a task the task is parked, and the call is a cancel point; on any other thread the thread is
//! blocked, and there is nobody to cancel it.

mod why;

pub(crate) use why::{Channelled, Holder, Told, Why};

use crate::cx;
use crate::engine::Waker;
use crate::error::Result;
use crate::time::{Due, Nanos};
use std::fmt;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Somebody who waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Task(Waker),
    Thread(Thread),
}

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

    /// Wakes it, from anywhere, at any time. Idempotent.
    pub(crate) fn wake(&self) {
        match self {
            Waiter::Task(waker) => waker.wake(),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Task(_) => "Waiter::Task",
            Waiter::Thread(_) => "Waiter::Thread",
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

    /// What is left of it; none if there is no end to it.
    fn left(self) -> Option<Duration> {
        match (self, cx::current()) {
            (Deadline::Task(at), Some(frame)) => {
                Some(Duration::from_nanos(at.saturating_sub(frame.terms().shared.now())))
            }
            (Deadline::Thread(at), _) => Some(at.saturating_duration_since(Instant::now())),
            (Deadline::Task(_) | Deadline::Never, _) => None,
        }
    }
}

/// Step 4: waits until the current [`Waiter`] is woken, or until the deadline. `why` is for others to see.
///
/// # Errors
///
/// If the task was cancelled. The caller unpublishes and passes it on: the operation has not
/// happened.
pub(crate) fn wait(deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    let left = deadline.left();
    if left.is_some_and(|left| left.is_zero()) {
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
    fn a_wait_is_a_cancel_point_of_a_task() {
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(
                    |_| loop {
                        wait(Deadline::Never, Why::Wake)?;
                    } as Result<()>,
                )?;
                cx.yield_now()?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}
