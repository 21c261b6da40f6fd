//! Waiting for a change of state: for channels that do not hand values over.
//!
//! The state is behind a lock, with a wait queue in it. A thread that changes the state ends the
//! wait of all waiters under that lock and wakes them after it; the waiters read it again. A waiter
//! reads the state and joins the queue in one critical section, so it sees the change or is found
//! by the thread that makes it. It reads once more before it reports a cancellation or a timeout.
//!
//! Whether there is something new for a reader depends on its own *cursor*, the position up to
//! which it has read. No other reader can consume a change that ended its wait. So a select can be
//! decided by the queue alone, and read afterwards.

use super::error::{Reason, RecvError};
use super::operation::{charge, closed_or_cancelled, may_wait, prepare};
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::ObjectLock as Lock;
use crate::sched::worker::point_at;
use crate::scope::cx::Here;
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, wait_in_queue};
use crate::wait::{
    CaseClaim, Grant, Queue, WaitNode, WaitStanding, Waitable, Waiter, Wake, Wakes, Why,
};

/// Ends the wait of all waiters after a change of state.
pub(super) fn notify_changed<W: Wake>(waiters: &mut Queue<W>) -> Wakes<W> {
    if waiters.is_empty() {
        return Wakes::Nobody;
    }
    let mut woken = Vec::new();
    waiters.grant_all(Grant::All, None, |()| true, &mut woken);
    Wakes::Many(woken)
}

/// A reader of a changing state.
pub(crate) trait Reader: Sized {
    /// The reason of the wait, for reports.
    const NAME: &'static str;

    type State;
    /// The result of reading under the lock.
    type Found;
    type Value;

    /// The state, and the reader's cursor.
    fn parts(&mut self) -> (&Lock<Self::State>, &mut u64);

    fn waiters(state: &mut Self::State) -> &mut Queue<Waiter>;

    /// Reads the state and advances the cursor. `None` if there is nothing new.
    fn read(state: &Self::State, cursor: &mut u64) -> Option<Result<Self::Found, Reason>>;

    /// Converts the result for the program, outside of the lock.
    fn value(found: Self::Found) -> Self::Value;

    /// Waits until there is something new. Charges the task on success.
    #[track_caller]
    fn wait_until(
        &mut self,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Self::Value, RecvError> {
        let interrupted = |error| RecvError::new(Reason::Interrupted(error));
        let here = Here::new();
        let payer = prepare(&here).map_err(interrupted)?;
        let (state, cursor) = self.parts();
        point_at(OpKind::ChannelReceive, state);
        let changes = Changes::<Self>(state);
        let node = WaitNode::new(());
        let mut deadline = Some(deadline);
        let mut until = None;
        let found = loop {
            let mut locked = state.lock();
            if let Some(found) = Self::read(&locked, cursor) {
                break found;
            }
            // SAFETY: the node is idle here, and stays here until `wait_in_queue` has returned,
            // which leaves it in no queue. The frame is the caller's.
            let waited = unsafe {
                node.reset();
                Self::waiters(&mut locked).push(&node, borrowed_waiter(payer), None);
                drop(locked);
                let why = Why::signal(Self::NAME, state);
                let until = || {
                    *until.get_or_insert_with(|| deadline.take().map_or(Deadline::Never, |d| d()))
                };
                wait_in_queue(&changes, &node, payer, why, until, || may_wait(payer).err().map(Err))
            };
            let given_up = match waited {
                (Some(_), _) | (None, Ok(Ended::Woken)) => continue,
                (None, Ok(Ended::TimedOut)) => Reason::TimedOut,
                (None, Err(error)) => Reason::Interrupted(error),
            };
            break match (Self::read(&state.lock(), cursor), given_up) {
                // Cancellation takes precedence over a closed channel.
                (Some(Err(Reason::Closed(_))), Reason::Interrupted(error)) => {
                    Err(Reason::Interrupted(error))
                }
                (Some(found), _) => found,
                (None, given_up) => Err(given_up),
            };
        };
        if found.is_ok() {
            charge(payer);
        }
        found.map(Self::value).map_err(|reason| RecvError::new(closed_or_cancelled(reason)))
    }

    /// Reads without waiting. Charges the task on success.
    #[track_caller]
    fn try_read(&mut self) -> Result<Self::Value, RecvError> {
        let here = Here::new();
        let payer = prepare(&here).map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        let seen = self.attempt().unwrap_or_else(|| Err(RecvError::new(Reason::WouldWait)));
        if seen.is_ok() {
            charge(payer);
        }
        seen.map_err(|error| RecvError::new(closed_or_cancelled(error.into_reason())))
    }
}

/// The state of a reader as a [`Waitable`].
struct Changes<'r, R: Reader>(&'r Lock<R::State>);

impl<R: Reader> Waitable<Waiter> for Changes<'_, R> {
    type Key = ();

    unsafe fn withdraw(&self, node: &WaitNode<Waiter>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { R::waiters(&mut self.0.lock()).remove(node) };
        match removed.standing {
            WaitStanding::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

/// A reader as a case of a select, see [`Case`](crate::select::Case).
pub(crate) trait ChangeSource {
    type Value;

    /// Reads the next change. `None` if there is nothing new.
    fn attempt(&mut self) -> Option<Result<Self::Value, RecvError>>;

    /// Whether there is something new.
    fn is_possible(&mut self) -> bool;

    /// Queues a node. Returns false if there is something new.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    unsafe fn register(
        &mut self,
        node: &WaitNode<Waiter>,
        waiter: Waiter,
        claim: CaseClaim,
    ) -> bool;

    /// Removes the node from the queue, if it is queued.
    ///
    /// # Safety
    ///
    /// The caller owns the node.
    unsafe fn withdraw(&mut self, node: &WaitNode<Waiter>);
}

impl<R: Reader> ChangeSource for R {
    type Value = R::Value;

    fn attempt(&mut self) -> Option<Result<R::Value, RecvError>> {
        let (state, cursor) = self.parts();
        let found = R::read(&state.lock(), cursor)?;
        Some(found.map(R::value).map_err(RecvError::new))
    }

    fn is_possible(&mut self) -> bool {
        let (state, &mut cursor) = self.parts();
        R::read(&state.lock(), &mut { cursor }).is_some()
    }

    unsafe fn register(
        &mut self,
        node: &WaitNode<Waiter>,
        waiter: Waiter,
        claim: CaseClaim,
    ) -> bool {
        let (state, &mut cursor) = self.parts();
        let mut locked = state.lock();
        let nothing = R::read(&locked, &mut { cursor }).is_none();
        if nothing {
            // SAFETY: the caller upholds the contract.
            unsafe { R::waiters(&mut locked).push(node, waiter, Some(claim)) };
        }
        nothing
    }

    unsafe fn withdraw(&mut self, node: &WaitNode<Waiter>) {
        let (state, _) = self.parts();
        // SAFETY: the caller upholds the contract.
        unsafe { Changes::<R>(state).withdraw(node) };
    }
}
