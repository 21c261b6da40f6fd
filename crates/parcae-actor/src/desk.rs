//! The desk of a supervisor: where it hears of its children while they live.
//!
//! A supervisor waits at one place, the bell of its desk, for everything: reports of its children,
//! their ends and requests to start more (`crate::supervisor::inbox`), the request to stop. A
//! report is put down first, then the bell rings. The supervisor looks at all reports before it
//! waits, and the bell keeps a ring that comes in between, so no report is left.

use crate::overrun::Plea;
use crate::recharge::Shortage;
use crate::tree::Roster;
use parcae::Result;
use parcae::sync::Notify;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Reports of children, and the bell.
pub(crate) struct Desk {
    reports: Mutex<Reports>,
    /// The children, for observers.
    roster: Mutex<Roster>,
    bell: Notify,
}

#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) shortages: VecDeque<Shortage>,
    /// Numbers of actors that sleep and have got a message.
    pub(crate) wakes: Vec<u64>,
    /// Handlers that ask for more ops, with the numbers of their actors.
    pub(crate) pleas: Vec<(u64, Plea)>,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk { reports: Mutex::default(), roster: Mutex::default(), bell: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the task that has run out.
    pub(crate) fn report(&self, shortage: Shortage) {
        self.lock().shortages.push_back(shortage);
        self.ring();
    }

    /// Called by the sender that finds an actor asleep.
    pub(crate) fn wake(&self, order: u64) {
        self.lock().wakes.push(order);
        self.ring();
    }

    /// Called by the task of a handler that has used the ops of its message.
    pub(crate) fn plead(&self, order: u64, plea: Plea) {
        self.lock().pleas.push((order, plea));
        self.ring();
    }

    /// Reads or changes the list of children for observers.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Roster) -> R) -> R {
        look(&mut self.roster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a change that the supervisor is to see.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits for a ring, or until a point in time.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Result<()> {
        match until {
            None => self.bell.wait(),
            Some(at) => match self.bell.wait_deadline(at) {
                Err(error) if error.is_timed_out() && !error.is_cancelled() => Ok(()),
                waited => waited,
            },
        }
    }

    /// All reports, if there are any.
    pub(crate) fn take_reports(&self) -> Option<Reports> {
        let mut reports = self.lock();
        let Reports { shortages, wakes, pleas } = &*reports;
        if shortages.is_empty() && wakes.is_empty() && pleas.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut *reports))
    }

    /// Forgets the reports of an earlier life of the supervisor.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *self.lock());
        drop(left); // with the lock free: pleas are refused
    }
}
