//! Waiting until something has changed: for channels whose values are not handed over.
//!
//! A [`Bell`] is part of a state behind a lock. Whoever changes the state takes all who wait out of it under
//! that lock, and wakes them after it; they look again. Whoever waits looks and takes its place in one
//! critical section, so it sees the change or is found by whoever makes it. It gives its place up in every case,
//! and looks once more before it believes that it was cancelled or out of time.
//!
//! What one sees of a state depends on how far it has got, its *cursor*, which is its own: what was there to be seen
//! when the bell rang for it is there when it looks. So a select can be decided by the bell alone, and
//! look after that.

use super::ends::{closed_or_cancelled, may_wait, prepare, settle};
use super::error::{Reason, RecvError};
use crate::base::lock::Lock;
use crate::wait::Wake;
use crate::wait::places::{Places, Ticket, Waiting};
use crate::wait::{self, Deadline, Ended, Waiter, Why};

/// Those who wait for a change.
pub(crate) struct Bell<W = Waiter>(Places<(), W>);

/// Those to wake, once the lock is released.
#[must_use = "they wait to be woken"]
pub(super) struct Rung<W = Waiter>(Vec<W>);

impl<W> Bell<W> {
    pub(super) fn new() -> Bell<W> {
        Bell(Places::new())
    }

    /// Takes a place. Under the same lock the caller has looked, and found nothing.
    pub(super) fn join(&mut self, waiting: Waiting<(), W>) -> Ticket {
        self.0.join(waiting)
    }

    /// Gives it up.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        self.0.withdraw(ticket);
    }
}

impl<W: Wake> Bell<W> {
    /// Takes out all who wait.
    pub(super) fn ring(&mut self) -> Rung<W> {
        let mut all = Vec::new();
        self.0.close(&mut all);
        Rung(all)
    }
}

impl<W: Wake> Rung<W> {
    pub(super) fn wake(self) {
        self.0.iter().for_each(Wake::wake);
    }
}

/// Somebody who looks at a state with a bell.
pub(crate) trait Look: Sized {
    /// What is waited for, in words.
    const NAME: &'static str;

    type State;
    /// What is found under the lock.
    type Found;
    type Value;

    /// The state, and how far one has got in it.
    fn parts(&mut self) -> (&Lock<Self::State>, &mut u64);

    fn bell(state: &mut Self::State) -> &mut Bell;

    /// What there is to be seen, and the cursor after it; none if nothing is.
    fn look(state: &Self::State, cursor: &mut u64) -> Option<Result<Self::Found, Reason>>;

    /// What that is for the program, outside of the lock.
    fn value(found: Self::Found) -> Self::Value;

    /// Waits until there is something to be seen. Charges the task if it is a success.
    fn wait_until(
        &mut self,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Self::Value, RecvError> {
        let interrupted = |error| RecvError::new(Reason::Interrupted(error));
        let payer = prepare().map_err(interrupted)?;
        let (state, cursor) = self.parts();
        let mut deadline = Some(deadline);
        let mut until = None;
        let found = loop {
            let mut locked = state.lock();
            if let Some(found) = Self::look(&locked, cursor) {
                break found;
            }
            let waiting = Waiting { waiter: Waiter::current(), claim: None, value: None };
            let ticket = Self::bell(&mut locked).join(waiting);
            drop(locked);
            let until =
                *until.get_or_insert_with(|| deadline.take().map_or(Deadline::Never, |d| d()));
            let ended = may_wait().and_then(|()| wait::wait(until, Why::signal(Self::NAME, state)));
            let mut locked = state.lock();
            Self::bell(&mut locked).withdraw(ticket);
            let given_up = match ended {
                Ok(Ended::Woken) => continue,
                Ok(Ended::TimedOut) => Reason::TimedOut,
                Err(error) => Reason::Interrupted(error),
            };
            break match (Self::look(&locked, cursor), given_up) {
                // Told to end, and that nothing more will come: the former is why.
                (Some(Err(Reason::Closed(_))), Reason::Interrupted(error)) => {
                    Err(Reason::Interrupted(error))
                }
                (Some(found), _) => found,
                (None, given_up) => Err(given_up),
            };
        };
        if found.is_ok() {
            settle(payer, None);
        }
        found.map(Self::value).map_err(|reason| RecvError::new(closed_or_cancelled(reason)))
    }

    /// What there is to be seen now. Charges the task if it is a success.
    fn try_look(&mut self) -> Result<Self::Value, RecvError> {
        let payer = prepare().map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        let seen = self.attempt().unwrap_or_else(|| Err(RecvError::new(Reason::WouldWait)));
        if seen.is_ok() {
            settle(payer, None);
        }
        seen.map_err(|error| RecvError::new(closed_or_cancelled(error.into_reason())))
    }
}

/// The steps of a select, see [`Case`](crate::select::Case).
pub(crate) trait Listen {
    type Value;

    /// What there is to be seen.
    fn attempt(&mut self) -> Option<Result<Self::Value, RecvError>>;

    /// Whether something is to be seen.
    fn is_possible(&mut self) -> bool;

    /// Takes a place; none if there is something to be seen.
    fn register(&mut self, waiting: Waiting<(), Waiter>) -> Option<Ticket>;

    fn withdraw(&mut self, ticket: Ticket);
}

impl<L: Look> Listen for L {
    type Value = L::Value;

    fn attempt(&mut self) -> Option<Result<L::Value, RecvError>> {
        let (state, cursor) = self.parts();
        let found = L::look(&state.lock(), cursor)?;
        Some(found.map(L::value).map_err(RecvError::new))
    }

    fn is_possible(&mut self) -> bool {
        let (state, &mut cursor) = self.parts();
        L::look(&state.lock(), &mut { cursor }).is_some()
    }

    fn register(&mut self, waiting: Waiting<(), Waiter>) -> Option<Ticket> {
        let (state, &mut cursor) = self.parts();
        let mut locked = state.lock();
        let nothing = L::look(&locked, &mut { cursor }).is_none();
        nothing.then(|| L::bell(&mut locked).join(waiting))
    }

    fn withdraw(&mut self, ticket: Ticket) {
        let (state, _) = self.parts();
        L::bell(&mut state.lock()).withdraw(ticket);
    }
}
