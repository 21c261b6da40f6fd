//! The policy of a runtime: a service that decides, an operator who rules, and the built-in policy
//! without both.
//!
//! ```text
//!   PolicyService, on a thread of its own        another process, over the socket
//!            │ ServiceSeat                              │ ServiceSeat
//!            └──────────────┐             ┌─────────────┘     one of them at a time
//!                           ▼             ▼
//!   operator ─────────▶  Desk: checks, epoch, watchdog, history
//!   (PolicyDesk)            │ TenantRules, whole                  ▲ ContextRules
//!                           ▼                                     │
//!             table of tenants ── adopted at the end of a turn    Runtime::admit
//! ```
//!
//! # Who owns what
//!
//! The [`Desk`] belongs to the [`PolicyDesk`] that [`Runtime::policy`](crate::Runtime::policy)
//! returns, and to nothing else: services, connections, the monitor and the runtime hold it weakly.
//! Dropping the last `PolicyDesk` takes all rules back. One lock guards the desk's state. It is
//! held for checks and for handing rules to the table of tenants (whose lock comes after it), and
//! never while a service looks. So a service that blocks holds nothing up, and one that dies
//! poisons nothing.
//!
//! No worker takes that lock. A worker meets a policy in two places: at the end of a turn, where it
//! adopts rules that have changed (`run_queue::tenants::rules`), and when a task asks for admission
//! of a context. A runtime without a policy executes no instruction for it.
//!
//! # A decision
//!
//! is a whole table of rules, and replaces the one before it. It is copied before it is checked: a
//! service in the process hands over the value, one outside of it bytes that were read from the
//! socket. It is checked as a whole, then nothing of it or all of it comes into force. It names
//!
//! - the *nonce* of the runtime: a decision for an earlier run of the program is refused;
//! - the *epoch*, which rises with each decision: a replay is refused;
//! - the *sequence* of the view that it is based on: a service that was stopped for a while decides
//!   by an old picture, and is refused.
//!
//! # The service may be
//!
//! | | result |
//! |---|---|
//! | dead, blocked, stopped | no sign of life for `patience`: its last decision holds for `grace`, then the built-in policy |
//! | stale, or a replay | refused, by epoch, nonce or sequence |
//! | garbage | refused as a whole |
//! | flooding | ten decisions come into force in a second at most; refusals are no sign of life, and repeated ones are counted in one entry of the history |
//! | malicious | bounds of the operator on weights and slices, factor 4 per decision, the floor of the operator's tenant |
//!
//! The built-in policy is a constant and the wishes of the program. It needs no service.
//!
//! # Time
//!
//! On threads the service looks every [`PolicyOpts::interval`] and when a context was refused; the
//! monitor's tick is the watchdog. While all workers rest, the monitor sleeps and nothing has to be
//! decided: the first worker that goes back to work wakes it. Under the deterministic executor
//! there is no other thread. The conductor lets the service look between two steps when the
//! interval has passed in virtual time, so a run with a policy repeats with its seed.

mod decision;
mod desk;
pub(crate) mod json;
mod record;
mod remote;
mod service;
mod view;

pub use crate::base::error::{PolicyRefused, RecordFault};
pub use decision::{ContextRules, ContextTerms, PolicyDecision};
pub(crate) use desk::Desk;
pub use desk::{PolicyEvent, PolicyStatus};
pub(crate) use record::LONGEST_RECORD;
pub use remote::RemoteSeat;
pub use service::{PolicyService, ServiceSeat};
pub use view::{PolicyView, TenantView};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::scope::cap::{ContextOpts, PolicyName};
use parcae_core::fair::{Latency, Limits, Weight};
use parcae_core::policy::Bounds;
use service::{Loop, LoopState};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Settings of a policy: the bounds of the operator, and the service.
///
/// ```
/// use parcae::policy::{PolicyDecision, PolicyOpts, PolicyService, PolicyView, Weight};
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// /// Tenants whose tasks wait in line get twice the normal weight.
/// struct Backlog;
///
/// impl PolicyService for Backlog {
///     fn look(&mut self, view: &PolicyView) -> Option<PolicyDecision> {
///         let mut decision = PolicyDecision::on(view);
///         for tenant in view.tenants.iter().filter(|tenant| tenant.queued > 4) {
///             let weight = Weight::new(2048).unwrap();
///             decision = decision.weight(tenant.path.as_deref()?, weight);
///         }
///         Some(decision)
///     }
/// }
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let opts = PolicyOpts::new().interval(Duration::from_millis(200)).service(Backlog);
/// let policy = rt.policy(opts)?;
/// rt.run(|cx| cx.sleep(Duration::from_millis(500)))?;
/// assert!(policy.status().epoch >= 1);
/// # Ok::<(), parcae::Error>(())
/// ```
#[must_use]
pub struct PolicyOpts {
    service: Option<Box<dyn PolicyService>>,
    interval: Duration,
    patience: Duration,
    grace: Duration,
    weights: (Weight, Weight),
    operator: (Arc<str>, u16),
}

impl PolicyOpts {
    /// No service: the operator decides alone. Weights within 16 times of normal, 250 ms of
    /// patience, a second of grace, and a hundredth for the tenant `operator`.
    pub fn new() -> PolicyOpts {
        PolicyOpts {
            service: None,
            interval: Duration::from_millis(10),
            patience: Duration::from_millis(250),
            grace: Duration::from_secs(1),
            weights: Bounds::NANOS.weights,
            operator: ("operator".into(), 10),
        }
    }

    /// A service, which looks on a thread of its own; under the deterministic executor between two
    /// steps.
    pub fn service(mut self, service: impl PolicyService + 'static) -> PolicyOpts {
        self.service = Some(Box::new(service));
        self
    }

    /// Time between two looks of the service. Default: 10 ms. At least 100 µs.
    pub fn interval(mut self, interval: Duration) -> PolicyOpts {
        self.interval = interval.max(Duration::from_micros(100));
        self
    }

    /// Time without a sign of life after which the service counts as silent, and the oldest view
    /// that a decision may be based on. Default: 250 ms.
    pub fn patience(mut self, patience: Duration) -> PolicyOpts {
        self.patience = patience;
        self
    }

    /// Time for which the last decision of a silent service holds. Default: 1 s.
    pub fn grace(mut self, grace: Duration) -> PolicyOpts {
        self.grace = grace;
        self
    }

    /// The least and the greatest weight of a tenant. They bind the service, the operator and the
    /// program alike. Default: 64 to 16 384.
    pub fn weights(mut self, least: Weight, greatest: Weight) -> PolicyOpts {
        self.weights = (least.min(greatest), greatest.max(least));
        self
    }

    /// The operator's tenant: the outermost tenant of this name has at least so many thousandths of
    /// all weights, and the shortest slices, whatever is decided. Default: `operator`, 10 ‰. At
    /// most 500 ‰; 0 for no floor.
    pub fn operator(mut self, name: impl Into<Arc<str>>, permille: u16) -> PolicyOpts {
        self.operator = (name.into(), permille.min(500));
        self
    }
}

impl Default for PolicyOpts {
    fn default() -> PolicyOpts {
        PolicyOpts::new()
    }
}

impl fmt::Debug for PolicyOpts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyOpts")
            .field("service", &self.service.is_some())
            .field("interval", &self.interval)
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

/// The policy of a runtime, in the operator's hands: it shows what is in force, and its rules go
/// before those of the service. Returned by [`Runtime::policy`](crate::Runtime::policy); dropping
/// all clones ends the service and takes all rules back.
#[derive(Clone)]
pub struct PolicyDesk(Arc<DeskOwner>);

/// Ends a policy when it is dropped.
struct DeskOwner {
    desk: Arc<Desk>,
    service: Mutex<Option<Loop>>,
}

impl PolicyDesk {
    /// The policy in force, and its service.
    pub fn status(&self) -> PolicyStatus {
        self.0.desk.status()
    }

    /// The picture that a service gets. Not counted as handed out.
    pub fn view(&self) -> PolicyView {
        self.0.desk.picture()
    }

    /// A tenant by its address: wishes, weight, shares, and what has decided about them.
    pub fn explain(&self, tenant: &str) -> Option<TenantView> {
        self.view().tenants.into_iter().find(|view| view.path.as_deref() == Some(tenant))
    }

    /// Sets a rule of the operator for the tenant at this address, which goes before those of the
    /// service and the wishes of the program.
    ///
    /// ```
    /// use parcae::policy::{DecidedBy, PolicyOpts, Weight};
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let policy = rt.policy(PolicyOpts::new())?;
    /// policy.set("web/search", Weight::new(4096), None)?;
    /// rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().name("web").share(Weight::NORMAL), |web| {
    ///         web.spawn(|cx| {
    ///             let search = NurseryOpts::new().name("search").share(Weight::NORMAL);
    ///             cx.nursery_with(search, |_| {
    ///                 let search = policy.explain("web/search").unwrap();
    ///                 assert_eq!((search.weight, search.by), (4096, DecidedBy::Operator));
    ///                 Ok(())
    ///             })
    ///         })?
    ///         .join()
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the weight or the slice is out of bounds, or there are too many rules.
    pub fn set(
        &self,
        tenant: &str,
        weight: Option<Weight>,
        latency: Option<Latency>,
    ) -> Result<(), PolicyRefused> {
        self.0.desk.set(tenant, weight, latency)
    }

    /// Removes the operator's rule for the tenant at this address; false if there is none.
    pub fn unset(&self, tenant: &str) -> bool {
        self.0.desk.unset(tenant)
    }

    /// Replaces all rules of the operator by those of a decision, whose epoch, nonce and view do
    /// not matter. Profiles and rules for contexts that are the built-in ones are left to the
    /// service.
    ///
    /// # Errors
    ///
    /// As for [`ServiceSeat::decide`], where they can happen. Nothing has changed then.
    pub fn load(&self, rules: &PolicyDecision) -> Result<(), PolicyRefused> {
        self.0.desk.load(rules)
    }

    /// Puts the built-in policy in force until [`lift`](PolicyDesk::lift): all decisions of
    /// services are refused, the rules of the operator stay.
    pub fn fallback(&self) {
        self.0.desk.hold(true);
    }

    /// Lets services decide again.
    pub fn lift(&self) {
        self.0.desk.hold(false);
    }

    /// The last changes and refusals, oldest first; 256 at most. All of them are in the
    /// [audit log](crate::Runtime::audit) too.
    pub fn history(&self) -> Vec<PolicyEvent> {
        self.0.desk.history()
    }

    /// Takes the seat of the policy service, for a service that decides by itself when to look.
    /// `takes_over`: the last epoch, if another service has the seat.
    ///
    /// # Errors
    ///
    /// [`PolicyRefused::Seated`] if the seat is taken.
    pub fn seat(&self, name: &str, takes_over: Option<u64>) -> Result<ServiceSeat, PolicyRefused> {
        ServiceSeat::take(&self.0.desk, name, takes_over)
    }

    pub(crate) fn desk(&self) -> Weak<Desk> {
        Arc::downgrade(&self.0.desk)
    }
}

impl fmt::Debug for PolicyDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyDesk").field(&self.status()).finish()
    }
}

impl Drop for DeskOwner {
    fn drop(&mut self) {
        let service = self.service.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.desk.close();
        drop(service); // waits for its thread for a while
    }
}

/// Opens the desk of a runtime; see [`Runtime::policy`](crate::Runtime::policy).
pub(crate) fn open(shared: &Arc<Shared>, name: PolicyName, opts: PolicyOpts) -> Result<PolicyDesk> {
    let part = shared.part::<PolicyPart>().ok_or_else(|| Error::msg("a runtime has this part"))?;
    let mut place = part.desk.lock().unwrap_or_else(PoisonError::into_inner);
    if place.as_ref().is_some_and(|active| active.desk.strong_count() > 0) {
        return Err(Error::msg("the runtime has a policy: drop its `PolicyDesk` first"));
    }
    let PolicyOpts { service, interval, patience, grace, weights, operator } = opts;
    let limits = if shared.config.deterministic { Limits::OPS } else { Limits::NANOS };
    let bounds = Bounds { weights, limits, ..Bounds::NANOS };
    let desk = Arc::new(Desk::new(shared, name, bounds, patience, grace, operator));
    desk.enforce().map_err(|refused| Error::new(ErrorKind::ShareRefused(refused)))?;
    let mut inline = None;
    let mut thread = None;
    if let Some(service) = service {
        let seat = ServiceSeat::take(&desk, "in-process", None);
        let seat = seat.unwrap_or_else(|_| unreachable!("the desk is new"));
        let state = LoopState { service, seat };
        if shared.config.deterministic {
            inline = Some(state);
        } else {
            thread = Some(Loop::start(state, interval, patience, desk.bell())?);
        }
    }
    if shared.config.deterministic {
        shared.tick_at(shared.now().saturating_add(nanos(interval)));
    }
    *place = Some(ActiveDesk { desk: Arc::downgrade(&desk), inline, interval: nanos(interval) });
    Ok(PolicyDesk(Arc::new(DeskOwner { desk, service: Mutex::new(thread) })))
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The part of a runtime's host that knows its policy.
#[derive(Default)]
pub(crate) struct PolicyPart {
    desk: Mutex<Option<ActiveDesk>>,
}

struct ActiveDesk {
    desk: Weak<Desk>,
    /// The service, under the deterministic executor.
    inline: Option<LoopState>,
    interval: Nanos,
}

impl PolicyPart {
    /// The watchdog looks; under the deterministic executor the service too. Returns when to look
    /// again; `None` if there is no policy.
    pub(crate) fn tick(&self, shared: &Shared) -> Option<Nanos> {
        let (desk, mut inline, interval) = {
            let mut place = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
            let active = place.as_mut()?;
            let Some(desk) = active.desk.upgrade() else {
                *place = None;
                return None;
            };
            (desk, active.inline.take(), active.interval)
        };
        desk.tick();
        if let Some(state) = &mut inline
            && state.look().is_ok()
            && let Some(active) = &mut *self.desk.lock().unwrap_or_else(PoisonError::into_inner)
        {
            active.inline = inline;
        }
        Some(shared.now().saturating_add(interval))
    }

    /// Checks a context by the rules in force, and gives it their terms if they have some for this
    /// name.
    pub(crate) fn check_context(
        &self,
        name: Option<&str>,
        opts: ContextOpts,
    ) -> Result<ContextOpts, crate::base::error::ContextRefused> {
        let desk = {
            let place = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().and_then(|active| active.desk.upgrade())
        };
        desk.map_or(Ok(opts), |desk| desk.check_context(name, opts))
    }
}
