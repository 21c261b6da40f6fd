//! The account of a task: the balance, charges, and the return of the rest.

use super::nested::gain;
use super::{Frame, PoolOwner};
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker;
use crate::scope::budget::{Budget, UNLIMITED, return_account};

impl Frame {
    /// Moves ops that are paid for and belong to this turn into the slice.
    #[inline]
    pub(super) fn cut_slice(&self) {
        let mut account = self.account.get();
        let slice = account.ops.min(self.turn.get());
        if account.ops != UNLIMITED {
            account.ops -= slice;
            self.account.set(account);
        }
        self.turn.set(self.turn.get() - slice);
        self.slice.set(self.slice.get() + slice);
    }

    /// Ops that are left in the turn.
    pub(in crate::scope::cx) fn ops_left(&self) -> u64 {
        self.slice.get() + self.turn.get() + self.turn_aside()
    }

    /// The rest of the account, the slice and the memory included.
    pub(crate) fn balance(&self) -> Budget {
        let mut left = self.account.get();
        left.absorb(Budget { ops: self.slice.get(), ..Budget::ZERO });
        // A budget that is larger than any memory is not counted either.
        if left.memory != UNLIMITED && self.memory.get() != i64::MAX {
            left.memory = self.memory.get().max(0) as u64;
        }
        left
    }

    /// All that was drawn into the account and not booked as used.
    pub(crate) fn drawn(&self) -> Budget {
        self.drawn.get()
    }

    /// The part of the drawn amount that is used up. Arbitrary for components that are not counted.
    #[inline]
    pub(super) fn used(&self) -> Budget {
        let (drawn, account, memory) = (self.drawn.get(), self.account.get(), self.memory.get());
        let mut used = drawn.zip(account, u64::wrapping_sub);
        used.ops = used.ops.wrapping_sub(self.slice.get());
        if memory != i64::MAX {
            used.memory = drawn.memory.wrapping_sub(memory.max(0) as u64);
        }
        used
    }

    /// Takes `cost` off the account, all or nothing; draws more as the policy says.
    pub(crate) fn charge(&self, cost: Budget) -> Result<()> {
        self.ensure_bound(cost.ops)?;
        loop {
            let mut balance = self.balance();
            match balance.charge(cost) {
                Ok(()) => {
                    self.set_balance_after(balance, cost.ops);
                    return Ok(());
                }
                Err(_) => self.refill(cost)?,
            }
        }
    }

    /// Called before an operation on a channel: a checkpoint that charges one op and ensures that
    /// the rest of [`Budget::CHANNEL_OP`] is covered.
    ///
    /// # Errors
    ///
    /// As for a checkpoint.
    #[inline]
    pub(crate) fn prepare_channel_op(&self) -> Result<()> {
        if !self.tick() {
            self.checkpoint_slow()?;
        }
        if self.account.get().channel_ops == 0 {
            self.refill(Budget { channel_ops: 1, ..Budget::ZERO })?;
        }
        Ok(())
    }

    /// The usual begin of an operation on a channel: charges one op, if that is all that has to be
    /// done, and all that the operation costs. False if not; then nothing has happened, and the
    /// caller takes the slow path ([`prepare_channel_point`](Frame::prepare_channel_point)).
    ///
    /// In the lab it is always false, because every checkpoint takes the slow path
    /// (`checkpoint_slower`): so points of channels cost nothing elsewhere.
    #[inline(always)]
    pub(crate) fn begins_free_channel_op(&self) -> bool {
        self.account.get().channel_ops == UNLIMITED && self.tick()
    }

    /// As [`prepare_channel_op`](Frame::prepare_channel_op), before this operation on an object: in
    /// the lab it is a point.
    ///
    /// # Errors
    ///
    /// As for a checkpoint.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn prepare_channel_point(&self, kind: OpKind, object: usize) -> Result<()> {
        self.prepare_channel_op()?;
        worker::point(kind, object);
        Ok(())
    }

    /// Charges the rest of the cost after an operation that happened. It is still covered: only the
    /// task itself spends from its account.
    #[inline]
    pub(crate) fn charge_channel_op(&self) {
        let mut account = self.account.get();
        if account.channel_ops != UNLIMITED {
            account.channel_ops = account.channel_ops.saturating_sub(1);
            self.account.set(account);
        }
    }

    /// A checkpoint that charges an operation on a descriptor: so many ops and as many syscalls,
    /// all or nothing.
    ///
    /// # Errors
    ///
    /// As for a checkpoint.
    #[cfg(feature = "io")]
    #[inline]
    pub(crate) fn charge_io(&self, cost: u64) -> Result<()> {
        if cost == 1 && self.account.get().syscalls == UNLIMITED {
            return if self.tick() { Ok(()) } else { self.checkpoint_slow() };
        }
        self.checkpoint_for(Budget { ops: cost, syscalls: cost, ..Budget::ZERO })
    }

    /// Takes a charge for an operation that has not happened back.
    #[cfg(feature = "io")]
    pub(crate) fn refund_io(&self, cost: u64) {
        self.slice.set(self.slice.get() + cost);
        let mut account = self.account.get();
        if account.syscalls != UNLIMITED {
            account.syscalls += cost;
            self.account.set(account);
        }
    }

    /// Takes the op of a checkpoint back, which was part of an operation that is charged as a
    /// whole.
    #[cfg(feature = "io")]
    pub(crate) fn refund_op(&self) {
        self.slice.set(self.slice.get() + 1);
    }

    /// Sets the rest of the account. The turn goes on: a new slice is cut from it, which may be
    /// shorter.
    pub(super) fn set_balance(&self, balance: Budget) {
        self.set_balance_after(balance, 0);
    }

    /// As [`set_balance`](Frame::set_balance), after ops that count towards the turn.
    pub(super) fn set_balance_after(&self, balance: Budget, ops: u64) {
        // Memory beyond the budget stays owed.
        let owed = clamp(self.overdraft());
        self.memory.set(clamp(balance.memory).saturating_sub(owed));
        let turn = self.turn.get() + self.slice.take();
        if ops > turn {
            worker::turn::overran(ops - turn);
            self.take_beyond(ops - turn);
        }
        self.turn.set(turn.saturating_sub(ops));
        self.account.set(balance);
        self.cut_slice();
    }

    /// Takes the whole account out: for a nursery that shares it. Components that are not counted
    /// stay so: there is no amount of them that could be taken.
    pub(super) fn take_balance(&self) -> Budget {
        let balance = self.balance();
        self.set_balance(balance.uncounted());
        balance
    }

    pub(super) fn deposit(&self, drawn: Budget) {
        let mut total = self.drawn.get();
        total.absorb(drawn);
        self.drawn.set(total);
        let mut balance = self.balance();
        gain(&mut balance, drawn);
        self.set_balance(balance);
    }

    /// Books the used part of the account in the pool, which is about to be locked anyway. Memory
    /// is left out, because it may be freed. Does nothing while a nursery is open: its pool may
    /// hold the amount.
    pub(in crate::scope::cx) fn report_spent(&self) {
        if self.node_is_own() {
            let (drawn, balance) = (self.drawn.get(), self.balance());
            let used = drawn.zip(balance, u64::saturating_sub).with_memory(0);
            self.drawn.set(drawn.zip(used, |drawn, used| drawn - used));
            self.pool().spend(used);
        }
    }

    /// Returns the rest of the account to the pool. Out of line: most pools are unlimited.
    #[inline(never)]
    pub(super) fn return_rest(&self) {
        let pool = self.pool();
        let (drawn, used) = (self.drawn.get(), self.used());
        let returned = self.pool_owner == PoolOwner::Nursery
            // SAFETY: the pool is that of the nursery, which waits for this child.
            && worker::with_current(|worker| unsafe { return_account(worker, pool, &drawn, &used) })
                .is_some();
        if !returned {
            pool.settle(drawn, self.balance());
        }
    }

    /// Whether the task has no nursery open.
    pub(super) fn node_is_own(&self) -> bool {
        std::ptr::eq(self.node(), &self.settings().node)
    }

    /// Whether the task draws on a pool that it has funded itself.
    pub(super) fn draws_on_its_own(&self) -> bool {
        !std::ptr::eq(self.pool(), &*self.settings().pool)
    }
}

#[inline]
pub(super) fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
