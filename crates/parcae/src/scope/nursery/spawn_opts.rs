//! Options of tasks, and the budget of a task that has one of its own.

use crate::sched::task::{Binding, Lane, Placement, Priority, Traits};
use crate::scope::budget::UNLIMITED;
use crate::scope::budget::{Budget, Ceiling, OnExhausted, Shortfall, Slice};
use crate::scope::cap::{CapContext, ContextNode};
use crate::scope::cx::TaskSettings;
use crate::stack::StackSize;
use std::sync::Arc;

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
    pub(super) placement: Placement,
    migratable: bool,
    pub(crate) context: Option<Arc<ContextNode>>,
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

    /// The worker that a child starts on; see [`Placement`]. A root task starts on any worker.
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::prelude::*;
    /// use parcae::task::Placement;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let sum: u64 = rt.run(|cx| {
    ///     let (numbers, squares) = channel::<u64>(0);
    ///     cx.nursery(|n| {
    ///         // Partners that hand over value by value: on one worker each hand-over is a switch.
    ///         let near = SpawnOpts::new().placement(Placement::Near);
    ///         n.spawn_with(near, move |_| Ok((1..=10).try_for_each(|i| numbers.send(i * i))?))?;
    ///         squares.iter().sum()
    ///     })
    /// })?;
    /// assert_eq!(sum, 385);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn placement(mut self, placement: Placement) -> SpawnOpts {
        self.placement = placement;
        self
    }

    /// Binds the task, and the tasks of all nurseries that it opens, to a scheduling context: they
    /// run before all others while it has budget, and not at all while it has none. The task starts
    /// on the worker of the context. Another context of the nursery does not apply to it.
    ///
    /// The task is cancelled when the context is revoked. A context that was revoked before, or is
    /// of another runtime, is refused by the spawn. A root task cannot be bound.
    pub fn context(self, cap: &CapContext) -> SpawnOpts {
        self.context_of(&cap.node())
    }

    /// The same, by the context behind the capability.
    pub(crate) fn context_of(mut self, context: &Arc<ContextNode>) -> SpawnOpts {
        self.context = Some(Arc::clone(context));
        self
    }

    /// The scheduling traits, with these options applied.
    pub(crate) fn traits(&self, usual: Traits) -> Traits {
        let lane = self.priority.map_or(usual.lane, |priority| usual.lane.with_priority(priority));
        let context = self.context.as_ref().map(|context| context.index());
        Traits {
            lane: if context.is_some() { Lane::Realtime } else { lane },
            stack: self.stack_size.unwrap_or(usual.stack),
            binding: match context {
                Some(context) => Binding::to(context),
                None => usual.binding.moving(self.migratable),
            },
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
