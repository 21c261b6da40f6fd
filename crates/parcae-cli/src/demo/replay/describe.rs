//! Events of the scheduler, in words.

use parcae::trace::{TraceEvent, What};
use std::fmt;

/// An event, whose task is numbered from 0 in the order of appearance: ids are long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    event: TraceEvent,
    task: usize,
}

/// All events in order, with the tasks numbered.
pub(super) fn numbered(events: impl Iterator<Item = TraceEvent>) -> Vec<Described> {
    let mut ids = Vec::new();
    let number = |event: TraceEvent| {
        let known = ids.iter().position(|&id| id == event.task);
        let task = known.unwrap_or_else(|| {
            ids.push(event.task);
            ids.len() - 1
        });
        Described { event, task }
    };
    events.map(number).collect()
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described { event: TraceEvent { at, worker, what, .. }, task } = self;
        write!(f, "{:>4} µs  ", at.as_micros())?;
        match worker {
            None => write!(f, "outside   ")?,
            Some(worker) => write!(f, "worker {worker}  ")?,
        }
        match what {
            What::Spawned { .. } => write!(f, "spawns task {task}"),
            What::Started { .. } => write!(f, "starts task {task}"),
            What::Resumed => write!(f, "resumes task {task}"),
            What::Yielded => write!(f, "suspends task {task}, which yields"),
            What::YieldedToNobody => write!(f, "continues task {task}: no other task is ready"),
            What::Parked { reason, .. } => write!(f, "suspends task {task}: {reason}"),
            What::Woken { .. } => write!(f, "wakes task {task}"),
            What::Stolen { from } => write!(f, "steals task {task} from worker {from}"),
            What::Finished => write!(f, "ends task {task}"),
            What::Slept => write!(f, "goes to sleep: no task is ready"),
            What::Awoke => write!(f, "wakes up"),
            other => write!(f, "{other:?}, task {task}"),
        }
    }
}
