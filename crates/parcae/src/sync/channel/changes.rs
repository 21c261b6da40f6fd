//! Waiting until a state has changed: for channels whose values are not handed over.
//!
//! A state behind a lock has a wait queue in it. A thread that changes the state ends the wait of
//! all waiters under that lock, and wakes them after it; they look again. A waiter looks and joins
//! the queue in one critical section, so it sees the change or is found by the thread that makes
//! it. It looks once more before it reports that it was cancelled or out of time.
//!
//! What a reader sees of a state depends on how far it has got, its *cursor*, which is its own:
//! what was there to be seen when its wait was ended is there when it looks. So a select can be
//! decided by the queue alone, and look after that.

use super::error::{Reason, RecvError};
use super::operation::{charge, closed_or_cancelled, may_wait, prepare};
use crate::base::lock::Lock;
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, wait_in_queue};
use crate::wait::{CaseClaim, Grant, Node, Queue, Standing, Waitable, Waiter, Wake, Wakes, Why};

/// The state has changed: ends the wait of all waiters.
pub(super) fn notify_changed<W: Wake>(waiters: &mut Queue<W>) -> Wakes<W> {
    if waiters.is_empty() {
        return Wakes::Nobody;
    }
    let mut woken = Vec::new();
    waiters.grant_all(Grant::All, None, |()| true, &mut woken);
    Wakes::Many(woken)
}

/// A reader of a state that changes.
pub(crate) trait Reader: Sized {
    /// What is waited for, in words.
    const NAME: &'static str;

    type State;
    /// What is found under the lock.
    type Found;
    type Value;

    /// The state, and the reader's cursor.
    fn parts(&mut self) -> (&Lock<Self::State>, &mut u64);

    fn waiters(state: &mut Self::State) -> &mut Queue<Waiter>;

    /// What there is to be seen, with the cursor moved behind it; none if there is nothing.
    fn read(state: &Self::State, cursor: &mut u64) -> Option<Result<Self::Found, Reason>>;

    /// What the program gets, made outside of the lock.
    fn value(found: Self::Found) -> Self::Value;

    /// Waits until there is something to be seen. Charges the task if it is a success.
    fn wait_until(
        &mut self,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Self::Value, RecvError> {
        let interrupted = |error| RecvError::new(Reason::Interrupted(error));
        let payer = prepare().map_err(interrupted)?;
        let (state, cursor) = self.parts();
        let changes = Changes::<Self>(state);
        let node = Node::new(());
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
                // Cancelled, and nothing more will come: the former is the reason.
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

    /// What there is to be seen now. Charges the task if it is a success.
    fn try_read(&mut self) -> Result<Self::Value, RecvError> {
        let payer = prepare().map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        let seen = self.attempt().unwrap_or_else(|| Err(RecvError::new(Reason::WouldWait)));
        if seen.is_ok() {
            charge(payer);
        }
        seen.map_err(|error| RecvError::new(closed_or_cancelled(error.into_reason())))
    }
}

/// The state of a reader, as an object to wait for.
struct Changes<'r, R: Reader>(&'r Lock<R::State>);

impl<R: Reader> Waitable<Waiter> for Changes<'_, R> {
    type Key = ();

    unsafe fn withdraw(&self, node: &Node<Waiter>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { R::waiters(&mut self.0.lock()).remove(node) };
        match removed.standing {
            Standing::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

/// A reader as a case of a select, see [`Case`](crate::select::Case).
pub(crate) trait ChangeSource {
    type Value;

    /// What there is to be seen.
    fn attempt(&mut self) -> Option<Result<Self::Value, RecvError>>;

    /// Whether there is something to be seen.
    fn is_possible(&mut self) -> bool;

    /// Queues a node; false if there is something to be seen.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    unsafe fn register(&mut self, node: &Node<Waiter>, waiter: Waiter, claim: CaseClaim) -> bool;

    /// Takes the node out of the queue, if it is there.
    ///
    /// # Safety
    ///
    /// The caller owns the node.
    unsafe fn withdraw(&mut self, node: &Node<Waiter>);
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

    unsafe fn register(&mut self, node: &Node<Waiter>, waiter: Waiter, claim: CaseClaim) -> bool {
        let (state, &mut cursor) = self.parts();
        let mut locked = state.lock();
        let nothing = R::read(&locked, &mut { cursor }).is_none();
        if nothing {
            // SAFETY: the caller upholds the contract.
            unsafe { R::waiters(&mut locked).push(node, waiter, Some(claim)) };
        }
        nothing
    }

    unsafe fn withdraw(&mut self, node: &Node<Waiter>) {
        let (state, _) = self.parts();
        // SAFETY: the caller upholds the contract.
        unsafe { Changes::<R>(state).withdraw(node) };
    }
}
