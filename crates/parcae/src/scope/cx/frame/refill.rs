//! Refills: how a task that has used up a resource continues, by the policy of its nursery.

use super::Frame;
use crate::base::error::{Error, Result};
use crate::sched::events::EventKind;
use crate::sched::lab::OpKind;
use crate::sched::worker::drop_point;
use crate::scope::budget::{
    Budget, BudgetPool, OnExhausted, Resource, Shortfall, Slice, Suspension,
};
use crate::scope::cx::parking::borrowed_waiter;
use crate::scope::nursery::NurseryEvent;
use crate::wait::Why;
use std::pin::pin;

impl Frame {
    /// Draws more, until `cost` is covered, by the policy of the nursery.
    ///
    /// # Errors
    ///
    /// If the pool has no more, or the task was cancelled while it waited.
    #[cold]
    pub(super) fn refill(&self, cost: Budget) -> Result<()> {
        if self.is_sealed() {
            let drawn = self.unsealed(|| self.refill(cost));
            self.account.set(self.account.get().with_memory(0)); // sealed code has none
            return drawn;
        }
        let mut asked_all = false;
        loop {
            let Err(short) = self.balance().charge(cost) else { return Ok(()) };
            self.report_spent();
            // Draws only the resource that is short: other tasks may need the rest. A task that
            // draws on a nursery of its own leaves the larger part to the children, since it can
            // draw again.
            let mut wanted = self.settings().grant.only(short.resource, cost.get(short.resource));
            if self.draws_on_its_own() {
                wanted = wanted.repeatable();
            }
            let policy = self.settings().on_exhausted;
            let drawn = match policy {
                // An amount that the task moved into a nursery of its own is not used up.
                OnExhausted::Fail if !self.draws_on_its_own() => return Err(self.exhausted(short)),
                OnExhausted::Suspend if asked_all => {
                    self.suspend(wanted, short.resource)?;
                    continue;
                }
                _ => self.pool().draw(wanted, short.resource),
            };
            self.deposit(drawn);
            if drawn.get(short.resource) > 0 {
                self.note_budget(EventKind::Recharged, short.resource);
                continue;
            }
            // Accounts of siblings that have ended may still be in the batch of their worker.
            self.settings().shared.flush_deferred();
            if std::mem::replace(&mut asked_all, true) {
                return Err(self.exhausted(short));
            }
        }
    }

    /// Draws more of `resource`, as soon as there is some. A wait may end early; the task stays
    /// among those that are suspended until it has drawn or is cancelled, so a supervisor that the
    /// hook has told finds it there.
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    pub(super) fn suspend(&self, wanted: Slice, resource: Resource) -> Result<()> {
        let suspension = pin!(Suspension::new(self.pool(), self.info(), resource));
        // SAFETY: the suspension leaves every queue before this returns or unwinds.
        let waiter = || unsafe { borrowed_waiter(Some(self)) };
        drop_point(OpKind::Recharge, &**self.pool());
        let mut told = false;
        loop {
            let drawn = suspension.as_ref().draw_or_wait(wanted, waiter);
            self.deposit(drawn);
            if drawn.get(resource) > 0 {
                self.note_budget(EventKind::Recharged, resource);
                return Ok(());
            }
            // Once more, now that the task is queued: see the header of `budget::pool`.
            self.settings().shared.flush_deferred();
            if std::mem::replace(&mut told, true) {
                self.park_as_it_is(Why::Budget(resource))?; // in the state BudgetExhausted
            } else {
                // The hook may wait, and so consume the wake of a recharge. The task therefore asks
                // the pool again after the hook, and parks directly after that.
                self.tell_exhausted(resource);
            }
        }
    }

    /// A fault of the lab: the task has used up its ops, and a recharge comes at the same moment.
    /// If its nursery suspends such tasks, the ops of the nursery are gone for a moment, and this
    /// task is listed as suspended, and ready: it goes on when the strategy says so, and the
    /// recharge has come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    #[cold]
    pub(super) fn race_with_recharge(&self) -> Result<()> {
        let policy = self.settings().on_exhausted;
        if policy != OnExhausted::Suspend
            || self.pool().standing().left.ops == Budget::UNLIMITED.ops
        {
            return Ok(());
        }
        let mut withheld = Withheld { pool: self.pool(), amount: Budget::ZERO };
        let suspension = pin!(Suspension::new(self.pool(), self.info(), Resource::Ops));
        // SAFETY: the suspension leaves every queue before this returns or unwinds.
        let waiter = unsafe { borrowed_waiter(Some(self)) };
        withheld.amount = suspension.as_ref().empty_and_wait(waiter);
        self.tell_exhausted(Resource::Ops);
        drop_point(OpKind::Recharge, &**self.pool());
        self.let_others_run();
        self.note_budget(EventKind::Recharged, Resource::Ops);
        self.check_cancelled()
    }

    /// The error of a task that gets no more budget.
    pub(super) fn exhausted(&self, short: Shortfall) -> Error {
        self.tell_exhausted(short.resource);
        self.short(short)
    }

    /// Reports to the trace and to the host's hook that a resource is used up.
    pub(super) fn tell_exhausted(&self, resource: Resource) {
        self.note_budget(EventKind::Exhausted, resource);
        if let Some(hook) = &*self.settings().on_exhausted_child {
            self.run_hook(|| hook.call(&NurseryEvent::exhausted(self.info(), resource)));
        }
    }

    /// Runs a hook of the host on this task. The hook does not use the task's budget, and is
    /// shielded from its cancellation: it runs also for events that follow from a cancellation.
    pub(crate) fn run_hook(&self, hook: impl FnOnce()) {
        let (balance, memory) = (self.balance(), self.memory.get());
        let allocated = self.allocated.get();
        self.set_balance(Budget::UNLIMITED); // the turn goes on
        self.memory.set(i64::MAX);
        self.shielded(None, hook);
        self.set_balance(balance);
        self.memory.set(memory);
        self.allocated.set(allocated);
    }

    pub(super) fn short(&self, short: Shortfall) -> Error {
        Error::short(short).bounded_by(self.pool().bounded_by(short.resource))
    }
}

/// A part of a pool that a fault of the lab keeps for a moment.
struct Withheld<'p> {
    pool: &'p BudgetPool,
    amount: Budget,
}

impl Drop for Withheld<'_> {
    fn drop(&mut self) {
        self.pool.settle(self.amount, self.amount);
    }
}
