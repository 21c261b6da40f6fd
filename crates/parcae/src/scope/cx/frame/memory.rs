//! Memory of a task: counting allocations, and paying for them.
//!
//! The allocator only counts, in cells of the frame: it must neither allocate nor wait. An
//! allocation beyond the budget makes the headroom negative; the debt is drawn from the pool at the
//! next checkpoint or wait, or when the task ends.

use super::{Frame, clamp};
use crate::base::error::Result;
use crate::scope::budget::Budget;

impl Frame {
    /// Counts an allocation, and charges one op if the slice has one left: without one the next
    /// checkpoint takes the slow path anyway. An allocation beyond the budget makes it do so, too.
    #[inline]
    pub(crate) fn allocated(&self, bytes: usize) {
        match self.slice.get() {
            0 => self.allocates_without_slice(),
            slice => self.slice.set(slice - 1),
        }
        self.allocated.set(self.allocated.get().wrapping_add(bytes as u64));
        let left = self.memory.get();
        if left == i64::MAX {
            return; // not counted
        }
        let left = left.saturating_sub(bytes as i64);
        self.memory.set(left);
        if left < 0 {
            self.owes(bytes);
        }
    }

    /// Whether the memory that the task allocates is counted.
    #[inline(always)]
    pub(crate) fn counts_memory(&self) -> bool {
        self.memory.get() != i64::MAX
    }

    /// Counts freed memory. The task is credited with at most the amount that it has allocated
    /// itself.
    #[inline]
    pub(crate) fn freed(&self, bytes: usize) {
        let own = self.allocated.get();
        let credit = own.min(bytes as u64);
        self.allocated.set(own - credit);
        if self.memory.get() != i64::MAX {
            self.memory.set(self.memory.get().saturating_add(credit as i64));
        }
    }

    /// Counts memory of the heap of another language, and pays for it at once. No op is charged.
    ///
    /// # Errors
    ///
    /// If there is no budget for it; then nothing is counted.
    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        self.allocated.set(self.allocated.get().wrapping_add(bytes as u64));
        if self.memory.get() == i64::MAX {
            return Ok(());
        }
        self.memory.set(self.memory.get().saturating_sub(clamp(bytes as u64)));
        self.pay_for_memory().inspect_err(|_| self.freed(bytes))
    }

    /// Whether an allocation of this size stays within `hard` times the memory that the task was
    /// given. If not, draws more from the pool first.
    #[cold]
    pub(crate) fn may_allocate(&self, bytes: usize, hard: u64) -> bool {
        let beyond = || self.memory.get().saturating_sub(bytes as i64).min(0).unsigned_abs();
        let fits = || {
            let given = self.drawn.get().memory;
            beyond() <= given.saturating_mul(hard.saturating_sub(1))
        };
        if self.memory.get() == i64::MAX || fits() {
            return true;
        }
        let more = self.pool().try_draw_memory(beyond());
        self.memory.set(self.memory.get().saturating_add(clamp(more)));
        let mut drawn = self.drawn.get();
        drawn.absorb(Budget::ZERO.with_memory(more));
        self.drawn.set(drawn);
        fits()
    }

    /// Bytes that the task has allocated beyond its budget.
    #[inline]
    pub(crate) fn overdraft(&self) -> u64 {
        self.memory.get().min(0).unsigned_abs()
    }

    /// Draws the amount that was allocated beyond the budget, or fails.
    #[inline]
    pub(crate) fn pay_for_memory(&self) -> Result<()> {
        match self.overdraft() {
            0 => Ok(()),
            overdraft => self.pay_overdraft(overdraft),
        }
    }

    #[cold]
    fn pay_overdraft(&self, overdraft: u64) -> Result<()> {
        if self.is_away() {
            return Err(self.refuse_away());
        }
        if self.is_sealed() {
            return self.check_seal();
        }
        let cost = Budget { memory: overdraft, ..Budget::ZERO };
        self.memory.set(0);
        let paid = self.charge(cost);
        if paid.is_err() {
            // The debt remains, for a task that continues after this error.
            self.memory.set(self.memory.get().saturating_sub(clamp(overdraft)));
        }
        paid
    }
}
