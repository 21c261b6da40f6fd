//! Per-worker state for writing events. Used by the worker's thread alone.

use super::names::Memo;
use std::cell::Cell;

/// Maximum number of events in a row that share a reading of the clock.
const MOST_SHARED: u32 = 16;
/// Ticks per event below which a reading is shared: about 0.4 µs of a counter at 2.5 GHz, where a
/// reading takes 10 to 20 ns.
const SHORT: u64 = 1024;

/// State of a worker's event writing: its last timestamp, and the turn that is being measured.
pub(crate) struct EventWriter {
    /// The last stamp; stamps of a worker never decrease.
    pub(crate) last: Cell<u64>,
    /// Events since the last reading of the clock that share it, and how many may.
    shared: Cell<u32>,
    may_share: Cell<u32>,
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
            shared: Cell::new(0),
            may_share: Cell::new(0),
            reuse_stamp: Cell::new(false),
            turn_began: Cell::new(0),
            task: Cell::new(0),
            memo: Box::new(Memo::new()),
        }
    }

    /// As new. Called by the lab, between two schedules.
    pub(crate) fn reset(&mut self) {
        let EventWriter { last, shared, may_share, reuse_stamp, turn_began, task, memo: _ } = self;
        (*last, *turn_began, *task) = (Cell::new(0), Cell::new(0), Cell::new(0));
        (*shared, *may_share, *reuse_stamp) = (Cell::new(0), Cell::new(0), Cell::new(false));
    }

    /// A stamp that `read` has read; not below the last one.
    #[inline]
    pub(crate) fn read(&self, read: impl FnOnce() -> u64) -> u64 {
        let now = read().max(self.last.get());
        self.last.set(now);
        self.shared.set(0);
        now
    }

    /// A stamp for an event of which only its place among this worker's events must be right: the
    /// last one, while events come fast. Reading the clock shows whether they do.
    #[inline]
    pub(crate) fn in_order(&self, read: impl FnOnce() -> u64) -> u64 {
        let shared = self.shared.get();
        if shared < self.may_share.get() {
            self.shared.set(shared + 1);
            return self.last.get();
        }
        let before = self.last.get();
        let now = self.read(read);
        let is_short = now - before < u64::from(shared + 1) * SHORT;
        let most = (self.may_share.get() * 2 + 1).min(MOST_SHARED - 1);
        self.may_share.set(if is_short { most } else { 0 });
        now
    }

    /// The following events are caused by the worker itself, not by the task that ran last.
    pub(crate) fn act_for_worker(&self) {
        self.task.set(0);
    }

    /// The next task was queued by another worker: read the clock again. The end of the present
    /// turn is perhaps written after this, and its stamp is the begin of the next turn.
    #[inline(always)]
    pub(crate) fn came_from_elsewhere(&self) {
        self.reuse_stamp.set(false);
        self.shared.set(self.may_share.get());
    }
}
