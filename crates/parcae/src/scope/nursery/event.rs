//! Events of a nursery, for a host that has to know of them at once.

use super::NurseryState;
use crate::base::error::{Error, TaskInfo, discard};
use crate::scope::budget::Resource;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An event in the life of a nursery; see [`NurseryOpts::on_event`](crate::NurseryOpts::on_event).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NurseryEvent {
    /// A child has failed: it returned an error or panicked, and was not cancelled before.
    /// [`Error::task`] says which.
    #[non_exhaustive]
    Failed {
        /// The error.
        error: Error,
    },
    /// A child, or a task further down that draws on the nursery's budget, has run out of budget.
    /// Under [`OnExhausted::Suspend`](crate::OnExhausted::Suspend) it waits for a recharge now;
    /// otherwise the operation fails.
    #[non_exhaustive]
    Exhausted {
        /// The task.
        task: TaskInfo,
        /// The resource that is used up.
        resource: Resource,
    },
    /// The body has returned and all children have ended. The last event of a nursery; the call
    /// that opened it returns next.
    #[non_exhaustive]
    Ended {
        /// [`Closed`](NurseryState::Closed), or [`Cancelled`](NurseryState::Cancelled) if the
        /// nursery was cancelled before its last child had ended.
        state: NurseryState,
    },
}

impl NurseryEvent {
    pub(crate) fn exhausted(task: TaskInfo, resource: Resource) -> NurseryEvent {
        NurseryEvent::Exhausted { task, resource }
    }
}

impl fmt::Display for NurseryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NurseryEvent::Failed { error } => write!(f, "failed: {error}"),
            NurseryEvent::Exhausted { task, resource } => write!(f, "{task} is out of {resource}"),
            NurseryEvent::Ended { state } => write!(f, "ended: {state}"),
        }
    }
}

/// The callback of a nursery, for each event.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(&NurseryEvent) + Send + Sync>);

impl Hook {
    pub(super) fn new(hook: impl Fn(&NurseryEvent) + Send + Sync + 'static) -> Hook {
        Hook(Arc::new(hook))
    }

    /// Calls it, on the task that the event is about. A panic of the hook stays here.
    pub(crate) fn call(&self, event: &NurseryEvent) {
        discard(catch_unwind(AssertUnwindSafe(|| (self.0)(event))));
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
