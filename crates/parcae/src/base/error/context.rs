//! Refusals of scheduling contexts.

use parcae_core::admission::Rejected;
use parcae_core::context::BadParams;
use std::fmt;
use std::time::Duration;

/// Why a scheduling context was not admitted, or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextRefused {
    /// The terms make no sense by themselves.
    Terms(BadParams),
    /// No worker can guarantee the budget beside those that it has promised. Times are in
    /// nanoseconds.
    Rejected(Rejected),
    /// There are as many contexts as the runtime, or a worker, can have.
    Full {
        /// How many that is.
        most: usize,
    },
    /// The policy in force does not allow it.
    Policy {
        /// The rule.
        rule: &'static str,
        /// The value.
        asked: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// All workers that admission may choose from are leased.
    Leased,
    /// The capability was revoked.
    Revoked,
    /// The capability was minted by another runtime.
    Foreign,
    /// The task runs on no context.
    NoContext,
    /// A root task cannot be bound to a context.
    Root,
    /// The context cannot be lent for a call: less budget is left than the call may use.
    BelowMinimum {
        /// The rest of the present budget.
        left: Duration,
        /// The requirement of the server.
        needed: Duration,
    },
}

impl fmt::Display for ContextRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextRefused::Terms(terms) => write!(f, "the context was refused: {terms}"),
            ContextRefused::Rejected(rejected) => {
                write!(f, "the context was not admitted: {rejected}")
            }
            ContextRefused::Full { most } => write!(
                f,
                "there are {most} contexts already, and room for no more: drop one, or let several \
                 tasks share one"
            ),
            ContextRefused::Policy { rule, asked, most } => write!(
                f,
                "the policy in force does not allow the context: {rule} is {asked}, and {most} is \
                 the most: ask for less, or ask the operator"
            ),
            ContextRefused::Leased => f.write_str(
                "all workers that admission may choose from are leased: admit the context before \
                 the lease is taken, and name it there, or allow other workers",
            ),
            ContextRefused::Revoked => {
                f.write_str("the context was revoked: ask for admission again")
            }
            ContextRefused::Foreign => f.write_str(
                "the context is of another runtime: use one that this runtime has admitted",
            ),
            ContextRefused::NoContext => f.write_str(
                "the task runs on no context: spawn it with `SpawnOpts::context`, or in a nursery \
                 with `NurseryOpts::context`",
            ),
            ContextRefused::BelowMinimum { left, needed } => write!(
                f,
                "the context has {left:?} left, and the call may use {needed:?}: call after the next \
                 release, or with a larger budget"
            ),
            ContextRefused::Root => f.write_str(
                "a root task cannot be bound to a context: spawn a task of a nursery on it",
            ),
        }
    }
}

impl std::error::Error for ContextRefused {}
