//! The service: its seat at the desk, and the thread on which it looks.
//!
//! # The thread
//!
//! It belongs to the service alone. Each round takes a view, lets the service look, and submits the
//! decision; without one, or with the same rules as before, it gives a sign of life. Between two
//! rounds it waits for the interval, or for the bell. It holds the desk for the two calls and not
//! while the service looks.
//!
//! A service that panics is dead: the panic is caught, the thread ends and the seat is free. The
//! watchdog sees the silence. A service that blocks for ever keeps its thread: nothing in Rust ends
//! it. Dropping the policy waits for the thread for `patience`, then leaves it behind; it has no
//! reference to the runtime, and ends by itself if the service ever returns.

use super::desk::Desk;
use super::{PolicyDecision, PolicyView};
use crate::base::error::PolicyRefused;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// The pause between two looks that the bell cannot cut.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// A policy service in the process: decides by views, without being asked by the scheduler.
///
/// See [`PolicyOpts`](super::PolicyOpts) for a program.
pub trait PolicyService: Send {
    /// Looks at the runtime, and decides; `None` leaves the last decision in force. Called about
    /// every [`interval`](super::PolicyOpts::interval), and when a context was refused.
    ///
    /// A decision with the same rules as the last one is a sign of life and no decision. One that
    /// is refused is in the history.
    fn look(&mut self, view: &PolicyView) -> Option<PolicyDecision>;
}

/// The seat of a policy service: views, decisions, signs of life. Dropping it frees the seat; the
/// last decision holds until the watchdog ends it.
pub struct ServiceSeat {
    desk: Weak<Desk>,
    number: u64,
}

impl ServiceSeat {
    pub(crate) fn take(
        desk: &Arc<Desk>,
        name: &str,
        takes_over: Option<u64>,
    ) -> Result<ServiceSeat, PolicyRefused> {
        let number = desk.take_seat(name, takes_over)?;
        Ok(ServiceSeat { desk: Arc::downgrade(desk), number })
    }

    fn desk(&self) -> Result<Arc<Desk>, PolicyRefused> {
        self.desk.upgrade().ok_or(PolicyRefused::Ended)
    }

    /// The present state of the runtime.
    ///
    /// # Errors
    ///
    /// [`PolicyRefused::NotSeated`], [`PolicyRefused::Ended`].
    pub fn view(&self) -> Result<PolicyView, PolicyRefused> {
        self.desk()?.view(self.number)
    }

    /// Submits a decision. All of its rules come into force, or none.
    ///
    /// # Errors
    ///
    /// See [`PolicyRefused`].
    pub fn decide(&self, decision: PolicyDecision) -> Result<(), PolicyRefused> {
        self.desk()?.decide(self.number, decision)
    }

    /// A sign of life: the last decision, which has this epoch, stays in force.
    ///
    /// # Errors
    ///
    /// See [`PolicyRefused`].
    pub fn alive(&self, epoch: u64) -> Result<(), PolicyRefused> {
        self.desk()?.hear(self.number, epoch)
    }
}

impl Drop for ServiceSeat {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.upgrade() {
            desk.leave_seat(self.number);
        }
    }
}

impl fmt::Debug for ServiceSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceSeat").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Wakes the thread of a service before its interval is over, or for good.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum BellState {
    #[default]
    Silent,
    Rung,
    /// The policy is gone. Stays.
    Ended,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.set(BellState::Rung);
    }

    fn set(&self, to: BellState) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != BellState::Ended {
            *state = to;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the bell, or the end of the interval; false if the policy is gone.
    fn wait(&self, interval: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = self
            .changed
            .wait_timeout_while(state, interval, |state| *state == BellState::Silent)
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = waits.0;
        let goes_on = *state != BellState::Ended;
        if goes_on {
            *state = BellState::Silent;
        }
        goes_on
    }

    fn is_over(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == BellState::Ended
    }
}

/// A service and its seat.
pub(super) struct LoopState {
    pub(super) service: Box<dyn PolicyService>,
    pub(super) seat: ServiceSeat,
}

/// The service cannot go on: it has panicked, or lost its seat.
pub(super) struct ServiceGone;

impl LoopState {
    /// One round. Refusals are in the history.
    pub(super) fn look(&mut self) -> Result<(), ServiceGone> {
        let view = self.seat.view().map_err(|_| ServiceGone)?;
        let service = &mut self.service;
        let looked = catch_unwind(AssertUnwindSafe(|| service.look(&view)));
        let decision = looked.map_err(|_| ServiceGone)?;
        let is_new = |decision: &PolicyDecision| !self.is_in_force(decision);
        let told = match decision.filter(is_new) {
            Some(decision) => self.seat.decide(decision),
            // There is nothing to keep in force before the first decision.
            None if view.epoch == 0 => Ok(()),
            None => self.seat.alive(view.epoch),
        };
        match told {
            Err(PolicyRefused::NotSeated | PolicyRefused::Ended) => Err(ServiceGone),
            _ => Ok(()),
        }
    }

    fn is_in_force(&self, decision: &PolicyDecision) -> bool {
        self.seat.desk().is_ok_and(|desk| desk.is_in_force(decision))
    }
}

/// The thread of a service.
pub(super) struct Loop {
    bell: Arc<Bell>,
    patience: Duration,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl Loop {
    pub(super) fn start(
        mut state: LoopState,
        interval: Duration,
        patience: Duration,
        bell: Arc<Bell>,
    ) -> io::Result<Loop> {
        let (alive, ended) = channel();
        let theirs = Arc::clone(&bell);
        thread::Builder::new().name("parcae-policy".into()).spawn(move || {
            let _alive = alive;
            while !theirs.is_over() && state.look().is_ok() {
                thread::sleep(LEAST_PAUSE.min(interval));
                if !theirs.wait(interval) {
                    return;
                }
            }
        })?;
        Ok(Loop { bell, patience, ended })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.bell.set(BellState::Ended);
        // A service that blocks is left behind: see the module.
        let ended = self.ended.recv_timeout(self.patience);
        debug_assert_ne!(ended, Ok(()), "nothing is ever sent");
        let _is_left = ended == Err(RecvTimeoutError::Timeout);
    }
}
