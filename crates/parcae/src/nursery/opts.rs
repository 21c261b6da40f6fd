//! How nurseries and children are set up.

use super::{Core, Failures};
use crate::budget::{Budget, Ceiling, More, OnExhausted, Pool, Shortfall, UNLIMITED};
use crate::cancel::{CancelToken, Node, OnCancel};
use crate::cx::{Frame, Shares, Terms};
use crate::error::Result;
use crate::stack::StackSize;
use crate::task::group::Group;
use crate::task::{Priority, TaskRef, Traits};
use crate::time::Due;
use crate::worker::{self, Worker};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What happens to the others when a child fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// They are cancelled, and so is the body.
    #[default]
    FailFast,
    /// They go on. The first failure that nobody learned of by joining is the nursery's result.
    Isolate,
    /// They go on. All failures that nobody learned of by joining are the nursery's result.
    Collect,
}

/// How a nursery is set up; see [`Cx::nursery_with`](crate::Cx::nursery_with).
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
    pub(super) budget: Option<Budget>,
    child_budget: Option<Budget>,
    on_failure: OnFailure,
    on_exhausted: Option<OnExhausted>,
    stack_size: Option<StackSize>,
    priority: Option<Priority>,
    timeout: Option<Duration>,
    tokens: Vec<CancelToken>,
}

impl NurseryOpts {
    /// Nothing special: shares the budget of the task that opens it, and fails fast.
    pub fn new() -> NurseryOpts {
        NurseryOpts::default()
    }

    /// A name, for errors and tools.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> NurseryOpts {
        self.name = Some(name.into());
        self
    }

    /// A budget of its own, moved out of that of the task that opens the nursery. What is left
    /// of it goes back in the end.
    pub fn budget(mut self, budget: Budget) -> NurseryOpts {
        self.budget = Some(budget);
        self
    }

    /// How much a child gets at a time, of what the nursery's budget counts. If it is not set,
    /// [`Budget::CHILD`], with which it cannot spawn.
    pub fn child_budget(mut self, budget: Budget) -> NurseryOpts {
        self.child_budget = Some(budget);
        self
    }

    /// What happens when a child fails.
    pub fn on_failure(mut self, policy: OnFailure) -> NurseryOpts {
        self.on_failure = policy;
        self
    }

    /// What happens to a child that has used up its budget. If it is not set, the same as to
    /// the task that opens the nursery.
    pub fn on_exhausted(mut self, policy: OnExhausted) -> NurseryOpts {
        self.on_exhausted = Some(policy);
        self
    }

    /// How much stack a child gets.
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
    /// assert!(matches!(error.unwrap_err().kind(), ErrorKind::Cancelled(parcae::CancelReason::Timeout)));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn timeout(mut self, time: Duration) -> NurseryOpts {
        self.timeout = Some(time);
        self
    }

    /// Has the nursery cancelled when this token is, too, for the same reason: beside all that it belongs to. Several
    /// tokens may be given, one call each.
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

    /// How urgent children are.
    pub fn priority(mut self, priority: Priority) -> NurseryOpts {
        self.priority = Some(priority);
        self
    }

    /// The core of a nursery that this task opens.
    pub(super) fn open(self, frame: &Frame, owner: TaskRef) -> Result<(Core, Shares)> {
        let shares = if self.budget.is_some() { Shares::Nothing } else { Shares::All };
        let pool = frame.fund(self.budget)?;
        let mut core = self.core(frame.terms(), frame.child_node(), pool, owner);
        core.terms.owner = frame.record().id();
        core.outer = frame.seen().nursery.get();
        Ok((core, shares))
    }

    /// The core of a nursery with this pool, cancelled by this node; of no task.
    pub(super) fn core(
        self,
        outer: &Terms,
        node: Arc<Node>,
        pool: Arc<Pool>,
        owner: TaskRef,
    ) -> Core {
        let grant = self.child_budget.unwrap_or(outer.child_grant);
        let nursery = worker::current().map_or(0, Worker::fresh_id);
        let tally = || Some(outer.shared.tallies.open(nursery, self.name.as_ref(), &pool));
        let terms = Terms {
            tally: outer.tally.as_ref().and_then(|_| tally()),
            nursery,
            owner: 0,
            shared: Arc::clone(&outer.shared),
            node,
            usual: pool.usual(grant),
            pool,
            grant,
            child_grant: grant,
            issuer: Arc::clone(&outer.issuer),
            on_exhausted: self.on_exhausted.unwrap_or(outer.on_exhausted),
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
            let node = Arc::downgrade(&terms.node);
            terms.shared.at_for(terms.shared.later(time), Due::Cancel(node))
        };
        let follow = |token: &CancelToken| -> OnCancel {
            let node = Arc::downgrade(&terms.node);
            token.on_cancel(move |reason| {
                if let Some(node) = node.upgrade() {
                    node.cancel(reason);
                }
            })
        };
        if self.timeout.is_some() || self.tokens.iter().any(CancelToken::expires) {
            terms.node.set_expires();
        }
        Core {
            deadline: self.timeout.map(expire),
            tokens: self.tokens.iter().map(follow).collect(),
            group: Group::new(owner),
            terms,
            on_failure: self.on_failure,
            traits,
            failures: Failures::new(),
            closing: Cell::new(false),
            winding_down: Cell::new(false),
            prepaid: Cell::new(0),
            outer: None,
        }
    }
}

/// A budget of a task's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// What it begins with.
    pub(crate) first: Budget,
    /// Whether it has to get all of that.
    all: bool,
    /// What it gets at a time after that.
    grant: Budget,
    ceiling: Option<Ceiling>,
}

/// What a task gets at a time of something that it may use by its capability, and that the nursery gives no
/// child by itself: enough for most.
const ON_DEMAND: u64 = 16;

impl Own {
    /// What a task that is spawned under `terms` has of its own, if anything: the budget that its options name,
    /// the most that a capability allows.
    pub(crate) fn of(
        terms: &Terms,
        budget: Option<Budget>,
        ceiling: Option<Ceiling>,
    ) -> Option<Own> {
        let ceiling = ceiling.filter(|ceiling| ceiling.most != Budget::UNLIMITED);
        let most = ceiling.map_or(Budget::UNLIMITED, |ceiling| ceiling.most);
        match budget {
            Some(budget) => {
                let budget = budget.min(most);
                Some(Own { first: budget, all: true, grant: budget, ceiling })
            }
            None => {
                // Who gets no more gets at once what it may have.
                let first = terms.grant.zip(most, |grant, most| match terms.on_exhausted {
                    OnExhausted::Fail if most != UNLIMITED => most,
                    _ => grant.min(most),
                });
                let grant = terms.grant.zip(most, |grant, most| grant.max(ON_DEMAND).min(most));
                ceiling.map(|_| Own { first, all: false, grant, ceiling })
            }
        }
    }

    /// Whether what could be had is enough. All that there is where it is asked for without limit.
    pub(crate) fn check(self, mut account: Budget) -> Result<(), Shortfall> {
        if self.all { account.charge(self.first.counted()) } else { Ok(()) }
    }
}

impl Terms {
    /// The same, for a task with a budget of its own, of which `account` was paid.
    pub(crate) fn with_budget(&self, own: Own, account: Budget) -> Terms {
        // Without a ceiling it is refilled if the policy is to refill. With one it is a child like others, up to that.
        let refilled = match own.ceiling {
            None => self.on_exhausted == OnExhausted::Refill,
            Some(_) => !own.all || self.on_exhausted == OnExhausted::Refill,
        };
        let grant = if refilled { own.grant } else { Budget::ZERO };
        let (pool, ceiling) = (Arc::clone(&self.pool), own.ceiling);
        let more = (refilled || ceiling.is_some()).then_some(More { pool, grant, ceiling });
        let pool = Arc::new(Pool::new(account.min(own.first), more));
        Terms {
            nursery: self.nursery,
            owner: self.owner,
            shared: Arc::clone(&self.shared),
            node: Arc::clone(&self.node),
            usual: pool.usual(own.grant),
            pool,
            grant: own.grant,
            child_grant: self.child_grant,
            issuer: Arc::clone(&self.issuer),
            on_exhausted: self.on_exhausted,
            interval: self.interval,
            preempt: self.preempt,
            name: self.name.clone(),
            tally: self.tally.clone(),
        }
    }
}

/// How a task is set up: a child by [`Nursery::spawn_with`](crate::Nursery::spawn_with), a root task by
/// [`Runtime::run_with`](crate::Runtime::run_with) and [`Handle::spawn_with`](crate::Handle::spawn_with).
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let opts = SpawnOpts::new().name("nightly report").priority(Priority::Low).budget(Budget::SERVICE);
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
    /// Nothing special.
    pub fn new() -> SpawnOpts {
        SpawnOpts::default()
    }

    /// A name, for errors and tools.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> SpawnOpts {
        self.name = Some(name.into());
        self
    }

    /// How urgent it is.
    pub fn priority(mut self, priority: Priority) -> SpawnOpts {
        self.priority = Some(priority);
        self
    }

    /// How much stack it gets.
    pub fn stack_size(mut self, size: StackSize) -> SpawnOpts {
        self.stack_size = Some(size);
        self
    }

    /// A budget of its own, moved out of its nursery's, or a root task's out of its runtime's. Where that says
    /// [`OnExhausted::Refill`] it gets as much again when it is used up.
    pub fn budget(mut self, budget: Budget) -> SpawnOpts {
        self.budget = Some(budget);
        self
    }

    /// What is unusual about it.
    pub(crate) fn traits(&self, usual: Traits) -> Traits {
        Traits {
            priority: self.priority.unwrap_or(usual.priority),
            stack: self.stack_size.unwrap_or(usual.stack),
            migratable: self.migratable,
        }
    }

    /// The task may move to another thread while it waits, and is stolen at any time.
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
