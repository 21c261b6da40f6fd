//! Validation of traces, and counts of events.

use super::Trace;
use crate::sched::events::kind::unpack;
use crate::sched::events::{EventKind, Words};
use std::collections::HashMap;
use std::fmt;

/// Counts of events in a [`Trace`]. Names and, in a complete trace, numbers are those of
/// [`WorkerStats`](crate::stats::WorkerStats).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventCounts {
    /// Tasks spawned by tasks.
    pub spawned_here: u64,
    /// Tasks spawned from outside.
    pub spawned_outside: u64,
    /// Turns of tasks.
    pub executed: u64,
    /// Tasks that ended.
    pub ended: u64,
    /// Yields.
    pub yielded: u64,
    /// Parks that took effect.
    pub parked: u64,
    /// Times that tasks were stolen.
    pub stolen: u64,
    /// Times that a worker fell asleep.
    pub slept: u64,
}

/// A contradiction in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    at: usize,
    what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} of the trace: {}", self.at, self.what)
    }
}

impl std::error::Error for Flaw {}

/// State of a task in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskPhase {
    Ready,
    Running,
    Waiting,
    Ended,
}

impl TaskPhase {
    /// The states of a task before and after this event; `None` if the state does not matter, or
    /// does not change.
    fn change(kind: EventKind) -> (Option<TaskPhase>, Option<TaskPhase>) {
        match kind {
            EventKind::Start | EventKind::Resume => {
                (Some(TaskPhase::Ready), Some(TaskPhase::Running))
            }
            EventKind::Yield => (Some(TaskPhase::Running), Some(TaskPhase::Ready)),
            EventKind::Park => (Some(TaskPhase::Running), Some(TaskPhase::Waiting)),
            EventKind::Wake | EventKind::Latched => {
                (Some(TaskPhase::Waiting), Some(TaskPhase::Ready))
            }
            EventKind::Finish => (Some(TaskPhase::Running), Some(TaskPhase::Ended)),
            EventKind::Steal => (Some(TaskPhase::Ready), None),
            EventKind::Alone | EventKind::Exhausted | EventKind::Recharged | EventKind::Cancel => {
                (Some(TaskPhase::Running), None)
            }
            EventKind::Spawn => (None, Some(TaskPhase::Ready)),
            EventKind::Timer | EventKind::Sleep | EventKind::Awake => (None, None),
        }
    }
}

/// State of a worker in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Unknown: the beginning is missing.
    Unknown,
    Nothing,
    Runs(u64),
    Sleeps,
}

impl Trace {
    /// Checks the trace. Timestamps of a worker do not decrease, and its turns do not overlap. If
    /// no event was lost and the recording was stopped, each task also goes through its states in
    /// order: it has no event before its spawn or after its end, and resumes only after it has
    /// yielded or was woken.
    ///
    /// # Errors
    ///
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Flaw> {
        let mut times = vec![0; self.workers + 1];
        let mut doing = vec![Doing::Unknown; self.workers];
        let mut tasks = HashMap::new();
        for (at, words) in self.batch.events.iter().enumerate() {
            let flaw = |what: String| Flaw { at, what };
            let Some((kind, worker, _)) = unpack(words) else {
                return Err(flaw(format!("not an event: {words:x?}")));
            };
            if worker.is_some_and(|worker| worker >= self.workers) {
                return Err(flaw(format!("there is no worker {worker:?}")));
            }
            let last = &mut times[worker.unwrap_or(self.workers)];
            if words[0] < *last {
                return Err(flaw(format!("time goes back from {last} to {}", words[0])));
            }
            *last = words[0];
            if let Some(worker) = worker {
                doing[worker] = turn(doing[worker], kind, words[2])
                    .map_err(|what| flaw(format!("worker {worker}: {what}")))?;
            }
            if self.lost() == 0 && self.causal {
                self.step(&mut tasks, kind, words).map_err(flaw)?;
            }
        }
        Ok(())
    }

    fn step(
        &self,
        tasks: &mut HashMap<u64, TaskPhase>,
        kind: EventKind,
        words: &Words,
    ) -> Result<(), String> {
        let task = words[2];
        let (before, after) = TaskPhase::change(kind);
        let known = tasks.get(&task).copied();
        let fits = match (known, before) {
            (Some(state), Some(before)) => state == before,
            (Some(_), None) => kind != EventKind::Spawn,
            // A task that was there when the recording began.
            (None, Some(_)) => !self.complete,
            (None, None) => true,
        };
        if !fits {
            return Err(format!("task {task}: {kind:?} while {known:?}"));
        }
        if let Some(after) = after {
            tasks.insert(task, after);
        }
        Ok(())
    }

    /// Counts of events.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::trace::TraceOpts;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let recording = rt.trace(TraceOpts::new())?;
    /// rt.run(|cx| cx.nursery(|n| (0..5).try_for_each(|_| n.spawn(|_| Ok(())).map(drop))))?;
    /// let counts = recording.stop().counts();
    /// assert_eq!((counts.spawned_outside, counts.spawned_here), (1, 5));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn counts(&self) -> EventCounts {
        let mut counts = EventCounts::default();
        for words in &self.batch.events {
            let Some((kind, worker, _)) = unpack(words) else { continue };
            match (kind, worker) {
                (EventKind::Spawn, Some(_)) => counts.spawned_here += 1,
                (EventKind::Spawn, None) => counts.spawned_outside += 1,
                (EventKind::Start | EventKind::Resume, _) => counts.executed += 1,
                (EventKind::Finish, _) => counts.ended += 1,
                (EventKind::Yield | EventKind::Alone, _) => counts.yielded += 1,
                (EventKind::Park, _) => counts.parked += 1,
                (EventKind::Latched, _) => counts.parked = counts.parked.saturating_sub(1),
                (EventKind::Steal, _) => counts.stolen += 1,
                (EventKind::Sleep, _) => counts.slept += 1,
                _ => {}
            }
        }
        counts
    }
}

/// State of a worker after an event of its own.
fn turn(doing: Doing, kind: EventKind, task: u64) -> Result<Doing, String> {
    let (fits, next) = match kind {
        EventKind::Start | EventKind::Resume => (doing == Doing::Nothing, Doing::Runs(task)),
        EventKind::Yield | EventKind::Park | EventKind::Finish => {
            (doing == Doing::Runs(task), Doing::Nothing)
        }
        EventKind::Alone => (doing == Doing::Runs(task), doing),
        EventKind::Sleep => (doing == Doing::Nothing, Doing::Sleeps),
        EventKind::Awake => (doing == Doing::Sleeps, Doing::Nothing),
        _ => (true, doing),
    };
    if fits || doing == Doing::Unknown {
        Ok(next)
    } else {
        Err(format!("{kind:?} of task {task} while it {doing:?}"))
    }
}
