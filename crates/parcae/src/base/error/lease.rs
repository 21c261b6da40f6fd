//! Refusals of leases.

use parcae_core::lease::Refused;
use std::fmt;

/// Why a worker was not leased, or a lease is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseRefused {
    /// The contexts are on different workers. One lease covers one worker.
    Apart {
        /// The worker of the first context.
        worker: usize,
        /// That of another one.
        other: usize,
    },
    /// Contexts that the lease does not name are on the worker.
    Occupied {
        /// Which worker.
        worker: usize,
        /// How many contexts.
        contexts: usize,
    },
    /// A context was revoked.
    Revoked,
    /// A context was admitted by another runtime.
    Foreign,
    /// The worker still has tasks of others, which began there and cannot move.
    Busy {
        /// Which worker.
        worker: usize,
        /// How many tasks.
        tasks: u32,
    },
    /// Descriptors are registered with the worker, so it looks for events of the network.
    Descriptors {
        /// Which worker.
        worker: usize,
    },
    /// The worker has not taken notice of the lease yet.
    Unanswered {
        /// Which worker.
        worker: usize,
    },
    /// A required property of the lease could not be verified.
    Unproven(LeaseFact),
    /// The lease has ended: it was released, revoked, or taken by force.
    Ended,
    /// The rules of leases forbid it: the worker is leased, none would be left for housekeeping,
    /// the owner could not be moved off in time.
    Rules(Refused),
}

/// A property of a worker that was leased; see [`LeaseProof`](crate::policy::LeaseProof).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseFact {
    /// No task of others is on the worker, and none comes.
    Tasks,
    /// No deadlines of other workers are acted on there.
    Timers,
    /// No descriptors are registered there.
    Network,
    /// The monitor neither looks at the worker nor sends signals to it.
    Monitor,
    /// Another worker is left for everything else.
    Housekeeping,
    /// The work there is charged to an admitted context.
    Account,
    /// The owner can be moved off in time.
    Latency,
    /// The worker's thread runs on one processor alone, and no other thread of a runtime does.
    Affinity,
    /// The kernel places no threads of other programs on that processor.
    Isolated,
    /// The kernel stops its clock tick on that processor.
    Tickless,
    /// The processor shares its core with no other one.
    Core,
    /// Interrupts of devices are kept off the processor.
    Interrupts,
    /// The thread goes before all others of the usual policy.
    Priority,
}

impl fmt::Display for LeaseFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LeaseFact::Tasks => "no tasks of others",
            LeaseFact::Timers => "no timers of others",
            LeaseFact::Network => "no descriptors",
            LeaseFact::Monitor => "no monitoring",
            LeaseFact::Housekeeping => "housekeeping elsewhere",
            LeaseFact::Account => "charged to a context",
            LeaseFact::Latency => "revoked in time",
            LeaseFact::Affinity => "processor for itself",
            LeaseFact::Isolated => "isolated by the kernel",
            LeaseFact::Tickless => "no clock tick",
            LeaseFact::Core => "core for itself",
            LeaseFact::Interrupts => "no interrupts",
            LeaseFact::Priority => "realtime priority",
        })
    }
}

impl fmt::Display for LeaseRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseRefused::Apart { worker, other } => write!(
                f,
                "the contexts are on the workers {worker} and {other}: admit them on one worker by \
                 `ContextOpts::workers`, or take two leases"
            ),
            LeaseRefused::Occupied { worker, contexts } => write!(
                f,
                "{contexts} other contexts are on worker {worker}: name them in the lease, or \
                 revoke them"
            ),
            LeaseRefused::Revoked => {
                f.write_str("a context of the lease was revoked: ask for admission again")
            }
            LeaseRefused::Foreign => f.write_str(
                "a context is of another runtime: use those that this runtime has admitted",
            ),
            LeaseRefused::Busy { worker, tasks } => write!(
                f,
                "{tasks} tasks of others began on worker {worker} and have not ended: take the \
                 lease before they start, or wait longer"
            ),
            LeaseRefused::Descriptors { worker } => write!(
                f,
                "sockets are registered with worker {worker}: take the lease before they are \
                 opened, or close them"
            ),
            LeaseRefused::Unanswered { worker } => write!(
                f,
                "worker {worker} has not come to a checkpoint since the lease was granted: wait \
                 longer"
            ),
            LeaseRefused::Unproven(fact) => write!(
                f,
                "\"{fact}\" could not be verified, and the lease requires it: set up the machine \
                 for it, or do not require it"
            ),
            LeaseRefused::Ended => f.write_str("the lease has ended: ask for another"),
            LeaseRefused::Rules(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for LeaseRefused {}
