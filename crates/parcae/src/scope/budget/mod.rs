//! Budgets at run time: accounts, pools, and the policies for an exhausted one.
//!
//! The arithmetic is in [`parcae_core::budget`]. Here budget is only *moved*:
//!
//! ```text
//!             open a nursery              spawn, refill
//!   account ◄────────────────► pool ◄────────────────────► account of a child
//!      │        what is left    │       what is left              │
//!      ▼                        ▼                                 ▼
//!    spent                   spent: spawns                      spent
//! ```
//!
//! A task has an **account**. A nursery has a **pool**, which is filled from the account of the
//! task that opens it: with the budget that its options name, or else with the whole account.
//! Children draw a [slice](mod@slice) from the pool when they are spawned. They draw again when it
//! is used up, if the nursery's [`OnExhausted`] allows that, and return the rest when they end. The
//! end of the nursery returns the rest of the pool to the account. For each pool and each resource,
//! at any time:
//!
//! ```text
//! granted = left in the pool + held by its tasks + spent
//! ```
//!
//! So nesting creates no budget. A pool that was filled with a whole account draws more from the
//! pool above, where its owner would have drawn more. A pool with a budget of its own does not:
//! that budget is its bound. A task that was spawned by a capability has a pool of its own, which
//! draws up to a ceiling: the capability's `task_budget`.
//!
//! A component that is [`UNLIMITED`] is not counted. A task that draws on it has it unlimited.

mod pool;
mod returned;
mod slice;

use crate::base::error::TaskInfo;
use std::fmt;

pub use parcae_core::budget::{Budget, Resource, Shortfall, UNLIMITED};
pub(crate) use pool::{BudgetPool, Ceiling, ClosedPool, More, NotRecharged, Suspension};
pub(crate) use returned::{ReturnedAccounts, return_account};
pub(crate) use slice::Slice;

/// The policy for a task that has used up its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnExhausted {
    /// The task draws more from the pool. If the pool is empty, the task fails.
    #[default]
    Refill,
    /// The task draws more from the pool. If the pool is empty, the task waits for a recharge.
    Suspend,
    /// The task fails, even if the pool has budget left.
    Fail,
}

/// The state of a nursery's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Standing {
    /// The sum of all amounts that were put in.
    pub granted: Budget,
    /// Budget that no task has drawn.
    pub left: Budget,
    /// Budget that tasks hold. A running task counts its ops by itself, so that a checkpoint needs
    /// no communication: the used part of its present slice is included here.
    pub held: Budget,
    /// Budget that is known to be used up. A task reports its use when it draws more, and when it
    /// ends. So this lags behind by at most one [`slice`](crate::NurseryOpts::slice) for each
    /// running task (10 000 ops by default). A task that has a nursery open reports when it leaves
    /// the nursery. Memory is spent when the task ends: until then it may be freed.
    pub spent: Budget,
    /// The number of tasks that wait for a recharge, here or in a nursery below that draws on this
    /// one. A task that was cancelled, or recharged below, counts until it runs again.
    pub suspended: usize,
}

/// A task that waits for a recharge, and the resource that it needs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Suspended {
    /// The task.
    pub task: TaskInfo,
    /// The resource that is used up.
    pub resource: Resource,
}

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, out of {}", self.task, self.resource)
    }
}
