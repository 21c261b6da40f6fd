//! The desk: checks decisions, watches the service, and puts rules in force.

use super::decision::{MOST_RULES, PolicyDecision};
use super::service::Bell;
use super::view::{PolicyView, promised_of, tenants_of};
use super::{ContextRules, nanos};
use crate::base::error::{PolicyRefused, ShareRefused};
use crate::base::rng::mix;
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::run_queue::{TenantRule, TenantRules};
use crate::scope::cap::{PolicyChange, PolicyName};
use parcae_core::fair::{Params, Weight};
use parcae_core::policy::{Bounds, Decision, Hint, Policy, Refusal, Source};
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

mod operator;

/// Decisions that come into force in a second, at most.
const MOST_PER_SECOND: usize = 10;
/// The factor by which a decision may change a weight, at most.
const MOST_CHANGE: u32 = 4;
/// Views that are remembered. A service that takes more of them before it decides is refused.
const VIEWS: usize = 1024;
/// Reasons of refusals in a row that have entries of their own.
const REASONS: usize = 16;
/// Entries of the history.
const HISTORY: usize = 256;
const SECOND: Nanos = 1_000_000_000;

/// The policy in force, and its service; see [`PolicyDesk::status`](super::PolicyDesk::status).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// Identifies the runtime, and this run of it.
    pub nonce: u64,
    /// The epoch of the last decision that was accepted; 0 if none was.
    pub epoch: u64,
    /// Whether that decision is in force.
    pub source: Source,
    /// Whether the operator holds the built-in policy in force.
    pub held: bool,
    /// The name of the service that has the seat.
    pub service: Option<String>,
    /// Time since the last sign of life of a service.
    pub silent: Option<Duration>,
    /// The address of the operator's tenant, and its floor in thousandths.
    pub operator: (String, u16),
    /// The least and the greatest weight that are allowed.
    pub weights: (Weight, Weight),
    /// The rules of the operator and those of the last decision.
    pub rules: (usize, usize),
    /// Decisions and signs of life that were refused.
    pub refused: u64,
    /// Contexts that the rules have refused.
    pub refused_contexts: u64,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PolicyEvent {
    /// Its number, from 0.
    pub number: u64,
    /// When, since the runtime was built; the first time if it repeats.
    pub at: Duration,
    /// The change.
    pub change: PolicyChange,
    /// The name of the service, if it was about one.
    pub service: Option<String>,
    /// Number of repetitions in a row.
    pub times: u64,
}

/// The desk of a runtime.
pub(crate) struct Desk {
    shared: Weak<Shared>,
    name: PolicyName,
    bounds: Bounds,
    patience: Nanos,
    operator: (Arc<str>, u16),
    bell: Arc<Bell>,
    state: Mutex<DeskState>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

struct DeskState {
    /// Epoch and watchdog.
    policy: Policy,
    /// The time of the last sign of life.
    heard: Option<Nanos>,
    /// The last decision that was accepted.
    decided: PolicyDecision,
    /// The rules of the operator; profiles and rules for contexts only if it has some.
    operator: Vec<TenantRule>,
    operator_profiles: Option<[Params; Hint::ALL.len()]>,
    operator_contexts: Option<ContextRules>,
    held: bool,
    nonce: u64,
    sequence: u64,
    /// Views that were handed out, with their times.
    views: VecDeque<(u64, Nanos)>,
    /// Views before this one no longer count.
    oldest: u64,
    /// Times of the last decisions that were accepted.
    accepted: VecDeque<Nanos>,
    /// The service that has the seat.
    seat: Option<(u64, Arc<str>)>,
    seats: u64,
    history: VecDeque<PolicyEvent>,
    /// The number of the next entry.
    events: u64,
    /// The source at the last look of the watchdog.
    source: Source,
    refused: u64,
    refused_contexts: u64,
    closed: bool,
}

impl DeskState {
    fn source(&self, now: Nanos) -> Source {
        if self.held { Source::BuiltIn } else { self.policy.source(now) }
    }

    /// The decision in force, unless it is the built-in one.
    fn in_force(&self, now: Nanos) -> Option<&PolicyDecision> {
        (self.source(now) != Source::BuiltIn).then_some(&self.decided)
    }

    /// The profiles in force.
    fn profiles(&self, now: Nanos) -> [Params; Hint::ALL.len()] {
        let decided = || self.in_force(now).map(|decided| decided.profiles);
        self.operator_profiles.or_else(decided).unwrap_or(Decision::BUILT_IN.params)
    }

    fn service(&self) -> Option<String> {
        self.seat.as_ref().map(|(_, name)| name.to_string())
    }
}

impl Desk {
    pub(super) fn new(
        shared: &Arc<Shared>,
        name: PolicyName,
        bounds: Bounds,
        patience: Duration,
        grace: Duration,
        operator: (Arc<str>, u16),
    ) -> Desk {
        let nonce = match shared.config.deterministic {
            true => mix(shared.seed()),
            false => RandomState::new().build_hasher().finish(),
        };
        let patience = nanos(patience);
        Desk {
            shared: Arc::downgrade(shared),
            name,
            bounds,
            patience,
            operator,
            bell: Arc::default(),
            state: Mutex::new(DeskState {
                policy: Policy::new(bounds, patience, nanos(grace)),
                heard: None,
                decided: PolicyDecision::rules(),
                operator: Vec::new(),
                operator_profiles: None,
                operator_contexts: None,
                held: false,
                nonce,
                sequence: 0,
                views: VecDeque::new(),
                oldest: 1,
                accepted: VecDeque::new(),
                seat: None,
                seats: 0,
                history: VecDeque::new(),
                events: 0,
                source: Source::BuiltIn,
                refused: 0,
                refused_contexts: 0,
                closed: false,
            }),
        }
    }

    pub(super) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        self.shared.upgrade().map_or(0, |shared| shared.now())
    }

    /// Notes a change in the history and in the audit log. A repetition is counted where it was
    /// noted first, and so are refusals of a service that is refused for ever new reasons: they
    /// displace nothing else.
    fn note(&self, state: &mut DeskState, change: PolicyChange) {
        let service = state.service();
        let is_refusal = |change: &PolicyChange| matches!(change, PolicyChange::Refused(_));
        let mut same = state.history.iter_mut().rev().take_while(|event| {
            event.service == service && (event.change == change || is_refusal(&event.change))
        });
        let known = if is_refusal(&change) {
            let mut lately = same.take(REASONS).enumerate();
            lately.find(|(at, event)| event.change == change || at + 1 == REASONS)
        } else {
            same.next().filter(|event| event.change == change).map(|event| (0, event))
        };
        if let Some((_, event)) = known {
            event.times += 1;
            return;
        }
        self.name.record(change);
        if state.history.len() == HISTORY {
            state.history.pop_front();
        }
        let at = Duration::from_nanos(self.now());
        let number = state.events;
        state.events += 1;
        state.history.push_back(PolicyEvent { number, at, change, service, times: 1 });
    }

    fn refuse<T>(&self, state: &mut DeskState, why: PolicyRefused) -> Result<T, PolicyRefused> {
        state.refused += 1;
        self.note(state, PolicyChange::Refused(why));
        Err(why)
    }

    // ----- rules ------------------------------------------------------------------------

    /// Hands all rules to the table of tenants, as a whole.
    fn apply(&self, state: &DeskState, now: Nanos) -> Result<(), ShareRefused> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let decided = state.in_force(now);
        let (operator, permille) = &self.operator;
        let rules = TenantRules {
            profiles: state.profiles(now),
            operator: state.operator.clone(),
            service: decided.map_or_else(Vec::new, |decided| decided.tenants.clone()),
            weights: self.bounds.weights,
            floor: (*permille > 0).then(|| (Arc::clone(operator), *permille)),
        };
        let config = &shared.config;
        shared.queues.set_tenant_rules(
            rules,
            config.max_tenants,
            config.deterministic,
            config.charging,
        )
    }

    /// Puts the rules in force; the first time it makes the table of tenants.
    pub(super) fn enforce(&self) -> Result<(), ShareRefused> {
        self.apply(&self.lock(), self.now())
    }

    /// As [`enforce`](Desk::enforce), when there is a table.
    fn apply_again(&self, state: &DeskState, now: Nanos) {
        let applied = self.apply(state, now);
        debug_assert_eq!(applied, Ok(()), "the table was made when the desk was opened");
    }

    /// The watchdog looks whether the service is alive.
    pub(super) fn tick(&self) {
        let now = self.now();
        let mut state = self.lock();
        let source = state.source(now);
        if state.closed || source == state.source {
            return;
        }
        state.source = source;
        match source {
            Source::Fresh => {}
            Source::LastGood => {
                let epoch = state.policy.epoch();
                self.note(&mut state, PolicyChange::Silent { epoch });
            }
            Source::BuiltIn => {
                self.note(&mut state, PolicyChange::Fallback);
                self.apply_again(&state, now);
            }
        }
    }

    /// The policy is gone.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.seat = None;
        if let Some(shared) = self.shared.upgrade() {
            shared.queues.drop_tenant_rules();
        }
    }

    // ----- the service ------------------------------------------------------------------

    /// Gives the seat to a service; returns its number.
    pub(super) fn take_seat(
        &self,
        name: &str,
        takes_over: Option<u64>,
    ) -> Result<u64, PolicyRefused> {
        let mut state = self.lock();
        if state.closed {
            return Err(PolicyRefused::Ended);
        }
        let epoch = state.policy.epoch();
        if state.seat.is_some() && takes_over != Some(epoch) {
            return self.refuse(&mut state, PolicyRefused::Seated { epoch });
        }
        state.seats += 1;
        let number = state.seats;
        state.seat = Some((number, name.into()));
        // A view of the former service is no basis for the new one.
        state.oldest = state.sequence + 1;
        self.note(&mut state, PolicyChange::Seated);
        Ok(number)
    }

    /// A service leaves its seat, unless another one has taken it.
    pub(super) fn leave_seat(&self, seat: u64) {
        let mut state = self.lock();
        if state.seat.as_ref().is_some_and(|(number, _)| *number == seat) {
            self.note(&mut state, PolicyChange::Left);
            state.seat = None;
        }
    }

    /// A view for the service on this seat.
    pub(super) fn view(&self, seat: u64) -> Result<PolicyView, PolicyRefused> {
        let mut view = self.picture();
        let now = self.now();
        let mut state = self.lock();
        if state.seat.as_ref().is_none_or(|(number, _)| *number != seat) {
            return Err(PolicyRefused::NotSeated);
        }
        state.sequence += 1;
        view.sequence = state.sequence;
        if state.views.len() == VIEWS {
            state.views.pop_front();
        }
        state.views.push_back((view.sequence, now));
        Ok(view)
    }

    /// A view with the number of the last one.
    pub(crate) fn picture(&self) -> PolicyView {
        let shared = self.shared.upgrade();
        let (tenants, promised) = shared
            .as_ref()
            .map_or_else(Default::default, |shared| (tenants_of(shared), promised_of(shared)));
        let now = self.now();
        let state = self.lock();
        PolicyView {
            nonce: state.nonce,
            sequence: state.sequence,
            at: Duration::from_nanos(now),
            epoch: state.policy.epoch(),
            source: state.source(now),
            workers: shared.map_or(0, |shared| shared.config.workers as u32),
            profiles: state.profiles(now),
            weights: self.bounds.weights,
            tenants,
            promised,
            refused_contexts: state.refused_contexts,
        }
    }

    /// Whether the rules of a decision are those in force.
    pub(super) fn is_in_force(&self, decision: &PolicyDecision) -> bool {
        self.lock().in_force(self.now()).is_some_and(|decided| decided.is_like(decision))
    }

    /// Checks a decision of the service on this seat, and puts it in force.
    pub(super) fn decide(&self, seat: u64, decision: PolicyDecision) -> Result<(), PolicyRefused> {
        let now = self.now();
        let open = self.shared.upgrade().map_or_else(Vec::new, |shared| tenants_of(&shared));
        let weight_of = |path: &str| {
            let tenant = open.iter().find(|tenant| tenant.path.as_deref() == Some(path))?;
            Some(tenant.weight)
        };
        let mut state = self.lock();
        if let Err(why) = self.examine(&state, seat, &decision, now, weight_of) {
            return self.refuse(&mut state, why);
        }
        let PolicyDecision { epoch, profiles, .. } = decision;
        let core = Decision { epoch, params: profiles, ..Decision::BUILT_IN };
        if let Err(why) = state.policy.submit(core, now) {
            return self.refuse(&mut state, translated(why));
        }
        state.heard = Some(now);
        state.decided = decision.sorted();
        if state.accepted.len() == MOST_PER_SECOND {
            state.accepted.pop_front();
        }
        state.accepted.push_back(now);
        state.source = Source::Fresh;
        self.note(&mut state, PolicyChange::Decided { epoch });
        self.apply_again(&state, now);
        Ok(())
    }

    /// The checks of a decision, without a change.
    fn examine(
        &self,
        state: &DeskState,
        seat: u64,
        decision: &PolicyDecision,
        now: Nanos,
        weight_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<(), PolicyRefused> {
        self.is_heard(state, seat)?;
        if decision.nonce != state.nonce {
            return Err(PolicyRefused::WrongRuntime);
        }
        let last = state.policy.epoch();
        if decision.epoch <= last {
            return Err(PolicyRefused::Stale { last });
        }
        let seen = state.views.iter().find(|(sequence, _)| *sequence == decision.based_on);
        let is_recent = |at: &Nanos| now.saturating_sub(*at) <= self.patience;
        if decision.based_on < state.oldest || !seen.is_some_and(|(_, at)| is_recent(at)) {
            return Err(PolicyRefused::StaleView { oldest: state.sequence + 1 });
        }
        let lately = state.accepted.iter();
        let lately = lately.filter(|at| now.saturating_sub(**at) < SECOND).count();
        if lately >= MOST_PER_SECOND {
            return Err(PolicyRefused::TooFast { most: MOST_PER_SECOND as u32 });
        }
        decision.check(&self.bounds)?;
        let decided = state.in_force(now).map_or(&[][..], |decided| &decided.tenants);
        for rule in &decision.tenants {
            let Some(asked) = rule.weight.map(Weight::get) else { continue };
            let before = decided.binary_search_by(|old| old.path.cmp(&rule.path));
            let before = before.ok().and_then(|at| decided[at].weight).map(Weight::get);
            let Some(from) = before.or_else(|| weight_of(&rule.path)) else { continue };
            if asked > from.saturating_mul(MOST_CHANGE) || asked < from / MOST_CHANGE {
                return Err(PolicyRefused::TooFar { from, asked });
            }
        }
        Ok(())
    }

    /// Whether the service on this seat may decide.
    fn is_heard(&self, state: &DeskState, seat: u64) -> Result<(), PolicyRefused> {
        if state.closed {
            return Err(PolicyRefused::Ended);
        }
        if state.seat.as_ref().is_none_or(|(number, _)| *number != seat) {
            return Err(PolicyRefused::NotSeated);
        }
        if state.held { Err(PolicyRefused::Held) } else { Ok(()) }
    }

    /// A sign of life of the service on this seat, whose last decision has this epoch.
    pub(super) fn hear(&self, seat: u64, epoch: u64) -> Result<(), PolicyRefused> {
        let now = self.now();
        let mut state = self.lock();
        if let Err(why) = self.is_heard(&state, seat) {
            return self.refuse(&mut state, why);
        }
        match state.policy.heartbeat(epoch, now) {
            Ok(()) => {
                state.heard = Some(now);
                state.source = state.source(now);
                Ok(())
            }
            Err(why) => self.refuse(&mut state, translated(why)),
        }
    }

    /// Counts bytes that are no record.
    pub(crate) fn refuse_record(&self, why: PolicyRefused) {
        let _ = self.refuse::<()>(&mut self.lock(), why); // noted
    }
}

/// A refusal of the core, which has checked epoch and profiles.
fn translated(why: Refusal) -> PolicyRefused {
    match why {
        Refusal::Stale { last } => PolicyRefused::Stale { last },
        Refusal::Expired => PolicyRefused::Expired,
        Refusal::Slice { min, max, .. } => PolicyRefused::Slice { min, max },
        Refusal::Weight { least, greatest, .. } => {
            // Checked before, by the same bounds; the weight is the least that is not allowed.
            let (least, greatest) = (least.get(), greatest.get());
            PolicyRefused::Weight { asked: greatest.saturating_add(1), least, greatest }
        }
        _ => PolicyRefused::Ended,
    }
}
