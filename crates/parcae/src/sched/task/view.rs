//! The states of a task as the specification names them: views of the state word (`state.rs`) and,
//! at the end, of the result.

use std::fmt;

/// The state of a task. A dump has those that have not ended, a
/// [`TaskHandle`](crate::TaskHandle::state) all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// Could run, and waits for a worker.
    Ready,
    /// Runs, or has yielded and runs next on the same worker.
    Running,
    /// Waits for something.
    Waiting,
    /// Waits for budget.
    Exhausted,
    /// Has ended with a result of its own: a value, an error, or a panic.
    Completed,
    /// Has ended because it was cancelled.
    Cancelled,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskState::Ready => "ready",
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
            TaskState::Exhausted => "exhausted",
            TaskState::Completed => "completed",
            TaskState::Cancelled => "cancelled",
        })
    }
}
