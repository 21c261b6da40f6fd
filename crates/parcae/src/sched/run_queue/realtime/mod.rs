//! Scheduling contexts: tasks that run on time that was admitted, before all others and no longer
//! than that.
//!
//! # Structure
//!
//! ```text
//! scheduler   RealtimeTable   admission, one at a time; the worker of each context
//! worker k    ContextTable    under a lock: the contexts of worker k (parcae-core), their jobs,
//!                             events and waiters
//!             RealtimeWorker  of the thread of worker k alone: ready tasks of each context,
//!                             the context that runs
//! ```
//!
//! A context is a budget in each period with a deadline, made by admission on one worker and never
//! moved. Tasks are bound to it when they are spawned ([`Binding`](crate::sched::task::Binding)):
//! one task, or all of a nursery and of the nurseries inside. They start on the worker of the
//! context, are never stolen, and take turns in the order in which they became ready.
//!
//! # Order
//!
//! A pick looks here first. Of the contexts with ready tasks and with budget, the one in the
//! highest band goes first, and within a band that with the earliest deadline. Only then come the
//! tenants, or the queues of `run_queue`. There are at most [`PER_WORKER`] contexts on a worker,
//! and the pick looks at those that have ready tasks, one by one. Admission leaves a part of each
//! worker to the others ([`capacity`]), so they are not starved by contexts that keep to their
//! budgets; and all are made to.
//!
//! # A task runs on budget or not at all
//!
//! | the context | its tasks |
//! |---|---|
//! | has budget | run |
//! | is depleted | stay in their chain; a timer of the worker tells when there is budget again |
//! | was revoked | were cancelled by the owner of the capability; run as tasks without a context, to their ends |
//!
//! A context is started when one of its tasks is picked and stopped when that task leaves its stack
//! or ends. The time in between is charged, once, to this context, also beyond its budget; the
//! tenant in whose turn it ran is not charged for it. If the context has no ready task then, it is
//! *blocked*: under [`Refill::PerJob`](parcae_core::context::Refill) its job has ended.
//!
//! # Preemption
//!
//! On threads the thread of `timers::signals` raises the signal of the running task at the end of
//! the budget and at the worker's next deadline, and a wake on another thread raises it at once.
//! The next checkpoint looks ([`RunQueue::look_up`](super::RunQueue)): budget used up, a context
//! that is more urgent, deadlines that have passed.
//!
//! # Under the deterministic executor
//!
//! An op takes a step of virtual time as soon as there is a context, besides the step of each
//! dispatch. So budgets are ops, and every schedule repeats. No other thread could raise a signal
//! in time: instead every dispatched task takes the slow path at its first checkpoint, where its
//! turn is cut to the next deadline or the end of its budget. With several virtual workers time
//! passes for all while one of them runs, as if they shared a processor; admission does not know
//! that.
//!
//! # Jobs
//!
//! A periodic task calls for its next job. The first job was released when the context last became
//! ready, the others a period apart from it, whatever the timers did: the context is told the time
//! of the release, not of the wake-up, so lateness of timers does not add up
//! ([`RealtimeWorker::release`]).
//!
//! # Calls
//!
//! A task on a context lends it to the task that answers its call: see `loan`.
//!
//! # Who owns what
//!
//! The lock of a [`ContextTable`](table::ContextTable) is held for a few operations, by its worker
//! and by threads that admit, revoke or ask. No task is woken and nothing is freed under it. A slot
//! is given out by admission and taken back when the last reference to the capability is gone;
//! bound tasks hold one, so a slot never has tasks of two contexts.

mod lease;
mod loan;
mod local;
mod pick;
mod seal;
mod table;

pub(crate) use lease::LeaseTerms;
pub(crate) use loan::{ContextLoan, NotLent};
pub(crate) use local::LookUp;
pub(crate) use seal::{Seal, SealFigures};
pub(crate) use table::{ContextFigures, ContextNotice, JobPlan, RealtimeTable};

use crate::base::time::Nanos;
use crate::sched::timers::STEP;
use lease::LeaseTable;
use local::RealtimeWorker;
use parcae_core::admission::Capacity;

/// The most contexts of one worker.
const PER_WORKER: usize = 32;
/// The part of each worker that contexts may promise, in millionths. The rest is left to others.
const SHARE: u32 = 900_000;
/// The cost of a dispatch on threads: a pick with two readings of the clock, and a switch.
const DISPATCH: Nanos = 1_000;

/// The capacity of a worker for contexts.
fn capacity(deterministic: bool) -> Capacity {
    Capacity {
        share: SHARE,
        // A deadline is met by the next step of the executor; on threads, see `check_distance`.
        delay: if deterministic { 2 * STEP } else { 0 },
        dispatch: if deterministic { STEP } else { DISPATCH },
        ..Capacity::default()
    }
}
