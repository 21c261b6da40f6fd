//! Budgets at run time: who holds what, and what happens when it is used up.
//!
//! The arithmetic is in [`parcae_core::budget`]. Here budget is only ever *moved*:
//!
//! ```text
//!             open a nursery              spawn, refill
//!   account ◄────────────────► pool ◄────────────────────► account of a child
//!      │        what is left    │       what is left              │
//!      ▼                        ▼                                 ▼
//!    spent                   spent: spawns                      spent
//! ```
//!
//! A task has an **account**. A nursery has a **pool**, filled from the account of the task that
//! opens it: with all of it, if nobody says otherwise, or with the budget that its options name. Its children
//! draw their accounts from the pool when they are spawned, and again when they run out, if the nursery's
//! [`OnExhausted`] says so; what they leave goes back. The nursery's end gives the rest back to the
//! account. For each pool and each resource, at any time:
//!
//! ```text
//! granted = left in the pool + held by its tasks + spent
//! ```
//!
//! so nesting makes no budget. A pool that was filled with all that its opener had is topped up from
//! where the opener would have drawn more; one with a budget of its own is not: that is its bound. A task that was spawned by
//! a capability has a pool of its own that is topped up to a ceiling, the capability's `task_budget`.
//!
//! A component that is [`UNLIMITED`] is not counted, and whoever draws on it has it unlimited.

mod pool;
mod returned;
mod slice;

use crate::base::error::TaskInfo;
use std::fmt;

pub use parcae_core::budget::{Budget, Resource, Shortfall, UNLIMITED};
pub(crate) use pool::{Ceiling, Closed, More, Pool, Sleeper, Sleeps};
pub(crate) use returned::{ReturnedAccounts, return_account};
pub(crate) use slice::Slice;

/// What happens to a task that has used up what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnExhausted {
    /// It takes more from the pool; if there is none left, it fails.
    #[default]
    Refill,
    /// It takes more from the pool; if there is none left, it waits until somebody recharges
    /// the pool.
    Suspend,
    /// It fails, whatever the pool has left.
    Fail,
}

/// How the budget of a nursery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Standing {
    /// All that was ever put in.
    pub granted: Budget,
    /// What nobody has drawn.
    pub left: Budget,
    /// What tasks hold. A task that runs counts its ops by itself, so that nobody else has to be told of each:
    /// what it has used up of what it was last given is part of this.
    pub held: Budget,
    /// What is known to be used up. A task says what it has used when it takes more, and when it ends.
    /// So this is behind by at most what each running task was given at a time
    /// ([`slice`](crate::NurseryOpts::slice), 10 000 ops if nobody says otherwise); for a task
    /// that has a nursery open, by all that it has used since it was last without one. Memory is spent
    /// when the task ends: until then it may free it.
    pub spent: Budget,
    /// Tasks that wait for a recharge: here, or in a nursery further down that is filled from
    /// here. One that was cancelled, or recharged further down, counts until the next recharge.
    pub suspended: usize,
}

/// A task that waits for a recharge, and of what.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Suspended {
    /// The task.
    pub task: TaskInfo,
    /// The resource that it has run out of.
    pub resource: Resource,
}

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, out of {}", self.task, self.resource)
    }
}
