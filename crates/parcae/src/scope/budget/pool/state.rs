//! The quantities of a pool, and the arithmetic that conserves them. Everything here runs under the
//! pool's lock.

use super::{Ceiling, More};
use crate::base::lock::Guard;
use crate::scope::budget::slice::Slice;
use crate::scope::budget::{Budget, Resource, Shortfall, Suspended, UNLIMITED};
use crate::wait::Queue;
use std::ops::{Deref, DerefMut};

pub(super) struct PoolState<W> {
    /// The sum of all amounts that were put in.
    pub(super) granted: Budget,
    /// Budget that no task has drawn.
    pub(super) left: Budget,
    /// Budget that tasks and pools below have drawn.
    pub(super) held: Budget,
    pub(super) spent: Budget,
    /// The part of `granted` that the owner of the nursery has put in.
    pub(super) from_owner: Budget,
    /// The part of `granted` that came from the pool above later.
    pub(super) topped_up: Budget,
    /// Budget that capabilities have added, here and in the pools below: it counts towards the
    /// ceiling of this pool.
    pub(super) recharged: Budget,
    /// The account of a prepaid child.
    pub(super) prepaid_grant: Budget,
    /// Tasks that wait for a recharge. The key names the task and the resource.
    pub(super) suspended: Queue<W, Suspended>,
    /// The nursery has ended.
    pub(super) closed: bool,
}

/// Exclusive access to the state of a pool. Debug builds check on release that the budget was
/// conserved, and that no task waits beside budget that it could draw.
pub(super) struct Access<'p, W>(pub(super) Guard<'p, PoolState<W>>);

impl<W> Deref for Access<'_, W> {
    type Target = PoolState<W>;

    fn deref(&self) -> &PoolState<W> {
        &self.0
    }
}

impl<W> DerefMut for Access<'_, W> {
    fn deref_mut(&mut self) -> &mut PoolState<W> {
        &mut self.0
    }
}

#[cfg(debug_assertions)]
impl<W> Drop for Access<'_, W> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.check();
        }
    }
}

impl<W> Default for PoolState<W> {
    fn default() -> PoolState<W> {
        PoolState {
            granted: Budget::ZERO,
            left: Budget::ZERO,
            held: Budget::ZERO,
            spent: Budget::ZERO,
            from_owner: Budget::ZERO,
            topped_up: Budget::ZERO,
            recharged: Budget::ZERO,
            prepaid_grant: Budget::ZERO,
            suspended: Queue::new(),
            closed: false,
        }
    }
}

impl<W> PoolState<W> {
    /// Everything that came from above.
    pub(super) fn all_from_above(&self) -> Budget {
        let mut sum = self.from_owner;
        sum.absorb(self.topped_up);
        sum
    }

    /// How much this pool draws from the one above at a time.
    pub(super) fn portion(&self, more: &More<W>) -> Slice {
        more.grant.min(self.room(Some(more)))
    }

    /// How much may still come from above in total, of the resources that do come from there: where
    /// the grant is 0 the pool has a bound of its own.
    pub(super) fn allowed(&self, more: &More<W>) -> Budget {
        let none = |room, grant| if grant == 0 { 0 } else { room };
        self.room(Some(more)).zip(more.grant.most(), none)
    }

    /// How much may still come in total, from above or by recharges.
    pub(super) fn room(&self, more: Option<&More<W>>) -> Budget {
        let Some(Ceiling { most, .. }) = more.and_then(|more| more.ceiling) else {
            return Budget::UNLIMITED;
        };
        most.zip(self.towards_ceiling(), |most, had| match most {
            UNLIMITED => UNLIMITED,
            _ => most.saturating_sub(had),
        })
    }

    /// All that counts towards the ceiling of the pool.
    pub(super) fn towards_ceiling(&self) -> Budget {
        let mut sum = self.all_from_above();
        sum.absorb(self.recharged);
        sum
    }

    /// Undoes the payment for children that were not spawned.
    pub(super) fn unspawn(&mut self, drawn: Budget, children: u64) {
        let drawn = drawn.times(children);
        self.give_back(drawn, drawn);
        let cost = self.counted(Budget::SPAWN.times(children));
        self.left.absorb(cost);
        self.spent = minus(self.spent, cost);
    }

    /// Checks the conserved quantity. Sums that do not fit into a number are not compared.
    #[cfg(debug_assertions)]
    fn check(&mut self) {
        for resource in Resource::ALL {
            let of = |budget: &Budget| budget.get(resource);
            let (granted, left) = (of(&self.granted), of(&self.left));
            let sum =
                left.checked_add(of(&self.held)).and_then(|sum| sum.checked_add(of(&self.spent)));
            let counted = granted < UNLIMITED - 1 && left != UNLIMITED;
            assert!(
                !counted || sum == Some(granted),
                "budget is not conserved: {granted} {resource} granted, {left} left, {} held, {} spent",
                of(&self.held),
                of(&self.spent),
            );
        }
        let left = self.left;
        assert!(
            !self.suspended.any(None, |waiting| left.get(waiting.resource) > 0),
            "a task waits for budget that is there: {left}",
        );
    }

    /// Pays for a child and draws its first account.
    pub(super) fn spawn(&mut self, wanted: Slice) -> Result<Budget, Shortfall> {
        // First: of several shortages this one says why the spawn failed.
        let (needed, left) = (Budget::SPAWN.spawn_count, self.left.spawn_count);
        if needed > left {
            return Err(Shortfall { resource: Resource::SpawnCount, needed, left });
        }
        { self.left }.charge(wanted.with_spawn())?;
        self.pay(1);
        Ok(self.draw(wanted))
    }

    /// Whether a child that wants so much would get the usual account from a full pool: true unless
    /// the pool has meanwhile got some of a resource that it had nothing of.
    pub(super) fn is_default(&self, usual: Budget, wanted: Slice) -> bool {
        let more = usual.zip(wanted.most(), |usual, wanted| if usual == 0 { wanted } else { 0 });
        self.left.min(more) == Budget::ZERO
    }

    /// Spends the cost of spawning so many children, which must be there.
    pub(super) fn pay(&mut self, children: u64) {
        let cost = self.counted(Budget::SPAWN.times(children));
        let paid = self.left.charge(cost);
        debug_assert!(paid.is_ok(), "spawned without paying");
        self.spent.absorb(cost);
    }

    /// Moves a slice to a task. Resources that the pool does not count are not counted by the task
    /// either.
    pub(super) fn draw(&mut self, wanted: Slice) -> Budget {
        let part = wanted.of(self.left);
        let part = self.left.zip(part, |own, part| if own == UNLIMITED { UNLIMITED } else { part });
        self.draw_bounded(part)
    }

    /// Moves up to `wanted` to a task or to a pool below.
    pub(super) fn draw_bounded(&mut self, wanted: Budget) -> Budget {
        let drawn = self.left.split(wanted);
        self.held.absorb(self.counted(drawn));
        drawn
    }

    pub(super) fn give_back(&mut self, drawn: Budget, left: Budget) {
        let (drawn, left) = (self.counted(drawn), self.counted(left));
        self.held = minus(self.held, drawn);
        self.left.absorb(left);
        self.spent.absorb(minus(drawn, left));
    }

    /// The components that this pool counts; 0 for the others.
    pub(super) fn counted(&self, budget: Budget) -> Budget {
        self.left.zip(budget, |own, other| if own == UNLIMITED { 0 } else { other })
    }
}

pub(super) fn minus(from: Budget, what: Budget) -> Budget {
    from.zip(what, |from, what| {
        debug_assert!(what <= from, "budget from nowhere: {what} of {from}");
        from.saturating_sub(what)
    })
}
