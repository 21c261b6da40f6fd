//! The steps of an operation on a channel.
//!
//! 1. *prepare*: a checkpoint, which also makes sure that the operation can be paid for;
//! 2. *begin*: the operation happens, fails, or joins a queue;
//! 3. *wait*, if it has joined a queue, until it is granted or given up;
//! 4. *charge and wake*: if it happened, charge the task, which cannot fail because nobody else
//!    spends from its account, and wake the waiter at the other end.
//!
//! The frame of the task is found in step 1 and passed down.
//!
//! An error comes from 1, before anything was done, or from 2 and 3, which say under the channel's
//! lock that nothing was done. Values are dropped after 4, where a panic of theirs finds the
//! channel in order.
//!
//! # Cancelled before closed
//!
//! A task that is cancelled learns that before it learns that the channel is closed: mostly the
//! other end is gone because it was cancelled too. So wherever step 2 or 3 finds the channel
//! closed, the task looks once more whether it was cancelled. The cancel that made another task
//! close the channel is seen then: it was marked before that task saw it, which was before it
//! closed the channel, under whose lock this task has found that.

use super::error::Reason;
use super::state::{ChannelNode, Closed, Core, Locked, Side, ValueAddress};
use crate::base::error::{Error, Result};
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, wait_in_queue};
use crate::scope::cx::{self, Frame};
use crate::wait::{Grant, Node, Waiter, Wakes, Why};
use std::ptr::NonNull;

/// Step 1. Returns the frame of the task that pays, if the caller is a task.
#[inline]
pub(crate) fn prepare() -> Result<Option<&'static Frame>> {
    let payer = cx::current();
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

/// Step 4, if there is nobody to wake.
#[inline(always)]
pub(crate) fn charge(payer: Option<&Frame>) {
    if let Some(frame) = payer {
        frame.charge_channel_op();
    }
}

/// The reason of a failure. If the channel is closed and the task is cancelled, it is the latter.
#[cold]
pub(crate) fn closed_or_cancelled(reason: Reason) -> Reason {
    if let Reason::Closed(_) = reason
        && let Some(Err(cancelled)) = cx::current().map(Frame::check_cancelled)
    {
        return Reason::Interrupted(cancelled);
    }
    reason
}

/// An error on a task that unwinds: it cannot wait, since nobody else may run on its thread.
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
/// address belongs to the channel until this returns. `frame` is that of the caller.
#[cold]
pub(super) unsafe fn wait_queued<T>(
    core: &Core<T, Waiter>,
    locked: Locked<'_, T, Waiter>,
    side: Side,
    address: NonNull<T>,
    frame: Option<&Frame>,
    deadline: Deadline,
    why: Why<'_>,
) -> Result<(), Reason> {
    let node: ChannelNode<T, Waiter> = Node::new(ValueAddress::of(address));
    // SAFETY: the node stays here until it is granted or withdrawn, by `wait_in_queue` at the
    // latest, and the waiter with it. The rest as the caller says.
    let waited = unsafe {
        locked.join(side, &node, borrowed_waiter(frame));
        let refused = || may_wait(frame).err().map(Err);
        wait_in_queue(&core.waiters(side), &node, frame, why, || deadline, refused)
    };
    match waited {
        (Some(Grant::Own), Ok(_)) => Ok(()),
        waited => not_granted(core, frame, waited),
    }
}

/// The outcome of a wait that was interrupted, or ended without a value.
#[cold]
fn not_granted<T>(
    core: &Core<T, Waiter>,
    frame: Option<&Frame>,
    (grant, ended): (Option<Grant>, Result<Ended>),
) -> Result<(), Reason> {
    match (grant, ended) {
        (Some(Grant::Closed), Ok(_)) => {
            let Closed(error) = core.closed().unwrap_or_default();
            Err(closed_or_cancelled(Reason::Closed(error)))
        }
        // Cancelled, and the channel is closed: the former is the reason.
        (Some(Grant::Closed) | None, Err(error)) => Err(Reason::Interrupted(error)),
        (None, Ok(_)) => Err(Reason::TimedOut),
        // It has happened all the same, and the program does not hear of the cancellation yet.
        (Some(_), _) => {
            frame.inspect(|frame| frame.untell());
            Ok(())
        }
    }
}
