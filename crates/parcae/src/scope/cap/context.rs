//! The capability to run on admitted time.
//!
//! A [`CapContext`] is the outside of a scheduling context (`run_queue::realtime`). It has no
//! public constructor and no copies: the runtime's admission mints it, after it has found a worker
//! that can keep the promise. Bound nurseries and tasks hold the node, so that its slot is not
//! given to another context before they have ended. Dropping the capability takes no time away from
//! them; revoking does.
//!
//! Revocation is one step for authority and one for tasks. The context is destroyed first: from
//! then on nothing starts on it. Then the token of the node is cancelled, which cancels all
//! nurseries and tasks that are bound. They run to their ends as tasks without a context, since a
//! task that may not run at all could not be joined.

use super::{AuditEvent, Identity, Issuer, Limits, Revocable, Revoker, Usage};
use crate::base::error::{ContextRefused, Error, ErrorKind, Result};
use crate::base::reason::CancelReason;
use crate::sched::Shared;
use crate::sched::run_queue::{ContextNotice, SealFigures};
use crate::sched::task::{ContextIndex, TaskRef};
use crate::sched::timers::Expire;
use crate::scope::cancel::CancelToken;
use crate::scope::cx::Cx;
use crate::scope::profile::Profile;
use parcae_core::WorkerSet;
use parcae_core::context::{Band, Endpoint, EventKind, Overrun, Params, Refill};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The terms of a scheduling context: a budget in each period, by a deadline.
///
/// ```
/// use parcae::policy::{ContextOpts, OverrunPolicy};
/// use std::time::Duration;
///
/// // 2 ms of each 10 ms, each time within 5 ms of the release.
/// let audio = ContextOpts::new(Duration::from_millis(2), Duration::from_millis(10))
///     .deadline(Duration::from_millis(5))
///     .overrun(OverrunPolicy::Notify);
/// # let _ = audio;
/// ```
///
/// Under the deterministic executor an op of a task takes a microsecond of virtual time, so a
/// budget of 2 ms is 2000 ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ContextOpts {
    budget: Duration,
    period: Duration,
    deadline: Option<Duration>,
    band: u8,
    workers: WorkerSet,
    refill: Refill,
    overrun: OverrunPolicy,
    check_distance: Duration,
}

/// The response to a task that used more than its budget. All use is charged in any case, over as
/// many periods as necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OverrunPolicy {
    /// The tasks wait for their budget.
    #[default]
    Throttle,
    /// The same, with events for depletion, overruns and missed deadlines.
    Notify,
    /// An overrun beyond the tolerance revokes the context: its tasks are cancelled.
    Revoke {
        /// How much beyond the budget is forgiven; usually the time between two checkpoints.
        tolerance: Duration,
    },
}

impl ContextOpts {
    /// `budget` in each `period`, which is also the deadline; in the lowest band, on any worker,
    /// for jobs that run to completion, throttled when the budget is used up.
    pub fn new(budget: Duration, period: Duration) -> ContextOpts {
        ContextOpts {
            budget,
            period,
            deadline: None,
            band: 0,
            workers: WorkerSet::ALL,
            refill: Refill::PerJob,
            overrun: OverrunPolicy::Throttle,
            check_distance: Duration::ZERO,
        }
    }

    /// By when, after a release, the budget is to have been available. At most the period.
    pub fn deadline(mut self, deadline: Duration) -> ContextOpts {
        self.deadline = Some(deadline);
        self
    }

    /// The criticality: contexts of a higher band go first, whatever the deadlines.
    pub fn band(mut self, band: u8) -> ContextOpts {
        self.band = band;
        self
    }

    /// The workers that admission may choose from.
    pub fn workers(mut self, workers: WorkerSet) -> ContextOpts {
        self.workers = workers;
        self
    }

    /// How used budget is replenished. The default is [`Refill::PerJob`], for tasks that wait for
    /// [`Cx::next_period`](crate::Cx::next_period) and for nothing else: a job that blocks in the
    /// middle gives up the rest of its budget. A task that waits for channels or timers during a
    /// job needs [`Refill::HardCbs`], of which less is admitted.
    pub fn refill(mut self, refill: Refill) -> ContextOpts {
        self.refill = refill;
        self
    }

    /// The response to an overrun.
    pub fn overrun(mut self, policy: OverrunPolicy) -> ContextOpts {
        self.overrun = policy;
        self
    }

    /// The longest time between two checkpoints of the code that runs on it. For so long it may
    /// keep the worker although its budget is used up, or a more urgent context is ready; admission
    /// of all contexts of the worker takes it into account.
    pub fn check_distance(mut self, distance: Duration) -> ContextOpts {
        self.check_distance = distance;
        self
    }

    /// Budget and period in nanoseconds, and the band.
    pub(crate) fn demand(&self) -> (u64, u64, u8) {
        (nanos(self.budget), nanos(self.period), self.band)
    }

    /// The same with other terms.
    pub(crate) fn with_terms(
        self,
        budget: Duration,
        period: Duration,
        deadline: Duration,
        band: u8,
    ) -> ContextOpts {
        ContextOpts { budget, period, deadline: Some(deadline), band, ..self }
    }

    /// The same for a stage of an island: an overrun that would say nothing ends the context, if it
    /// `stops` the island, or is reported.
    pub(crate) fn in_island(self, stops: bool) -> ContextOpts {
        let loud = match stops {
            true => OverrunPolicy::Revoke { tolerance: self.check_distance },
            false => OverrunPolicy::Notify,
        };
        match self.overrun {
            OverrunPolicy::Throttle => self.overrun(loud),
            _ => self,
        }
    }

    /// The same on those of its workers that are in this set.
    pub(crate) fn on(self, workers: WorkerSet) -> ContextOpts {
        self.workers(self.workers.common(workers))
    }

    fn params(&self) -> Params {
        Params {
            deadline: nanos(self.deadline.unwrap_or(self.period)),
            band: Band(self.band),
            workers: self.workers,
            refill: self.refill,
            overrun: match self.overrun {
                OverrunPolicy::Throttle => Overrun::Throttle,
                OverrunPolicy::Notify => Overrun::Notify,
                // Halted at once, and revoked as soon as the worker gets to it.
                OverrunPolicy::Revoke { tolerance } => {
                    Overrun::Halt { tolerance: nanos(tolerance) }
                }
            },
            timeout: Some(Endpoint { port: 0, badge: 0 }),
            check_distance: nanos(self.check_distance),
            ..Params::new(nanos(self.budget), nanos(self.period))
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An event of a scheduling context; see [`CapContext::next_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextEvent {
    /// Its kind.
    pub kind: ContextEventKind,
    /// When, the last time.
    pub at: Instant,
    /// How much time it was about: the overrun, the lateness, the use. The worst of all times.
    pub amount: Duration,
    /// How often, since the last event of this kind was taken.
    pub count: u32,
}

/// Kinds of events of a scheduling context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextEventKind {
    /// The budget was used up. Only under [`OverrunPolicy::Notify`] and `Revoke`.
    Depleted,
    /// A task is ready, and has to wait for budget.
    Timeout,
    /// More was used than the budget. Only under [`OverrunPolicy::Notify`] and `Revoke`.
    Overrun,
    /// Budget that was to be used by a deadline was used later. Only under
    /// [`OverrunPolicy::Notify`] and `Revoke`.
    Missed,
}

/// The figures of a scheduling context, up to the last time that one of its tasks left its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ContextStats {
    /// All time that was charged to it.
    pub used: Duration,
    /// The rest of the present budget.
    pub left: Duration,
    /// How often the budget was used up.
    pub depletions: u64,
    /// How often more was used.
    pub overruns: u64,
    /// The largest overrun.
    pub worst_overrun: Duration,
    /// Jobs that have ended: calls of [`Cx::next_period`](crate::Cx::next_period) after the first.
    pub jobs: u64,
    /// Those of them that ended after their deadline.
    pub late: u64,
    /// The longest time by which one did.
    pub worst_lateness: Duration,
    /// Releases that passed while an earlier job still ran, and got no job.
    pub skipped: u64,
    /// How often the context was lent to the task that answered a call.
    pub lent: u64,
}

/// The authority to run on a scheduling context. Minted by admission alone:
/// [`Runtime::admit`](crate::Runtime::admit).
///
/// A nursery or a task is bound to it by [`NurseryOpts::context`](crate::NurseryOpts::context) or
/// [`SpawnOpts::context`](crate::SpawnOpts::context). Bound tasks run before all others while the
/// context has budget, and do not run while it has none.
///
/// ```
/// use parcae::policy::ContextOpts;
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let ms = Duration::from_millis;
/// let control = rt.admit(ContextOpts::new(ms(2), ms(10)))?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         n.spawn(|cx| (0..50_000).try_for_each(|_| cx.checkpoint()))?; // best effort, 50 ms
///         n.spawn_with(SpawnOpts::new().context(&control), |cx| {
///             for _ in 0..5 {
///                 let job = cx.next_period()?;
///                 (0..1_000).try_for_each(|_| cx.checkpoint())?; // 1 ms of work
///                 assert!(parcae::time::now() <= job.deadline);
///             }
///             Ok(())
///         })?;
///         Ok(())
///     })
/// })?;
/// assert_eq!(control.stats().late, 0);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct CapContext {
    node: Arc<ContextNode>,
}

/// The context behind a capability.
pub(crate) struct ContextNode {
    id: Identity,
    shared: Weak<Shared>,
    index: OnceLock<ContextIndex>,
    token: CancelToken,
    opts: ContextOpts,
}

impl CapContext {
    pub(super) fn admit(
        id: Identity,
        shared: &Arc<Shared>,
        opts: ContextOpts,
    ) -> Result<CapContext> {
        let node = Arc::new(ContextNode {
            id,
            shared: Arc::downgrade(shared),
            index: OnceLock::new(),
            token: CancelToken::new(),
            opts,
        });
        let weak = Arc::downgrade(&node);
        let end: Weak<dyn Expire> = weak;
        let (workers, is_virtual) = (shared.config.workers, shared.config.deterministic);
        let now = shared.now();
        let admitted = shared.queues.admit_context(opts.params(), workers, is_virtual, end, now);
        let index = admitted.map_err(refused)?;
        let _ = node.index.set(index); // the first time
        node.id.record(AuditEvent::Minted(opts.into()));
        Ok(CapContext { node })
    }

    /// Revokes it, from any thread: its time goes back to the worker, and the nurseries and tasks
    /// that are bound to it are cancelled. They run to their ends as tasks without a context.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Context(Arc::downgrade(&self.node), self.serial()))
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.node.is_revoked()
    }

    /// Its terms.
    pub fn opts(&self) -> ContextOpts {
        self.node.opts
    }

    /// The worker that admission has chosen; its tasks run there.
    pub fn worker(&self) -> usize {
        let shared = self.node.shared.upgrade();
        shared.map_or(0, |shared| shared.queues.worker_of(self.node.index()))
    }

    /// Its figures.
    pub fn stats(&self) -> ContextStats {
        let Some(shared) = self.node.shared.upgrade() else { return ContextStats::default() };
        let figures = shared.queues.context_figures(self.node.index(), shared.now());
        ContextStats {
            used: Duration::from_nanos(figures.usage.total),
            left: Duration::from_nanos(figures.left),
            depletions: figures.usage.depletions,
            overruns: figures.usage.overruns,
            worst_overrun: Duration::from_nanos(figures.usage.worst_overrun),
            jobs: figures.jobs,
            late: figures.late,
            worst_lateness: Duration::from_nanos(figures.worst),
            skipped: figures.skipped,
            lent: figures.lent,
        }
    }

    /// The next event, if there is one. There is one place for each kind: an event that finds its
    /// place taken is counted in the one that waits there.
    pub fn try_event(&self) -> Option<ContextEvent> {
        self.take_event(None)
    }

    /// Waits for the next event. One task at a time: the last one that waits is woken.
    ///
    /// # Errors
    ///
    /// [`ContextRefused::Revoked`] after the last event of a context that was revoked; or as for
    /// [`Cx::park`].
    pub fn next_event<P: Profile>(&self, cx: &Cx<P>) -> Result<ContextEvent> {
        loop {
            if let Some(event) = self.take_event(Some(cx.frame().task_ref())) {
                return Ok(event);
            }
            if self.is_revoked() {
                return Err(refused(ContextRefused::Revoked));
            }
            cx.park()?;
        }
    }

    fn take_event(&self, waiter: Option<TaskRef>) -> Option<ContextEvent> {
        let shared = self.node.shared.upgrade()?;
        let notice = shared.queues.context_notice(self.node.index(), waiter)?;
        let ContextNotice { kind, at, amount, count } = notice;
        Some(ContextEvent {
            kind: match kind {
                EventKind::Depleted => ContextEventKind::Depleted,
                EventKind::Timeout => ContextEventKind::Timeout,
                EventKind::Overrun => ContextEventKind::Overrun,
                EventKind::Missed => ContextEventKind::Missed,
            },
            at: shared.instant(at),
            amount: Duration::from_nanos(amount),
            count,
        })
    }

    /// The breaches of its tasks, if they are stages of an island.
    pub(crate) fn seal(&self) -> SealFigures {
        let shared = self.node.shared.upgrade();
        let figures = |shared: Arc<Shared>| Some(shared.queues.seal(self.node.index())?.figures());
        shared.and_then(figures).unwrap_or_default()
    }

    /// The number that identifies it in errors and in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }

    /// The context, for nurseries and tasks that are bound to it.
    pub(crate) fn node(&self) -> Arc<ContextNode> {
        Arc::clone(&self.node)
    }
}

impl ContextNode {
    /// The index, once it was admitted.
    pub(crate) fn index(&self) -> ContextIndex {
        *self.index.get().unwrap_or_else(|| unreachable!("set by admission"))
    }

    /// Cancelled when the context is revoked.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.token
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.token.node().is_cancelled()
    }

    /// Whether this issuer has made it.
    pub(super) fn is_of(&self, issuer: &Arc<Issuer>) -> bool {
        Arc::ptr_eq(&self.id.issuer, issuer)
    }

    /// The longest time between two checkpoints, as declared.
    pub(super) fn check_distance(&self) -> Duration {
        self.opts.check_distance
    }

    /// Checks that a nursery or a task of this issuer may be bound to it, and records it.
    pub(crate) fn bind(&self, issuer: &Arc<Issuer>) -> Result<()> {
        if !self.is_of(issuer) {
            return Err(refused(ContextRefused::Foreign));
        }
        if self.is_revoked() {
            return Err(refused(ContextRefused::Revoked));
        }
        self.id.used(Usage::Bound);
        Ok(())
    }

    pub(super) fn revoke(&self) {
        let (Some(shared), Some(&index)) = (self.shared.upgrade(), self.index.get()) else {
            return;
        };
        let waiter = shared.queues.revoke_context(index, shared.now());
        // Its worker may sleep until there would have been budget.
        shared.notify(shared.queues.worker_of(index));
        self.token.cancel_because(CancelReason::Explicit);
        if let Some(waiter) = waiter {
            self.id.record(AuditEvent::Revoked);
            waiter.into_iter().for_each(|waiter| shared.unpark(waiter));
        }
        // One that began to wait before the token was cancelled has not seen that, and is woken;
        // one that begins now sees it.
        let late = shared.queues.take_context_waiter(index);
        late.into_iter().for_each(|waiter| shared.unpark(waiter));
    }
}

fn refused(why: ContextRefused) -> Error {
    Error::new(ErrorKind::ContextRefused(why))
}

impl Expire for ContextNode {
    fn expire(self: Arc<Self>) {
        self.revoke();
    }

    fn end_grace(self: Arc<Self>) {}
}

impl Drop for ContextNode {
    fn drop(&mut self) {
        if let (Some(shared), Some(&index)) = (self.shared.upgrade(), self.index.get()) {
            shared.queues.release_context(index, shared.now());
        }
    }
}

impl From<ContextOpts> for Limits {
    fn from(opts: ContextOpts) -> Limits {
        Limits::Context(opts)
    }
}

impl fmt::Debug for CapContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CapContext", &self.node.id, &self.node.opts)
    }
}

impl fmt::Debug for ContextNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextNode").field("cap", &self.id.serial).finish_non_exhaustive()
    }
}
