//! Dumps of all tasks, and detection of deadlocks.
//!
//! [`Runtime::dump`](crate::Runtime::dump) shows all tasks of a runtime: the wait of each, its
//! duration, nursery, budget and backtrace. It needs no worker to cooperate, so it works when all
//! of them are stuck.
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
//! assert!(dump.to_string().contains("receiving from channel"));
//! tx.send(7)?;
//! assert_eq!(waits.join()?, 7);
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Deadlocks
//!
//! A task is deadlocked if all tasks that could end its wait are deadlocked too. Which tasks these
//! are depends on the wait:
//!
//! | waits for | ended by | known |
//! |---|---|---|
//! | a task (`join`) | that task | for certain |
//! | the end of a nursery | its children, all of them | for certain |
//! | a mutex, a write lock | the holder of the guard | probably the task that took it; a guard may be given away |
//! | a channel made by a task | an end of the channel | probably that task or its descendants; an end may be given away |
//! | an event, a notification, a semaphore, a future, a token, anything else | any task or thread | no |
//!
//! *With threads*, the runtime reports, or [acts on](OnDeadlock), only certain cycles by itself:
//! tasks that join each other, or their own ancestors. A wait that a thread outside of the runtime
//! might end is no deadlock, so an idle server prints nothing.
//! [`find_deadlock`](crate::Runtime::find_deadlock) is for a suspected deadlock. It also finds
//! probable ones, such as two locks taken in opposite order, a lock taken twice, or a group of
//! tasks that all receive from each other; [`Certainty`] tells them apart.
//!
//! *Under the deterministic executor* there is no outside: when all tasks wait and no deadline is
//! left, all of them are deadlocked, whatever the waits are for.
//!
//! A wait that is ended from outside of the runtime belongs into
//! [`Cx::external`](crate::Cx::external), or has a timeout, its own or that of a nursery around it.
//! It is never taken for a deadlock.

mod deadlock;
pub(super) mod described;
mod dump;
mod graph;
mod look;
mod signal;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::base::error::DeadlockReport;
pub use crate::scope::described::{Describe, DescribedItem, Description};
pub use crate::stack::frames::{Frames, Function};
pub use deadlock::{Certainty, Deadlock, OnDeadlock};
pub(crate) use deadlock::{Detector, PAUSE, act, all_asleep, some_asleep};
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

/// A task, as seen from outside. Of a queued task, only id, state and worker are known; of a
/// running one also its name and spawn location.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskSnapshot {
    /// Its id, unique in its runtime.
    pub id: TaskId,
    /// Its name, if it was given one.
    pub name: Option<Arc<str>>,
    /// Its state.
    pub state: TaskState,
    /// The worker that it runs on, or ran on last.
    pub worker: Option<usize>,
    /// Its wait.
    pub wait: Option<Wait>,
    /// Where it was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// Time since it started.
    pub age: Option<Duration>,
    /// Budget left in its account, without further draws from its nursery.
    pub budget: Option<Budget>,
    /// Id of its nursery; 0 for a root task.
    pub nursery: u64,
    /// The name of that nursery.
    pub nursery_name: Option<Arc<str>>,
    /// The task that opened that nursery; `None` for a root task.
    pub owner: Option<TaskId>,
    /// The nurseries that it has opened, innermost first.
    pub children: Vec<Children>,
    /// Its backtrace.
    pub frames: Frames,
    task: TaskRef,
    /// Lowest address and size of its stack.
    stack: Option<(usize, usize)>,
    /// Number of its waits so far, including this one.
    waits: u32,
}

/// A nursery, from its owner's side.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Children {
    /// Its id.
    pub nursery: u64,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its state.
    pub state: NurseryState,
    /// Number of children that have not ended.
    pub live: usize,
    /// Its budget.
    pub budget: Standing,
    account: Account,
}

impl Children {
    /// Recharges the nursery, by the authority of a [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> &Account {
        &self.account
    }
}

/// A wait.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wait {
    /// The operation: "sleeping", "receiving from channel", "mutex", "for its children".
    pub what: &'static str,
    /// Address of the object, which tells two of a kind apart.
    pub on: Option<usize>,
    /// Name of the object, if the program gave it one:
    /// [`ChannelOpts::name`](crate::channel::ChannelOpts::name).
    pub name: Option<Arc<str>>,
    /// State of the object: of a channel "empty, capacity 1; 1 sender, 1 receiver".
    pub note: Option<String>,
    /// The task that made the channel. `None` for other objects, and for a channel that a thread or
    /// a task of another runtime has made, or that a thread has used.
    ///
    /// The *holders* of a channel's ends are not known: an end is a value, which may be moved into
    /// a closure, a structure or another channel, and no code of the runtime runs then. Recording
    /// the last user of each end would make every send and receive slower.
    pub made_by: Option<TaskId>,
    /// End of a sleep, in time since the runtime was built.
    pub until: Option<Duration>,
    /// How long the wait has lasted, to some milliseconds.
    pub since: Duration,
    /// Whether the wait has a timeout.
    pub timed: bool,
    /// Whether the program has declared that the wait is ended from outside of the runtime:
    /// [`Cx::external`](crate::Cx::external).
    pub external: bool,
    holder: EndedBy,
}

/// Tasks or threads that could end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// Unknown.
    Anybody,
    /// The clock: the wait ends by itself.
    Clock,
    /// A blocking call on a thread of the runtime, which ends by itself.
    Call,
    /// Probably a thread or task outside of this runtime.
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
        let (on, name, note, made_by, until) = (None, None, None, None, None);
        Wait { what, on, name, note, made_by, until, since, timed: false, external: false, holder }
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

    /// Cancels the task; nothing happens if it has ended.
    pub(crate) fn cancel(&self, shared: &Shared) {
        shared.ask_to_end(self.task);
    }

    /// Whether an address is on its stack.
    fn has(&self, address: usize) -> bool {
        self.stack.is_some_and(|(end, size)| (end..end + size).contains(&address))
    }
}
