//! Failures of tasks: what programs see in `catch`, and what a run ends with.

use parcae::ErrorKind;
use parcae_ir::Pos;
use std::fmt;
use std::sync::Arc;

/// Failure of a task.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// Its place in the source.
    pub at: Pos,
    /// The function that failed.
    pub func: Arc<str>,
}

/// Kind of a failure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FailureKind {
    /// A typed error of the program: its set and its name.
    Error {
        /// Number of the set.
        set: u32,
        /// Number of the error in its set.
        variant: u32,
        /// `Set.Error`.
        name: Arc<str>,
    },
    /// A task returned a negative code.
    Code(i64),
    /// A fault of the program: P001 bounds, P002 overflow, P003 division, P004 assertion, P005
    /// panic, P006 memory.
    Panic {
        /// For example `P001`.
        code: &'static str,
        /// The fault.
        message: Arc<str>,
    },
    /// Calls were nested too deeply.
    StackOverflow,
    /// The runtime ended the task.
    Runtime(parcae::Error),
    /// A failure from elsewhere, which keeps its place.
    Resumed(Box<Failure>),
}

impl Failure {
    /// Whether a channel was closed.
    pub fn is_closed(&self) -> bool {
        matches!(&self.kind, FailureKind::Runtime(error) if matches!(error.kind(), ErrorKind::ChannelClosed))
    }

    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(&self.kind, FailureKind::Runtime(error) if error.is_cancelled())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::Error { name, .. } => f.write_str(name),
            FailureKind::Code(code) => code.fmt(f),
            FailureKind::Panic { code, message } => write!(f, "{code} {message}"),
            FailureKind::StackOverflow => f.write_str("StackOverflow"),
            FailureKind::Resumed(failure) => failure.fmt(f),
            FailureKind::Runtime(error) => f.write_str(match error.kind() {
                ErrorKind::Cancelled(_) => "Cancelled",
                ErrorKind::BudgetExceeded(_) => "BudgetExceeded",
                ErrorKind::SpawnBudgetExhausted(_) => "SpawnBudgetExhausted",
                ErrorKind::MemoryBudgetExhausted(_) => "MemoryBudgetExhausted",
                ErrorKind::NurseryNotActive => "NurseryNotActive",
                ErrorKind::StackOverflow { .. } => "StackOverflow",
                ErrorKind::ChannelClosed => "ChannelClosed",
                ErrorKind::TimedOut => "TimedOut",
                ErrorKind::Deadlock(_) => "Deadlock",
                ErrorKind::ShuttingDown => "ShuttingDown",
                ErrorKind::OutOfMemory | ErrorKind::NoStack(_) => "OutOfMemory",
                _ => "Failed",
            }),
        }
    }
}

impl std::error::Error for Failure {}

/// A failure inside of the interpreter, before its place is known.
pub(crate) type Fault = FailureKind;

impl FailureKind {
    /// A failure that goes on, whose place is known: it keeps it.
    pub(crate) fn resumed(failure: Failure) -> Fault {
        FailureKind::Resumed(Box::new(failure))
    }
}

pub(crate) fn panic(code: &'static str, message: impl Into<Arc<str>>) -> Fault {
    FailureKind::Panic { code, message: message.into() }
}

pub(crate) fn overflow() -> Fault {
    panic("P002", "integer overflow")
}
