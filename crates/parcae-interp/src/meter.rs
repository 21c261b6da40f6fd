//! Charging: exact counts, few calls.
//!
//! `Budget_Decrement` adds to `owed`. `Budget_Check` compares `owed` with `limit`, the ops that the
//! task certainly has, at most the interval after which it looks around; only when they meet are
//! the ops paid, by checkpoints of the runtime. So an endless loop costs a comparison per
//! iteration, and yet the budget is used up at the same iteration as if each had been paid at once.
//! Before each operation that others can observe everything is paid, and the limit is computed
//! anew afterwards, because such operations spend from the same account.
//!
//! A cleanup on the way of a failure has ops in reserve: the task may have none left. A cleanup
//! that needs more fails. Ops that are paid fill the reserve again, one for one, so that a loop of
//! failures at most doubles the ops of a task.

use crate::failure::Fault;
use parcae::Cx;

/// Ops after which a task looks around: the interval of `:service` (S0 §4.3).
const INTERVAL: u64 = 1024;
/// Ops of all cleanups of one failure.
const RESERVE: u64 = 10_000;

pub(crate) struct Meter<'c> {
    cx: &'c Cx,
    owed: u64,
    limit: u64,
    /// Nesting of cleanups.
    shields: u32,
    reserve: u64,
}

impl<'c> Meter<'c> {
    pub(crate) fn new(cx: &'c Cx) -> Meter<'c> {
        let mut meter = Meter { cx, owed: 0, limit: 0, shields: 0, reserve: RESERVE };
        meter.refresh();
        meter
    }

    /// Owes ops.
    #[inline]
    pub(crate) fn owe(&mut self, ops: u64) {
        self.owed += ops;
    }

    /// Ops until the next payment; not positive if it is due.
    pub(crate) fn left(&self) -> i64 {
        self.limit as i64 - self.owed as i64
    }

    /// The end of a strip: at most `end`, and at most as far from `first` as there are ops until
    /// the next payment, less `kept`.
    pub(crate) fn strip(&self, first: i64, end: i64, kept: i64) -> i64 {
        if end <= first {
            return first;
        }
        let left = (self.left() - kept).max(0) as u64;
        first.wrapping_add(end.wrapping_sub(first).cast_unsigned().min(left).cast_signed())
    }

    /// Owes as many ops as leave this number until the next payment.
    #[cfg(feature = "engine")]
    pub(crate) fn set_left(&mut self, left: i64) {
        self.owed = self.limit.wrapping_sub(left as u64);
    }

    /// Whether ops must be paid now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed >= self.limit
    }

    /// Pays all ops that are owed.
    pub(crate) fn settle(&mut self) -> Result<(), Fault> {
        let owed = std::mem::take(&mut self.owed);
        if self.shields > 0 {
            self.reserve = self.reserve.saturating_sub(owed);
            return if self.reserve > 0 { Ok(()) } else { self.pay(1) };
        }
        self.pay(owed)?;
        self.reserve = self.reserve.saturating_add(owed).min(RESERVE);
        self.refresh();
        Ok(())
    }

    fn pay(&mut self, ops: u64) -> Result<(), Fault> {
        // As many at once as the slice has: the last op that there is fails alone, as if each had
        // been paid by itself.
        let mut chunks = self.cx.chunks(0..ops as usize);
        chunks.try_for_each(|chunk| chunk.map(drop)).map_err(Fault::Runtime)
    }

    /// Computes the limit anew, after an operation that spent from the account.
    pub(crate) fn refresh(&mut self) {
        self.limit = self.cx.budget().ops.clamp(1, INTERVAL);
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shields > 0
    }

    pub(crate) fn shield(&mut self) {
        self.shields += 1;
    }

    pub(crate) fn unshield(&mut self) {
        self.shields = self.shields.saturating_sub(1);
    }

    /// The failure was caught, or has ended the task: the next one has a full reserve.
    pub(crate) fn recover(&mut self) {
        (self.shields, self.reserve) = (0, RESERVE);
    }
}
