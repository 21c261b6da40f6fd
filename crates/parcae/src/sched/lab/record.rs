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
