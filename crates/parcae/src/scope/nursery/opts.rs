//! Options of nurseries.

use super::failures::Failures;
use super::recharge::{Recharge, Recharging};
use super::tenant::OpenTenant;
use super::{Account, ChildCost, Hook, NurseryCore, NurseryEvent};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::lent::MaybeLent;
use crate::base::lock::Lock;
use crate::sched::Config;
use crate::sched::run_queue::{Suggestion, TenantRequest, TenantWish};
use crate::sched::task::group::Group;
use crate::sched::task::{Binding, Lane, Priority, TaskRef, Traits};
use crate::sched::timers::Due;
use crate::sched::worker::{self, Worker};
use crate::scope::budget::{Budget, BudgetPool, OnExhausted, Slice};
use crate::scope::cancel::{CancelNode, CancelToken, OnCancel};
use crate::scope::cap::{CapContext, CapExec, CapFs, CapNet, ContextNode, IoAuthority, Issuer};
use crate::scope::cx::{Frame, Inherited, Shares, TaskSettings, TurnLength};
use crate::scope::tally::Tallies;
use crate::stack::StackSize;
use parcae_core::fair::{Latency, Weight};
use parcae_core::policy::Hint;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The policy for siblings of a child that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// They are cancelled, and so is the body.
    #[default]
    FailFast,
    /// They continue. The first failure that no join returned is the nursery's result.
    Isolate,
    /// They continue. All failures that no join returned are the nursery's result.
    Collect,
}

/// Options of a nursery; see [`Cx::nursery_with`](crate::Cx::nursery_with).
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let tenant = NurseryOpts::new()
///         .name("tenant-7")
///         .budget(Budget { ops: 1_000_000, spawn_count: 64, ..Budget::UNLIMITED })
///         .on_exhausted(OnExhausted::Suspend)
///         .on_failure(OnFailure::Isolate);
///     cx.nursery_with(tenant, |n| {
///         n.spawn(|_| Ok(()))?;
///         assert_eq!(n.budget().granted.spawn_count, 64);
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct NurseryOpts {
    name: Option<Arc<str>>,
    pub(crate) budget: Option<Budget>,
    child_budget: Option<Budget>,
    slice: Option<Budget>,
    on_event: Option<Hook>,
    on_failure: OnFailure,
    on_exhausted: Option<OnExhausted>,
    stack_size: Option<StackSize>,
    priority: Option<Priority>,
    timeout: Option<Duration>,
    tokens: Vec<CancelToken>,
    io: Option<Box<IoAuthority>>,
    recharge: Option<Recharge>,
    share: Option<Weight>,
    latency: Option<Latency>,
    hint: Option<Hint>,
    suggestion: Option<Suggestion>,
    context: Option<Arc<ContextNode>>,
}

impl NurseryOpts {
    /// The defaults: shares the budget of the task that opens it, and fails fast.
    pub fn new() -> NurseryOpts {
        NurseryOpts::default()
    }

    /// A name, for errors and tools.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> NurseryOpts {
        self.name = Some(name.into());
        self
    }

    /// A budget of its own, moved out of that of the task that opens the nursery. The remainder is
    /// returned in the end.
    pub fn budget(mut self, budget: Budget) -> NurseryOpts {
        self.budget = Some(budget);
        self
    }

    /// The total budget of each child, as if it were spawned with
    /// [`SpawnOpts::budget`](crate::SpawnOpts::budget). It is moved out of the nursery's budget,
    /// and binds whatever that has left.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let each = NurseryOpts::new().child_budget(Budget { ops: 1_000, ..Budget::UNLIMITED });
    /// let error = rt.run(|cx| {
    ///     cx.nursery_with(each, |n| n.spawn(|cx| cx.forever(|| Ok(())))?.join())
    /// }).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn child_budget(mut self, budget: Budget) -> NurseryOpts {
        self.child_budget = Some(budget);
        self
    }

    /// The amount that a child draws at a time from a nursery that counts: when it is spawned, and
    /// again when that is used up. With small slices many children share a small budget evenly.
    /// With large ones a child draws less often.
    ///
    /// If it is not set, the slice is that of the task that opens the nursery:
    /// [`Builder::slice`](crate::runtime::Builder::slice), or else [`Budget::CHILD`], with which a
    /// child cannot spawn. Of the default a child draws at most a sixteenth of what the nursery has
    /// left, and under [`OnExhausted::Fail`], where it draws once, at most a half. A slice that is
    /// set is drawn whole.
    pub fn slice(mut self, budget: Budget) -> NurseryOpts {
        self.slice = Some(budget);
        self
    }

    /// Calls `hook` as soon as a child fails or runs out of budget, under any policy, so that a
    /// host learns of it while the nursery continues. The last event is the end of the nursery,
    /// with its final [state](crate::nursery::NurseryState).
    ///
    /// The hook runs on the task that the event is about, outside of its budget and shielded from
    /// cancellation; for the end, on the task or thread that opened the nursery. It should be
    /// short, and pass the event on. A panic in it is dropped.
    ///
    /// ```
    /// use parcae::channel::unbounded;
    /// use parcae::prelude::*;
    /// use parcae::nursery::NurseryEvent;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     let (sender, events) = unbounded();
    ///     let host = NurseryOpts::new()
    ///         .on_failure(OnFailure::Isolate)
    ///         .on_event(move |event| drop(sender.try_send(event.clone())));
    ///     cx.nursery_with(host, |n| {
    ///         let missing = || parcae::Error::msg("no such plugin");
    ///         let plugin = n.spawn(move |_| Err::<(), _>(missing()))?;
    ///         let NurseryEvent::Failed { error, .. } = events.recv()? else { unreachable!() };
    ///         assert!(error.to_string().contains("no such plugin"));
    ///         plugin.join().unwrap_err();
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn on_event(mut self, hook: impl Fn(&NurseryEvent) + Send + Sync + 'static) -> NurseryOpts {
        self.on_event = Some(Hook::new(hook));
        self
    }

    /// Sets the policy for a child that fails.
    ///
    /// Under every policy the nursery reports the cause of its end, not the consequences:
    ///
    /// | ended because of | with `FailFast`, `Isolate` and `Collect` alike, the nursery returns |
    /// |---|---|
    /// | its own deadline | `Cancelled(Timeout)`, "deadline exceeded after 50 ms"; `is_cancelled` and `is_timed_out` |
    /// | `cx.timeout` around it | `Cancelled(Parent)`; `cx.timeout` itself returns `TimedOut` |
    /// | its token, `cancel()` | `Cancelled(Explicit)`, or the reason that the token was given |
    /// | its parent | `Cancelled(Parent)`, with the parent's name and reason |
    /// | shutdown | `Cancelled(Shutdown)` |
    /// | a child that failed, panicked, or ran out of budget | that failure; with `Collect` it is the first of `Several` |
    /// | its body | the body's error; a panic is resumed |
    ///
    /// An error that names a cause elsewhere, such as a closed channel, gives way to the cause,
    /// even if that is known later. Errors after the cancellation of the nursery are counted
    /// ([`Error::others`](crate::Error::others)) and do not replace the reason.
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let error = rt.run(|cx| {
    ///     let (tx, rx) = channel(1);
    ///     cx.nursery_with(NurseryOpts::new().timeout(Duration::from_millis(50)), |n| {
    ///         n.spawn(|cx| cx.forever(|| Ok(tx.send(1)?)))?;
    ///         n.spawn(move |cx| {
    ///             for value in rx.iter() {
    ///                 value?;
    ///                 cx.sleep(Duration::from_millis(20))?;
    ///             }
    ///             Ok(())
    ///         })?;
    ///         Ok(())
    ///     })
    /// }).unwrap_err();
    /// assert!(error.is_timed_out()); // and not: the channel is closed
    /// assert!(error.to_string().starts_with("deadline exceeded after 50 ms"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn on_failure(mut self, policy: OnFailure) -> NurseryOpts {
        self.on_failure = policy;
        self
    }

    /// Sets the policy for a child that has used up its budget. The default is that of the task
    /// that opens the nursery.
    pub fn on_exhausted(mut self, policy: OnExhausted) -> NurseryOpts {
        self.on_exhausted = Some(policy);
        self
    }

    /// Stack size of the children.
    pub fn stack_size(mut self, size: StackSize) -> NurseryOpts {
        self.stack_size = Some(size);
        self
    }

    /// Cancels the nursery when it has not ended after this time.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let error = rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().timeout(Duration::from_millis(5)), |n| {
    ///         n.spawn(|cx| cx.sleep(Duration::from_secs(60)))?.join()
    ///     })
    /// });
    /// assert!(error.unwrap_err().is_timed_out());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn timeout(mut self, time: Duration) -> NurseryOpts {
        self.timeout = Some(time);
        self
    }

    /// Cancels the nursery when this token is cancelled, for the same reason, in addition to its
    /// parent. Several tokens may be given, one call each.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let hangup = CancelToken::new(); // of a connection, say, that several nurseries serve
    /// let error = rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().token(&hangup), |n| {
    ///         n.spawn(|cx| cx.forever(|| Ok(())))?;
    ///         hangup.cancel();
    ///         Ok(())
    ///     })
    /// });
    /// assert!(error.unwrap_err().is_cancelled());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn token(mut self, token: &CancelToken) -> NurseryOpts {
        self.tokens.push(token.clone());
        self
    }

    /// Priority of the children.
    pub fn priority(mut self, priority: Priority) -> NurseryOpts {
        self.priority = Some(priority);
        self
    }

    /// Fills the budget up again with time: an allowance for a tenant. A task that has used it up
    /// waits for the next period ([`OnExhausted::Suspend`], unless another policy is set). The
    /// nursery begins with the allowance, unless its budget is named.
    ///
    /// ```
    /// use parcae::budget::Recharge;
    /// use parcae::cap::{BudgetLimits, Delegation};
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let total = Budget { ops: 1_000_000, ..Budget::ZERO };
    /// let cap = rt.cap_budget(BudgetLimits::total(total), Delegation::Forbidden);
    /// let took = rt.run(|cx| {
    ///     // 10 000 ops in each tenth of a second.
    ///     let amount = Budget { ops: 10_000, ..Budget::ZERO };
    ///     let tenant = Recharge::every(&cap, Duration::from_millis(100), amount);
    ///     let began = parcae::time::now();
    ///     cx.nursery_with(NurseryOpts::new().recharge(tenant), |n| {
    ///         n.spawn(|cx| (0..45_000).try_for_each(|_| cx.checkpoint()))?.join()
    ///     })?;
    ///     Ok(parcae::time::now() - began)
    /// })?;
    /// assert!(took >= Duration::from_millis(400)); // four periods later, by the virtual clock
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// Each recharge is taken from the capability, which clamps and audits it. When it has no more,
    /// tasks that wait stay suspended, until an [`Account`] of the nursery is recharged. A
    /// capability of another runtime is refused when the nursery is opened.
    pub fn recharge(mut self, recharge: Recharge) -> NurseryOpts {
        self.budget.get_or_insert(recharge.first());
        self.recharge = Some(recharge);
        self
    }

    /// The authority over sockets of all tasks inside: calls that show no capability are made under
    /// this one. So a plugin that calls `TcpStream::connect` reaches the addresses that its host
    /// allows, and cannot use up the descriptors of the process.
    ///
    /// ```
    /// use parcae::cap::{AddressSet, Delegation, NetLimits};
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let limits = NetLimits {
    ///     bind: AddressSet::NONE,
    ///     connect: "10.0.0.7:5432".parse()?,
    ///     max_sockets: 4,
    /// };
    /// let cap = rt.cap_net(limits, Delegation::Forbidden);
    /// rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().name("plugin").net(&cap), |n| {
    ///         n.spawn(|_| Ok(()))?.join() // the plugin
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// The nursery's body is not inside: it is code of the task that opens it, under the authority
    /// of that task. A nursery inside may name another capability. A capability of another runtime
    /// is refused when the nursery is opened.
    pub fn net(mut self, cap: &CapNet) -> NurseryOpts {
        self.io.get_or_insert_default().set_net(cap);
        self
    }

    /// As [`net`](NurseryOpts::net), for files. A relative path is relative to the directory of the
    /// capability; an absolute one has to lie beneath it.
    pub fn fs(mut self, cap: &CapFs) -> NurseryOpts {
        self.io.get_or_insert_default().set_fs(cap);
        self
    }

    /// As [`net`](NurseryOpts::net), for programs.
    pub fn exec(mut self, cap: &CapExec) -> NurseryOpts {
        self.io.get_or_insert_default().set_exec(cap);
        self
    }

    /// Makes the nursery a *tenant*, with this share of the processors relative to other tenants.
    ///
    /// The tasks of a tenant, and of all nurseries without a share that they open, get processor
    /// time by weight as long as they are ready: of two tenants that compute, one with twice the
    /// weight gets twice the time, however many tasks each has. All tasks without a tenant count as
    /// one, with [`Weight::NORMAL`]. A share is no limit: time that others do not use is divided
    /// among those that are ready. The body of the nursery is part of the task that opens it, and
    /// runs at the expense of that.
    ///
    /// A tenant that a task of another tenant opens divides the share of that one. Nurseries of the
    /// same name and parent are one tenant, with the weight and latency of the one that was opened
    /// last; a tenant that is closed and opened again under its name has the debts that it left.
    ///
    /// ```
    /// use parcae::policy::Weight;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().deterministic(7).workers(1).build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|tenants| {
    ///         for (name, weight) in [("free", 1024), ("paid", 3072)] {
    ///             let share = Weight::new(weight).expect("from 1 to 2^20");
    ///             let opts = NurseryOpts::new().name(name).share(share);
    ///             tenants.spawn(move |cx| {
    ///                 cx.nursery_with(opts, |n| {
    ///                     n.spawn(|cx| (0..400_000).try_for_each(|_| cx.checkpoint()))?;
    ///                     Ok(())
    ///                 })
    ///             })?;
    ///         }
    ///         Ok(())
    ///     })
    /// })?;
    /// let stats = rt.stats();
    /// assert_eq!(stats.tenant("paid").unwrap().weight, 3072);
    /// assert!(stats.tenant("paid").unwrap().ops >= 400_000);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn share(mut self, weight: Weight) -> NurseryOpts {
        self.share = Some(weight);
        self
    }

    /// How soon the tasks of this tenant want to run after they have become ready. Short slices buy
    /// a short wait with short turns; the [share](NurseryOpts::share) stays the same. Without a
    /// share the nursery is a tenant of [`Weight::NORMAL`].
    ///
    /// [`Latency::Slice`] is in nanoseconds, from 100 µs to 100 ms; under the deterministic
    /// executor in ops, from 256 to 65 536.
    pub fn latency(mut self, latency: Latency) -> NurseryOpts {
        self.latency = Some(latency);
        self
    }

    /// The kind of work of this tenant, which the [policy](crate::policy) maps to a weight and a
    /// latency. A [share](NurseryOpts::share) or a [latency](NurseryOpts::latency) that is named as
    /// well goes before it. Without a policy service the built-in profiles hold: half the normal
    /// weight for batch work and agents, for example.
    ///
    /// ```
    /// use parcae::policy::Hint;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().name("report").hint(Hint::Batch), |n| {
    ///         n.spawn(|_| Ok(()))?.join()
    ///     })
    /// })?;
    /// assert_eq!(rt.stats().tenant("report").unwrap().weight, 512);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn hint(mut self, hint: Hint) -> NurseryOpts {
        self.hint = Some(hint);
        self
    }

    /// A suggestion of the coordinator of a graph of tasks for this tenant: a priority in its own
    /// scale, and a time by which the work is to be done. It grants nothing. A policy service sees
    /// it ([`TenantView`](crate::policy::TenantView)) and may map it to a share.
    pub fn suggest(mut self, priority: u8, within: Option<Duration>) -> NurseryOpts {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.suggestion = Some(Suggestion { priority, deadline: within.map_or(0, nanos) });
        self
    }

    /// Binds the tasks of the nursery, and of all nurseries inside, to a scheduling context: they
    /// run before all others while it has budget, and not at all while it has none. They share the
    /// budget and take turns. The body of the nursery is not inside: it is code of the task that
    /// opens it.
    ///
    /// The nursery is cancelled when the context is revoked. A context that was revoked before, or
    /// is of another runtime, is refused when the nursery is opened.
    ///
    /// ```
    /// use parcae::policy::ContextOpts;
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let ms = Duration::from_millis;
    /// let cap = rt.admit(ContextOpts::new(ms(1), ms(4)))?; // a quarter of a worker
    /// let took = rt.run(|cx| {
    ///     let began = parcae::time::now();
    ///     cx.nursery_with(NurseryOpts::new().context(&cap), |n| {
    ///         n.spawn(|cx| (0..3_000).try_for_each(|_| cx.checkpoint()))?.join() // 3 ms
    ///     })?;
    ///     Ok(parcae::time::now() - began)
    /// })?;
    /// assert!(took >= ms(2 * 4)); // it has waited for two replenishments
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn context(mut self, cap: &CapContext) -> NurseryOpts {
        let node = cap.node();
        self.tokens.push(node.token().clone());
        self.context = Some(node);
        self
    }

    /// Whether it asks for a share of the processors.
    pub(crate) fn asks_for_share(&self) -> Option<Weight> {
        let asks = self.latency.is_some() || self.hint.is_some() || self.suggestion.is_some();
        self.share.or(asks.then_some(Weight::NORMAL))
    }

    /// Opens the tenant that the options name, if they do.
    pub(crate) fn tenant(&self, outer: &TaskSettings) -> Result<Option<OpenTenant>> {
        if self.asks_for_share().is_none() {
            return Ok(None);
        }
        let shared = &outer.shared;
        let NurseryOpts { share: weight, latency, hint, suggestion, .. } = *self;
        let wish = TenantWish { weight, latency, hint, suggestion };
        let request = TenantRequest { name: self.name.clone(), parent: outer.tenant, wish };
        let Config { max_tenants, deterministic, charging, .. } = shared.config;
        let opened = shared.queues.open_tenant(request, max_tenants, deterministic, charging);
        let index = opened.map_err(|refused| Error::new(ErrorKind::ShareRefused(refused)))?;
        Ok(Some(OpenTenant { shared: Arc::clone(shared), index }))
    }

    /// The core of a nursery that this task opens.
    ///
    /// # Safety
    ///
    /// As for [`NurseryCore::open`].
    pub(super) unsafe fn open(
        self,
        frame: &Frame,
        owner: TaskRef,
    ) -> Result<(NurseryCore, Shares)> {
        if let Some(io) = &self.io {
            io.check_issuer(&frame.settings().issuer)?;
        }
        if let Some(recharge) = &self.recharge {
            recharge.check_issuer(&frame.settings().issuer)?;
        }
        self.check_context(&frame.settings().issuer)?;
        let tenant = self.tenant(frame.settings())?;
        let shares = if self.budget.is_some() { Shares::Nothing } else { Shares::All };
        let outer = frame.settings();
        // SAFETY: as the caller says: the nursery ends before the scope that the task is in.
        let (pool, inherited) = unsafe { (frame.fund(self.budget)?, outer.lend()) };
        let (node, grace) = frame.child_node();
        let mut core = self.core(outer, inherited, node, pool, owner, tenant);
        core.grace = grace;
        core.settings.owner = frame.record().id();
        core.outer = frame.seen().nursery.get();
        Ok((core, shares))
    }

    /// Checks that a nursery of this issuer may be bound to the context, if one is named.
    pub(crate) fn check_context(&self, issuer: &Arc<Issuer>) -> Result<()> {
        self.context.as_ref().map_or(Ok(()), |context| context.bind(issuer))
    }

    /// The core of a nursery with this pool, cancelled by this node; of no task.
    pub(crate) fn core(
        self,
        outer: &TaskSettings,
        inherited: Inherited,
        node: Arc<CancelNode>,
        pool: MaybeLent<Arc<BudgetPool>>,
        owner: TaskRef,
        tenant: Option<OpenTenant>,
    ) -> NurseryCore {
        let waits = self.recharge.as_ref().map(|_| OnExhausted::Suspend);
        let on_exhausted = self.on_exhausted.or(waits).unwrap_or(outer.on_exhausted);
        let index = tenant.as_ref().map_or(outer.tenant, |tenant| tenant.index);
        let context = self.context.as_ref().map(|context| context.index()).or(outer.context);
        let grant = self.slice.map_or(outer.child_grant, Slice::named).under(on_exhausted);
        // A task further down that draws on this budget is this host's concern.
        let hook = match &self.on_event {
            None => inherited.on_exhausted_child,
            hook => MaybeLent::own(hook.clone()),
        };
        let on_exhausted_child = match self.recharge {
            None => hook,
            Some(recharge) => {
                let hook = hook.clone();
                let account = Account::of(outer, &pool);
                let recharging = Recharging::new(recharge, account, outer.shared.now());
                MaybeLent::own(Some(Hook::new(move |event| {
                    recharging.arm();
                    if let Some(hook) = &hook {
                        hook.call(event);
                    }
                })))
            }
        };
        let child_cost = match pool.is_unlimited() && self.child_budget.is_none() {
            _ if outer.shared.lab.is_some() => ChildCost::Watched,
            true => ChildCost::Free,
            false => ChildCost::Pool,
        };
        let nursery = worker::with_current(Worker::fresh_id).unwrap_or(0);
        let tallies = || outer.shared.part::<Tallies>();
        let tally = || Some(tallies()?.open(nursery, self.name.as_ref(), &pool));
        let settings = TaskSettings {
            tally: outer.tally.as_ref().and_then(|_| tally()),
            nursery,
            owner: 0,
            shared: inherited.shared,
            node,
            default_grant: pool.default_grant(grant.most()),
            pool,
            grant,
            child_grant: grant,
            issuer: inherited.issuer,
            io: match self.io {
                Some(io) => MaybeLent::own(Some(Arc::new(io.inside(outer.io.as_ref())))),
                None => inherited.io,
            },
            on_exhausted,
            on_exhausted_child,
            interval: outer.interval,
            preempt: outer.preempt,
            turns: match context {
                Some(_) => TurnLength::Cut,
                None => TurnLength::of(outer.preempt, index, &outer.shared),
            },
            tenant: index,
            context,
            reports: outer.reports || index.is_tenant() || context.is_some(),
            name: self.name,
        };
        let traits = Traits {
            lane: match context {
                Some(_) => Lane::Realtime,
                None if index.is_tenant() => Lane::TenantNormal,
                None => Lane::Normal,
            }
            .with_priority(self.priority.unwrap_or(Priority::Normal)),
            binding: context.map_or(Binding::STAYS, Binding::to),
            stack: self.stack_size.unwrap_or(outer.shared.config.stack_size),
        };
        let expire = |time| {
            let node = Arc::downgrade(&settings.node);
            settings.shared.at_for(settings.shared.later(time), Due::Expire(node))
        };
        let follow = |token: &CancelToken| -> OnCancel {
            let node = Arc::downgrade(&settings.node);
            token.on_cancel(move |reason| {
                if let Some(node) = node.upgrade() {
                    node.cancel(reason);
                }
            })
        };
        if self.tokens.iter().any(CancelToken::expires) {
            settings.node.set_expires(None); // either deadline may come first
        } else if self.timeout.is_some() {
            settings.node.set_expires(self.timeout);
        }
        if let Some(name) = &settings.name {
            settings.node.set_label(name);
        }
        NurseryCore {
            deadline: self.timeout.map(expire),
            grace: None,
            tokens: self.tokens.iter().map(follow).collect(),
            group: Group::of_tenant(owner, index),
            tenant,
            settings,
            on_failure: self.on_failure,
            traits,
            failures: Failures::new(),
            closing: AtomicBool::new(false),
            winding_down: AtomicBool::new(false),
            child_budget: self.child_budget,
            child_cost,
            on_event: self.on_event,
            cancelled_at: Lock::new(Vec::new()),
            ended: OnceLock::new(),
            outer: None,
            _context: self.context,
        }
    }
}
