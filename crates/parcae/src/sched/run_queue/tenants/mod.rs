//! Tenants: nurseries with a share of the processors, and the run queues that keep the shares.
//!
//! # Structure
//!
//! ```text
//! scheduler   TenantTable   slot 0: all tasks without a share (the default entity)
//!                           slot i: name, parent, weight, slice, account,
//!                                   TenantQueue: tasks that any worker may run, by priority
//! worker k    FairWorker    FairQueue over the tenants that it has met (EEVDF, parcae-core)
//!                           per tenant: chains of started tasks that only worker k may run
//!                           the turn of the tenant that runs
//! ```
//!
//! A tenant is a group of the fair queue with one leaf: its own tasks. Tenants that are opened by
//! its tasks are further members of that group, so a tenant that splits into a hundred nurseries
//! with shares divides its own share. The default entity is a leaf of the root with the normal
//! weight; its tasks are in the queues of `run_queue`, which know nothing of tenants.
//!
//! # Where a task waits
//!
//! | task | queue |
//! |---|---|
//! | of no tenant | as `run_queue` says |
//! | of a tenant, unstarted or movable | the tenant's `TenantQueue`: every worker may take it |
//! | of a tenant, started and pinned to worker k | the tenant's chain on worker k |
//! | the same, woken on another thread | `inbox_pinned` of worker k, then the same chain |
//! | the same, yielded or put back by a guard | `pinned` at its lane, then the same chain |
//!
//! The lane of a task (`task::Lane`) tells tenants' tasks from others by a comparison that the
//! queues make anyway. So a scheduler without tenants executes no instruction for them: a push with
//! a lane above Normal and a pick while `RunQueues::is_special` are calls of cold functions. The
//! group of a task names its tenant. The group outlives the task, and the slot of the tenant stays
//! taken as long as the nursery that opened it.
//!
//! # Turns
//!
//! A worker runs a tenant for a *turn*: several tasks, first in, first out within a priority, until
//! the request of the tenant is served, it has no task left here, or a tenant that preempts was
//! woken. Only then the fair queue picks again, and the turn is charged to the tenant and to all
//! groups around it. Nothing of a tenant runs outside of its turns: there is no LIFO slot for its
//! tasks, and a hand-over of the processor to a task of another tenant goes through the fair queue.
//!
//! The length of a turn is measured in ops, which tasks count anyway; each run of a task counts for
//! [`LEAST_RUN`] ops at least. The charge is
//!
//! - under the deterministic executor: the ops. Every schedule repeats;
//! - on threads: the time on the clock, read once at the end of a turn, which is the beginning of
//!   the next one. A turn ends when the ops, converted by the tenant's own rate of the last turns,
//!   reach the request; every [`CLOCK_INTERVAL`] picks the clock is asked as well, or at every pick
//!   if the program chooses so ([`Charging`]). So wrong rates make turns longer or shorter, and do
//!   not change a share. Timers, polls and the monitor have accounts of their own ([`upkeep`]).
//!
//! The turn of a task (`scope::cx::frame`) is cut to the rest of its tenant's turn. A wake that
//! preempts raises the signal of the running task, whose next checkpoint yields.
//!
//! # Several workers
//!
//! Each worker keeps shares by itself, among the tenants with tasks on it. So that a tenant with
//! ready tasks on several workers does not have its share on each, its weight on a worker is a part
//! of the whole: by the number of its tasks that were ready there when its last turn ended, of all
//! that were on all workers. Workers publish these numbers at the end of a turn, and every
//! [`DEMAND_INTERVAL`](local) picks of the fair queue they adopt those of the others. Started tasks
//! stay where they are, so not every share is feasible: `shares` computes which are.
//!
//! # Idle workers
//!
//! The last look before sleep (`RunQueues::has_work`) asks the `TenantQueue` of every slot that
//! was ever used: an earlier push is seen. Chains of started tasks have one user, as `pinned`: a
//! pick that returns none has found them empty, because a tenant with a task in a chain is awake in
//! the fair queue. It is woken there whenever a task is added to its chain, and put to sleep only
//! when a pick of this worker has found the chains and the queue of the tenant empty.
//!
//! # Opening and closing
//!
//! Slots are given out under a lock ([`registry`]). A nursery with the name of an open tenant of
//! the same parent joins that tenant. A slot keeps its identity after it was closed: a tenant that
//! is opened again under its name finds its entity on every worker, with the debt that it left.
//! Only when no unused slot is left, the one that was closed first gets another identity; a worker
//! that meets the new identity removes the old entity, whose debt lingers without an owner.
//!
//! # Who owns what
//!
//! [`FairWorker`] is used by the thread of its worker alone. Slots are written under the lock of
//! the registry, before the first task of the tenant is queued: workers that take such a task see
//! them. Weights and slices may change later; `changes` tells workers, which adopt them at the end
//! of a turn, all at once ([`rules`]).

mod local;
mod pick;
mod registry;
mod rules;
mod shares;
mod table;
mod upkeep;

pub(crate) use registry::TenantRequest;
pub(super) use registry::unit;
pub use rules::{DecidedBy, Suggestion};
pub(crate) use rules::{TenantRule, TenantRules, TenantWish};
pub(crate) use shares::{TenantReading, TenantShares};
pub use table::Charging;
pub(crate) use table::TenantTable;
pub(crate) use upkeep::{BlockingAccount, UpkeepKind, UpkeepReading};

use local::FairWorker;

/// Ops that a run of a task costs at least: about the cost of a switch. Otherwise the turn of a
/// tenant whose tasks yield at once would not end.
const LEAST_RUN: u64 = parcae_core::fair::Limits::OPS.min_charge;
/// Picks in a turn between two looks at the clock.
const CLOCK_INTERVAL: u32 = 8;
/// The index of the default entity.
const DEFAULT: usize = 0;
