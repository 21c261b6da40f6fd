//! Reads the event log of the deterministic executor: records of one length, numbers with the least byte first.

use std::fmt;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// Virtual time, in steps.
    pub(super) time: u64,
    /// `u16::MAX` outside of workers.
    worker: u16,
    kind: u8,
    /// Numbered as they turn up, from 0: their ids are long.
    task: usize,
    /// The victim of a steal.
    detail: u64,
}

const RECORD: usize = 27;

/// All events, in order.
pub(super) fn events(log: &[u8]) -> impl Iterator<Item = Event> + '_ {
    let mut ids = Vec::new();
    log.chunks_exact(RECORD).map(move |record| {
        let number = |at: usize, len: usize| {
            record[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let id = number(11, 8);
        let task = ids.iter().position(|&known| known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        Event {
            time: number(0, 8),
            worker: number(8, 2) as u16,
            kind: record[10],
            task,
            detail: number(19, 8),
        }
    })
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { time, worker, kind, task, detail } = *self;
        write!(f, "step {time:<5} ")?;
        match worker {
            u16::MAX => write!(f, "outside   ")?,
            _ => write!(f, "worker {worker}  ")?,
        }
        match kind {
            1 => write!(f, "spawns task {task}"),
            2 => write!(f, "starts task {task}"),
            3 => write!(f, "goes on with task {task}"),
            4 => write!(f, "is left by task {task}, which yields"),
            5 => write!(f, "is left by task {task}, which waits"),
            6 => write!(f, "wakes task {task}"),
            7 => write!(f, "steals task {task} from worker {detail}"),
            8 => write!(f, "ends task {task}"),
            9 => write!(f, "finds nothing to do"),
            _ => write!(f, "does {kind} to task {task}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = 300_u64.to_le_bytes().to_vec();
        record.extend(1_u16.to_le_bytes());
        record.push(7);
        record.extend(70_000_u64.to_le_bytes());
        record.extend(0_u64.to_le_bytes());
        let all: Vec<Event> = events(&record).collect();
        let [event] = all[..] else { panic!("{all:?}") };
        assert_eq!(event.to_string(), "step 300   worker 1  steals task 0 from worker 0");
    }
}
