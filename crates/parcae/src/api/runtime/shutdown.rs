//! Shutting down, in time.
//!
//! 1. *Stop accepting*: the gate is shut (`sched::gate`). Whoever spawns from outside is told so.
//! 2. *Cancel*: the node of all tasks. Who waits is woken, who has not started does not.
//! 3. *Drain*: until all tasks have ended, or the deadline has passed (`ThreadExecutor::drain`). The monitor goes on
//!    meanwhile, so tasks behind a stuck worker get to their end.
//! 4. *Report*: who is left, and where.
//!
//! # Why it ends
//!
//! Every wait in it has the deadline: for spawners inside of the gate, for threads, for calls that block. Nobody is joined
//! before it is known to have left. What is late is not waited for: threads are detached, and what they
//! use is theirs by reference count. A worker that was told to leave does so by itself when all tasks have ended.
//!
//! On a task of the same runtime only 1, 2 and 4 are done. Whoever drops the runtime, or calls this from outside, does
//! the rest.

use super::RuntimeInner;
use crate::base::reason::CancelReason;
use crate::sched::executor::threads::Drained;
use crate::view::inspect::{Dump, TaskSnapshot, write_task};
use std::fmt;
use std::time::Duration;

/// What is left after [`Runtime::shutdown`](super::Runtime::shutdown).
#[derive(Debug)]
#[must_use = "says whether anything was left behind"]
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

    /// How many tasks have not ended.
    pub fn live_tasks(&self) -> u64 {
        self.live
    }

    /// How many calls that block were left behind; see [`blocking_static`](crate::blocking_static).
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Tasks that have not ended: what they wait for, or where they run, as far as their workers could be asked.
    pub fn survivors(&self) -> &[TaskSnapshot] {
        &self.survivors
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return f.write_str("everything has ended");
        }
        write!(f, "{} tasks and {} calls that block have not ended", self.live, self.calls)?;
        f.write_str("\n")?;
        self.survivors.iter().try_for_each(|task| write_task(f, task, "  "))
    }
}

pub(super) fn shutdown(inner: &RuntimeInner, within: Duration) -> Shutdown {
    let engine = &inner.engine;
    engine.close();
    inner.terms.node.cancel(CancelReason::Shutdown);
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

/// Who is left.
fn survivors(inner: &RuntimeInner) -> Vec<TaskSnapshot> {
    inner.engine.with_shared(Dump::of).tasks
}

#[cfg(all(test, not(loom)))]
mod tests;
