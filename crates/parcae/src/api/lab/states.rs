//! The states of tasks at a step of a recorded run.

use super::timeline::Run;
use crate::sched::lab::TaskChange;
use std::sync::Arc;

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RunState {
    /// It has not been spawned.
    #[default]
    Unborn,
    /// It can run, and another task does.
    Ready,
    /// It runs.
    Running,
    /// It waits.
    Waiting {
        /// Reason of the wait: "receive", "mutex", "its children".
        reason: Arc<str>,
    },
    /// It has ended.
    Ended,
}

impl RunState {
    /// The state in one word.
    pub fn name(&self) -> &'static str {
        match self {
            RunState::Unborn => "not spawned",
            RunState::Ready => "ready",
            RunState::Running => "running",
            RunState::Waiting { .. } => "waiting",
            RunState::Ended => "ended",
        }
    }
}

/// A task at a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TaskStatus {
    /// Its state.
    pub state: RunState,
    /// Its last step, as a position in [`Run::steps`]; of a waiting task, the operation in which it
    /// waits.
    pub last_step: Option<usize>,
}

impl Run {
    /// All tasks before the step with this number, in the order of [`Run::tasks`]. With the number
    /// of steps: at the end of the run.
    ///
    /// ```
    /// use parcae::lab::{Explore, RunState};
    /// use parcae::sync::Mutex;
    ///
    /// let failure = Explore::new()
    ///     .run(|rt| {
    ///         let (a, b) = (Mutex::new(0), Mutex::new(0));
    ///         rt.run(|cx| {
    ///             cx.nursery(|n| {
    ///                 n.spawn(|_| Ok(*a.lock()? += *b.lock()?))?;
    ///                 n.spawn(|_| Ok(*b.lock()? += *a.lock()?))?;
    ///                 Ok(())
    ///             })
    ///         })
    ///     })
    ///     .unwrap_err();
    /// let run = failure.run();
    /// for task in run.states_before(run.steps.len()) {
    ///     assert!(matches!(task.state, RunState::Waiting { .. }), "deadlock: {task:?}");
    /// }
    /// ```
    pub fn states_before(&self, step: usize) -> Vec<TaskStatus> {
        let mut tasks = vec![TaskStatus::default(); self.tasks.len()];
        for event in self.events.iter().take_while(|event| event.after <= step) {
            let Some(task) = tasks.get_mut(event.task as usize) else { continue };
            task.state = match &event.change {
                TaskChange::Runs => RunState::Running,
                TaskChange::Waits { reason } => RunState::Waiting { reason: Arc::clone(reason) },
                TaskChange::Ended => RunState::Ended,
                TaskChange::Spawned { .. } | TaskChange::Yields | TaskChange::Woken { .. } => {
                    RunState::Ready
                }
                TaskChange::TimerFired | TaskChange::Cancelled => continue,
            };
        }
        for (at, step) in self.steps.iter().enumerate().take(step) {
            if let Some(task) = tasks.get_mut(step.task as usize) {
                task.last_step = Some(at);
            }
        }
        tasks
    }
}
