//! The desk of a supervisor: where it hears of its children while they live.
//!
//! A supervisor waits at one place, the bell of its desk, for everything: reports of its children,
//! their ends and requests to start more (`crate::supervisor::inbox`), the request to stop. A
//! report is put down first, then the bell rings. The supervisor looks at all reports before it
//! waits, and the bell keeps a ring that comes in between, so no report is left.

use crate::recharge::Shortage;
use parcae::Result;
use parcae::sync::Notify;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Reports of children, and the bell.
pub(crate) struct Desk {
    reports: Mutex<Reports>,
    bell: Notify,
}

#[derive(Default)]
struct Reports {
    shortages: VecDeque<Shortage>,
    /// Numbers of actors that sleep and have got a message.
    wakes: Vec<u64>,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk { reports: Mutex::default(), bell: Notify::new() }
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

    pub(crate) fn take_wakes(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().wakes)
    }

    pub(crate) fn take_shortages(&self) -> VecDeque<Shortage> {
        std::mem::take(&mut self.lock().shortages)
    }

    /// Forgets the reports of an earlier life of the supervisor.
    pub(crate) fn clear(&self) {
        *self.lock() = Reports::default();
    }
}
