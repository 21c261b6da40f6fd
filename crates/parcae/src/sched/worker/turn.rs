//! The end of a turn at which no other task is ready.
//!
//! A task whose turn is over lets others run. If there are none, a yield would queue the task and
//! pick it again. [`goes_on`] finds that out by a look at the worker's queues, with the same
//! conditions as the quick pick of a task that leaves its stack (`choose_quickly`), and counts as a
//! yield and as a pick: every `FAIRNESS`-th turn is a whole pick, which also looks at the clock and
//! at the queues that come last.
//!
//! A task that computes alone on its worker would keep those that wait for descriptors waiting for
//! that many turns, a tenth of a millisecond. So the worker asks for events every
//! [`EVENTS_INTERVAL`] such turns, if descriptors are registered: a system call in some ten
//! microseconds.

use super::{CURRENT, DueWork, Worker};
use crate::sched::run_queue::{JobPlan, LookUp, PickHooks};
use crate::sched::task::{ContextIndex, Lane};
use std::cell::Cell;

/// Turns of a task that computes alone, between two looks for events.
const EVENTS_INTERVAL: u32 = 8;

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
    worker.map_or(most, |worker| worker.queue.task_turn_begins(most, worker))
}

/// The running task has ended, with so many ops left in its turn.
#[inline(never)] // as `worker::current`
pub(crate) fn ended(left: u64) {
    // SAFETY: as in `with_current`.
    if let Some(worker) = unsafe { CURRENT.with(Cell::get).as_ref() } {
        worker.queue.run_ends(left, worker);
    }
}

/// The running task has used ops beyond its turn.
#[cold]
#[inline(never)] // as `worker::current`
pub(crate) fn overran(ops: u64) {
    // SAFETY: as in `with_current`.
    if let Some(worker) = unsafe { CURRENT.with(Cell::get).as_ref() } {
        worker.queue.overran(ops, worker);
    }
}

/// The running task, whose signal was raised, looks up: whether another one is to run. So many ops
/// are left in its turn.
#[inline(never)] // as `worker::current`
pub(crate) fn look_up(left: u64) -> LookUp {
    // SAFETY: as in `with_current`.
    let worker = unsafe { CURRENT.with(Cell::get).as_ref() };
    match worker.filter(|worker| worker.due.has(DueWork::TENANTS)) {
        None => LookUp::GoOn,
        Some(worker) if worker.is_due() => LookUp::Yield,
        Some(worker) => worker.queue.look_up(left, worker),
    }
}

/// The running task has ended the present job of its context, with so many ops left in its turn:
/// the next job. `None` if the context was revoked.
#[inline(never)] // as `worker::current`
pub(crate) fn next_job(context: ContextIndex, left: u64) -> Option<JobPlan> {
    // SAFETY: as in `with_current`.
    let worker = unsafe { CURRENT.with(Cell::get).as_ref() };
    worker.and_then(|worker| worker.queue.next_job(context, left, worker))
}

impl Worker {
    #[inline(always)]
    fn is_alone(&self) -> bool {
        let Some(task) = self.current.get() else { return false };
        // SAFETY: the running task.
        let traits = unsafe { (*task.as_ptr()).traits.get() };
        let may = !self.has_duties() && !traits.is_migratable() && traits.lane == Lane::Normal;
        if may && self.queue.is_nth_pick(EVENTS_INTERVAL) && self.finds_events() {
            return false;
        }
        let alone = may && self.queue.pick_nobody();
        if alone {
            self.stats().yielded.bump();
        }
        alone
    }

    /// Looks for events of descriptors. If there are any, tasks are ready.
    #[cold]
    fn finds_events(&self) -> bool {
        let poller = &self.remote().poller;
        poller.is_watching() && poller.look()
    }
}
