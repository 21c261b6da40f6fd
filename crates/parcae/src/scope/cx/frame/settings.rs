//! The settings of a task: those that it shares with its siblings, and its name and origin.

use crate::sched::Shared;
use crate::sched::task::TenantIndex;
use crate::scope::budget::{Budget, BudgetPool, More, OnExhausted, Slice, UNLIMITED};
use crate::scope::cancel::CancelNode;
use crate::scope::cap::{IoAuthority, Issuer};
use crate::scope::nursery::{Hook, NamedBudget};
use crate::scope::tally::Tally;
use std::panic::Location;
use std::sync::Arc;

/// Settings of the tasks of a nursery, or of a root task. They outlive the tasks.
pub(crate) struct TaskSettings {
    /// The nursery's number, and that of the task that opened it; 0 for the runtime itself.
    pub(crate) nursery: u64,
    pub(crate) owner: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Arc<CancelNode>,
    pub(crate) pool: Arc<BudgetPool>,
    /// Amount that a task draws at a time, of each counted resource.
    pub(crate) grant: Slice,
    /// The first slice of a task if the pool is full.
    pub(crate) default_grant: Budget,
    /// The default slice of children of its tasks.
    pub(crate) child_grant: Slice,
    /// The issuer of valid capabilities.
    pub(crate) issuer: Arc<Issuer>,
    /// Authority over sockets, files and programs, if it is limited.
    pub(crate) io: Option<Arc<IoAuthority>>,
    pub(crate) on_exhausted: OnExhausted,
    /// Called when a task runs out of budget.
    pub(crate) on_exhausted_child: Option<Hook>,
    /// Ops between two yields.
    pub(crate) interval: u64,
    pub(crate) preempt: Preempt,
    /// Whether turns may be shorter than the interval: they end at random, or with the turn of the
    /// tenant, or are counted for tenants by the deterministic executor.
    pub(crate) turns: TurnLength,
    /// The tenant that its tasks belong to.
    pub(crate) tenant: TenantIndex,
    /// Whether the end of a task is reported: to a tally, or to its tenant.
    pub(crate) reports: bool,
    pub(crate) name: Option<Arc<str>>,
    /// Counters of times and tasks, if they are kept.
    pub(crate) tally: Option<Arc<Tally>>,
}

impl TaskSettings {
    /// A copy for a root task. Its own cancel node is made on first use (`cancel::OwnNode`).
    pub(crate) fn for_root(&self) -> TaskSettings {
        TaskSettings {
            shared: Arc::clone(&self.shared),
            node: Arc::clone(&self.node),
            pool: Arc::clone(&self.pool),
            issuer: Arc::clone(&self.issuer),
            io: self.io.clone(),
            name: self.name.clone(),
            tally: self.tally.clone(),
            on_exhausted_child: self.on_exhausted_child.clone(),
            ..*self
        }
    }

    /// The same, for a task with a budget of its own, of which `account` was paid.
    pub(crate) fn with_budget(&self, own: NamedBudget, account: Budget) -> TaskSettings {
        let fails = self.on_exhausted == OnExhausted::Fail;
        let grant = if fails { Slice::named(Budget::ZERO) } else { own.grant };
        let more = More { pool: Arc::clone(&self.pool), grant, ceiling: own.ceiling };
        let granted = account.min(own.first.most());
        // A component that neither the nursery nor the options count is not counted here either.
        let most = own.ceiling.map_or(Budget::UNLIMITED, |ceiling| ceiling.most);
        let free = account.zip(own.named.min(most), u64::min);
        let granted = granted.zip(free, |granted, free| match free {
            UNLIMITED => UNLIMITED,
            _ => granted,
        });
        let pool = Arc::new(BudgetPool::new(granted, Some(more)));
        let grant = own.grant.between(Budget::ZERO, own.first.most().max(own.grant.most()));
        TaskSettings {
            nursery: self.nursery,
            owner: self.owner,
            shared: Arc::clone(&self.shared),
            node: Arc::clone(&self.node),
            default_grant: pool.default_grant(grant.most()),
            pool,
            grant,
            child_grant: self.child_grant,
            issuer: Arc::clone(&self.issuer),
            io: self.io.clone(),
            on_exhausted: self.on_exhausted,
            on_exhausted_child: self.on_exhausted_child.clone(),
            interval: self.interval,
            preempt: self.preempt,
            turns: self.turns,
            tenant: self.tenant,
            reports: self.reports,
            name: self.name.clone(),
            tally: self.tally.clone(),
        }
    }
}

/// The length of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnLength {
    /// That of the interval.
    Whole,
    /// At most that.
    Cut,
}

impl TurnLength {
    /// Of tasks with these settings.
    pub(crate) fn of(preempt: Preempt, tenant: TenantIndex, shared: &Shared) -> TurnLength {
        let is_cut = preempt != Preempt::Never || tenant.is_tenant() || shared.config.deterministic;
        if is_cut { TurnLength::Cut } else { TurnLength::Whole }
    }
}

/// When a task yields although its turn is not over.
///
/// Tasks switch only at checkpoints and waits. With [`Randomly`](Preempt::Randomly) the seed
/// decides at which checkpoint, operations on channels and turns of `#[budgeted]` loops included,
/// so that different seeds show different interleavings. For tests; [`explore`](crate::explore())
/// turns it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Preempt {
    /// After [`yield_interval`](crate::runtime::Builder::yield_interval) ops.
    #[default]
    Never,
    /// After a random number of ops: often one or a few, at most `yield_interval`.
    Randomly,
}

/// The name of a task, and the place where it was spawned.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) spawned_at: &'static Location<'static>,
}

/// The owner of the pool that a task draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolOwner {
    /// The nursery that waits for the task.
    Nursery,
    /// The task itself, or the runtime: the pool may be gone when the task has ended.
    Other,
}
