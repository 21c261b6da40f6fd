//! Finding deadlocks, and saying so.
//!
//! # Why what is found was true at one moment
//!
//! Tasks are looked at one after another, and may go on between two looks. So there are two scans, and only what
//! both have seen counts: the same wait of the same task, told by its count of waits. A task that was in the
//! same wait in both was in it all the time between the end of the first scan and the beginning of the
//! second. That is one moment for all of them.
//!
//! A waker that has made the condition true and is just about to wake the task would be missed in that moment. Under the
//! deterministic executor there is none; with threads the scans are [`PAUSE`] apart, which is longer than anybody is
//! kept from finishing a wake on a machine that works.

use super::graph::{Ends, Graph};
use super::look::{self, Stacks};
use super::{Task, json};
use crate::error::TaskId;
use crate::sched::Shared;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// The least time between the two scans.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// What happens when tasks are found that wait in vain; see [`inspect`](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDeadlock {
    /// Nobody looks for them. [`Runtime::find_deadlock`](crate::Runtime::find_deadlock) still does.
    Ignore,
    /// They are reported, once, on the standard error output. With threads this is the default.
    Report,
    /// They end with [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock), which has the report. Under the deterministic executor this
    /// is the default: nobody else could end their waits.
    Fail,
    /// The process ends, after the report.
    Abort,
}

/// Tasks that wait in vain.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Deadlock {
    /// The tasks, with backtraces.
    pub tasks: Vec<Task>,
    /// Whether they are all that there are.
    pub all: bool,
}

impl Deadlock {
    /// The report as JSON: `{"all": …, "tasks": […]}`, with tasks as in [`Dump::to_json`](super::Dump::to_json).
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = json::Object::begin(&mut out);
        object.plain("all", self.all).list("tasks", &self.tasks, super::dump::task_json).end();
        out
    }

    /// What tells this deadlock from another.
    fn key(&self) -> Vec<(TaskId, u32)> {
        let mut key: Vec<_> = self.tasks.iter().map(|task| (task.id, task.waits)).collect();
        key.sort_unstable();
        key
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.all { "all tasks" } else { "these tasks" };
        writeln!(f, "deadlock: {who} wait, and nobody is left to end it")?;
        let graph = Graph::new(&self.tasks);
        for (at, task) in self.tasks.iter().enumerate() {
            super::dump::write_task(f, task, "  ")?;
            for other in graph.waits_for(at) {
                let own = if other == at { " itself" } else { "" };
                writeln!(
                    f,
                    "      which is up to{own} {}",
                    super::dump::title(&self.tasks[other])
                )?;
            }
        }
        write!(
            f,
            "  if somebody outside of the runtime ends such a wait, put it into `cx.external(|| …)`"
        )
    }
}

impl std::error::Error for Deadlock {}

/// Looks for deadlocks again and again.
#[derive(Default)]
pub(crate) struct Detector {
    /// The waits that the last scan has seen.
    before: HashMap<TaskId, u32>,
    /// The last one that was reported.
    reported: Vec<(TaskId, u32)>,
}

impl Detector {
    /// Scans. Returns what has been there since the last scan, at least [`PAUSE`] ago, and was not returned before.
    pub(crate) fn scan(&mut self, shared: &Shared, ends: Ends) -> Option<Deadlock> {
        let tasks = look::all(shared, Stacks::Left);
        let same =
            |task: &Task| task.wait.is_some() && self.before.get(&task.id) == Some(&task.waits);
        let found = find(shared, &tasks, ends, same);
        self.before = tasks.iter().map(|task| (task.id, task.waits)).collect();
        let found = found.filter(|found| found.key() != self.reported)?;
        self.reported = found.key();
        Some(found)
    }

    /// Scans, waits and scans again; for somebody who wants to know, so the ends of channels are guessed.
    pub(crate) fn scan_twice(shared: &Shared, pause: Duration) -> Option<Deadlock> {
        let mut detector = Detector::default();
        detector.scan(shared, Ends::Guessed);
        std::thread::sleep(pause);
        detector.scan(shared, Ends::Guessed)
    }
}

/// Under the deterministic executor, when nobody can run however much time passes: who waits in vain.
pub(crate) fn all_asleep(shared: &Shared) -> Option<Deadlock> {
    find(shared, &look::all(shared, Stacks::Left), Ends::Unknown, |_| true)
}

/// The tasks among those that are the `same` as before that wait in vain, with their stacks.
fn find(
    shared: &Shared,
    tasks: &[Task],
    ends: Ends,
    same: impl Fn(&Task) -> bool,
) -> Option<Deadlock> {
    // Those that have moved since are as good as running.
    let seen: Vec<Task> = tasks
        .iter()
        .map(|task| if same(task) { task.clone() } else { Task { wait: None, ..task.clone() } })
        .collect();
    let graph = Graph::new(&seen);
    let all = graph.all_in_vain() && !shared.has_deadlines();
    let in_vain = if all { vec![true; seen.len()] } else { graph.in_vain(ends) };
    if !in_vain.contains(&true) {
        return None;
    }
    let guilty: HashMap<TaskId, u32> =
        seen.iter().zip(in_vain).filter(|(_, vain)| *vain).map(|(t, _)| (t.id, t.waits)).collect();
    // Once more, for their stacks; who has gone on meanwhile was none of them.
    let tasks: Vec<Task> = look::all(shared, Stacks::Walked)
        .into_iter()
        .filter(|task| guilty.get(&task.id) == Some(&task.waits))
        .collect();
    (tasks.len() == guilty.len()).then_some(Deadlock { tasks, all })
}

/// Writes to where errors go; if that fails there is nobody left to tell.
fn report(deadlock: &Deadlock) {
    let _ = writeln!(io::stderr(), "parcae: {deadlock}");
}

/// Does with a deadlock what was asked for. Returns how many tasks were told.
pub(crate) fn act(shared: &Shared, deadlock: Deadlock, on: OnDeadlock) -> usize {
    match on {
        OnDeadlock::Ignore => 0,
        OnDeadlock::Report => {
            report(&deadlock);
            0
        }
        OnDeadlock::Fail => look::sentence(shared, &Arc::new(deadlock)),
        OnDeadlock::Abort => {
            report(&deadlock);
            std::process::abort();
        }
    }
}
