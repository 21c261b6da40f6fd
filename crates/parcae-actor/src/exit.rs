//! How one life of an actor ended.

use parcae::{Error, ErrorKind};
use std::fmt;

/// The end of one incarnation of an actor.
#[derive(Debug, Clone)]
pub struct Exit {
    kind: ExitKind,
    error: Option<Error>,
    incarnation: u64,
    handled: u64,
}

/// Kind of an [`Exit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExitKind {
    /// The actor returned [`Next::Stop`](crate::Next::Stop).
    Finished,
    /// The actor was asked to stop: by an address, or by its supervisor.
    Stopped,
    /// A handler returned an error.
    Failed,
    /// A handler panicked.
    Panicked,
    /// The actor was cancelled, because its grace period was over or its system ended.
    Cancelled,
    /// A budget is used up.
    Exhausted,
    /// The factory, or [`Actor::started`](crate::Actor::started), failed or panicked.
    NotStarted,
}

impl Exit {
    pub(crate) fn new(kind: ExitKind, error: Option<Error>) -> Exit {
        Exit { kind, error, incarnation: 0, handled: 0 }
    }

    /// The exit that follows from an error of a handler.
    pub(crate) fn from_error(error: Error) -> Exit {
        let kind = match error.kind() {
            ErrorKind::Panicked(_) => ExitKind::Panicked,
            ErrorKind::Cancelled(_) | ErrorKind::ShuttingDown => ExitKind::Cancelled,
            ErrorKind::BudgetExceeded(_)
            | ErrorKind::SpawnBudgetExhausted(_)
            | ErrorKind::MemoryBudgetExhausted(_) => ExitKind::Exhausted,
            _ => ExitKind::Failed,
        };
        Exit::new(kind, Some(error))
    }

    pub(crate) fn of_life(mut self, incarnation: u64, handled: u64) -> Exit {
        (self.incarnation, self.handled) = (incarnation, handled);
        self
    }

    /// Kind of the end.
    pub fn kind(&self) -> ExitKind {
        self.kind
    }

    /// The error, unless the actor finished or was stopped.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The incarnation that ended; the first one is 1.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Number of messages that the incarnation handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Whether the actor ended by a failure of its own: an error, a panic, an exhausted budget, a
    /// failed start. A cancellation from above is none.
    pub fn is_abnormal(&self) -> bool {
        match self.kind {
            ExitKind::Finished | ExitKind::Stopped | ExitKind::Cancelled => false,
            ExitKind::Failed | ExitKind::Panicked | ExitKind::Exhausted | ExitKind::NotStarted => {
                true
            }
        }
    }
}

impl fmt::Display for ExitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExitKind::Finished => "finished",
            ExitKind::Stopped => "stopped",
            ExitKind::Failed => "failed",
            ExitKind::Panicked => "panicked",
            ExitKind::Cancelled => "cancelled",
            ExitKind::Exhausted => "exhausted its budget",
            ExitKind::NotStarted => "did not start",
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.kind) {
            // These errors say so themselves: "panicked: …", "cancelled: deadline exceeded".
            (Some(error), ExitKind::Panicked) => error.fmt(f),
            (Some(error), ExitKind::Cancelled) if error.is_cancelled() => error.fmt(f),
            (Some(error), kind) => write!(f, "{kind}: {error}"),
            (None, kind) => kind.fmt(f),
        }
    }
}
