//! Nurseries that a task has opened: moving budget from its account to their pools and back.

use super::{Frame, ScopeRef};
use crate::base::error::{IslandRefused, Result};
use crate::base::lent::MaybeLent;
use crate::base::shim::atomic::AtomicU64;
use crate::scope::budget::{Budget, BudgetPool, ClosedPool, More, OnExhausted, UNLIMITED};
use crate::scope::cx::TaskSettings;
use std::ptr::NonNull;
use std::sync::Arc;

impl Frame {
    /// Funds the pool of a nursery that this task opens: with the given budget, or with the task's
    /// whole account. A pool without limit is lent.
    ///
    /// # Safety
    ///
    /// The pool is used until the task leaves the scope that it is in now, and no longer.
    pub(crate) unsafe fn fund(&self, budget: Option<Budget>) -> Result<MaybeLent<Arc<BudgetPool>>> {
        if let Some(budget) = budget {
            self.refuse_sealed(IslandRefused::Nursery)?;
            // A request without limit is a request for the whole balance.
            let cost = budget.min(self.balance().max(budget.counted()));
            self.charge(cost)?;
            let pool = BudgetPool::new(cost, None).filled_from(self.pool());
            return Ok(MaybeLent::own(Arc::new(pool)));
        }
        if self.pool().is_unlimited() {
            // SAFETY: as the caller says.
            return Ok(unsafe { MaybeLent::copy_of(self.pool()) });
        }
        self.refuse_sealed(IslandRefused::Nursery)?;
        let more = (self.settings().on_exhausted != OnExhausted::Fail).then(|| More {
            pool: Arc::clone(self.pool()),
            grant: self.settings().grant,
            ceiling: None,
        });
        self.report_spent();
        let parent = Arc::clone(self.pool());
        let pool = BudgetPool::new(self.take_balance(), more).filled_from(&parent);
        Ok(MaybeLent::own(Arc::new(pool)))
    }

    /// Enters a nursery that this task has opened: from now on the nursery's node cancels the task.
    /// Returns the outer state, for [`leave_nursery`](Frame::leave_nursery).
    pub(crate) fn enter_nursery(&self, settings: &TaskSettings, shares: Shares) -> Outer {
        self.unsubscribe();
        let outer = Outer {
            scope: self.scope.get(),
            limit: self.limit.get(),
            drawn: self.drawn.get(),
            marks: self.put_marks_aside(),
        };
        let pool = match shares {
            Shares::All => {
                self.drawn.set(Budget::ZERO);
                NonNull::from(&*settings.pool)
            }
            Shares::Nothing => outer.scope.pool,
        };
        let (node, shields) = (NonNull::from(&settings.node), self.watch.shields());
        self.scope.set(ScopeRef { node, pool, shields });
        self.limit.set(NonNull::from(settings.node.limit()));
        outer
    }

    /// Leaves a nursery whose children have all ended, and takes back the rest of its pool.
    pub(crate) fn leave_nursery(&self, settings: &TaskSettings, shares: Shares, outer: Outer) {
        self.unsubscribe();
        self.take_marks_up(outer.marks, settings.node.reason());
        let mut surplus = Budget::ZERO;
        if let Shares::All = shares
            && !settings.pool.is_unlimited()
        {
            // The balance exceeds the amount drawn here if the task has freed memory that it had
            // allocated before.
            surplus = self.take_balance();
            let back = surplus.split(self.drawn.get());
            settings.pool.settle(self.drawn.get(), back);
        }
        self.scope.set(outer.scope);
        self.limit.set(outer.limit);
        let mut drawn = match shares {
            Shares::All => outer.drawn,
            Shares::Nothing => self.drawn.get(), // it went on drawing on the same pool
        };
        let mut balance = self.balance();
        gain(&mut balance, surplus);
        if !(settings.pool.is_unlimited() && matches!(shares, Shares::All)) {
            if let Some(tally) = &settings.tally {
                tally.spend(settings.pool.standing().spent);
            }
            let ClosedPool { left, topped_up } = settings.pool.close();
            drawn.absorb(topped_up);
            gain(&mut balance, left);
            self.set_balance(balance);
        }
        self.drawn.set(drawn);
    }

    /// Moves budget from the account into the pool of a nursery that this task owns.
    pub(crate) fn recharge(&self, pool: &BudgetPool, amount: Budget) -> Result<()> {
        self.charge(amount)?;
        pool.recharge_from_owner(amount);
        Ok(())
    }
}

/// The part of its account that a task gives to a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shares {
    All,
    Nothing,
}

/// The cancel node and the pool of a task before it entered a nursery.
pub(crate) struct Outer {
    scope: ScopeRef,
    limit: NonNull<AtomicU64>,
    drawn: Budget,
    marks: u8,
}

/// Adds an amount that a task was given. Components without limit at the giver become unlimited for
/// the task.
pub(super) fn gain(balance: &mut Budget, part: Budget) {
    let mut sum = *balance;
    sum.absorb(part);
    *balance = sum.zip(part, |sum, part| if part == UNLIMITED { UNLIMITED } else { sum });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_gain_without_limit_makes_a_counted_resource_unlimited() {
        let mut balance = Budget { ops: 5, syscalls: 7, ..Budget::ZERO };
        gain(&mut balance, Budget { ops: 1, syscalls: UNLIMITED, ..Budget::ZERO });
        assert_eq!(balance, Budget { ops: 6, syscalls: UNLIMITED, ..Budget::ZERO });
    }
}
