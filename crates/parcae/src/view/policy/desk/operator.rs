//! The desk as the operator uses it, and as contexts are admitted by it.

use super::{Desk, DeskState, MOST_RULES, PolicyEvent, PolicyStatus};
use crate::base::error::{ContextRefused, PolicyRefused};
use crate::sched::run_queue::TenantRule;
use crate::scope::cap::{ContextOpts, PolicyChange};
use crate::view::policy::ContextRules;
use crate::view::policy::decision::PolicyDecision;
use crate::view::policy::view::promised_of;
use parcae_core::fair::{Latency, Weight};
use parcae_core::policy::Decision;
use std::time::Duration;

impl Desk {
    pub(crate) fn set(
        &self,
        path: &str,
        weight: Option<Weight>,
        latency: Option<Latency>,
    ) -> Result<(), PolicyRefused> {
        PolicyDecision::rules().tenant(path, weight, latency).check(&self.bounds)?;
        self.rule(|state| {
            match state.operator.binary_search_by(|rule| (*rule.path).cmp(path)) {
                Ok(at) => {
                    let rule = &mut state.operator[at];
                    rule.weight = weight.or(rule.weight);
                    rule.latency = latency.or(rule.latency);
                }
                Err(_) if state.operator.len() == MOST_RULES => {
                    return Err(PolicyRefused::TooMany { most: MOST_RULES });
                }
                Err(at) => {
                    let path = path.into();
                    state.operator.insert(at, TenantRule { path, weight, latency });
                }
            }
            Ok(())
        })
    }

    pub(crate) fn unset(&self, path: &str) -> bool {
        let removed = self.rule(|state| {
            let at = state.operator.binary_search_by(|rule| (*rule.path).cmp(path));
            let at = at.map_err(|_| PolicyRefused::Address)?;
            state.operator.remove(at);
            Ok(())
        });
        removed.is_ok()
    }

    /// Checks rules for [`load`](Desk::load), and changes nothing.
    pub(crate) fn would_load(&self, rules: &PolicyDecision) -> Result<(), PolicyRefused> {
        rules.check(&self.bounds)
    }

    pub(crate) fn load(&self, rules: &PolicyDecision) -> Result<(), PolicyRefused> {
        rules.check(&self.bounds)?;
        let PolicyDecision { tenants, contexts, profiles, .. } = rules.clone().sorted();
        self.rule(|state| {
            state.operator = tenants;
            state.operator_profiles = (profiles != Decision::BUILT_IN.params).then_some(profiles);
            state.operator_contexts = (contexts != ContextRules::OPEN).then_some(contexts);
            Ok(())
        })
    }

    /// Changes the rules of the operator. Decisions by older views do not know of it.
    fn rule(
        &self,
        change: impl FnOnce(&mut DeskState) -> Result<(), PolicyRefused>,
    ) -> Result<(), PolicyRefused> {
        let mut state = self.lock();
        change(&mut state)?;
        state.oldest = state.sequence + 1;
        self.note(&mut state, PolicyChange::Operator);
        self.apply_again(&state, self.now());
        Ok(())
    }

    pub(crate) fn hold(&self, held: bool) {
        let now = self.now();
        let mut state = self.lock();
        if state.held != held {
            state.held = held;
            state.oldest = state.sequence + 1;
            let change = if held { PolicyChange::Held } else { PolicyChange::Lifted };
            self.note(&mut state, change);
            state.source = state.source(now);
            self.apply_again(&state, now);
        }
    }

    pub(crate) fn status(&self) -> PolicyStatus {
        let now = self.now();
        let state = self.lock();
        PolicyStatus {
            nonce: state.nonce,
            epoch: state.policy.epoch(),
            source: state.source(now),
            held: state.held,
            service: state.service(),
            silent: state.heard.map(|heard| Duration::from_nanos(now.saturating_sub(heard))),
            operator: (self.operator.0.to_string(), self.operator.1),
            weights: self.bounds.weights,
            rules: (state.operator.len(), state.decided.tenants.len()),
            refused: state.refused,
            refused_contexts: state.refused_contexts,
        }
    }

    pub(crate) fn history(&self) -> Vec<PolicyEvent> {
        self.lock().history.iter().cloned().collect()
    }

    // ----- contexts ---------------------------------------------------------------------

    /// Checks a context by the rules in force.
    pub(crate) fn check_context(
        &self,
        name: Option<&str>,
        opts: ContextOpts,
    ) -> Result<ContextOpts, ContextRefused> {
        let now = self.now();
        let promised = self.shared.upgrade().map_or_else(Vec::new, |shared| promised_of(&shared));
        let mut state = self.lock();
        let decided = state.in_force(now).map(|decided| &decided.contexts);
        let Some(rules) = state.operator_contexts.as_ref().or(decided) else { return Ok(opts) };
        let terms = rules.terms.iter().find(|(known, _)| Some(known.as_str()) == name);
        let opts = terms.map_or(opts, |(_, terms)| {
            opts.with_terms(terms.budget, terms.period, terms.deadline, terms.band)
        });
        let (budget, period, band) = opts.demand();
        // Rounded up: a rule of 0 ‰ refuses every context.
        let part = u128::from(budget).saturating_mul(1000).div_ceil(u128::from(period.max(1)));
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        let least = promised.into_iter().min().map_or(0, u64::from);
        let refused = [
            ("its part of a worker in ‰", part, u64::from(rules.each)),
            ("the part of all contexts of a worker in ‰", least + part, u64::from(rules.together)),
            ("its band", u64::from(band), u64::from(rules.band)),
        ];
        let refused = refused.into_iter().find(|(_, asked, most)| asked > most);
        let Some((rule, asked, most)) = refused else { return Ok(opts) };
        state.refused_contexts += 1;
        self.note(&mut state, PolicyChange::ContextRefused);
        drop(state);
        self.bell.ring();
        Err(ContextRefused::Policy { rule, asked, most })
    }
}
