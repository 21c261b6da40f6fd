//! The account of a nursery or task, for other threads: its standing, and recharges under a
//! capability.

use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::Shared;
use crate::scope::budget::{Budget, BudgetPool, Standing, Suspended};
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
    /// # Errors
    ///
    /// If the capability is revoked or has nothing left of `amount`, or the nursery has ended.
    pub fn recharge(&self, cap: &crate::scope::cap::CapBudget, amount: Budget) -> Result<Budget> {
        cap.check_issuer(&self.issuer)?;
        if self.pool.is_unlimited() {
            return Ok(Budget::ZERO); // nothing is counted
        }
        let granted = cap.take(amount)?;
        if !self.pool.recharge(granted) {
            cap.give_back(granted);
            return Err(Error::new(ErrorKind::NurseryNotActive));
        }
        Ok(granted)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.pool.standing()).finish()
    }
}
