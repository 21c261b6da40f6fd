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

    /// Whether all stages have come.
    pub(super) fn is_full(&self) -> bool {
        self.lock().come.len() == self.stages
    }

    pub(super) fn open<P: SpawnsFreely>(&self, cx: &Cx<P>) {
        let come = {
            let mut state = self.lock();
            state.open = true;
            std::mem::take(&mut state.come)
        };
        come.into_iter().for_each(|stage| cx.frame().settings().shared.unpark(stage));
    }

    /// A stage has come, and waits until the gate opens.
    pub(super) fn pass<P: SpawnsFreely>(&self, cx: &Cx<P>) -> Result<()> {
        self.lock().come.push(cx.frame().task_ref());
        cx.frame().settings().shared.unpark(self.owner);
        while !self.lock().open {
            cx.park()?;
        }
        Ok(())
    }
}
