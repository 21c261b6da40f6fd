//! Detection and reporting of deadlocks.
//!
//! # Evidence
//!
//! | caller | executor | evidence |
//! |---|---|---|
//! | the monitor | threads | proof: cycles of joins and of nurseries' ends |
//! | [`Runtime::find_deadlock`](crate::Runtime::find_deadlock) | threads | the same and guesses; also that all tasks wait, none with a timeout. Reported as [`Possible`](Certainty::Possible), never acted on |
//! | the conductor | deterministic | all tasks asleep without a deadline, whatever for; if one is exempt, proven cycles of the others |
//!
//! *Why a join and the end of a nursery are proof.* Both waits end when known tasks have ended, and
//! a parked task ends only after its own wait has. Only a cancellation from outside could
//! intervene, which is always possible and no reason to stay silent.
//!
//! *Why a lock is not.* A guard is `Send`: the holder of a lock is the owner of the guard, and the
//! lock knows only the task that took it. The guard may be with another task, with a thread, or in
//! a channel. Tracking it would make every lock and unlock slower, so the holder is a guess, and no
//! wait is ended because of a guess. The same holds for the ends of a channel: their number is
//! known, their owners are not. Reports name the task that made the channel instead, which costs
//! nothing after that.
//!
//! *Why every wait is, under the deterministic executor.* Only tasks run there, on one thread. When
//! no task can run and no deadline is left, only another thread could change that, and a program
//! that depends on one is not deterministic. A program that does so knowingly uses
//! [`Cx::external`](crate::Cx::external). Calls on threads of the runtime (`blocking`) end by
//! themselves and are exempt.
//!
//! # Why a report was true at one moment
//!
//! Tasks are read one after another, and may run in between. So there are two scans, and only waits
//! that both have seen count: the same wait of the same task, identified by its count of waits. A
//! task that was in the same wait in both scans was in it from the end of the first to the
//! beginning of the second. That is one moment for all of them.
//!
//! A waker that has made the condition true and is about to wake the task would be missed in that
//! moment. Under the deterministic executor there is none; with threads the scans are [`PAUSE`]
//! apart, longer than a thread is preempted on a machine that works.

use super::TaskSnapshot;
use super::graph::{Graph, Trust};
use super::look::{self, Stacks};
use crate::base::error::{DeadlockInfo, DeadlockReport, TaskId};
use crate::base::json;
use crate::sched::Shared;
use crate::stack::frames::Shown;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use std::time::Duration;

/// The least time between the two scans.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Policy for detected deadlocks; see [`inspect`](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDeadlock {
    /// No automatic detection. [`Runtime::find_deadlock`](crate::Runtime::find_deadlock) still
    /// works.
    Ignore,
    /// Report once, on standard error. The default with threads.
    Report,
    /// End the waits with [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock), which has the
    /// report. The default under the deterministic executor.
    Fail,
    /// Report, then abort the process.
    Abort,
}

/// A deadlock: tasks that wait for each other.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Deadlock {
    /// The tasks, with backtraces.
    pub tasks: Vec<TaskSnapshot>,
    /// Whether these are all tasks of the runtime.
    pub all: bool,
    /// Whether the deadlock is proven.
    pub certainty: Certainty,
}

/// How certain a [`Deadlock`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// Only the listed tasks could end their waits.
    Proven,
    /// Probable; but a guard or the end of a channel may have been moved to another task, or a
    /// thread outside of the runtime may act. Only
    /// [`Runtime::find_deadlock`](crate::Runtime::find_deadlock) returns this.
    Possible,
}

impl Deadlock {
    /// The report as JSON: `{"all": …, "proven": …, "tasks": […]}`, with tasks as in
    /// [`Dump::to_json`](super::Dump::to_json).
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = json::JsonObject::begin(&mut out);
        let task = |out: &mut String, task| super::dump::task_json(out, task, Shown::default());
        object.plain("all", self.all).plain("proven", self.certainty == Certainty::Proven);
        object.list("tasks", &self.tasks, task).end();
        out
    }

    /// Identifies this deadlock.
    fn key(&self) -> Vec<(TaskId, u32)> {
        let mut key: Vec<_> = self.tasks.iter().map(|task| (task.id, task.waits)).collect();
        key.sort_unstable();
        key
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.all { "all tasks" } else { "these tasks" };
        match self.certainty {
            Certainty::Proven => {
                writeln!(f, "deadlock: {who} wait, and no task is left to end a wait")?;
            }
            Certainty::Possible => {
                writeln!(
                    f,
                    "possible deadlock: {who} wait, and apparently no task is left to end a wait"
                )?;
            }
        }
        let graph = Graph::new(&self.tasks);
        for (at, task) in self.tasks.iter().enumerate() {
            super::dump::write_task(f, task, "  ")?;
            for other in graph.waits_for(at) {
                let own = if other == at { " itself:" } else { "" };
                writeln!(f, "      waits for{own} {}", super::dump::title(&self.tasks[other]))?;
            }
        }
        write!(
            f,
            "  if a thread outside of the runtime ends such a wait, wrap the wait in \
             `cx.external(|| …)`"
        )
    }
}

impl std::error::Error for Deadlock {}

impl DeadlockInfo for Deadlock {}

impl Deref for DeadlockReport {
    type Target = Deadlock;

    fn deref(&self) -> &Deadlock {
        self.info().unwrap_or_else(|| unreachable!("every report is made from a `Deadlock`"))
    }
}

/// Scans for deadlocks, repeatedly.
#[derive(Default)]
pub(crate) struct Detector {
    /// The waits that the last scan has seen.
    before: HashMap<TaskId, u32>,
    /// The deadlock that was reported last.
    reported: Vec<(TaskId, u32)>,
}

impl Detector {
    /// Scans. Returns a deadlock that the last scan, at least [`PAUSE`] ago, has seen too, unless
    /// it was returned before.
    pub(crate) fn scan(&mut self, shared: &Shared, trust: Trust) -> Option<Deadlock> {
        let tasks = look::all(shared, Stacks::Left);
        // A task that has moved since counts as running.
        let seen: Vec<TaskSnapshot> = tasks
            .iter()
            .map(|task| match self.before.get(&task.id) == Some(&task.waits) {
                true => task.clone(),
                false => TaskSnapshot { wait: None, ..task.clone() },
            })
            .collect();
        self.before = tasks.iter().map(|task| (task.id, task.waits)).collect();
        let graph = Graph::new(&seen);
        let proven = graph.in_vain(Trust::Proof);
        let in_vain = match trust {
            Trust::Proof => proven.clone(),
            Trust::Guess if graph.all_seem_asleep() && !shared.has_deadlines() => {
                vec![true; seen.len()]
            }
            Trust::Held | Trust::Guess => graph.in_vain(trust),
        };
        let certainty = if in_vain == proven { Certainty::Proven } else { Certainty::Possible };
        let found = examine(shared, &seen, &in_vain, certainty);
        let found = found.filter(|found| found.key() != self.reported)?;
        self.reported = found.key();
        Some(found)
    }

    /// Scans, pauses and scans again. Guesses count.
    pub(crate) fn scan_twice(shared: &Shared, pause: Duration) -> Option<Deadlock> {
        let mut detector = Detector::default();
        detector.scan(shared, Trust::Guess);
        std::thread::sleep(pause);
        detector.scan(shared, Trust::Guess)
    }
}

/// Under the deterministic executor, when no task can run and no deadline is left: the deadlock.
pub(crate) fn all_asleep(shared: &Shared) -> Option<Deadlock> {
    let mut tasks = look::all(shared, Stacks::Left);
    // Deadlines of nurseries and waits have passed, or were disarmed.
    tasks.iter_mut().filter_map(|task| task.wait.as_mut()).for_each(|wait| wait.timed = false);
    let graph = Graph::new(&tasks);
    let in_vain = match graph.all_asleep() {
        true => vec![true; tasks.len()],
        false => graph.in_vain(Trust::Proof),
    };
    examine(shared, &tasks, &in_vain, Certainty::Proven)
}

/// The deadlocked tasks, with backtraces; `None` if there are none, or one of them has run since.
/// No task can run, but time may pass: tasks that wait for each other, without a timeout. A lock
/// counts as held by the task that took it.
pub(crate) fn some_asleep(shared: &Shared) -> Option<Deadlock> {
    let tasks = look::all(shared, Stacks::Left);
    let in_vain = Graph::new(&tasks).in_vain(Trust::Held);
    examine(shared, &tasks, &in_vain, Certainty::Proven)
}

fn examine(
    shared: &Shared,
    tasks: &[TaskSnapshot],
    in_vain: &[bool],
    certainty: Certainty,
) -> Option<Deadlock> {
    let guilty: HashMap<TaskId, u32> = (tasks.iter().zip(in_vain))
        .filter(|(_, vain)| **vain)
        .map(|(task, _)| (task.id, task.waits))
        .collect();
    if guilty.is_empty() {
        return None;
    }
    let all = guilty.len() == tasks.len();
    // Once more, for the backtraces; a task that has run meanwhile was not deadlocked.
    let brief = shared.lab.as_ref().is_some_and(|lab| lab.lock().is_brief());
    let stacks = if brief { Stacks::Left } else { Stacks::Walked };
    let tasks: Vec<TaskSnapshot> = look::all(shared, stacks)
        .into_iter()
        .filter(|task| guilty.get(&task.id) == Some(&task.waits))
        .collect();
    (tasks.len() == guilty.len()).then_some(Deadlock { tasks, all, certainty })
}

/// Writes to standard error; a failure to do so is ignored.
fn report(deadlock: &Deadlock) {
    let _ = writeln!(io::stderr(), "parcae: {deadlock}");
}

/// Applies the policy to a deadlock. Returns the number of waits that were ended.
pub(crate) fn act(shared: &Shared, deadlock: Deadlock, on: OnDeadlock) -> usize {
    match on {
        OnDeadlock::Ignore => 0,
        OnDeadlock::Report => {
            report(&deadlock);
            0
        }
        OnDeadlock::Fail => look::sentence(shared, &DeadlockReport::new(deadlock)),
        OnDeadlock::Abort => {
            report(&deadlock);
            std::process::abort();
        }
    }
}
