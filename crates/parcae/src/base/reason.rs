//! Reasons of cancellation: part of errors, traces and the tree of cancel nodes.

use std::fmt;

/// Reason of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// Cancelled explicitly: by a token, a handle or [`Nursery::cancel`](crate::Nursery::cancel).
    Explicit,
    /// A deadline was exceeded.
    Timeout,
    /// The nursery, task or token above it was cancelled.
    Parent,
    /// A sibling failed, or the body of the nursery did.
    Failure,
    /// The runtime is shutting down.
    Shutdown,
}

impl CancelReason {
    pub(crate) fn code(self) -> u64 {
        match self {
            CancelReason::Explicit => 1,
            CancelReason::Timeout => 2,
            CancelReason::Parent => 3,
            CancelReason::Failure => 4,
            CancelReason::Shutdown => 5,
        }
    }

    /// The reason seen by descendants: `Parent`, except that `Shutdown` is passed on unchanged.
    pub(crate) fn below(self) -> CancelReason {
        match self {
            CancelReason::Shutdown => self,
            _ => CancelReason::Parent,
        }
    }

    pub(crate) fn from_code(code: u64) -> Option<CancelReason> {
        Some(match code {
            1 => CancelReason::Explicit,
            2 => CancelReason::Timeout,
            3 => CancelReason::Parent,
            4 => CancelReason::Failure,
            5 => CancelReason::Shutdown,
            _ => return None,
        })
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelReason::Explicit => "cancelled explicitly",
            CancelReason::Timeout => "deadline exceeded",
            CancelReason::Parent => "the parent was cancelled",
            CancelReason::Failure => "a sibling failed",
            CancelReason::Shutdown => "the runtime is shutting down",
        })
    }
}
