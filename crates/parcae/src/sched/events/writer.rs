//! Per-worker state for writing events. Used by the worker's thread alone.

use super::names::Memo;
use std::cell::Cell;

/// State of a worker's event writing: its last timestamp, and the turn that is being measured.
pub(crate) struct EventWriter {
    /// The last stamp; stamps of a worker never decrease.
    pub(crate) last: Cell<u64>,
    /// Whether the next turn begins with the last stamp.
    pub(crate) reuse_stamp: Cell<bool>,
    /// Start of the running task's turn, where times are measured; 0 if no turn is open.
    pub(crate) turn_began: Cell<u64>,
    /// Id of the task that runs, or ran last.
    pub(crate) task: Cell<u64>,
    pub(crate) memo: Box<Memo>,
}

impl EventWriter {
    pub(crate) fn new() -> EventWriter {
        EventWriter {
            last: Cell::new(0),
            reuse_stamp: Cell::new(false),
            turn_began: Cell::new(0),
            task: Cell::new(0),
            memo: Box::new(Memo::new()),
        }
    }

    /// The following events are caused by the worker itself, not by the task that ran last.
    pub(crate) fn act_for_worker(&self) {
        self.task.set(0);
    }

    /// The next task was queued by another worker: read the clock again.
    #[inline(always)]
    pub(crate) fn came_from_elsewhere(&self) {
        self.reuse_stamp.set(false);
    }
}
