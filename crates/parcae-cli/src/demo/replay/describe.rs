//! Events of the scheduler, in words.

use parcae::trace::{TraceEvent, What};
use std::fmt;

/// An event, with tasks that are numbered as they turn up, from 0: their ids are long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    event: TraceEvent,
    task: usize,
}

/// All events, in order.
pub(super) fn tell(events: impl Iterator<Item = TraceEvent>) -> Vec<Told> {
    let mut ids = Vec::new();
    let number = |event: TraceEvent| {
        let known = ids.iter().position(|&id| id == event.task);
        let task = known.unwrap_or_else(|| {
            ids.push(event.task);
            ids.len() - 1
        });
        Told { event, task }
    };
    events.map(number).collect()
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { event: TraceEvent { at, worker, what, .. }, task } = self;
        write!(f, "{:>4} µs  ", at.as_micros())?;
        match worker {
            None => write!(f, "outside   ")?,
            Some(worker) => write!(f, "worker {worker}  ")?,
        }
        match what {
            What::Spawned { .. } => write!(f, "spawns task {task}"),
            What::Started { .. } => write!(f, "starts task {task}"),
            What::Resumed => write!(f, "goes on with task {task}"),
            What::Yielded => write!(f, "is left by task {task}, which yields"),
            What::YieldedToNobody => write!(f, "stays with task {task}: nobody else is ready"),
            What::Parked { reason, .. } => write!(f, "is left by task {task}: {reason}"),
            What::Woken { .. } => write!(f, "wakes task {task}"),
            What::Stolen { from } => write!(f, "steals task {task} from worker {from}"),
            What::Finished => write!(f, "ends task {task}"),
            What::Slept => write!(f, "finds nothing to do"),
            What::Awoke => write!(f, "is needed again"),
            other => write!(f, "{other:?}, task {task}"),
        }
    }
}
