//! The news that an actor has ended.

use crate::exit::Exit;
use parcae::Result;
use parcae::sync::Event as Flag;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Identity of a monitor, within its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonitorId(pub(crate) u64);

impl MonitorId {
    /// The number of the monitor, for a table or another language.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// The monitor with this [number](MonitorId::as_u64).
    pub fn from_u64(number: u64) -> MonitorId {
        MonitorId(number)
    }
}

/// An actor that was monitored has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Down {
    /// The monitor that fired; it does not fire again.
    pub id: MonitorId,
    /// Name of the actor.
    pub name: Arc<str>,
    /// How the actor ended.
    pub exit: Exit,
}

/// Waits for the end of one incarnation of an actor. From
/// [`Address::watch`](crate::Address::watch), for tasks and threads that are no actors.
pub struct Watch {
    pub(crate) watched: Arc<Watched>,
}

pub(crate) struct Watched {
    exit: Mutex<Option<Exit>>,
    ended: Flag,
}

impl Watched {
    pub(crate) fn new() -> Watched {
        Watched { exit: Mutex::new(None), ended: Flag::new() }
    }

    pub(crate) fn set(&self, exit: Exit) {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
        self.ended.set();
    }

    fn get(&self) -> Option<Exit> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watch {
    /// Waits until the actor has ended. A cancel point.
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or out of budget.
    pub fn wait(&self) -> Result<Exit> {
        loop {
            self.watched.ended.wait()?;
            if let Some(exit) = self.watched.get() {
                return Ok(exit);
            }
        }
    }

    /// Like [`wait`](Watch::wait), for a limited time.
    ///
    /// # Errors
    ///
    /// As [`wait`](Watch::wait), and if the time is over.
    pub fn wait_timeout(&self, time: Duration) -> Result<Exit> {
        loop {
            self.watched.ended.wait_timeout(time)?;
            if let Some(exit) = self.watched.get() {
                return Ok(exit);
            }
        }
    }

    /// How the actor ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.watched.get()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("exit", &self.exit()).finish()
    }
}
