//! The settings of a task: those that it shares with its siblings, and its name and origin.

use crate::base::lent::MaybeLent;
use crate::sched::Shared;
use crate::sched::task::{ContextIndex, TenantIndex};
use crate::scope::budget::{Budget, BudgetPool, More, OnExhausted, Slice, UNLIMITED};
use crate::scope::cancel::{CancelNode, OnCancel};
use crate::scope::cap::{ContextNode, IoAuthority, Issuer};
use crate::scope::nursery::{Hook, NamedBudget};
use crate::scope::tally::Tally;
use std::panic::Location;
use std::sync::Arc;

/// Settings of the tasks of a nursery, or of a root task. They outlive the tasks. Those that a
/// nursery has from the task that opens it are copies, lent by the settings of that task.
pub(crate) struct TaskSettings {
    /// The nursery's number, and that of the task that opened it; 0 for the runtime itself.
    pub(crate) nursery: u64,
    pub(crate) owner: u64,
    pub(crate) shared: MaybeLent<Arc<Shared>>,
    pub(crate) node: Arc<CancelNode>,
    pub(crate) pool: MaybeLent<Arc<BudgetPool>>,
    /// Amount that a task draws at a time, of each counted resource.
    pub(crate) grant: Slice,
    /// The first slice of a task if the pool is full.
    pub(crate) default_grant: Budget,
    /// The default slice of children of its tasks.
    pub(crate) child_grant: Slice,
    /// The issuer of valid capabilities.
    pub(crate) issuer: MaybeLent<Arc<Issuer>>,
    /// Authority over sockets, files and programs, if it is limited.
    pub(crate) io: MaybeLent<Option<Arc<IoAuthority>>>,
    pub(crate) on_exhausted: OnExhausted,
    /// Called when a task runs out of budget.
    pub(crate) on_exhausted_child: MaybeLent<Option<Hook>>,
    /// Ops between two yields.
    pub(crate) interval: u64,
    pub(crate) preempt: Preempt,
    /// Whether turns may be shorter than the interval: they end at random, or with the turn of the
    /// tenant, or are counted for tenants by the deterministic executor.
    pub(crate) turns: TurnLength,
    /// The tenant that its tasks belong to.
    pub(crate) tenant: TenantIndex,
    /// The scheduling context that its tasks run on.
    pub(crate) context: Option<ContextIndex>,
    /// Whether the end of a task is reported: to a tally, or to its tenant.
    pub(crate) reports: bool,
    pub(crate) name: Option<Arc<str>>,
    /// Counters of times and tasks, if they are kept.
    pub(crate) tally: Option<Arc<Tally>>,
}

/// The settings that a nursery has from the task that opens it, unless its options say otherwise.
pub(crate) struct Inherited {
    pub(crate) shared: MaybeLent<Arc<Shared>>,
    pub(crate) issuer: MaybeLent<Arc<Issuer>>,
    pub(crate) io: MaybeLent<Option<Arc<IoAuthority>>>,
    pub(crate) on_exhausted_child: MaybeLent<Option<Hook>>,
}

impl TaskSettings {
    /// The settings for a nursery inside, lent.
    ///
    /// # Safety
    ///
    /// These settings outlive what is made of the result.
    #[inline(always)]
    pub(crate) unsafe fn lend(&self) -> Inherited {
        // SAFETY: as the caller says; settings do not change, and counts are behind pointers.
        unsafe {
            Inherited {
                shared: MaybeLent::copy_of(&self.shared),
                issuer: MaybeLent::copy_of(&self.issuer),
                io: MaybeLent::copy_of(&self.io),
                on_exhausted_child: MaybeLent::copy_of(&self.on_exhausted_child),
            }
        }
    }

    /// The settings for a nursery that may outlive these.
    #[cfg_attr(not(feature = "foreign"), allow(dead_code, reason = "for owners that are threads"))]
    pub(crate) fn give(&self) -> Inherited {
        Inherited {
            shared: MaybeLent::own(Arc::clone(&self.shared)),
            issuer: MaybeLent::own(Arc::clone(&self.issuer)),
            io: MaybeLent::own(self.io.clone()),
            on_exhausted_child: MaybeLent::own(self.on_exhausted_child.clone()),
        }
    }

    /// A copy for a root task. Its own cancel node is made on first use (`cancel::OwnNode`).
    pub(crate) fn for_root(&self) -> TaskSettings {
        TaskSettings {
            shared: MaybeLent::own(Arc::clone(&self.shared)),
            node: Arc::clone(&self.node),
            pool: MaybeLent::own(Arc::clone(&self.pool)),
            issuer: MaybeLent::own(Arc::clone(&self.issuer)),
            io: MaybeLent::own(self.io.clone()),
            name: self.name.clone(),
            tally: self.tally.clone(),
            on_exhausted_child: MaybeLent::own(self.on_exhausted_child.clone()),
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
            shared: MaybeLent::own(Arc::clone(&self.shared)),
            node: Arc::clone(&self.node),
            default_grant: pool.default_grant(grant.most()),
            pool: MaybeLent::own(pool),
            grant,
            child_grant: self.child_grant,
            issuer: MaybeLent::own(Arc::clone(&self.issuer)),
            io: MaybeLent::own(self.io.clone()),
            on_exhausted: self.on_exhausted,
            on_exhausted_child: MaybeLent::own(self.on_exhausted_child.clone()),
            interval: self.interval,
            preempt: self.preempt,
            turns: self.turns,
            tenant: self.tenant,
            context: self.context,
            reports: self.reports,
            name: self.name.clone(),
            tally: self.tally.clone(),
        }
    }
}

impl TaskSettings {
    /// Lets the task run on this context, under a node that is cancelled with it.
    pub(crate) fn bind(&mut self, context: &ContextNode) -> OnCancel {
        self.node = self.node.child();
        self.context = Some(context.index());
        self.turns = TurnLength::Cut;
        self.reports = true;
        let node = Arc::downgrade(&self.node);
        context.token().on_cancel(move |reason| {
            if let Some(node) = node.upgrade() {
                node.cancel(reason);
            }
        })
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
