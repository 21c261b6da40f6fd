//! Seeing what tasks do, and finding those that wait in vain.
//!
//! [`Runtime::dump`](crate::Runtime::dump) shows all tasks of a runtime: what they wait for, for how long, in which nursery, with what
//! budget, and where on their stack. It needs no worker to cooperate, so it works when all of them are stuck.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::inspect::TaskState;
//!
//! let rt = Runtime::builder().workers(1).build()?;
//! let (tx, rx) = parcae::channel::channel::<u32>(0);
//! let waits = rt.spawn(move |_| Ok(rx.recv()?))?;
//! let dump = loop {
//!     let dump = rt.dump();
//!     if dump.tasks.iter().any(|task| task.state == TaskState::Waiting) {
//!         break dump;
//!     }
//! };
//! assert!(dump.to_string().contains("receive")); // and the function that does, and who spawned it
//! tx.send(7)?;
//! assert_eq!(waits.join()?, 7);
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Deadlocks
//!
//! A task waits in vain if everybody who could end its wait waits in vain too. Who that is depends on the wait:
//!
//! | waits for | ended by | known |
//! |---|---|---|
//! | a task (`join`) | that task | for certain |
//! | the end of a nursery | its children, all of them | for certain |
//! | a mutex, a write lock | the holder of the guard | probably the task that took it; a guard may be given away |
//! | a channel made by a task | an end of the channel | probably that task or its descendants; an end may be given away |
//! | an event, a notification, a semaphore, a future, a token, anything else | anybody | no |
//!
//! *With threads*, only cycles that are certain are reported, or [acted on](OnDeadlock), by
//! themselves: tasks that join each other, or their own ancestors. Whatever somebody outside might end
//! is no deadlock, so a server with nothing to do prints nothing.
//! [`find_deadlock`](crate::Runtime::find_deadlock) is asked by somebody who suspects one. It adds what is
//! probable, such as two locks taken in opposite order, a lock taken twice, or a group of tasks that all
//! receive from each other, and [says so](Certainty).
//!
//! *Under the deterministic executor* there is no outside: when all tasks wait and there is no deadline, all of
//! them wait in vain, whatever they wait for and wherever it was made.
//!
//! A wait that somebody outside of the runtime will end belongs into [`Cx::external`](crate::Cx::external), or
//! has a timeout, its own or that of a nursery around it: it is never taken for a deadlock.

mod deadlock;
mod dump;
mod graph;
mod look;
mod signal;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::base::error::DeadlockReport;
pub use crate::stack::frames::{Frames, Function};
pub use deadlock::{Certainty, Deadlock, OnDeadlock};
pub(crate) use deadlock::{Detector, PAUSE, act, all_asleep};
pub use dump::Dump;
pub(crate) use dump::write_task;
pub(crate) use graph::Trust;
pub use signal::DumpOnSignal;
pub(crate) use signal::dump_on_signal;

use crate::base::error::TaskId;
use crate::sched::Shared;
use crate::sched::task::TaskRef;
pub use crate::sched::task::TaskState;
use crate::scope::budget::{Budget, Standing};
use crate::scope::nursery::{Account, NurseryState};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// A task, as others see it. Of tasks that do not wait only number, state and worker are known, and of those that run
/// name and place: the rest is theirs while they run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskSnapshot {
    /// Its number, unique in its runtime.
    pub id: TaskId,
    /// Its name, if it was given one.
    pub name: Option<Arc<str>>,
    /// What it does.
    pub state: TaskState,
    /// The worker that it runs on, or ran on last.
    pub worker: Option<usize>,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// Where it was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// How long it has been there.
    pub age: Option<Duration>,
    /// What is left of its account, beside what its nursery would still give it.
    pub budget: Option<Budget>,
    /// The number of the nursery that it belongs to; 0 for a root task.
    pub nursery: u64,
    /// The name of that nursery.
    pub nursery_name: Option<Arc<str>>,
    /// The task that opened that nursery; none for a root task.
    pub owner: Option<TaskId>,
    /// The nurseries that it has opened, innermost first.
    pub children: Vec<Children>,
    /// Where it waits.
    pub frames: Frames,
    task: TaskRef,
    /// Lowest address and size of its stack.
    stack: Option<(usize, usize)>,
    /// How many waits there were, this one included.
    waits: u32,
}

/// A nursery, from its owner's side.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Children {
    /// The nursery's number.
    pub nursery: u64,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Where it is in its life.
    pub state: NurseryState,
    /// How many children have not ended.
    pub live: usize,
    /// How its budget stands.
    pub budget: Standing,
    account: Account,
}

impl Children {
    /// What recharges the nursery, by the authority of a [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> &Account {
        &self.account
    }
}

/// A wait.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wait {
    /// What for: "receive", "mutex", "for its children".
    pub what: &'static str,
    /// The address of the object that is waited for, which tells two of a kind apart.
    pub on: Option<usize>,
    /// More about it.
    pub note: Option<String>,
    /// For how long; to some milliseconds.
    pub since: Duration,
    /// Whether it ends by itself after some time.
    pub timed: bool,
    /// Whether it was declared to be ended from outside.
    pub external: bool,
    holder: EndedBy,
}

/// Who could end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// Nobody knows.
    Anybody,
    /// Nobody: it ends by itself.
    Clock,
    /// Nobody: it is for a call on a thread of the runtime, which ends by itself.
    Call,
    /// Probably somebody who is no task of this runtime.
    Outside,
    Task(u64),
    /// All children of this nursery.
    Children(u64),
    /// Probably the task whose stack has this address.
    Stack(usize),
    /// Probably this task and its descendants.
    Family(u64),
}

impl Wait {
    fn new(what: &'static str, holder: EndedBy) -> Wait {
        let since = Duration::ZERO;
        Wait { what, on: None, note: None, since, timed: false, external: false, holder }
    }
}

impl TaskSnapshot {
    fn unknown(id: TaskId, state: TaskState, task: TaskRef) -> TaskSnapshot {
        TaskSnapshot {
            id,
            name: None,
            state,
            worker: None,
            wait: None,
            spawned_at: None,
            age: None,
            budget: None,
            nursery: 0,
            nursery_name: None,
            owner: None,
            children: Vec::new(),
            frames: Frames::default(),
            task,
            stack: None,
            waits: 0,
        }
    }

    /// Asks it to end; nothing happens if it has ended.
    pub(crate) fn cancel(&self, shared: &Shared) {
        shared.ask_to_end(self.task);
    }

    /// Whether an address is on its stack.
    fn has(&self, address: usize) -> bool {
        self.stack.is_some_and(|(end, size)| (end..end + size).contains(&address))
    }
}
