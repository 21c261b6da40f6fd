//! Options of nurseries and children.

use super::failures::Failures;
use super::{ChildCost, Hook, NurseryCore, NurseryEvent};
use crate::base::error::Result;
use crate::base::lock::Lock;
use crate::sched::task::group::Group;
use crate::sched::task::{Priority, TaskRef, Traits};
use crate::sched::timers::Due;
use crate::sched::worker::{self, Worker};
use crate::scope::budget::UNLIMITED;
use crate::scope::budget::{Budget, BudgetPool, Ceiling, OnExhausted, Shortfall, Slice};
use crate::scope::cancel::{CancelNode, CancelToken, OnCancel};
use crate::scope::cx::{Frame, Shares, TaskSettings};
use crate::scope::tally::Tallies;
use crate::stack::StackSize;
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
    /// [`SpawnOpts::budget`]. It is moved out of the nursery's budget, and binds whatever that has
    /// left.
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

    /// The core of a nursery that this task opens.
    pub(super) fn open(self, frame: &Frame, owner: TaskRef) -> Result<(NurseryCore, Shares)> {
        let shares = if self.budget.is_some() { Shares::Nothing } else { Shares::All };
        let pool = frame.fund(self.budget)?;
        let (node, grace) = frame.child_node();
        let mut core = self.core(frame.settings(), node, pool, owner);
        core.grace = grace;
        core.settings.owner = frame.record().id();
        core.outer = frame.seen().nursery.get();
        Ok((core, shares))
    }

    /// The core of a nursery with this pool, cancelled by this node; of no task.
    pub(crate) fn core(
        self,
        outer: &TaskSettings,
        node: Arc<CancelNode>,
        pool: Arc<BudgetPool>,
        owner: TaskRef,
    ) -> NurseryCore {
        let on_exhausted = self.on_exhausted.unwrap_or(outer.on_exhausted);
        let grant = self.slice.map_or(outer.child_grant, Slice::named).under(on_exhausted);
        // A task further down that draws on this budget is this host's concern.
        let on_exhausted_child = self.on_event.clone().or_else(|| outer.on_exhausted_child.clone());
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
            shared: Arc::clone(&outer.shared),
            node,
            default_grant: pool.default_grant(grant.most()),
            pool,
            grant,
            child_grant: grant,
            issuer: Arc::clone(&outer.issuer),
            on_exhausted,
            on_exhausted_child,
            interval: outer.interval,
            preempt: outer.preempt,
            name: self.name,
        };
        let traits = Traits {
            priority: self.priority.unwrap_or(Priority::Normal),
            migratable: false,
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
            group: Group::new(owner),
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
        }
    }
}

/// A budget of a task's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedBudget {
    /// The explicit bound, lowered to the limit of a capability; unlimited where there is none.
    pub(crate) named: Budget,
    /// The first slice: all that is named, and a slice of the rest.
    pub(crate) first: Slice,
    /// Later slices, of resources that are not named.
    pub(crate) grant: Slice,
    pub(crate) ceiling: Option<Ceiling>,
}

/// The amount that a task gets at a time of a resource that its capability allows and the nursery
/// does not grant by default: enough for most.
const ON_DEMAND: u64 = 16;

impl NamedBudget {
    /// The budget of its own, if any, of a task spawned under `settings`: the budget that its
    /// options name, the most that a capability allows.
    ///
    /// The named part is moved to the task at once and is never refilled: it binds. The rest is
    /// drawn as by other children, up to the limit of the capability.
    pub(crate) fn of(
        settings: &TaskSettings,
        budget: Option<Budget>,
        ceiling: Option<Ceiling>,
    ) -> Option<NamedBudget> {
        let ceiling = ceiling.filter(|ceiling| ceiling.most != Budget::UNLIMITED);
        let most = ceiling.map_or(Budget::UNLIMITED, |ceiling| ceiling.most);
        let named = match budget {
            Some(budget) => budget.min(most),
            None => {
                ceiling?;
                Budget::UNLIMITED
            }
        };
        let (slice, fails) = (settings.grant, settings.on_exhausted == OnExhausted::Fail);
        let first = slice.most().zip(named, |slice, named| match named {
            // Under `Fail` there is no refill: a part of everything, whatever the slice is.
            UNLIMITED if fails => UNLIMITED,
            UNLIMITED => slice,
            named => named,
        });
        let grant = slice.most().zip(named, |slice, named| match named {
            UNLIMITED => slice.max(ON_DEMAND),
            _ => 0,
        });
        let parts = if fails { slice.once() } else { slice };
        let first = parts.between(named.counted(), first.min(most));
        let grant = parts.between(Budget::ZERO, grant.min(most));
        Some(NamedBudget { named, first, grant, ceiling })
    }

    /// Checks that the account covers the named part in full.
    pub(crate) fn check(self, mut account: Budget) -> Result<(), Shortfall> {
        account.charge(self.named.counted())
    }
}

/// Options of a task: a child spawned by [`Nursery::spawn_with`](crate::Nursery::spawn_with), a
/// root task by [`Runtime::run_with`](crate::Runtime::run_with) and
/// [`Handle::spawn_with`](crate::Handle::spawn_with).
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let opts = SpawnOpts::new().name("nightly report").priority(Priority::Low);
/// let opts = opts.budget(Budget::SERVICE);
/// let name = rt.run_with(opts, |cx| Ok(cx.info().name().map(String::from)))?;
/// assert_eq!(name.as_deref(), Some("nightly report"));
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct SpawnOpts {
    pub(crate) name: Option<Arc<str>>,
    priority: Option<Priority>,
    stack_size: Option<StackSize>,
    pub(crate) budget: Option<Budget>,
    migratable: bool,
}

impl SpawnOpts {
    /// The defaults.
    pub fn new() -> SpawnOpts {
        SpawnOpts::default()
    }

    /// A name, for errors and tools.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> SpawnOpts {
        self.name = Some(name.into());
        self
    }

    /// Its priority.
    pub fn priority(mut self, priority: Priority) -> SpawnOpts {
        self.priority = Some(priority);
        self
    }

    /// Its stack size.
    pub fn stack_size(mut self, size: StackSize) -> SpawnOpts {
        self.stack_size = Some(size);
        self
    }

    /// A budget of its own, moved out of its nursery's, or a root task's out of its runtime's. It
    /// binds, whatever those have left: when it is used up the task fails, or under
    /// [`OnExhausted::Suspend`] waits until its [handle](crate::TaskHandle::recharge) or
    /// [account](crate::TaskHandle::account) recharges it. Components that are
    /// [unlimited](crate::budget::UNLIMITED) in this budget are drawn from the nursery as needed.
    pub fn budget(mut self, budget: Budget) -> SpawnOpts {
        self.budget = Some(budget);
        self
    }

    /// The scheduling traits, with these options applied.
    pub(crate) fn traits(&self, usual: Traits) -> Traits {
        Traits {
            priority: self.priority.unwrap_or(usual.priority),
            stack: self.stack_size.unwrap_or(usual.stack),
            migratable: self.migratable,
        }
    }

    /// The task may move to another thread while it waits, and may be stolen at any time.
    ///
    /// # Safety
    ///
    /// Everything that lives on the task's stack while it waits is `Send`. No function on it
    /// uses thread-local data both before and after a wait: the compiler may remember where
    /// it was.
    pub unsafe fn migratable(mut self) -> SpawnOpts {
        self.migratable = true;
        self
    }
}
