//! Errors for C: a kind, a code, a text.

use crate::types::*;
use parcae::policy::ShareRefused;
use parcae::{CancelReason, Error, ErrorKind};
use std::fmt;

/// Why a call failed.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: i32,
    pub(crate) text: String,
    /// The runtime's error, if the runtime failed.
    pub(crate) error: Option<Error>,
}

/// The error code that a failed C task returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildCode(pub(crate) i64);

impl fmt::Display for ChildCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task returned {}", self.0)
    }
}

impl std::error::Error for ChildCode {}

impl Fault {
    pub(crate) fn new(kind: i32, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into(), error: None }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Fault {
        Fault::new(E_ARGUMENT, text)
    }

    /// The code of a `parcae_status`.
    pub(crate) fn status(&self) -> i32 {
        match self.kind {
            E_CANCELLED => CANCELLED,
            E_PANIC => PANIC,
            E_BUDGET => BUDGET,
            E_WOULD_WAIT => PENDING,
            _ => ERROR,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let kind = match error.kind() {
            ErrorKind::Cancelled(_) => E_CANCELLED,
            ErrorKind::BudgetExceeded(_)
            | ErrorKind::SpawnBudgetExhausted(_)
            | ErrorKind::MemoryBudgetExhausted(_) => E_BUDGET,
            ErrorKind::Panicked(_) | ErrorKind::WorkerPanic | ErrorKind::StackOverflow { .. } => {
                E_PANIC
            }
            ErrorKind::ChannelClosed => E_CLOSED,
            ErrorKind::WouldWait => E_WOULD_WAIT,
            ErrorKind::TimedOut => E_TIMED_OUT,
            ErrorKind::NurseryNotActive => E_NO_NURSERY,
            ErrorKind::Capability(_) => E_CAPABILITY,
            ErrorKind::ShuttingDown => E_NOT_RUNNING,
            ErrorKind::OutOfMemory => E_OUT_OF_MEMORY,
            ErrorKind::NoStack(_) => E_NO_STACK,
            ErrorKind::ShareRefused(_) => E_SHARE,
            _ if error.downcast_ref::<ChildCode>().is_some() => E_CHILD,
            _ => E_OTHER,
        };
        let text = match error.kind() {
            ErrorKind::ShareRefused(refused) => share_refused(refused),
            _ => error.to_string(),
        };
        Fault { kind, text, error: Some(error) }
    }
}

impl From<parcae_actor::CallError> for Fault {
    fn from(error: parcae_actor::CallError) -> Fault {
        use parcae_actor::CallError;
        let kind = match &error {
            CallError::Full => E_FULL,
            CallError::Expired => E_EXPIRED,
            CallError::Restarting { .. } => E_RESTARTING,
            CallError::Gone(_) => E_GONE,
            CallError::Refused(_) => E_REFUSED,
            CallError::Cycle(_) => E_CYCLE,
            CallError::NoReply => E_NO_REPLY,
            CallError::Failed => E_FAILED,
            CallError::Interrupted(error) => return error.clone().into(),
            _ => E_OTHER,
        };
        Fault::new(kind, error.to_string())
    }
}

impl From<parcae::runtime::BuildError> for Fault {
    fn from(error: parcae::runtime::BuildError) -> Fault {
        let kind = match error {
            parcae::runtime::BuildError::Thread(_) | parcae::runtime::BuildError::Stack(_) => {
                E_OUT_OF_MEMORY
            }
            _ => E_ARGUMENT,
        };
        Fault::new(kind, error.to_string())
    }
}

/// The reason why there is no share, with remedies for C.
fn share_refused(refused: &ShareRefused) -> String {
    match refused {
        ShareRefused::Full { max_tenants } => format!(
            "all {max_tenants} tenants of the runtime are open: close nurseries with a share, or \
             give those of one tenant the same name"
        ),
        ShareRefused::NoShare => {
            "the nursery has no share to change: open it with parcae_nursery_opts.share".into()
        }
        ShareRefused::OutOfMemory => "no memory for the table of tenants".into(),
        other => other.to_string(),
    }
}

/// The number of a reason; 0 for none.
pub(crate) fn reason_code(reason: Option<CancelReason>) -> i32 {
    match reason {
        None => NOT_CANCELLED,
        Some(CancelReason::Timeout) => TIMEOUT,
        Some(CancelReason::Parent) => PARENT,
        Some(CancelReason::Failure) => FAILURE,
        Some(CancelReason::Shutdown) => SHUTDOWN,
        Some(_) => EXPLICIT,
    }
}

/// The frozen table: the full result of a nursery.
pub(crate) fn result_of(outcome: &Result<(), Error>) -> NurseryResult {
    let Err(error) = outcome else {
        return NurseryResult { kind: SUCCESS, reason: 0, code: 0, task: 0, others: 0 };
    };
    let first = match error.kind() {
        ErrorKind::Several(all) => all.first().unwrap_or(error),
        _ => error,
    };
    let reason = match first.kind() {
        ErrorKind::Cancelled(reason) => Some(*reason),
        _ => None,
    };
    let (kind, code) = match (first.downcast_ref::<ChildCode>(), Fault::from(first.clone()).kind) {
        (Some(child), _) => (CHILD_FAILED, child.0),
        (None, E_CANCELLED) => (WAS_CANCELLED, CANCELLED.into()),
        (None, E_BUDGET) => (BUDGET_EXCEEDED, BUDGET.into()),
        (None, _) => (PANICKED, PANIC.into()), // of a task, or of the runtime
    };
    let others = match error.kind() {
        ErrorKind::Several(all) => all.len() as u64 - 1,
        _ => error.others() as u64,
    };
    let task = first.task().map_or(0, |task| number(task.id()));
    NurseryResult { kind, reason: reason_code(reason), code, task, others }
}

/// The number of a task for C, where 0 is none.
pub(crate) fn number(id: parcae::task::TaskId) -> u64 {
    id.as_u64().wrapping_add(1)
}
