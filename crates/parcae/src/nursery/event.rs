//! Events of a nursery's children, for a host that wants to hear of them at once.

use crate::budget::Resource;
use crate::error::{Error, TaskInfo, discard};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What has happened to a child; see [`NurseryOpts::on_event`](crate::NurseryOpts::on_event).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ChildEvent {
    /// A child has failed: it returned an error or panicked, and was not cancelled before.
    /// [`Error::task`] says which.
    #[non_exhaustive]
    Failed {
        /// What it failed with.
        error: Error,
    },
    /// A child, or a task further down that draws on the nursery's budget, has run out of budget.
    /// Under [`OnExhausted::Suspend`](crate::OnExhausted::Suspend) it waits for a recharge now;
    /// otherwise the operation fails.
    #[non_exhaustive]
    Exhausted {
        /// The task.
        task: TaskInfo,
        /// What it needs more of.
        resource: Resource,
    },
}

impl ChildEvent {
    pub(crate) fn exhausted(task: TaskInfo, resource: Resource) -> ChildEvent {
        ChildEvent::Exhausted { task, resource }
    }
}

impl fmt::Display for ChildEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildEvent::Failed { error } => write!(f, "failed: {error}"),
            ChildEvent::Exhausted { task, resource } => write!(f, "{task} is out of {resource}"),
        }
    }
}

/// What a nursery calls for each event.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(&ChildEvent) + Send + Sync>);

impl Hook {
    pub(super) fn new(hook: impl Fn(&ChildEvent) + Send + Sync + 'static) -> Hook {
        Hook(Arc::new(hook))
    }

    /// Calls it, on the task that the event is about. A panic of the hook stays here.
    pub(crate) fn call(&self, event: &ChildEvent) {
        discard(catch_unwind(AssertUnwindSafe(|| (self.0)(event))));
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
