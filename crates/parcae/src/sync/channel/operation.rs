//! The steps of an operation on a channel.
//!
//! 1. *prepare*: a checkpoint, which also ensures that the task can pay for the operation;
//! 2. *begin*: the operation happens, fails, or joins a queue;
//! 3. *wait*, if it has joined a queue, until it is granted or withdrawn;
//! 4. *charge and wake*: if it happened, charge the task, which cannot fail because no other task
//!    spends from its account, and wake the waiter at the other end.
//!
//! Step 1 looks up the frame of the task and passes it down.
//!
//! An error comes from step 1, before anything was done, or from steps 2 and 3, which establish
//! under the channel's lock that nothing was done. Values are dropped after step 4, when a panic of
//! their destructors finds the channel in a consistent state.
//!
//! # Cancelled before closed
//!
//! A cancelled task gets the cancellation as its error even if the channel is closed: usually the
//! other end is gone because it was cancelled too. So wherever step 2 or 3 finds the channel
//! closed, the task checks once more whether it is cancelled. That check sees the cancellation that
//! made another task close the channel: it was marked before that task saw it, that task closed the
//! channel afterwards, and this task found the channel closed under the same lock.

use super::error::Reason;
use super::state::{ChannelCore, ChannelNode, Closed, Locked, Side, ValueAddress};
use crate::base::error::{Error, Result};
use crate::scope::cx::parking::{Deadline, Ended, QueuedNode, borrowed_waiter, wait_in_queue};
use crate::scope::cx::{Frame, Here};
use crate::wait::{Grant, WaitNode, WaitStanding, Waitable, Waiter, Wakes, Why};
use std::ptr::NonNull;

/// Step 1. Returns the frame of the paying task, if the caller is a task.
#[inline]
pub(crate) fn prepare(here: &Here) -> Result<Option<&Frame>> {
    let payer = here.frame();
    if let Some(frame) = payer {
        frame.prepare_channel_op()?;
    }
    Ok(payer)
}

/// Step 4.
#[inline]
pub(crate) fn charge_and_wake(payer: Option<&Frame>, wakes: Wakes<Waiter>) {
    charge(payer);
    wakes.wake();
}

/// Step 4, without a waiter to wake.
#[inline(always)]
pub(crate) fn charge(payer: Option<&Frame>) {
    if let Some(frame) = payer {
        frame.charge_channel_op();
    }
}

/// The reason of a failure. Cancellation takes precedence over a closed channel.
#[cold]
pub(crate) fn closed_or_cancelled(reason: Reason) -> Reason {
    if let Reason::Closed(_) = reason
        && let Some(Err(cancelled)) = Here::new().frame().map(Frame::check_cancelled)
    {
        return Reason::Interrupted(cancelled);
    }
    reason
}

/// Fails on a task that unwinds: it cannot wait, since no other task may run on its thread until it
/// has finished unwinding.
#[inline]
pub(crate) fn may_wait(frame: Option<&Frame>) -> Result<()> {
    if std::thread::panicking() && frame.is_some() {
        return Err(Error::msg("a task cannot wait for a channel while it panics; use `try_send`"));
    }
    Ok(())
}

/// Step 3: joins a queue with the value at an address, and waits until the value was moved.
///
/// # Errors
///
/// The operation did not happen.
///
/// # Safety
///
/// The lock is this channel's, and under it the operation was found impossible. The memory at the
/// address belongs to the channel until this returns. `frame` is the caller's.
#[inline(always)]
pub(super) unsafe fn wait_queued<T>(
    core: &ChannelCore<T, Waiter>,
    locked: Locked<'_, T, Waiter>,
    side: Side,
    address: NonNull<T>,
    frame: Option<&Frame>,
    deadline: Deadline,
    why: Why<'_>,
) -> Result<(), Reason> {
    let node: ChannelNode<T, Waiter> = WaitNode::new(ValueAddress::of(address));
    let waiters = core.waiters(side);
    // SAFETY: node and waiter stay here until the node is granted or withdrawn, by `QueuedNode` at
    // the latest. The caller upholds the rest.
    unsafe {
        locked.join(side, &node, borrowed_waiter(frame));
        let _queued = QueuedNode::new(&waiters, &node);
        if let (Some(frame), Deadline::Never) = (frame, deadline) {
            let waited = frame.wait_until_final(node.state(), &why);
            if waited.is_ok() && node.standing() == WaitStanding::Granted(Grant::Own) {
                return Ok(());
            }
            let grant = waiters.withdraw(&node);
            return not_granted(core, Some(frame), (grant, waited.map(|()| Ended::Woken)));
        }
        wait_otherwise(core, side, &node, frame, deadline, why)
    }
}

/// As [`wait_queued`], on a thread, or with a deadline.
///
/// # Safety
///
/// The node was queued by the caller, whose frame this is, and does not move.
#[cold]
unsafe fn wait_otherwise<T>(
    core: &ChannelCore<T, Waiter>,
    side: Side,
    node: &ChannelNode<T, Waiter>,
    frame: Option<&Frame>,
    deadline: Deadline,
    why: Why<'_>,
) -> Result<(), Reason> {
    let refused = || may_wait(frame).err().map(Err);
    // SAFETY: as the caller says.
    match unsafe { wait_in_queue(&core.waiters(side), node, frame, why, || deadline, refused) } {
        (Some(Grant::Own), Ok(_)) => Ok(()),
        waited => not_granted(core, frame, waited),
    }
}

/// The outcome of a wait that was interrupted, or ended without a value.
#[cold]
fn not_granted<T>(
    core: &ChannelCore<T, Waiter>,
    frame: Option<&Frame>,
    (grant, ended): (Option<Grant>, Result<Ended>),
) -> Result<(), Reason> {
    match (grant, ended) {
        (Some(Grant::Closed), Ok(_)) => {
            let Closed(error) = core.closed().unwrap_or_default();
            Err(closed_or_cancelled(Reason::Closed(error)))
        }
        // Cancellation takes precedence over a closed channel.
        (Some(Grant::Closed) | None, Err(error)) => Err(Reason::Interrupted(error)),
        (None, Ok(_)) => Err(Reason::TimedOut),
        // The operation has happened, so it succeeds. The next cancel point reports the
        // cancellation.
        (Some(_), _) => {
            frame.inspect(|frame| frame.untell());
            Ok(())
        }
    }
}
