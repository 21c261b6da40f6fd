//! Threads that work on behalf of a task: blocking calls.
//!
//! A call runs on a thread, outside of its task: its computing, its memory and its channel
//! operations are not counted, as on any other thread. Only spawning is guarded, because a task
//! must not get round its `spawn_count` by a blocking call. The task's account cannot be charged
//! from another thread. So a thread that makes a call for a task with limited spawns is listed
//! here, and a spawn on that thread is refused, unless the nursery is one for which the task would
//! not have to pay: its own, or one whose pool it draws on.

use crate::base::error::{Error, Result};
use crate::sched::Shared;
use crate::sched::task::TaskRef;
use crate::scope::budget::{BudgetPool, Resource, Shortfall, UNLIMITED};
use crate::scope::cx::Frame;
use std::collections::LinkedList;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

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

/// The threads of a runtime that work for a task with limited spawns.
#[derive(Default)]
pub(crate) struct Errands {
    /// Length of the list. Relaxed throughout: a thread only has to see its own entry.
    count: AtomicUsize,
    threads: Mutex<LinkedList<(ThreadId, Errand)>>,
}

impl Errands {
    fn lock(&self) -> MutexGuard<'_, LinkedList<(ThreadId, Errand)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call on this thread, on behalf of a task.
    pub(crate) fn run<R>(&self, errand: Errand, call: impl FnOnce() -> R) -> R {
        struct Leave<'e>(&'e Errands);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                let own = thread::current().id();
                let mut threads = self.0.lock();
                let mut kept = std::mem::take(&mut *threads);
                // The list is short: as many entries as there are calls at this moment.
                let index = kept.iter().position(|(id, _)| *id == own);
                let done = index.map(|index| {
                    let mut rest = kept.split_off(index);
                    let mut behind = rest.split_off(1);
                    kept.append(&mut behind);
                    rest
                });
                *threads = kept;
                drop(threads);
                drop(done); // outside of the lock
                self.0.count.fetch_sub(1, Ordering::Relaxed); // see the field
            }
        }
        let mut one = LinkedList::from([(thread::current().id(), errand)]); // not under the lock
        self.count.fetch_add(1, Ordering::Relaxed); // see the field
        self.lock().append(&mut one);
        let _leave = Leave(self);
        call()
    }

    /// Refuses a spawn on a thread that works for a task which would have to pay for it, and cannot
    /// from here. `nursery` has the owner and the pool of the nursery; it is none for a root task.
    ///
    /// # Errors
    ///
    /// One that says what to do.
    pub(crate) fn check_spawn(
        shared: &Shared,
        nursery: Option<(TaskRef, &Arc<BudgetPool>)>,
    ) -> Result<()> {
        let Some(errands) = shared.part::<Errands>() else { return Ok(()) };
        // Relaxed: see the field.
        if errands.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let (threads, here) = (errands.lock(), thread::current().id());
        let Some((_, by)) = threads.iter().find(|(id, _)| *id == here) else { return Ok(()) };
        if nursery.is_some_and(|(owner, pool)| owner == by.task || Arc::ptr_eq(pool, &by.pool)) {
            return Ok(());
        }
        drop(threads);
        let short = Shortfall { resource: Resource::SpawnCount, needed: 1, left: 0 };
        let note = "a blocking call cannot spend the budget of its task; spawn on the task itself, \
                    before or after the call";
        Err(Error::short(short).noting(Some(note.into())))
    }
}
