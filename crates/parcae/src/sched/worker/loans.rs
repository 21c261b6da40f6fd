//! Contexts that are lent along calls, by the task that runs on this thread: see
//! `run_queue::realtime::loan`.

use super::{CURRENT, Worker};
use crate::sched::run_queue::{ContextLoan, NotLent, PickHooks};
use crate::sched::task::TaskRef;
use crate::sched::task::state::Woken;
use std::cell::Cell;
use std::sync::Arc;

/// The worker of this thread, and the task that it runs.
fn place<'w>() -> Option<(&'w Worker, TaskRef)> {
    // SAFETY: as in `with_current`; not used after a switch.
    let worker = unsafe { CURRENT.with(Cell::get).as_ref() }?;
    Some((worker, worker.task()?))
}

/// Whether the task that runs here is scheduled by a context, its own or a lent one.
#[inline(never)] // as `worker::current`
pub(crate) fn runs_on_context() -> bool {
    // SAFETY: the running task.
    let bound = |(_, task): (&Worker, TaskRef)| unsafe { task.task.as_ref() }.traits.get().binding;
    place().is_some_and(|place| bound(place).context().is_some())
}

/// Offers the context of the task that runs here, if so much of its budget is left.
#[inline(never)] // as `worker::current`
pub(crate) fn offer(minimum: u64) -> Result<ContextLoan, NotLent> {
    let (worker, task) = place().ok_or(NotLent::NoContext)?;
    // SAFETY: the running task.
    let left = PickHooks::ops_left(worker, unsafe { task.task.as_ref() });
    worker.queue.offer_context(task, minimum, left, worker)
}

/// The task that runs here takes the context of a loan, and is about to yield. True if it has it
/// now.
#[inline(never)] // as `worker::current`
pub(crate) fn accept(loan: &Arc<ContextLoan>) -> bool {
    // SAFETY: the running task owns itself.
    place().is_some_and(|(worker, task)| unsafe { worker.queue.lend(task, loan, true, worker) })
}

/// The task that runs here gives the context back. True if it had it by this loan; then it begins
/// a new turn.
#[inline(never)] // as `worker::current`
pub(crate) fn give_back(loan: &ContextLoan) -> bool {
    let Some((worker, task)) = place() else {
        loan.end();
        return false;
    };
    // SAFETY: the running task.
    let left = PickHooks::ops_left(worker, unsafe { task.task.as_ref() });
    let had_it = worker.queue.give_back(task.task, loan, left, worker);
    if had_it {
        // SAFETY: the running task.
        unsafe { task.task.as_ref() }.signal.hint(); // its next checkpoint looks
    }
    had_it
}

/// The lender, which runs here, ends the offer.
#[inline(never)] // as `worker::current`
pub(crate) fn end_offer(loan: &ContextLoan) {
    match place() {
        Some((worker, _)) => worker.queue.end_loans(loan, worker),
        None => loan.end(),
    }
}

impl Worker {
    /// Wakes a task of the same scheduler and lends it a context, if it waits on this worker.
    pub(crate) fn unpark_lending(&self, task: TaskRef, loan: &Arc<ContextLoan>) {
        // SAFETY: records live as long as the scheduler.
        let this = unsafe { task.task.as_ref() };
        let woken = this.state.unpark_on(self.index, task.generation);
        if let Woken::Enqueue { owner } = woken {
            if owner == self.index {
                // SAFETY: woken here, hence ours; it last ran on this worker.
                unsafe { self.queue.lend(task, loan, false, self) };
            }
            self.shared.follow_up(task.task, woken);
        }
    }
}
