//! Periodic recharges: an allowance of a nursery that comes back with time.
//!
//! # Protocol
//!
//! No timer runs while there is budget. A task that finds the pool empty calls the nursery's hook
//! before it parks, as a queued waiter of the pool; the hook arms a timer for the end of the
//! period, unless one is armed. When the timer fires, the pool is filled up to the allowance and
//! its waiters are woken. Several tasks may wait, and the first may take everything: as long as
//! tasks wait and a recharge has added something, the timer is armed for the next period.
//!
//! | state | timer | left by |
//! |---|---|---|
//! | idle | none | a task that runs out |
//! | due | armed | the timer: recharges, then idle or due |
//!
//! A wake cannot be lost: the task asks the pool again after the hook, when it is queued already,
//! and the timer fires after it was armed. The end of the nursery closes the pool, and drops the
//! timer with its core.
//!
//! Budget is conserved: every amount is taken from a [`CapBudget`], which counts it, and an
//! allowance that is not used is not taken. Without tasks that wait there is no timer, so a
//! deterministic run in which all tasks wait for each other still ends as a deadlock.

use super::Account;
use crate::base::lock::Lock;
use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::timers::{ArmedTimer, Due, Expire};
use crate::scope::budget::{Budget, UNLIMITED};
use crate::scope::cap::{CapBudget, CapError, Issuer};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An allowance that comes back with time, paid by a capability: see
/// [`NurseryOpts::recharge`](crate::NurseryOpts::recharge).
#[derive(Debug, Clone)]
pub struct Recharge {
    cap: Arc<CapBudget>,
    period: Duration,
    amount: Budget,
}

impl Recharge {
    /// Fills the nursery's budget up to `amount`, at most once in each period. A rest
    /// that is not used does not accumulate. A component of 0 is not recharged.
    ///
    /// # Panics
    ///
    /// If the period is zero.
    pub fn every(cap: &CapBudget, period: Duration, amount: Budget) -> Recharge {
        assert!(!period.is_zero(), "a period of zero would be no limit");
        Recharge { cap: Arc::new(cap.share()), period, amount }
    }

    /// An error if the capability was minted by another runtime.
    pub(super) fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        self.cap.check_issuer(issuer)
    }

    /// The budget with which the nursery begins: the allowance, and no bound for the rest.
    pub(super) fn first(&self) -> Budget {
        let unbounded = |amount| if amount == 0 { UNLIMITED } else { amount };
        self.amount.zip(self.amount, |amount, _| unbounded(amount))
    }
}

/// The recharges of one nursery.
pub(crate) struct Recharging {
    recharge: Recharge,
    account: Account,
    state: Lock<Period>,
}

struct Period {
    /// When it began.
    began: Nanos,
    timer: Option<ArmedTimer<Arc<Shared>>>,
}

impl Recharging {
    pub(super) fn new(recharge: Recharge, account: Account, now: Nanos) -> Arc<Recharging> {
        let state = Lock::new(Period { began: now, timer: None });
        Arc::new(Recharging { recharge, account, state })
    }

    /// Arms the timer for the end of the period, unless it is armed.
    pub(super) fn arm(self: &Arc<Recharging>) {
        let Some(shared) = self.account.shared() else { return };
        let period = Nanos::try_from(self.recharge.period.as_nanos()).unwrap_or(Nanos::MAX);
        let mut state = self.state.lock();
        if state.timer.is_none() {
            let due = state.began.saturating_add(period).max(shared.now());
            let this: Weak<Recharging> = Arc::downgrade(self);
            state.timer = Some(shared.at_for(due, Due::Expire(this)));
        }
    }

    /// Fills the pool up to the allowance. Returns whether anything was added.
    fn fill(&self) -> bool {
        let left = self.account.standing().left;
        let missing = self.recharge.amount.zip(left, u64::saturating_sub);
        let added = self.account.recharge(&self.recharge.cap, missing);
        added.is_ok_and(|added| added != Budget::ZERO)
    }
}

impl Expire for Recharging {
    fn expire(self: Arc<Self>) {
        let Some(shared) = self.account.shared() else { return };
        let fired = {
            let mut state = self.state.lock();
            state.began = shared.now();
            state.timer.take()
        };
        drop(fired); // outside of the lock
        let awaited = self.account.standing().suspended > 0;
        if self.fill() && awaited {
            self.arm();
        }
    }

    fn end_grace(self: Arc<Self>) {}
}
