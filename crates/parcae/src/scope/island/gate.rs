//! The gate at which the stages of an island wait for each other.

use crate::base::error::Result;
use crate::sched::task::TaskRef;
use crate::scope::cx::Cx;
use crate::scope::profile::SpawnsFreely;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the stages of an island wait for each other, and their owner for them. Everything is under
/// one lock, and tasks are woken after it: a task that reads the old state has not parked yet, and
/// finds the wake.
pub(super) struct StageGate {
    state: Mutex<GateState>,
    owner: TaskRef,
    stages: usize,
}

struct GateState {
    open: bool,
    /// The stages that have come; room for all of them.
    come: Vec<TaskRef>,
}

impl StageGate {
    pub(super) fn new(owner: TaskRef, stages: usize) -> StageGate {
        let state = GateState { open: false, come: Vec::with_capacity(stages) };
        StageGate { state: Mutex::new(state), owner, stages }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the gate if all stages wait at it. The look and the opening are one step: a stage may
    /// go away again.
    pub(super) fn opens<P: SpawnsFreely>(&self, cx: &Cx<P>) -> bool {
        let come = {
            let mut state = self.lock();
            if state.come.len() < self.stages {
                return false;
            }
            state.open = true;
            std::mem::take(&mut state.come)
        };
        come.into_iter().for_each(|stage| cx.frame().settings().shared.unpark(stage));
        true
    }

    /// A stage has come, and waits until the gate opens. One that gives up, because of a deadline
    /// around its wait, does not count as there any more; it may come again.
    pub(super) fn pass<P: SpawnsFreely>(&self, cx: &Cx<P>) -> Result<()> {
        let own = cx.frame().task_ref();
        let mut state = self.lock();
        if !state.open {
            state.come.push(own);
        }
        drop(state);
        cx.frame().settings().shared.unpark(self.owner);
        while !self.lock().open {
            cx.park().inspect_err(|_| self.lock().come.retain(|come| *come != own))?;
        }
        Ok(())
    }
}
