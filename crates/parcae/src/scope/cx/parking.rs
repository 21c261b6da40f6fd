//! Parking: the step of a wait in which the task is parked, or the thread is blocked.
//!
//! `wait` has the queues and defines the order of the steps. This module ends the wait of a caller:
//! [`wait`] for one wake, [`wait_in_queue`] until a node is granted. In a task, the call parks the
//! task and is a cancel point. On any other thread it blocks the thread and cannot be cancelled.
//! Callers look up their frame once ([`Here`]) and pass it down.
//!
//! # Waits that are over at once
//!
//! A wait that is over at once (a sleep that is due, a future that woke itself during its poll, a
//! deadline that has passed) must not be free: a loop around it would keep its worker for ever,
//! cost nothing, and never notice a cancellation. Such a wait *passes* ([`pass`]): it is a
//! checkpoint, which charges one op, then a yield. A passed deadline of [`wait`] only yields,
//! because the operation that waits has been charged by its own rules before.
//!
//! Yielding and charging may park the task, and so consume a wake-up that was meant for the wait.
//! So both come before the caller checks its condition again, never between that check and the
//! park.

use super::{Frame, Here};
use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::timers::{Due, Nanos};
use crate::wait::{End, Grant, WaitNode, WaitStanding, Waitable, Waiter, Why};
use std::time::{Duration, Instant};

/// How a park ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By a wake, or early: the caller checks its condition again.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// When to stop waiting, by the clock of the caller: that of the task's scheduler, which may be
/// virtual, or that of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Task(Nanos),
    Thread(Instant),
    Never,
}

impl Deadline {
    /// This much time from now.
    pub(crate) fn after(time: Duration) -> Deadline {
        match Here::new().frame() {
            Some(frame) => Deadline::Task(frame.settings().shared.later(time)),
            None => Instant::now().checked_add(time).map_or(Deadline::Never, Deadline::Thread),
        }
    }

    /// A point in time, by the clock of [`time::now`](crate::time::now).
    pub(crate) fn at(at: Instant) -> Deadline {
        match Here::new().frame() {
            Some(frame) => Deadline::Task(frame.settings().shared.nanos(at)),
            None => Deadline::Thread(at),
        }
    }

    /// The time left; none if there is no deadline.
    fn left(self, frame: Option<&Frame>) -> Option<Duration> {
        match self {
            Deadline::Task(at) => {
                let now = frame?.settings().shared.now();
                Some(Duration::from_nanos(at.saturating_sub(now)))
            }
            Deadline::Thread(at) => Some(at.saturating_duration_since(Instant::now())),
            Deadline::Never => None,
        }
    }
}

/// A waiter that may be kept for any time: the running task, or this thread.
pub(crate) fn waiter() -> Waiter {
    match Here::new().frame() {
        Some(frame) => Waiter::Task(frame.waker()),
        None => Waiter::Thread(std::thread::current()),
    }
}

/// A waiter for a queue that it leaves before the wait returns.
///
/// # Safety
///
/// `frame` is that of the caller, if it is a task. The rest as for [`Waiter::borrowed`].
#[inline]
pub(crate) unsafe fn borrowed_waiter(frame: Option<&Frame>) -> Waiter {
    match frame {
        // SAFETY: as the caller says.
        Some(frame) => unsafe { Waiter::borrowed(&frame.settings().shared, frame.task_ref()) },
        None => Waiter::Thread(std::thread::current()),
    }
}

/// A checkpoint of the running task: charges one op, lets others run at the end of the turn, is a
/// cancel point.
///
/// # Errors
///
/// As for [`Cx::checkpoint`](crate::Cx::checkpoint).
#[inline]
pub(crate) fn checkpoint(frame: &Frame) -> Result<()> {
    if frame.tick() { Ok(()) } else { frame.checkpoint_slow() }
}

/// A wait that is over at once: a checkpoint and a yield.
///
/// # Errors
///
/// As for [`checkpoint`].
pub(crate) fn pass(frame: &Frame) -> Result<()> {
    checkpoint(frame)?;
    frame.yield_now()
}

/// Yields, whatever else there is: no cancel point, and free. Nothing in a task that unwinds.
pub(crate) fn let_go(frame: &Frame) {
    frame.let_go();
}

/// Charges one op for a wait. Returns `None` if nothing else happened. Otherwise the task may have
/// yielded or waited for budget, and may have consumed the wake-up that it is going to wait for:
/// this counts as its first wake, and the caller checks again.
///
/// Fails in a task that unwinds. Such a task cannot wait: no other task may run on its thread
/// meanwhile, perhaps not even the one that would end the wait.
pub(crate) fn charge(frame: Option<&Frame>) -> Option<Result<Ended>> {
    let frame = frame?;
    if std::thread::panicking() {
        return Some(Err(Error::new(ErrorKind::Unwinding)));
    }
    if frame.tick() { None } else { Some(frame.checkpoint_slow().map(|()| Ended::Woken)) }
}

/// Waits until the caller's waiter is woken, or until the deadline; may return early. `why` is
/// shown to observers.
///
/// # Errors
///
/// If the task was cancelled. The operation has not happened: the caller withdraws, and returns the
/// error.
#[inline]
pub(crate) fn wait(frame: Option<&Frame>, deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    match (deadline, frame) {
        (Deadline::Never, Some(frame)) => frame.park(why)?,
        (Deadline::Never, None) => std::thread::park(),
        _ => return wait_until(frame, deadline, why),
    }
    Ok(Ended::Woken)
}

/// As [`wait`], with a deadline.
#[inline(never)]
fn wait_until(frame: Option<&Frame>, deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    // A deadline that is far by the coarse clock is not compared with the real one: a wait that is
    // granted soon reads no clock. If the coarse clock was late, the timer fires at once, and the
    // next round compares.
    let far = match (deadline, frame) {
        (Deadline::Task(at), Some(frame)) => frame.settings().shared.seems_far(at),
        _ => false,
    };
    let left = if far { None } else { deadline.left(frame) };
    if left.is_some_and(|left| left.is_zero()) {
        if let Some(frame) = frame {
            frame.yield_now()?; // a loop around a deadline that has passed lets others run
        }
        return Ok(Ended::TimedOut);
    }
    match (frame, left) {
        (Some(frame), left) => {
            let shared = &frame.settings().shared;
            let _timer = match deadline {
                Deadline::Task(at) if far || left.is_some() => {
                    Some(shared.at(at, Due::wake(frame.task_ref())))
                }
                _ => None,
            };
            frame.seen().timed.set(far || left.is_some());
            let parked = frame.park(why);
            frame.seen().timed.set(false);
            parked?;
        }
        (None, Some(left)) => std::thread::park_timeout(left),
        (None, None) => std::thread::park(),
    }
    Ok(Ended::Woken)
}

/// A queued node, which is withdrawn when this is dropped, also if the wait unwinds.
pub(crate) struct QueuedNode<'w, O: Waitable<Waiter>> {
    object: &'w O,
    node: &'w WaitNode<Waiter, O::Key>,
}

impl<O: Waitable<Waiter>> Drop for QueuedNode<'_, O> {
    #[inline]
    fn drop(&mut self) {
        if let WaitStanding::Queued | WaitStanding::Called = self.node.standing() {
            // SAFETY: as for `wait_in_queue`.
            unsafe { self.object.withdraw(self.node) };
        }
    }
}

/// Waits until a node is granted; withdraws it after the deadline or a cancellation. The node is in
/// no queue afterwards.
///
/// `deadline` and `first` are called once, in this order, with the node withdrawn if they unwind.
/// `first` returns a wake that was consumed already, if there was one.
///
/// Returns the grant, and how the last park ended. Without a grant that is the deadline or an
/// error. A grant beside an error came at the same moment as the cancellation; it belongs to the
/// caller nevertheless.
///
/// # Safety
///
/// The caller owns the node, which is or was in the queue of this object, and does not move before
/// this returns. `frame` is that of the caller, if it is a task.
#[inline]
pub(crate) unsafe fn wait_in_queue<O: Waitable<Waiter>>(
    object: &O,
    node: &WaitNode<Waiter, O::Key>,
    frame: Option<&Frame>,
    why: Why<'_>,
    deadline: impl FnOnce() -> Deadline,
    first: impl FnOnce() -> Option<Result<Ended>>,
) -> (Option<Grant>, Result<Ended>) {
    let _queued = QueuedNode { object, node };
    let deadline = deadline();
    let mut ended = first().unwrap_or_else(|| wait(frame, deadline, why));
    loop {
        if ended.is_ok() {
            let grant = match node.standing() {
                WaitStanding::Granted(grant) => Some(grant),
                // SAFETY: as the caller says.
                WaitStanding::Called => unsafe { object.retry(node, || borrowed_waiter(frame)) },
                _ => None,
            };
            if grant.is_some() {
                return (grant, ended);
            }
        }
        if let Ok(Ended::Woken) = ended {
            ended = wait(frame, deadline, why);
            continue;
        }
        // SAFETY: as the caller says.
        return (unsafe { object.withdraw(node) }, ended);
    }
}

/// Queues a node at the end of a task, unless the task has ended. For callers that park by
/// themselves.
///
/// # Safety
///
/// The node is idle, and does not move while the result is alive. `frame` is the caller's.
pub(crate) unsafe fn queue_at_end<'e>(
    end: &'e End<Waiter>,
    node: &'e WaitNode<Waiter>,
    frame: &Frame,
) -> QueuedNode<'e, End<Waiter>> {
    // SAFETY: as the caller says; withdrawn by the drop of the result at the latest.
    unsafe { end.register(node, borrowed_waiter(Some(frame)), None) };
    QueuedNode { object: end, node }
}

/// Waits until a task has ended, or until the deadline. A cancel point if it has to wait.
pub(crate) fn wait_for_end(end: &End<Waiter>, deadline: Deadline, why: Why<'_>) -> Result<Ended> {
    let here = Here::new();
    let frame = here.frame();
    let node = WaitNode::new(());
    // SAFETY: the node stays here until it is withdrawn, by `wait_in_queue` at the latest, and the
    // waiter with it.
    let ended = unsafe {
        if !end.register(&node, borrowed_waiter(frame), None) {
            return Ok(Ended::Woken);
        }
        match wait_in_queue(end, &node, frame, why, || deadline, || None) {
            (Some(_), _) => return Ok(Ended::Woken),
            (None, ended) => ended,
        }
    };
    if let (Ok(Ended::TimedOut), Some(frame)) = (&ended, frame) {
        checkpoint(frame)?; // a loop around a wait for no time at all costs something
    }
    ended
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::wait::Wake;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Publishes a waiter, and waits for a flag.
    fn wait_for(flag: &AtomicBool, waiters: &std::sync::Mutex<Vec<Waiter>>) -> Result<()> {
        waiters.lock().unwrap().push(waiter());
        while !flag.load(Ordering::Acquire) {
            wait(Here::new().frame(), Deadline::Never, Why::Wake)?;
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
                    waiters.lock().unwrap().iter().for_each(Wake::wake);
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
            while wait(Here::new().frame(), deadline, Why::Wake)? != Ended::TimedOut {}
            Ok(())
        };
        time_out().unwrap();
        Runtime::builder().build().unwrap().run(|_| time_out()).unwrap();
        let hours = || {
            let deadline = Deadline::after(Duration::from_secs(7_200));
            while wait(Here::new().frame(), deadline, Why::Wake)? != Ended::TimedOut {}
            Ok(())
        };
        Runtime::builder().deterministic(3).build().unwrap().run(|_| hours()).unwrap();
        let far = Deadline::after(Duration::MAX);
        assert!(far.left(None).is_none_or(|left| left.as_secs() > 1 << 30));
    }

    #[test]
    fn a_wait_is_a_cancel_point_of_a_task() {
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let waits = || wait(Here::new().frame(), Deadline::Never, Why::Wake).map(drop);
                n.spawn(move |cx| cx.forever(waits))?;
                cx.yield_now()?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}
