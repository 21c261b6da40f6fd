//! Names and slots: how tenants are opened, closed and opened again.

use super::rules::{DecidedBy, TenantRules, TenantWish};
use super::table::{ChargeUnit, TenantTable, boxed};
use crate::base::error::ShareRefused;
use crate::base::shim::atomic::Ordering;
use crate::sched::task::TenantIndex;
use parcae_core::fair::{MAX_DEPTH, Weight};
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The share that a nursery asks for.
#[derive(Debug, Clone)]
pub(crate) struct TenantRequest {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) parent: TenantIndex,
    pub(crate) wish: TenantWish,
}

/// Names of tenants, by slot.
pub(super) struct TenantRegistry {
    pub(super) entries: Box<[TenantEntry]>,
    /// The rules of a policy, if there is one.
    pub(super) rules: Option<TenantRules>,
    /// Slots that are closed, the one that was closed first in front.
    closed: VecDeque<u16>,
    /// Slots from here on were never used.
    fresh: usize,
    identities: u32,
}

/// One slot.
#[derive(Default)]
pub(super) struct TenantEntry {
    pub(super) name: Option<Arc<str>>,
    parent: usize,
    /// The identity of the parent when it was opened.
    within: u32,
    depth: u32,
    /// Open nurseries.
    pub(super) open: u32,
    /// The wishes of the nursery that was opened last.
    pub(super) wish: TenantWish,
    /// The origin of its weight and latency.
    pub(super) by: DecidedBy,
}

impl TenantEntry {
    /// The slot of its parent.
    pub(super) fn parent(&self) -> usize {
        self.parent
    }
}

impl TenantRegistry {
    pub(super) fn new(tenants: usize) -> Option<TenantRegistry> {
        let mut closed = VecDeque::new();
        closed.try_reserve_exact(tenants).ok()?;
        let entries = boxed(tenants + 1, TenantEntry::default)?;
        Some(TenantRegistry { entries, rules: None, closed, fresh: 1, identities: 0 })
    }

    /// Slots that were ever used, the default entity among them.
    pub(super) fn used(&self) -> usize {
        self.fresh
    }

    /// The slot of a tenant of this name, open or closed.
    fn find(&self, name: &Arc<str>, parent: usize, within: u32) -> Option<usize> {
        (1..self.fresh).find(|&slot| {
            let entry = &self.entries[slot];
            entry.parent == parent
                && entry.within == within
                && entry.name.as_ref().is_some_and(|its| its == name)
        })
    }

    /// A slot for a new tenant.
    fn take(&mut self) -> Option<usize> {
        if self.fresh < self.entries.len() {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.closed.pop_front().map(usize::from)
    }
}

impl TenantTable {
    fn registry(&self) -> MutexGuard<'_, TenantRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a tenant, or joins the open one of the same name and parent.
    pub(in crate::sched::run_queue) fn open(
        &self,
        request: TenantRequest,
    ) -> Result<TenantIndex, ShareRefused> {
        let TenantRequest { name, parent, wish } = request;
        if self.charges.slice(wish.latency.unwrap_or_default()).is_none() {
            let limits = self.charges.limits();
            return Err(ShareRefused::Slice { min: limits.min_slice, max: limits.max_slice });
        }
        let mut registry = self.registry();
        let parent = parent.get();
        // Relaxed, here and below: written under this lock.
        let within = self.slots[parent].identity.load(Ordering::Relaxed);
        let depth = registry.entries[parent].depth + 1;
        if depth > MAX_DEPTH {
            return Err(ShareRefused::TooDeep { max_depth: MAX_DEPTH });
        }
        let known = name.as_ref().and_then(|name| registry.find(name, parent, within));
        let slot = match known {
            Some(slot) => {
                if registry.entries[slot].open == 0 {
                    registry.closed.retain(|&closed| usize::from(closed) != slot);
                }
                slot
            }
            None => {
                let max_tenants = self.slots.len() - 1;
                let slot = registry.take().ok_or(ShareRefused::Full { max_tenants })?;
                registry.identities = registry.identities.wrapping_add(1).max(1);
                let identity = registry.identities;
                let (open, by) = (0, DecidedBy::default());
                registry.entries[slot] =
                    TenantEntry { name, parent, within, depth, open, wish, by };
                self.slots[slot].account.reset();
                self.slots[slot].parent.store(parent as u32, Ordering::Relaxed); // as above
                self.slots[slot].identity.store(identity, Ordering::Relaxed); // as above
                slot
            }
        };
        registry.entries[slot].open += 1;
        registry.entries[slot].wish = wish;
        self.settle(&mut registry, slot);
        self.keep_floor(&mut registry);
        self.use_slot(slot);
        self.changed();
        Ok(TenantIndex::new(slot))
    }

    /// A nursery of this tenant has ended.
    pub(in crate::sched::run_queue) fn close(&self, tenant: TenantIndex) {
        let mut registry = self.registry();
        let entry = &mut registry.entries[tenant.get()];
        entry.open -= 1;
        if entry.open == 0 {
            registry.closed.push_back(tenant.get() as u16);
        }
    }

    /// Changes the weight of an open tenant.
    pub(in crate::sched::run_queue) fn reweight(&self, tenant: TenantIndex, weight: Weight) {
        let mut registry = self.registry();
        registry.entries[tenant.get()].wish.weight = Some(weight);
        self.settle(&mut registry, tenant.get());
        self.keep_floor(&mut registry);
        self.changed();
    }
}

/// The unit of charges of a scheduler.
pub(in crate::sched::run_queue) fn unit(deterministic: bool) -> ChargeUnit {
    if deterministic { ChargeUnit::Ops } else { ChargeUnit::Nanos }
}
