//! The steps of an operation on a channel.
//!
//! 1. *prepare*: a checkpoint, which also ensures that the task can pay for the operation;
//! 2. *begin*: the operation happens, fails, or joins a queue;
//! 3. *wait*, if it has joined a queue, until it is granted or withdrawn;
//! 4. *charge and wake*: if it happened, charge the task, which cannot fail because no other task
//!    spends from its account, and wake the waiter at the other end.
//!
//! Step 1 looks up the frame of the task and passes it down. The usual operation has a fast path
//! before that: of a task, which needs nothing more of step 1 than the charge of one op, and whose
//! operations on channels are not counted, so that step 4 has nothing to charge
//! (`Frame::begins_free_channel_op`). It cannot fail, and does not leave the stack before step 3.
//! Optimised builds inline it into the program: saving and restoring registers would be a tenth of
//! a round trip. In other builds it is a call, because the caller's frame would hold all copies of
//! a large value.
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
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, wait_in_queue};
use crate::scope::cx::{Frame, Here};
use crate::wait::{Grant, WaitNode, Waitable, Waiter, Wakes, WhyLink};
use std::mem::{ManuallyDrop, MaybeUninit};
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
    why: WhyLink<'_>,
) -> Result<(), Reason> {
    // SAFETY: the caller upholds the contract.
    unsafe {
        if let (Some(frame), Deadline::Never) = (frame, deadline) {
            wait_on_task(core, locked, side, address, frame, why)
        } else {
            wait_otherwise(core, locked, side, address, frame, deadline, why)
        }
    }
}

/// As [`wait_queued`], on a task, without a deadline.
///
/// # Safety
///
/// As for [`wait_queued`].
#[inline(always)]
pub(super) unsafe fn wait_on_task<T>(
    core: &ChannelCore<T, Waiter>,
    locked: Locked<'_, T, Waiter>,
    side: Side,
    address: NonNull<T>,
    frame: &Frame,
    why: WhyLink<'_>,
) -> Result<(), Reason> {
    let mut place = MaybeUninit::<ChannelNode<T, Waiter>>::uninit();
    let at = NonNull::from(&mut place).cast();
    // SAFETY: node and waiter stay here until the node is granted or withdrawn, by `Withdraw` at
    // the latest. The caller upholds the rest.
    unsafe {
        locked.join_new(side, at, ValueAddress::of(address), borrowed_waiter(Some(frame)));
        let node = place.assume_init_ref();
        let unwinding = Withdraw { core, side, node };
        // Without a drop of the result on the usual way.
        let waited = ManuallyDrop::new(frame.wait_until_final(node.state(), why));
        std::mem::forget(unwinding);
        if waited.is_ok() && node.state().is_granted(Grant::Own) {
            return Ok(());
        }
        not_served(core, side, node, frame, ManuallyDrop::into_inner(waited))
    }
}

/// Withdraws the node of a wait that unwinds.
struct Withdraw<'n, T> {
    core: &'n ChannelCore<T, Waiter>,
    side: Side,
    node: &'n ChannelNode<T, Waiter>,
}

impl<T> Drop for Withdraw<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the node was queued by the caller, to whose wait it belongs.
        unsafe { self.core.waiters(self.side).withdraw(self.node) };
    }
}

/// The outcome of a wait without a deadline that failed, or did not end with a value.
///
/// # Safety
///
/// The node was queued by the caller, whose frame this is, and does not move.
#[cold]
unsafe fn not_served<T>(
    core: &ChannelCore<T, Waiter>,
    side: Side,
    node: &ChannelNode<T, Waiter>,
    frame: &Frame,
    waited: Result<()>,
) -> Result<(), Reason> {
    // SAFETY: as the caller says.
    let grant = unsafe { core.waiters(side).withdraw(node) };
    not_granted(core, Some(frame), (grant, waited.map(|()| Ended::Woken)))
}

/// As [`wait_queued`], on a thread, or with a deadline.
///
/// # Safety
///
/// As for [`wait_queued`].
#[cold]
#[inline(never)]
unsafe fn wait_otherwise<T>(
    core: &ChannelCore<T, Waiter>,
    locked: Locked<'_, T, Waiter>,
    side: Side,
    address: NonNull<T>,
    frame: Option<&Frame>,
    deadline: Deadline,
    why: WhyLink<'_>,
) -> Result<(), Reason> {
    let node: ChannelNode<T, Waiter> = WaitNode::new(ValueAddress::of(address));
    let refused = || may_wait(frame).err().map(Err);
    let (object, why) = (core.waiters(side), why.why());
    // SAFETY: node and waiter stay here until the node is granted or withdrawn, by `wait_in_queue`
    // at the latest. The caller upholds the rest.
    let waited = unsafe {
        locked.join(side, &node, borrowed_waiter(frame));
        wait_in_queue(&object, &node, frame, why, || deadline, refused)
    };
    match waited {
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
