//! Steps of a run, for people: timelines, replays, pictures.

use super::op::OpKind;
use std::panic::Location;
use std::sync::Arc;

/// One operation of a recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStep {
    /// The task, as a position in [`Run::tasks`](crate::lab::Run::tasks).
    pub task: u32,
    /// The operation.
    pub op: OpKind,
    /// The object, numbered in the order of first use; 0 if there is none.
    pub object: u32,
    /// The same, among the objects that say when they end; 0 for others.
    pub(crate) identity: u32,
    /// The place of the call, where it is known.
    pub site: Option<&'static Location<'static>>,
    /// Whether another task went on before although this one, or the one that ran before, could
    /// have: a switch that the strategy forced.
    pub forced: bool,
}

/// A task of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLabel {
    /// The position of its parent; none for a root task.
    pub parent: Option<u32>,
    /// The number of tasks that its parent spawned before it.
    pub nth: u32,
    /// The name that the program gave it.
    pub name: Option<Arc<str>>,
    /// The place of the spawn.
    pub spawned_at: Option<&'static Location<'static>>,
}

/// A change of a task's state in a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEvent {
    /// Number of steps before it: it is an effect of the last of them.
    pub after: usize,
    /// The task, as a position in [`Run::tasks`](crate::lab::Run::tasks).
    pub task: u32,
    /// The change.
    pub change: TaskChange,
}

/// The kind of a [`RunEvent`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskChange {
    /// It was spawned, by this task.
    Spawned {
        /// The task that spawned it; none if it was spawned from outside.
        by: Option<u32>,
    },
    /// It runs.
    Runs,
    /// It has left its worker, and is ready.
    Yields,
    /// It waits.
    Waits {
        /// Reason of the wait: "receive", "mutex", "its children".
        reason: Arc<str>,
    },
    /// It was woken, and is ready.
    Woken {
        /// The task that woke it; none if that was a deadline, or code outside of tasks.
        by: Option<u32>,
    },
    /// A deadline of its wait has passed.
    TimerFired,
    /// It has learned that it is cancelled.
    Cancelled,
    /// It has ended.
    Ended,
}

/// The record of a schedule while it runs.
///
/// The changes of tasks are in the event log of the scheduler. The recorder keeps the length of
/// that log at each step, so that both can be put into one order afterwards.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) steps: Vec<RunStep>,
    /// The length of the event log at each step.
    pub(crate) marks: Vec<usize>,
    /// The length of the event log at the first trouble.
    pub(crate) end: Option<usize>,
    /// The length of the event log, when last told.
    heard: usize,
    /// The step before which the tasks are to be dumped, and whether it has come.
    dump_before: Option<usize>,
    dump_due: bool,
}

impl Recorder {
    pub(crate) fn begin(&mut self, dump_before: Option<usize>) {
        *self = Recorder { dump_before, ..Recorder::default() };
    }

    /// The event log has this length.
    pub(crate) fn heard(&mut self, events: usize) {
        self.heard = events;
    }

    pub(super) fn push(&mut self, step: RunStep) {
        self.dump_due |= self.dump_before == Some(self.steps.len());
        self.steps.push(step);
        self.marks.push(self.heard);
    }

    /// The schedule is in trouble: the tasks only clean up from now on.
    pub(super) fn ends(&mut self) {
        self.end.get_or_insert(self.heard);
    }

    /// Whether the tasks are to be dumped now.
    pub(crate) fn takes_dump(&mut self) -> bool {
        std::mem::take(&mut self.dump_due)
    }
}
