//! Holding a parked task still, to read its frame from outside.
//!
//! The observer takes the task out of the wakers' reach ([`StateWord::observe`]), so that its stack
//! is quiescent and the frame on it can be read. A wake that comes meanwhile is carried out when
//! the observation ends. A task is observed only while the data is copied, for some microseconds.
//!
//! [`StateWord::observe`]: crate::sched::task::state::StateWord::observe

use super::{Frame, TaskSettings};
use crate::sched::Shared;
use crate::sched::task::state::{Generation, Phase};
use crate::sched::task::{Task, TaskRef, TaskState};
use crate::scope::budget::Suspended;
use crate::scope::nursery::ParkedFuture;
use crate::wait::Why;
use std::ptr::NonNull;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A parked task that this thread holds still.
pub(crate) struct Observed<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) task: &'s Task,
}

impl<'s> Observed<'s> {
    /// Returns `None` if the task is not parked, or its record belongs to another task by now.
    pub(crate) fn try_of(
        shared: &'s Shared,
        task: &'s Task,
        generation: Generation,
    ) -> Option<Observed<'s>> {
        task.state.observe(generation).then(|| Observed { shared, task })
    }

    /// Calls `look` with the frame of every parked task in turn.
    pub(crate) fn each(shared: &'s Shared, mut look: impl FnMut(&Frame)) {
        shared.slab.each(|record| {
            let seen = record.state.look();
            if let Phase::Parked(_) = seen.phase {
                let _alone = alone(shared);
                let observed = Observed::try_of(shared, record, seen.generation);
                if let Some(frame) = observed.as_ref().and_then(Observed::frame) {
                    look(frame);
                }
            }
        });
    }

    /// The frame of the task; `None` for a task of the bare engine.
    pub(crate) fn frame(&self) -> Option<&Frame> {
        // SAFETY: observed, so it is ours to read; the frame is live as long as the record names
        // it.
        unsafe { self.task.frame().cast::<Frame>().as_ref() }
    }

    /// Gives access to the state of a task that is a future and waits between two polls, when it
    /// has no frame. `None` for others.
    pub(crate) fn future<R>(&self, look: impl FnOnce(&mut ParkedFuture) -> R) -> Option<R> {
        // SAFETY: observed, so it is ours to read and write; no other tasks are called again.
        self.task.is_between_calls().then(|| unsafe { self.task.peek_again(look) })
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        let woken = self.task.state.unobserve();
        self.shared.follow_up(NonNull::from(self.task), woken);
    }
}

/// The state of a task; `None` if it has ended.
pub(crate) fn live_state(shared: &Shared, task: TaskRef) -> Option<TaskState> {
    // SAFETY: records are never freed while their scheduler is there.
    let record = unsafe { task.task.as_ref() };
    let seen = record.state.look();
    if seen.generation != task.generation {
        return None;
    }
    match seen.phase {
        Phase::Gone => None,
        Phase::Queued => Some(TaskState::Ready),
        Phase::Owned(_) => Some(TaskState::Running),
        Phase::Parked(_) => {
            let _alone = alone(shared);
            let Some(observed) = Observed::try_of(shared, record, task.generation) else {
                return Some(TaskState::Ready); // woken meanwhile
            };
            let why = observed.frame().and_then(|frame| frame.seen().why());
            let exhausted = matches!(why, Some(Why::Budget(_)));
            Some(if exhausted { TaskState::Exhausted } else { TaskState::Waiting })
        }
    }
}

/// Children of a nursery that are suspended on a budget of their own.
pub(crate) fn suspended_on_own_budget(settings: &TaskSettings) -> Vec<Suspended> {
    let mut found = Vec::new();
    Observed::each(&settings.shared, |frame| {
        let apart = !Arc::ptr_eq(frame.pool(), &settings.pool);
        if frame.settings().nursery == settings.nursery
            && apart
            && let Some(Why::Budget(resource)) = frame.seen().why()
        {
            found.push(Suspended { task: frame.info(), resource });
        }
    });
    found
}

/// Locks out other observers.
pub(crate) fn alone(shared: &Shared) -> MutexGuard<'_, ()> {
    shared.looking.lock().unwrap_or_else(PoisonError::into_inner)
}
