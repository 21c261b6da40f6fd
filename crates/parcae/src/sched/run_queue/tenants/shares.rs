//! Figures of tenants: the share that each is wanted to have, could have, and got.
//!
//! - *wanted*: its weight among the open tenants of its parent, times the share of the parent;
//! - *feasible*: the same, with no tenant above the number of workers that have a ready task of it.
//!   Shares that exceed this are cut, and the rest goes to the others by weight (water-filling);
//! - *got*: its part of all charges of the last window.
//!
//! All three are fractions of the workers' time while they work. The figures of a tenant include
//! those of the tenants inside of it.

use super::DEFAULT;
use super::rules::{DecidedBy, TenantWish};
use super::table::{ChargeUnit, TenantAccount, TenantTable, boxed};
use super::upkeep::UpkeepReading;
use crate::base::shim::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Charges of all workers in a window: 100 ms of one worker, or as many ops as in about 2 ms.
const WINDOW_NANOS: u64 = 100_000_000;
const WINDOW_OPS: u64 = 1 << 20;

/// One tenant at a moment.
#[derive(Debug, Clone)]
pub(crate) struct TenantReading {
    /// `None` for the default entity.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) index: usize,
    /// The index of its parent; 0 if it has none.
    pub(crate) parent: usize,
    pub(crate) weight: u32,
    /// The length of its requests, in the unit of the scheduler.
    pub(crate) slice: u32,
    /// Its address, if it and all around it have names.
    pub(crate) path: Option<String>,
    pub(crate) wish: TenantWish,
    /// The origin of weight and slice.
    pub(crate) by: DecidedBy,
    /// Open nurseries.
    pub(crate) open: u32,
    /// Tasks that any worker may take.
    pub(crate) waiting: u32,
    /// Its own charge, in the unit of the scheduler, and in ops.
    pub(crate) charged: u64,
    pub(crate) ops: u64,
    pub(crate) turns: u64,
    pub(crate) preempted: u64,
    /// Blocking calls that have ended, and their time in nanoseconds.
    pub(crate) calls: u64,
    pub(crate) blocked: u64,
    pub(crate) wanted: f64,
    pub(crate) feasible: f64,
    pub(crate) got: f64,
}

/// All tenants at a moment, the default entity first.
#[derive(Debug, Clone)]
pub(crate) struct TenantShares {
    /// Whether charges are nanoseconds; ops otherwise.
    pub(crate) in_nanos: bool,
    pub(crate) tenants: Vec<TenantReading>,
    /// Timers, polls and the monitor.
    pub(crate) upkeep: [UpkeepReading; 3],
}

impl TenantAccount {
    pub(super) fn add(&self, charge: u64, ops: u64, preempted: bool) {
        // Relaxed, all: see the type.
        self.charged.fetch_add(charge, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed); // as above
        self.turns.fetch_add(1, Ordering::Relaxed); // as above
        if preempted {
            self.preempted.fetch_add(1, Ordering::Relaxed); // as above
        }
    }

    /// Begins anew, for another tenant.
    pub(super) fn reset(&self) {
        self.owners.fetch_add(1, Ordering::Relaxed); // see `BlockingAccount::charge`
        let TenantAccount { charged, ops, turns, preempted, calls, blocked, .. } = self;
        for counter in [charged, ops, turns, preempted, calls, blocked] {
            counter.store(0, Ordering::Relaxed); // see the type
        }
    }
}

/// The window in which charges are compared.
pub(super) struct ShareWindow {
    /// The charges at its beginning.
    since: Box<[u64]>,
    /// The part of each tenant in the last window that has ended.
    got: Box<[f64]>,
    ended: bool,
}

impl ShareWindow {
    pub(super) fn new(tenants: usize) -> Option<ShareWindow> {
        let (since, got) = (boxed(tenants + 1, || 0)?, boxed(tenants + 1, || 0.0)?);
        Some(ShareWindow { since, got, ended: false })
    }

    /// The part of each tenant, given the charges so far.
    fn parts(&mut self, charged: &[u64], window: u64) -> Vec<f64> {
        // A slot that another tenant has taken begins at 0 again.
        let since = |at: usize| charged[at].checked_sub(self.since[at]).unwrap_or(charged[at]);
        let total: u64 = (0..charged.len()).map(since).sum();
        let part = |at: usize| if total == 0 { 0.0 } else { since(at) as f64 / total as f64 };
        let parts: Vec<f64> = (0..charged.len()).map(part).collect();
        if total >= window {
            self.since[..charged.len()].copy_from_slice(charged);
            self.got[..charged.len()].copy_from_slice(&parts);
            self.ended = true;
            return parts;
        }
        if self.ended { self.got[..charged.len()].to_vec() } else { parts }
    }
}

/// Divides `whole` by weight among members with bounds: no member gets more than its bound, and the
/// rest goes to the others.
pub(super) fn fill(whole: f64, members: &[(f64, f64)]) -> Vec<f64> {
    let mut parts = vec![0.0; members.len()];
    let mut open: Vec<usize> = (0..members.len()).collect();
    let mut left = whole;
    loop {
        let weights: f64 = open.iter().map(|&at| members[at].0).sum();
        let over = |at: usize| left * members[at].0 / weights > members[at].1;
        let (cut, free): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&at| over(at));
        if cut.is_empty() {
            for &at in &free {
                parts[at] = left * members[at].0 / weights;
            }
            return parts;
        }
        for &at in &cut {
            parts[at] = members[at].1;
            left -= members[at].1;
        }
        open = free;
        if open.is_empty() {
            return parts;
        }
    }
}

impl TenantTable {
    /// The figures of all tenants that are open, or have used time. `workers`: how many there are.
    pub(in crate::sched::run_queue) fn read(&self, workers: usize) -> TenantShares {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let used = registry.used();
        let get = |at: usize| {
            let (slot, entry) = (&self.slots[at], &registry.entries[at]);
            let account = &slot.account;
            TenantReading {
                name: entry.name.clone(),
                index: at,
                // Relaxed, here and below: under the lock of the registry, or statistics.
                parent: slot.parent.load(Ordering::Relaxed) as usize,
                weight: slot.weight.load(Ordering::Relaxed),
                slice: slot.slice.load(Ordering::Relaxed), // as above
                path: registry.path(at),
                wish: entry.wish,
                by: entry.by,
                open: if at == DEFAULT { 1 } else { entry.open },
                waiting: slot.queue.waiting(),
                charged: account.charged.load(Ordering::Relaxed), // as above
                ops: account.ops.load(Ordering::Relaxed),         // as above
                turns: account.turns.load(Ordering::Relaxed),     // as above
                preempted: account.preempted.load(Ordering::Relaxed), // as above
                calls: account.calls.load(Ordering::Relaxed),     // as above
                blocked: account.blocked.load(Ordering::Relaxed), // as above
                wanted: 0.0,
                feasible: 0.0,
                got: 0.0,
            }
        };
        let mut all: Vec<TenantReading> = (0..used).map(get).collect();
        drop(registry);
        let window = match self.charges {
            ChargeUnit::Ops => WINDOW_OPS,
            ChargeUnit::Nanos => WINDOW_NANOS,
        };
        let charged: Vec<u64> = all.iter().map(|tenant| tenant.charged).collect();
        let mut got =
            self.window.lock().unwrap_or_else(PoisonError::into_inner).parts(&charged, window);
        let mut bounds: Vec<f64> =
            (0..used).map(|at| self.busy_workers(at, workers) as f64 / workers as f64).collect();
        // A tenant is opened after its parent, but may have a lower slot: inwards to outwards.
        let mut inner = (1..used).collect::<Vec<_>>();
        inner.sort_unstable_by_key(|&at| std::cmp::Reverse(depth(&all, at)));
        for &at in inner.iter().filter(|&&at| all[at].parent != DEFAULT) {
            got[all[at].parent] += got[at];
            bounds[all[at].parent] = (bounds[all[at].parent] + bounds[at]).min(1.0);
        }
        for (tenant, got) in all.iter_mut().zip(got) {
            tenant.got = got;
        }
        divide(&mut all, &bounds, DEFAULT, 1.0, 1.0);
        all.retain(|tenant| tenant.open > 0 || tenant.turns > 0);
        let in_nanos = self.charges == ChargeUnit::Nanos;
        TenantShares { in_nanos, tenants: all, upkeep: self.upkeep.read() }
    }
}

fn depth(all: &[TenantReading], mut at: usize) -> usize {
    let mut depth = 0;
    while at != DEFAULT {
        at = all[at].parent;
        depth += 1;
    }
    depth
}

/// Divides the share of a parent among its open children; those of the root compete with the
/// default entity.
fn divide(all: &mut [TenantReading], bounds: &[f64], parent: usize, wanted: f64, feasible: f64) {
    let is_child = |at: usize| at != DEFAULT && all[at].parent == parent && all[at].open > 0;
    let mut children: Vec<usize> = (0..all.len()).filter(|&at| is_child(at)).collect();
    let inner = children.clone();
    // The tasks of the parent itself compete with the tenants inside of it.
    children.push(parent);
    let normal = f64::from(parcae_core::fair::Weight::NORMAL.get());
    let weight = |at: usize| if at == parent { normal } else { f64::from(all[at].weight) };
    let members: Vec<(f64, f64)> = children.iter().map(|&at| (weight(at), bounds[at])).collect();
    let total: f64 = members.iter().map(|member| member.0).sum();
    let parts = fill(feasible, &members);
    for ((&at, member), part) in children.iter().zip(&members).zip(parts) {
        if at != parent || parent == DEFAULT {
            all[at].wanted = wanted * member.0 / total;
            all[at].feasible = part;
        }
    }
    for at in inner {
        divide(all, bounds, at, all[at].wanted, all[at].feasible);
    }
}
