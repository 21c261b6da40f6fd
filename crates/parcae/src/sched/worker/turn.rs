//! The end of a turn at which no other task is ready.
//!
//! A task whose turn is over lets others run. If there are none, a yield would queue the task and
//! pick it again. [`goes_on`] finds that out by a look at the worker's queues, with the same
//! conditions as the quick pick of a task that leaves its stack (`choose_quickly`), and counts as a
//! yield and as a pick: every `FAIRNESS`-th turn is a whole pick, which also looks at the clock and
//! at the queues that come last.

use super::{CURRENT, Worker};
use crate::sched::task::Priority;
use std::cell::Cell;

/// Whether the task that runs on this thread may begin its next turn at once, because a yield would
/// change nothing. Then the yield is counted; otherwise nothing has happened.
#[inline(never)] // as `worker::current`
pub(crate) fn goes_on() -> bool {
    // SAFETY: as in `with_current`.
    unsafe { CURRENT.with(Cell::get).as_ref() }.is_some_and(Worker::is_alone)
}

impl Worker {
    #[inline(always)]
    fn is_alone(&self) -> bool {
        let Some(task) = self.current.get() else { return false };
        // SAFETY: the running task.
        let traits = unsafe { (*task.as_ptr()).traits.get() };
        let alone = !self.has_duties()
            && !traits.migratable
            && traits.priority == Priority::Normal
            && self.queue.pick_nobody();
        if alone {
            self.stats().yielded.bump();
        }
        alone
    }
}
