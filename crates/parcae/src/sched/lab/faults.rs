//! Faults: which of them happen, and where.
//!
//! A fault is a number that the strategy draws where the fault could happen, so a token repeats it
//! and shrinking leaves it out. Three kinds are placed instead, one in each schedule of a hunt: a
//! cancellation, the end of a budget, and a recharge, at the place with a certain number.
//!
//! | fault | asked for by |
//! |---|---|
//! | spurious wake, cancellation | the worker, when a task parks |
//! | refused spawn | the nursery |
//! | no stack | the worker, when it starts a task |
//! | closed channel | the channel |
//! | end of a budget, recharge | the task, at a checkpoint |
//! | late timer, stalled worker | the executor, when time passes |

use super::state::LabState;

/// How often a fault happens: once in so many places where it could; 0 for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FaultRates {
    /// A wait ends early, without its condition.
    pub(crate) spurious: u32,
    /// Time stands still although no task is ready: a timer comes late.
    pub(crate) late: u32,
    /// A spawn is refused.
    pub(crate) spawn: u32,
    /// A task gets no stack, and fails before it starts.
    pub(crate) stacks: u32,
    /// A channel is closed before an operation on it, as if the peer had died.
    pub(crate) close: u32,
    /// Time passes although a task is ready: its worker is stalled.
    pub(crate) stall: u32,
    /// The running task is cancelled before its wait with this number, counted over the schedule.
    pub(crate) cancel_at: Option<u64>,
    /// The budget of the running task ends at the checkpoint with this number, counted over the
    /// schedule.
    pub(crate) budget_at: Option<u64>,
    /// There, the running task is short of budget for a moment, until a recharge comes.
    pub(crate) recharge_at: Option<u64>,
}

/// A fault at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointFault {
    /// The budget of the task has ended.
    Exhausted,
    /// The budget of the task has ended, and is about to be recharged.
    Recharged,
}

/// A fault at a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFault {
    /// The wait ends at once, without its condition.
    Early,
    /// The task is cancelled.
    Cancel,
}

impl LabState {
    /// The running task is about to wait: the fault that happens to it, if any.
    pub(crate) fn waits(&mut self) -> Option<WaitFault> {
        let FaultRates { spurious, cancel_at, .. } = self.plan.faults;
        let number = self.waits;
        self.waits += 1;
        if cancel_at == Some(number) {
            return Some(WaitFault::Cancel);
        }
        self.strikes(spurious).then_some(WaitFault::Early)
    }

    /// Whether a spawn of the running task is refused.
    pub(crate) fn refuses_spawn(&mut self) -> bool {
        self.strikes(self.plan.faults.spawn)
    }

    /// Whether tasks may get no stack.
    pub(crate) fn may_refuse_stacks(&self) -> bool {
        self.plan.faults.stacks > 0
    }

    /// Whether a task that is about to start gets no stack.
    pub(crate) fn refuses_stack(&mut self) -> bool {
        self.strikes(self.plan.faults.stacks)
    }

    /// Whether the channel that the running task is about to use is closed.
    pub(crate) fn closes_channel(&mut self) -> bool {
        self.strikes(self.plan.faults.close)
    }

    /// Whether time may pass although a task is ready.
    pub(crate) fn may_stall(&self) -> bool {
        self.plan.faults.stall > 0 || self.follows()
    }

    /// Whether time passes although a task is ready.
    pub(crate) fn stalls(&mut self) -> bool {
        if self.chooser.passes_timer() {
            return true;
        }
        let rate = self.plan.faults.stall as usize;
        rate > 0 && !self.stopped && self.executor_number(rate + 1) == 1
    }

    /// The running task is at a checkpoint: the fault that happens to it, if any.
    pub(crate) fn checks(&mut self) -> Option<CheckpointFault> {
        let number = self.checkpoints;
        self.checkpoints += 1;
        let FaultRates { budget_at, recharge_at, .. } = self.plan.faults;
        if budget_at == Some(number) {
            return Some(CheckpointFault::Exhausted);
        }
        (recharge_at == Some(number)).then_some(CheckpointFault::Recharged)
    }

    /// Whether the next deadline is late.
    pub(crate) fn is_late(&mut self) -> bool {
        let rate = self.plan.faults.late as usize;
        rate > 0 && self.executor_number(rate + 1) == 1
    }

    /// Whether a fault with this rate happens.
    fn strikes(&mut self, rate: u32) -> bool {
        rate > 0 && !self.stopped && self.number(rate as usize + 1) == 1
    }
}
