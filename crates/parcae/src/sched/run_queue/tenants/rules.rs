//! The rules of a policy for tenants: the weight and the latency that each one gets.
//!
//! A nursery asks for a weight, a latency, or names the kind of its work (a [`Hint`]). Its
//! tenant gets what the first of these says that says something:
//!
//! | | decided by |
//! |---|---|
//! | 1 | the rule of the operator for its address |
//! | 2 | the rule of the policy service for its address |
//! | 3 | the program: weight and latency in the options of the nursery |
//! | 4 | the profile of its hint: of the decision in force, or the built-in one |
//! | 5 | the normal weight and latency |
//!
//! A weight is then brought within the bounds of the operator. Last comes the *floor*: the tenant
//! of the operator has at least that part of all weights beside it, whatever the rules say, and the
//! shortest slices. So it is always scheduled, and a policy cannot lock the operator out.
//!
//! # How rules take effect
//!
//! Rules are replaced as a whole: `set_rules` holds the lock of the registry, settles all tenants
//! that are open, and raises `changes` before it gives the lock back. A worker adopts changes at
//! the end of a turn, when the fair queue is about to pick, and only if it gets the lock at once:
//! it copies all weights and slices under it, so it sees the rules before or after a change and
//! never a mixture. If it does not get the lock, the turn that follows is one under the old rules.
//! It never waits. A tenant that a worker meets for the first time has the newest values.
//!
//! # Addresses
//!
//! The address of a tenant is the names from the outermost tenant to itself, with `/` between them:
//! `web/search`. A slash or a backslash inside of a name is written with a backslash before it, so
//! that no tenant can have the address of another one. Tenants without a name have no address, nor
//! have those inside of them.

use super::DEFAULT;
use super::registry::TenantRegistry;
use super::table::TenantTable;
use crate::base::shim::atomic::Ordering;
use parcae_core::fair::{Latency, Params, Weight};
use parcae_core::policy::{Decision, Hint};
use std::sync::{Arc, PoisonError};

/// The wishes of a nursery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TenantWish {
    pub(crate) weight: Option<Weight>,
    pub(crate) latency: Option<Latency>,
    pub(crate) hint: Option<Hint>,
    pub(crate) suggestion: Option<Suggestion>,
}

/// A suggestion of the coordinator of a graph of tasks to the policy. It grants nothing by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Suggestion {
    /// How important the work is, in the coordinator's own scale.
    pub priority: u8,
    /// By when it is to be done, in nanoseconds from now; 0 if there is no deadline.
    pub deadline: u64,
}

/// The origin of a tenant's weight and latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The options of its nursery, or the defaults.
    #[default]
    Program,
    /// The profile of its hint.
    Profile,
    /// A decision of the policy service.
    Service,
    /// The operator.
    Operator,
    /// The floor of the operator's tenant.
    Floor,
}

/// A rule for the tenant at an address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TenantRule {
    pub(crate) path: Arc<str>,
    pub(crate) weight: Option<Weight>,
    pub(crate) latency: Option<Latency>,
}

/// All rules for tenants.
#[derive(Debug, Clone)]
pub(crate) struct TenantRules {
    /// By hint.
    pub(crate) profiles: [Params; Hint::ALL.len()],
    /// Of the operator and of the service, each sorted by address.
    pub(crate) operator: Vec<TenantRule>,
    pub(crate) service: Vec<TenantRule>,
    /// The least and the greatest weight.
    pub(crate) weights: (Weight, Weight),
    /// The address of the operator's tenant, and its least part of all weights, in thousandths.
    pub(crate) floor: Option<(Arc<str>, u16)>,
}

impl TenantRules {
    fn of(rules: &[TenantRule], path: &str) -> Option<TenantRule> {
        let at = rules.binary_search_by(|rule| (*rule.path).cmp(path)).ok()?;
        Some(rules[at].clone())
    }
}

/// The weight and the latency of a tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    weight: Weight,
    latency: Latency,
    by: DecidedBy,
}

/// Decides about a tenant.
fn settle(rules: Option<&TenantRules>, path: Option<&str>, wish: &TenantWish) -> Settled {
    let built_in = &Decision::BUILT_IN.params;
    let profile = wish.hint.map(|hint| rules.map_or(built_in, |r| &r.profiles)[hint as usize]);
    let mut settled = Settled {
        weight: wish.weight.or(profile.map(|params| params.weight)).unwrap_or_default(),
        latency: wish.latency.or(profile.map(|params| params.latency)).unwrap_or_default(),
        by: match profile {
            Some(_) if wish.weight.is_none() || wish.latency.is_none() => DecidedBy::Profile,
            _ => DecidedBy::Program,
        },
    };
    let Some(rules) = rules else { return settled };
    let by_path = [(&rules.service, DecidedBy::Service), (&rules.operator, DecidedBy::Operator)];
    for (table, by) in by_path {
        if let Some(rule) = path.and_then(|path| TenantRules::of(table, path)) {
            settled.weight = rule.weight.unwrap_or(settled.weight);
            settled.latency = rule.latency.unwrap_or(settled.latency);
            settled.by = by;
        }
    }
    settled.weight = settled.weight.clamp(rules.weights.0, rules.weights.1);
    settled
}

/// A name as a part of an address.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('/', "\\/")
}

impl TenantRegistry {
    /// The address of the tenant in a slot.
    pub(super) fn path(&self, slot: usize) -> Option<String> {
        let entry = &self.entries[slot];
        let name = escaped(entry.name.as_ref()?);
        match entry.parent() {
            DEFAULT => Some(name),
            parent => Some(format!("{}/{name}", self.path(parent)?)),
        }
    }
}

impl TenantTable {
    /// Replaces the rules; `None` for those without a policy.
    pub(in crate::sched::run_queue) fn set_rules(&self, rules: Option<TenantRules>) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.rules = rules;
        for slot in 1..registry.used() {
            self.settle(&mut registry, slot);
        }
        self.keep_floor(&mut registry);
        self.changed();
    }

    /// Decides about the tenant in a slot. The caller calls `keep_floor` and `changed` afterwards.
    pub(super) fn settle(&self, registry: &mut TenantRegistry, slot: usize) {
        let path = if registry.rules.is_some() { registry.path(slot) } else { None };
        let settled =
            settle(registry.rules.as_ref(), path.as_deref(), &registry.entries[slot].wish);
        let Settled { weight, latency, by } = settled;
        registry.entries[slot].by = by;
        // Relaxed, both: read under the lock of the registry, or with the push of the tenant's
        // first task, which comes later.
        self.slots[slot].weight.store(weight.get(), Ordering::Relaxed);
        let slice = self.charges.slice(latency).unwrap_or(self.charges.limits().slice as u32);
        self.slots[slot].slice.store(slice, Ordering::Relaxed); // as above
    }

    /// Raises the weight of the operator's tenant to its floor, beside the weights that the others
    /// have now.
    pub(super) fn keep_floor(&self, registry: &mut TenantRegistry) {
        let Some((path, permille)) = registry.rules.as_ref().and_then(|rules| rules.floor.clone())
        else {
            return;
        };
        let is_outer = |slot: &usize| registry.entries[*slot].parent() == DEFAULT;
        let is_open = |slot: &usize| registry.entries[*slot].open > 0;
        let mut outer = (1..registry.used()).filter(is_outer);
        let Some(own) = outer.find(|&slot| registry.path(slot).as_deref() == Some(&*path)) else {
            return;
        };
        let others = (1..registry.used()).filter(is_outer).filter(is_open).filter(|&s| s != own);
        // Relaxed, here and below: written under the lock that is held.
        let weight = |slot: usize| u64::from(self.slots[slot].weight.load(Ordering::Relaxed));
        let beside = u64::from(Weight::NORMAL.get()) + others.map(weight).sum::<u64>();
        let permille = u64::from(permille);
        let least = (beside * permille).div_ceil(1000 - permille.min(999));
        let least = u32::try_from(least).ok().and_then(Weight::new).unwrap_or(Weight::MAX);
        self.settle(registry, own);
        if weight(own) < u64::from(least.get()) {
            self.slots[own].weight.store(least.get(), Ordering::Relaxed); // as above
            registry.entries[own].by = DecidedBy::Floor;
        }
        let shortest = self.charges.limits().min_slice as u32;
        self.slots[own].slice.store(shortest, Ordering::Relaxed); // as above
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::TenantRequest;
    use super::super::table::{ChargeUnit, Charging};
    use super::*;
    use crate::sched::task::TenantIndex;

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).expect("a weight")
    }

    fn rule(path: &str, share: u32) -> TenantRule {
        TenantRule { path: path.into(), weight: Some(weight(share)), latency: None }
    }

    fn rules() -> TenantRules {
        TenantRules {
            profiles: Decision::BUILT_IN.params,
            operator: vec![rule("a", 100), rule("both", 200)],
            service: vec![rule("b/c", 300), rule("both", 400)],
            weights: (weight(64), weight(16_384)),
            floor: None,
        }
    }

    #[test]
    fn the_strongest_rule_decides() {
        let rules = rules();
        let get = |path: &str, wish| {
            let settled = settle(Some(&rules), Some(path), &wish);
            (settled.weight.get(), settled.by)
        };
        let none = TenantWish::default();
        let asks = TenantWish { weight: Some(weight(5_000)), ..none };
        let agent = TenantWish { hint: Some(Hint::Agent), ..none };
        assert_eq!(get("a", asks), (100, DecidedBy::Operator));
        assert_eq!(get("both", asks), (200, DecidedBy::Operator));
        assert_eq!(get("b/c", asks), (300, DecidedBy::Service));
        assert_eq!(get("b", asks), (5_000, DecidedBy::Program));
        assert_eq!(get("b", agent), (512, DecidedBy::Profile));
        assert_eq!(get("b", none), (1_024, DecidedBy::Program));
        let both = TenantWish { weight: Some(weight(77)), ..agent };
        assert_eq!(get("b", both), (77, DecidedBy::Profile)); // the latency is the profile's
        assert_eq!(get("b", TenantWish { weight: Some(Weight::MAX), ..none }).0, 16_384);
        assert_eq!(settle(None, Some("a"), &asks).weight.get(), 5_000);
    }

    #[test]
    fn a_slash_in_a_name_is_no_step_of_an_address() {
        assert_eq!(escaped("a/b"), "a\\/b");
        assert_eq!(escaped("a\\"), "a\\\\");
        let table = TenantTable::new(ChargeUnit::Ops, Charging::Hybrid, 4, 1).expect("memory");
        let open = |name: Option<&str>, parent| {
            let (name, wish) = (name.map(Arc::from), TenantWish::default());
            table.open(TenantRequest { name, parent, wish }).expect("a slot")
        };
        let outer = TenantIndex::DEFAULT;
        let (a, both, unnamed) =
            (open(Some("a"), outer), open(Some("a/b"), outer), open(None, outer));
        let b = open(Some("b"), a);
        let registry = table.registry.lock().expect("it");
        let path = |tenant: TenantIndex| registry.path(tenant.get());
        assert_eq!(path(b).as_deref(), Some("a/b"));
        assert_eq!(path(both).as_deref(), Some("a\\/b"));
        assert_eq!(path(unnamed), None);
    }
}
