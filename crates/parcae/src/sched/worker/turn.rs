//! The end of a turn at which no other task is ready.
//!
//! A task whose turn is over lets others run. If there are none, a yield would queue the task and
//! pick it again. [`goes_on`] finds that out by a look at the worker's queues, with the same
//! conditions as the quick pick of a task that leaves its stack (`choose_quickly`), and counts as a
//! yield and as a pick: every `FAIRNESS`-th turn is a whole pick, which also looks at the clock and
//! at the queues that come last.

use super::{CURRENT, Worker};
use crate::sched::task::Lane;
use std::cell::Cell;

/// Whether the task that runs on this thread may begin its next turn at once, because a yield would
/// change nothing. Then the yield is counted; otherwise nothing has happened.
#[inline(never)] // as `worker::current`
pub(crate) fn goes_on() -> bool {
    // SAFETY: as in `with_current`.
    unsafe { CURRENT.with(Cell::get).as_ref() }.is_some_and(Worker::is_alone)
}

/// The running task begins a turn of at most so many ops. Returns how many it gets: a task of a
/// tenant gets no more than its tenant has left.
#[inline(never)] // as `worker::current`
pub(crate) fn begin(most: u64) -> u64 {
    // SAFETY: as in `with_current`.
    let worker = unsafe { CURRENT.with(Cell::get).as_ref() };
    worker.map_or(most, |worker| worker.queue.task_turn_begins(most))
}

/// The running task has ended, with so many ops left in its turn.
#[inline(never)] // as `worker::current`
pub(crate) fn ended(left: u64) {
    // SAFETY: as in `with_current`.
    if let Some(worker) = unsafe { CURRENT.with(Cell::get).as_ref() } {
        worker.queue.tenant_run_ends(left);
    }
}

/// The running task has used ops beyond its turn.
#[cold]
#[inline(never)] // as `worker::current`
pub(crate) fn overran(ops: u64) {
    // SAFETY: as in `with_current`.
    if let Some(worker) = unsafe { CURRENT.with(Cell::get).as_ref() } {
        worker.queue.overran(ops);
    }
}

/// Whether the running task should let another tenant run.
#[inline(never)] // as `worker::current`
pub(crate) fn is_preempted() -> bool {
    // SAFETY: as in `with_current`.
    unsafe { CURRENT.with(Cell::get).as_ref() }.is_some_and(|worker| worker.queue.is_preempted())
}

impl Worker {
    #[inline(always)]
    fn is_alone(&self) -> bool {
        let Some(task) = self.current.get() else { return false };
        // SAFETY: the running task.
        let traits = unsafe { (*task.as_ptr()).traits.get() };
        let alone = !self.has_duties()
            && !traits.migratable
            && traits.lane == Lane::Normal
            && self.queue.pick_nobody();
        if alone {
            self.stats().yielded.bump();
        }
        alone
    }
}
