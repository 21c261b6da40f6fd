//! The account of a nursery or task, for other threads: its standing, and recharges under a
//! capability.

use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::Shared;
use crate::sched::lab::OpKind;
use crate::sched::worker::point_at;
use crate::scope::budget::{Budget, BudgetPool, NotRecharged, Standing, Suspended};
use crate::scope::cap::Issuer;
use crate::scope::cx::{self, TaskSettings};
use std::fmt;
use std::sync::{Arc, Weak};

/// The budget of a nursery, to be read and recharged from any thread. Has no effect after the
/// nursery has ended.
#[derive(Clone)]
pub struct Account {
    pool: Arc<BudgetPool>,
    issuer: Arc<Issuer>,
    shared: Weak<Shared>,
}

impl Account {
    pub(crate) fn of(settings: &TaskSettings, pool: &Arc<BudgetPool>) -> Account {
        let shared = Weak::clone(&settings.shared.me);
        Account { pool: Arc::clone(pool), issuer: Arc::clone(&settings.issuer), shared }
    }

    /// The scheduler, while the runtime lives.
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade()
    }

    /// Its standing. After the runtime has ended, the last known one.
    pub fn standing(&self) -> Standing {
        match self.shared.upgrade() {
            Some(shared) => cx::live_standing(&shared, &self.pool),
            None => self.pool.standing(),
        }
    }

    /// The tasks that wait for a recharge, and the resource they lack.
    pub fn suspended(&self) -> Vec<Suspended> {
        self.pool.suspended()
    }

    /// Adds as much of `amount` as the capability allows, and wakes tasks that wait for it. Returns
    /// the amount added, which is zero for resources that are not counted.
    ///
    /// A task that was spawned by a [`CapSpawn`](crate::cap::CapSpawn) does not get more than its
    /// `task_budget` in this way, nor do the nurseries below it: the rest stays with `cap`.
    ///
    /// # Errors
    ///
    /// If the capability is revoked or has nothing left of `amount`, if the `CapSpawn` of the task
    /// does not allow any more, or the nursery has ended.
    #[track_caller]
    pub fn recharge(&self, cap: &crate::scope::cap::CapBudget, amount: Budget) -> Result<Budget> {
        point_at(OpKind::Recharge, &*self.pool);
        cap.check_issuer(&self.issuer)?;
        if self.pool.is_unlimited() {
            return Ok(Budget::ZERO); // nothing is counted
        }
        let granted = cap.take(amount)?;
        let added = self.pool.recharge(granted);
        let kept = *added.as_ref().unwrap_or(&Budget::ZERO);
        let surplus = granted.zip(kept, |granted, kept| granted - kept);
        if surplus != Budget::ZERO {
            cap.give_back(surplus);
        }
        added.map_err(|refused| match refused {
            NotRecharged::Closed => Error::new(ErrorKind::NurseryNotActive),
            NotRecharged::Ceiling(cap) => {
                let short = { Budget::ZERO }.charge(granted).err();
                short
                    .map_or_else(|| Error::new(ErrorKind::NurseryNotActive), Error::short)
                    .bounded_by(Some(cap))
            }
        })
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.pool.standing()).finish()
    }
}
