//! The changes of tasks in a recorded run, from the event log of the scheduler.

use crate::sched::lab::{LabState, RunEvent, TaskChange};
use crate::view::trace::{TraceEvent, What};

/// The events of a recorded run, in their order, up to the first trouble.
pub(super) fn events(state: &mut LabState, log: &[TraceEvent]) -> Vec<RunEvent> {
    let Some(recorder) = state.recorder() else { return Vec::new() };
    let marks = std::mem::take(&mut recorder.marks);
    let end = recorder.end.unwrap_or(log.len()).min(log.len());
    let number = |id: u64| state.number_of_task(id);
    let mut events = Vec::new();
    let mut after = 0;
    for (at, event) in log[..end].iter().enumerate() {
        // A step with this mark began before the event was written.
        while marks.get(after).is_some_and(|&mark| mark <= at) {
            after += 1;
        }
        let change = match &event.what {
            What::Spawned { by } => TaskChange::Spawned { by: number(*by) },
            What::Started { .. } | What::Resumed => TaskChange::Runs,
            What::Yielded | What::YieldedToNobody | What::WokenEarly => TaskChange::Yields,
            What::Parked { reason, .. } => TaskChange::Waits { reason: reason.clone() },
            What::Woken { by, .. } => TaskChange::Woken { by: number(*by) },
            What::TimerFired => TaskChange::TimerFired,
            What::Cancelled { .. } => TaskChange::Cancelled,
            What::Finished => TaskChange::Ended,
            _ => continue,
        };
        if let Some(task) = number(event.task) {
            events.push(RunEvent { after, task, change });
        }
    }
    events
}
