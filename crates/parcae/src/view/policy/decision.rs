//! Decisions of a policy: a table of rules, checked as a whole.

use super::PolicyView;
use crate::base::error::PolicyRefused;
use crate::sched::run_queue::TenantRule;
use parcae_core::fair::{Latency, Params, Weight};
use parcae_core::policy::{Bounds, Decision, Hint};
use std::collections::HashSet;
use std::time::Duration;

/// The most rules for tenants, and for named contexts.
pub(super) const MOST_RULES: usize = 1024;
/// The longest address or name, in bytes.
pub(super) const LONGEST_ADDRESS: usize = 512;
/// The part of a worker that contexts may have at most, in thousandths: as much as admission gives.
pub(super) const MOST_PROMISED: u16 = 900;

/// A decision of a policy: all of its rules. The one before it no longer counts.
///
/// ```
/// use parcae::policy::{Hint, PolicyDecision, PolicyOpts, Weight};
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let policy = rt.policy(PolicyOpts::new())?;
/// let seat = policy.seat("my service", None)?;
/// let view = seat.view()?;
/// let heavy = Weight::new(2048).unwrap();
/// seat.decide(PolicyDecision::on(&view).weight("web", heavy))?;
/// assert_eq!(policy.status().epoch, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct PolicyDecision {
    pub(super) nonce: u64,
    pub(super) epoch: u64,
    /// The sequence of the view.
    pub(super) based_on: u64,
    pub(super) profiles: [Params; Hint::ALL.len()],
    /// By address.
    pub(super) tenants: Vec<TenantRule>,
    pub(super) contexts: ContextRules,
}

/// Rules for the admission of scheduling contexts, beside the runtime's own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ContextRules {
    /// The largest part of a worker for one context, in thousandths.
    pub each: u16,
    /// The largest part for all contexts of a worker.
    pub together: u16,
    /// The highest band.
    pub band: u8,
    /// Terms of contexts by name, which replace those that a program asks for by
    /// [`Runtime::admit_as`](crate::Runtime::admit_as).
    pub terms: Vec<(String, ContextTerms)>,
}

impl ContextRules {
    /// No rules of its own: admission decides.
    pub const OPEN: ContextRules = ContextRules {
        each: MOST_PROMISED,
        together: MOST_PROMISED,
        band: u8::MAX,
        terms: Vec::new(),
    };

    /// No context is admitted.
    pub const CLOSED: ContextRules =
        ContextRules { each: 0, together: 0, band: u8::MAX, terms: Vec::new() };
}

impl Default for ContextRules {
    fn default() -> ContextRules {
        ContextRules::OPEN
    }
}

/// Terms of a scheduling context, as a policy chooses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextTerms {
    /// The time in each period.
    pub budget: Duration,
    /// The period.
    pub period: Duration,
    /// By when, after a release.
    pub deadline: Duration,
    /// The criticality.
    pub band: u8,
}

impl PolicyDecision {
    /// A decision that is based on this view, with the built-in profiles and no other rules.
    pub fn on(view: &PolicyView) -> PolicyDecision {
        PolicyDecision {
            nonce: view.nonce,
            epoch: view.epoch.saturating_add(1),
            based_on: view.sequence,
            ..PolicyDecision::rules()
        }
    }

    /// Rules that are based on no view: for [`PolicyDesk::load`](super::PolicyDesk::load).
    pub fn rules() -> PolicyDecision {
        PolicyDecision {
            nonce: 0,
            epoch: 0,
            based_on: 0,
            profiles: Decision::BUILT_IN.params,
            tenants: Vec::new(),
            contexts: ContextRules::OPEN,
        }
    }

    /// Another epoch than the next one.
    pub fn epoch(mut self, epoch: u64) -> PolicyDecision {
        self.epoch = epoch;
        self
    }

    /// Weight and latency of tenants with this hint that name none themselves.
    pub fn profile(mut self, hint: Hint, params: Params) -> PolicyDecision {
        self.profiles[hint as usize] = params;
        self
    }

    /// The weight of the tenant at this address.
    pub fn weight(self, tenant: impl Into<String>, weight: Weight) -> PolicyDecision {
        self.tenant(tenant, Some(weight), None)
    }

    /// The rule for the tenant at this address: `None` leaves what it asks for.
    pub fn tenant(
        mut self,
        tenant: impl Into<String>,
        weight: Option<Weight>,
        latency: Option<Latency>,
    ) -> PolicyDecision {
        self.tenants.push(TenantRule { path: tenant.into().into(), weight, latency });
        self
    }

    /// Rules for contexts.
    pub fn contexts(mut self, rules: ContextRules) -> PolicyDecision {
        self.contexts = rules;
        self
    }

    /// Terms for contexts that a program asks for by this name.
    pub fn context_terms(mut self, name: impl Into<String>, terms: ContextTerms) -> PolicyDecision {
        self.contexts.terms.push((name.into(), terms));
        self
    }

    /// Checks everything that does not depend on the state of the desk.
    pub(super) fn check(&self, bounds: &Bounds) -> Result<(), PolicyRefused> {
        if self.tenants.len() > MOST_RULES || self.contexts.terms.len() > MOST_RULES {
            return Err(PolicyRefused::TooMany { most: MOST_RULES });
        }
        for params in self.profiles {
            check_weight(bounds, params.weight)?;
            check_latency(bounds, params.latency)?;
        }
        let mut seen = HashSet::new();
        for rule in &self.tenants {
            check_address(&rule.path)?;
            if !seen.insert(&*rule.path) {
                return Err(PolicyRefused::Address);
            }
            rule.weight.map_or(Ok(()), |weight| check_weight(bounds, weight))?;
            rule.latency.map_or(Ok(()), |latency| check_latency(bounds, latency))?;
        }
        let ContextRules { each, together, terms, .. } = &self.contexts;
        if *each > MOST_PROMISED || *together > MOST_PROMISED {
            return Err(PolicyRefused::Contexts { most: MOST_PROMISED });
        }
        let mut seen = HashSet::new();
        for (name, _) in terms {
            check_address(name)?;
            if !seen.insert(name) {
                return Err(PolicyRefused::Address);
            }
        }
        Ok(())
    }

    /// Whether it has the same rules, whatever its epoch and its view.
    pub(super) fn is_like(&self, other: &PolicyDecision) -> bool {
        let (own, other) = (self.clone().sorted(), other.clone().sorted());
        own.profiles == other.profiles
            && own.tenants == other.tenants
            && own.contexts == other.contexts
    }

    /// The same rules in the order in which they are searched.
    pub(super) fn sorted(mut self) -> PolicyDecision {
        self.tenants.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self
    }
}

fn check_address(address: &str) -> Result<(), PolicyRefused> {
    if address.is_empty() || address.len() > LONGEST_ADDRESS {
        return Err(PolicyRefused::Address);
    }
    Ok(())
}

fn check_weight(bounds: &Bounds, weight: Weight) -> Result<(), PolicyRefused> {
    let (least, greatest) = bounds.weights;
    if (least..=greatest).contains(&weight) {
        return Ok(());
    }
    let (asked, least, greatest) = (weight.get(), least.get(), greatest.get());
    Err(PolicyRefused::Weight { asked, least, greatest })
}

fn check_latency(bounds: &Bounds, latency: Latency) -> Result<(), PolicyRefused> {
    let (min, max) = (bounds.limits.min_slice, bounds.limits.max_slice);
    match latency {
        Latency::Slice(slice) if !(min..=max).contains(&slice) => {
            Err(PolicyRefused::Slice { min, max })
        }
        _ => Ok(()),
    }
}
