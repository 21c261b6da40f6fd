//! The picture of a runtime that a policy decides by.

use crate::sched::Shared;
use crate::sched::run_queue::{DecidedBy, Suggestion, TenantReading};
use parcae_core::fair::{Params, Weight};
use parcae_core::policy::{Hint, Source};
use std::time::Duration;

/// A runtime at a moment, for a policy service.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PolicyView {
    /// Identifies the runtime, and this run of it.
    pub nonce: u64,
    /// The number of the view. Decisions name it.
    pub sequence: u64,
    /// Time since the runtime was built; virtual under the deterministic executor.
    pub at: Duration,
    /// The epoch of the last decision that was accepted; 0 if none was.
    pub epoch: u64,
    /// Whether that decision is in force.
    pub source: Source,
    /// Number of workers.
    pub workers: u32,
    /// Parameters of each kind of work, in the order of [`Hint::ALL`].
    pub profiles: [Params; Hint::ALL.len()],
    /// The least and the greatest weight that are allowed.
    pub weights: (Weight, Weight),
    /// The tenants.
    pub tenants: Vec<TenantView>,
    /// The part of each worker that is promised to contexts, in thousandths.
    pub promised: Vec<u16>,
    /// Number of contexts that the rules have refused.
    pub refused_contexts: u64,
}

/// A tenant, in a [`PolicyView`]. Shares are fractions of the time of all workers, and include
/// those of tenants inside.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TenantView {
    /// Its address: the names from the outermost tenant to it, with `/` between them. `None` if it
    /// or a tenant around it has no name.
    pub path: Option<String>,
    /// Its number, as in [`stats`](crate::stats).
    pub number: u32,
    /// Its weight in force.
    pub weight: u32,
    /// The length of its requests in force: nanoseconds, or ops under the deterministic executor.
    pub slice: u32,
    /// The origin of weight and slice.
    pub by: DecidedBy,
    /// The weight that its program has asked for.
    pub asked: Option<Weight>,
    /// The kind of its work.
    pub hint: Option<Hint>,
    /// The suggestion of a coordinator.
    pub suggestion: Option<Suggestion>,
    /// Open nurseries.
    pub open: u32,
    /// Tasks that wait for any worker.
    pub queued: u32,
    /// Its own charge so far: nanoseconds, or ops under the deterministic executor.
    pub charged: u64,
    /// The share that its weight stands for.
    pub wanted: f64,
    /// The share that it could have.
    pub feasible: f64,
    /// The share that it got.
    pub got: f64,
}

impl TenantView {
    fn of(tenant: TenantReading) -> TenantView {
        TenantView {
            path: tenant.path,
            number: u32::try_from(tenant.index).unwrap_or(u32::MAX),
            weight: tenant.weight,
            slice: tenant.slice,
            by: tenant.by,
            asked: tenant.wish.weight,
            hint: tenant.wish.hint,
            suggestion: tenant.wish.suggestion,
            open: tenant.open,
            queued: tenant.waiting,
            charged: tenant.charged,
            wanted: tenant.wanted,
            feasible: tenant.feasible,
            got: tenant.got,
        }
    }
}

/// The tenants of a scheduler, without the default entity.
pub(super) fn tenants_of(shared: &Shared) -> Vec<TenantView> {
    let read = shared.queues.read_tenants(shared.config.workers);
    let all = read.map_or_else(Vec::new, |read| read.tenants);
    all.into_iter().filter(|tenant| tenant.index != 0).map(TenantView::of).collect()
}

/// The part of each worker that is promised to contexts.
pub(super) fn promised_of(shared: &Shared) -> Vec<u16> {
    let promised = shared.queues.promised(shared.config.workers);
    promised.into_iter().map(|part| u16::try_from(part).unwrap_or(u16::MAX)).collect()
}
