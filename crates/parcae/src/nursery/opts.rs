//! How nurseries and children are set up.

use super::{Core, Failures};
use crate::budget::{Budget, More, OnExhausted, Pool};
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
    budget: Option<Budget>,
    child_budget: Option<Budget>,
    on_failure: OnFailure,
    on_exhausted: Option<OnExhausted>,
    stack_size: Option<StackSize>,
    priority: Option<Priority>,
    timeout: Option<Duration>,
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

    /// How urgent children are.
    pub fn priority(mut self, priority: Priority) -> NurseryOpts {
        self.priority = Some(priority);
        self
    }

    /// The core of a nursery that this task opens.
    pub(super) fn open(self, frame: &Frame, owner: TaskRef) -> Result<(Core, Shares)> {
        let outer = frame.terms();
        let shares = if self.budget.is_some() { Shares::Nothing } else { Shares::All };
        let pool = frame.fund(self.budget)?;
        let grant = self.child_budget.unwrap_or(outer.child_grant);
        let terms = Terms {
            nursery: worker::current().map_or(0, Worker::fresh_id),
            owner: frame.record().id(),
            shared: Arc::clone(&outer.shared),
            node: frame.child_node(),
            usual: pool.usual(grant),
            pool,
            grant,
            child_grant: grant,
            issuer: Arc::clone(&outer.issuer),
            on_exhausted: self.on_exhausted.unwrap_or(outer.on_exhausted),
            interval: outer.interval,
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
        let core = Core {
            deadline: self.timeout.map(expire),
            group: Group::new(owner),
            terms,
            on_failure: self.on_failure,
            traits,
            failures: Failures::new(),
            closing: Cell::new(false),
            winding_down: Cell::new(false),
            prepaid: Cell::new(0),
            outer: frame.seen().nursery.get(),
        };
        Ok((core, shares))
    }
}

/// Whether a budget of a child's own may be refilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Refilled,
    /// Nobody's but the holder's of a capability: it is all that there is.
    Fixed,
}

impl Terms {
    /// The same, for a child with a budget of its own, of which `account` was paid.
    pub(super) fn with_budget(&self, budget: Budget, account: Budget, bound: Bound) -> Terms {
        let more = (self.on_exhausted == OnExhausted::Refill && bound == Bound::Refilled)
            .then(|| More { pool: Arc::clone(&self.pool), grant: budget });
        let pool = Arc::new(Pool::new(account, more));
        Terms {
            nursery: self.nursery,
            owner: self.owner,
            shared: Arc::clone(&self.shared),
            node: Arc::clone(&self.node),
            usual: pool.usual(budget),
            pool,
            grant: budget,
            child_grant: self.child_grant,
            issuer: Arc::clone(&self.issuer),
            on_exhausted: self.on_exhausted,
            interval: self.interval,
            name: self.name.clone(),
        }
    }
}

/// How a child is set up; see [`Nursery::spawn_with`](crate::Nursery::spawn_with).
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct SpawnOpts {
    pub(super) name: Option<Arc<str>>,
    pub(super) priority: Option<Priority>,
    pub(super) stack_size: Option<StackSize>,
    pub(super) budget: Option<Budget>,
    pub(super) migratable: bool,
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

    /// A budget of its own, moved out of its nursery's. Where the nursery says
    /// [`OnExhausted::Refill`] it gets as much again when it is used up.
    pub fn budget(mut self, budget: Budget) -> SpawnOpts {
        self.budget = Some(budget);
        self
    }

    /// The child may move to another thread while it waits, and is stolen at any time.
    ///
    /// # Safety
    ///
    /// Everything that lives on the child's stack while it waits is `Send`. No function on it
    /// uses thread-local data both before and after a wait: the compiler may remember where
    /// it was.
    pub unsafe fn migratable(mut self) -> SpawnOpts {
        self.migratable = true;
        self
    }
}
