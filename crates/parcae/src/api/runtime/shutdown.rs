//! Shutdown with a time limit, in four phases:
//!
//! 1. *Stop accepting*: the gate is closed (`sched::gate`). A spawn from outside fails.
//! 2. *Cancel*: the root node of the cancel tree. Waiting tasks wake up, and tasks that have not
//!    started never do.
//! 3. *Drain*: wait until all tasks have ended or the deadline has passed
//!    (`ThreadExecutor::drain`). The monitor keeps running, so that tasks behind a stuck worker
//!    reach their end.
//! 4. *Report*: the remaining tasks and their places.
//!
//! # Why it ends
//!
//! Every wait has the deadline: for spawners inside of the gate, for threads, for blocking calls. A
//! thread is joined only after it has announced its end. Late threads are detached; reference
//! counts keep their memory alive. A worker that was asked to stop does so when all tasks have
//! ended.
//!
//! On a task of the same runtime only phases 1, 2 and 4 run. The drop of the runtime, or a shutdown
//! from outside, does the rest.

use super::RuntimeInner;
use crate::base::reason::CancelReason;
use crate::sched::executor::threads::Drained;
use crate::view::inspect::{Dump, TaskSnapshot, write_task};
use std::fmt;
use std::time::Duration;

/// Result of [`Runtime::shutdown`](super::Runtime::shutdown).
#[derive(Debug)]
#[must_use = "tells whether tasks were left behind"]
pub struct Shutdown {
    live: u64,
    calls: usize,
    threads: Threads,
    survivors: Vec<TaskSnapshot>,
}

/// Whether the workers have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    Left,
    Remain,
}

impl Shutdown {
    /// Whether all tasks and calls have ended, and all workers have left.
    pub fn is_complete(&self) -> bool {
        self.live == 0 && self.calls == 0 && self.threads == Threads::Left
    }

    /// Number of tasks that have not ended.
    pub fn live_tasks(&self) -> u64 {
        self.live
    }

    /// Number of blocking calls that were left behind; see
    /// [`blocking_static`](crate::blocking_static).
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Tasks that have not ended, with their waits, or their places if their workers answered in
    /// time.
    pub fn survivors(&self) -> &[TaskSnapshot] {
        &self.survivors
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return f.write_str("all tasks and threads have ended");
        }
        write!(f, "{} tasks and {} blocking calls have not ended", self.live, self.calls)?;
        f.write_str("\n")?;
        self.survivors.iter().try_for_each(|task| write_task(f, task, "  "))
    }
}

pub(super) fn shutdown(inner: &RuntimeInner, within: Duration) -> Shutdown {
    let engine = &inner.engine;
    engine.close();
    inner.settings.node.cancel(CancelReason::Shutdown);
    match engine.drain(within) {
        Drained::Ended { calls } => {
            Shutdown { live: 0, calls, threads: Threads::Left, survivors: Vec::new() }
        }
        Drained::Late | Drained::Inside => Shutdown {
            survivors: survivors(inner),
            live: engine.live(),
            calls: 0,
            threads: Threads::Remain,
        },
    }
}

/// The tasks that have not ended.
fn survivors(inner: &RuntimeInner) -> Vec<TaskSnapshot> {
    inner.engine.with_shared(Dump::of).tasks
}

#[cfg(all(test, not(loom)))]
mod tests;
