//! Threads that work on behalf of a task: blocking calls.
//!
//! A call runs on a thread, outside of its task: its computing, its memory and its channel
//! operations are not counted, as on any other thread. Only spawning is guarded, because a task
//! must not get round its `spawn_count` by a blocking call. The task's account cannot be charged
//! from another thread. So a thread that makes a call for a task with limited spawns knows the
//! task, and a spawn on that thread is refused, in any runtime, unless the nursery is one for which
//! the task would not have to pay: its own, or one whose pool it draws on.

use crate::base::error::{Error, Result};
use crate::sched::task::TaskRef;
use crate::sched::worker;
use crate::scope::budget::{BudgetPool, Resource, Shortfall, UNLIMITED};
use crate::scope::cx::Frame;
use std::sync::Arc;

/// A task with limited spawns, for which a thread works.
pub(crate) struct Errand {
    task: TaskRef,
    pool: Arc<BudgetPool>,
}

impl Errand {
    /// For the running task; none if it has nothing to pay for a spawn.
    pub(crate) fn of(frame: &Frame) -> Option<Errand> {
        let balance = frame.balance();
        let free = frame.pool().is_unlimited()
            || (balance.ops == UNLIMITED && balance.spawn_count == UNLIMITED);
        (!free).then(|| Errand { task: frame.task_ref(), pool: Arc::clone(frame.pool()) })
    }
}

impl Errand {
    /// Runs a call on this thread, on behalf of the task.
    pub(crate) fn run<R>(self, call: impl FnOnce() -> R) -> R {
        struct Leave(*const ());
        impl Drop for Leave {
            fn drop(&mut self) {
                worker::set_errand(self.0);
            }
        }
        let _leave = Leave(worker::set_errand((&raw const self).cast()));
        call()
    }

    /// Refuses a spawn on a thread that works for a task which would have to pay for it, and cannot
    /// from here. `nursery` has the owner and the pool of the nursery; it is none for a root task.
    ///
    /// # Errors
    ///
    /// One that says what to do.
    pub(crate) fn check_spawn(nursery: Option<(TaskRef, &Arc<BudgetPool>)>) -> Result<()> {
        // SAFETY: set by `run` on this thread, which takes it back before the errand is dropped.
        let Some(by) = (unsafe { worker::errand().cast::<Errand>().as_ref() }) else {
            return Ok(());
        };
        if nursery.is_some_and(|(owner, pool)| owner == by.task || Arc::ptr_eq(pool, &by.pool)) {
            return Ok(());
        }
        let short = Shortfall { resource: Resource::SpawnCount, needed: 1, left: 0 };
        let note = "a blocking call cannot spend the budget of its task; spawn on the task itself, \
                    before or after the call";
        Err(Error::short(short).noting(Some(note.into())))
    }
}
