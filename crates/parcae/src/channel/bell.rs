//! Waiting until something has changed: for channels whose values are not handed over.
//!
//! A [`Bell`] is part of a state behind a lock. Whoever changes the state takes all who wait out of it under
//! that lock, and wakes them after it; they look again. Whoever waits looks and takes its place in one
//! critical section, so it sees the change or is found by whoever makes it. It gives its place up in every case,
//! and looks once more before it believes that it was cancelled or out of time.

use super::ends::{may_wait, prepare, settle};
use super::error::Reason;
use super::places::{Places, Waiting};
use crate::shim::{Mutex, MutexGuard, PoisonError};
use crate::wait::{self, Deadline, Ended, Waiter, Why};

/// Those who wait for a change.
pub(super) struct Bell(Places<(), Waiter>);

/// Those to wake, once the lock is released.
#[must_use = "they wait to be woken"]
pub(super) struct Rung(Vec<Waiter>);

impl Bell {
    pub(super) fn new() -> Bell {
        Bell(Places::new())
    }

    /// Takes out all who wait.
    pub(super) fn ring(&mut self) -> Rung {
        let mut all = Vec::new();
        self.0.close(&mut all);
        Rung(all)
    }
}

impl Rung {
    pub(super) fn wake(self) {
        self.0.iter().for_each(Waiter::wake);
    }
}

/// A state with a bell.
pub(super) trait Belled {
    /// What is waited for, in words.
    const NAME: &'static str;

    fn bell(&mut self) -> &mut Bell;
}

pub(super) fn lock<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    // Nothing under the lock panics but running out of memory.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `look` finds something. Charges the task if it is a success.
pub(super) fn wait_until<S: Belled, T>(
    state: &Mutex<S>,
    deadline: impl FnOnce() -> Deadline,
    mut look: impl FnMut(&mut S) -> Option<Result<T, Reason>>,
) -> Result<T, Reason> {
    let payer = prepare().map_err(Reason::Interrupted)?;
    let mut deadline = Some(deadline);
    let mut until = None;
    let found = loop {
        let mut locked = lock(state);
        if let Some(found) = look(&mut locked) {
            break found;
        }
        let waiting = Waiting { waiter: Waiter::current(), claim: None, value: None };
        let ticket = locked.bell().0.join(waiting);
        drop(locked);
        let until = *until.get_or_insert_with(|| deadline.take().map_or(Deadline::Never, |d| d()));
        let ended = may_wait().and_then(|()| wait::wait(until, Why::signal(S::NAME, state)));
        let mut locked = lock(state);
        locked.bell().0.withdraw(ticket);
        let given_up = match ended {
            Ok(Ended::Woken) => continue,
            Ok(Ended::TimedOut) => Reason::TimedOut,
            Err(error) => Reason::Interrupted(error),
        };
        break look(&mut locked).unwrap_or(Err(given_up));
    };
    if found.is_ok() {
        settle(payer, None);
    }
    found
}
