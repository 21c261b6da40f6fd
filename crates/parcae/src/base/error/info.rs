//! Ids, names and origins of tasks, as errors and reports show them.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Id of a task, unique in its runtime. Printed, it shows the worker that spawned the task and a
/// serial number there.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().deterministic(0).workers(1).build()?;
/// let child = rt.run(|cx| {
///     assert_eq!(cx.info().id().to_string(), "root.0");
///     cx.nursery(|n| Ok(n.spawn(|_| Ok(()))?.id()))
/// })?;
/// // The second id of worker 0: the nursery has the first.
/// assert_eq!(child.to_string(), "0.2");
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
    /// Number of ids that a worker may give out. Those of a worker follow those of the worker
    /// before it.
    pub(crate) const PER_WORKER: u64 = 1 << 40;
    /// The first id of tasks that are spawned by threads which are no workers.
    pub(crate) const OUTSIDE: u64 = 1 << 63;

    /// The id as a plain number, as in event logs.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spawned = self.0 & (TaskId::PER_WORKER - 1);
        match self.0 / TaskId::PER_WORKER {
            worker if self.0 < TaskId::OUTSIDE => write!(f, "{worker}.{spawned}"),
            _ => write!(f, "root.{}", self.0 - TaskId::OUTSIDE),
        }
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({self})")
    }
}

/// Which task failed.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    pub(crate) id: TaskId,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) nursery: Option<Arc<str>>,
    pub(crate) spawned_at: &'static Location<'static>,
}

impl TaskInfo {
    /// The task's number, unique in its runtime.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The task's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The name of its nursery, if that has one.
    pub fn nursery(&self) -> Option<&str> {
        self.nursery.as_deref()
    }

    /// Where it was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "task `{name}`")?,
            None => write!(f, "task {}", self.id)?,
        }
        if let Some(nursery) = &self.nursery {
            write!(f, " of `{nursery}`")?;
        }
        write!(f, ", spawned at {}", self.spawned_at)
    }
}
