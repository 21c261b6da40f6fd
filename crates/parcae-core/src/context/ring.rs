//! The refill ring of the sliding window. [`supply`](super::supply) explains its purpose and its
//! rules.
//!
//! ```text
//!  head                          last
//!  [t0, a0] [t1, a1] [t2, a2] … [tk, ak]      t0 ≤ t1 ≤ … ≤ tk,  Σ a = budget,  all a > 0
//!    |________ used: comes back at t0 + period, behind the last ________^
//! ```

use super::params::{MAX_REFILLS, Params};
use super::supply::{NEVER, Refilled};

const CAPACITY: usize = MAX_REFILLS as usize;

/// A bounded queue of refills.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    refills: [Refilled; CAPACITY],
    head: u8,
    len: u8,
    /// As many as the terms allow, at most [`CAPACITY`].
    limit: u8,
    /// By when the head should have been used.
    due: u64,
    /// Whether the last pair was made from the current head since that was last released:
    /// then a use that continues it may join it.
    continues: bool,
}

impl Ring {
    pub(super) fn new(params: &Params, limit: u8, start: u64) -> Ring {
        let mut refills = [Refilled { time: NEVER, amount: 0 }; CAPACITY];
        refills[0] = Refilled { time: start, amount: params.budget };
        let due = start.saturating_add(params.deadline);
        Ring { refills, head: 0, len: 1, limit, due, continues: false }
    }

    #[inline]
    pub(super) fn head(&self) -> Refilled {
        self.refills[self.head as usize]
    }

    pub(super) fn last(&self) -> Refilled {
        self.refills[self.place(self.len - 1)]
    }

    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Refilled> + '_ {
        (0..self.len).map(|nth| self.refills[self.place(nth)])
    }

    pub(super) fn lasts(&self, from: u64) -> u64 {
        let mut sum = 0;
        for refill in self.iter() {
            if refill.time > from.saturating_add(sum) {
                break;
            }
            sum += refill.amount;
        }
        sum
    }

    /// All that is there is released together, so it can be one pair from now on.
    pub(super) fn wake(&mut self, params: &Params, now: u64) {
        while self.len > 1 && self.refills[self.place(1)].time <= now {
            self.join_next();
        }
        self.release(params, self.head().time.max(now));
    }

    /// Nothing that is there is used before `now`: dates it so.
    pub(super) fn begin(&mut self, now: u64) {
        for nth in 0..self.len {
            let refill = &mut self.refills[self.place(nth)];
            if refill.time >= now {
                break;
            }
            refill.time = now;
        }
    }

    pub(super) fn charge(&mut self, params: &Params, used: u64, min_slice: u64) {
        // Whole budgets beyond the first move everything; what remains is less than one.
        let periods = (used / params.budget).saturating_mul(params.period);
        if periods > 0 {
            for refill in &mut self.refills {
                refill.time = refill.time.saturating_add(periods);
            }
            self.release(params, self.head().time);
        }
        let mut used = used % params.budget;
        while used >= self.head().amount {
            used -= self.head().amount;
            self.use_head(params);
        }
        if used > 0 {
            let head = &mut self.refills[self.head as usize];
            let back = Refilled { time: head.time.saturating_add(params.period), amount: used };
            let rest = head.time.saturating_add(used);
            head.amount -= used;
            self.append(back);
            self.begin(rest);
        }
        while self.head().amount < min_slice && self.len > 1 {
            self.join_next();
            self.release(params, self.head().time);
        }
    }

    pub(super) fn forfeit(&mut self, params: &Params, now: u64) {
        for _ in 0..self.len {
            if self.head().time > now {
                break;
            }
            self.use_head(params);
        }
    }

    /// The head is used up: it comes back a period later, and the next one is its turn.
    fn use_head(&mut self, params: &Params) {
        let used = self.pop();
        self.append(Refilled { time: used.time.saturating_add(params.period), ..used });
        // The next piece is used after it, whenever it became available.
        self.begin(used.time.saturating_add(used.amount));
        self.release(params, self.head().time);
    }

    /// The head is wanted and there from `time` on: a new deadline runs.
    fn release(&mut self, params: &Params, time: u64) {
        self.due = time.saturating_add(params.deadline);
        self.continues = false;
    }

    fn append(&mut self, refill: Refilled) {
        let (full, continues) = (self.len == self.limit, self.continues);
        let last = &mut self.refills[self.place(self.len.saturating_sub(1))];
        if continues && refill.time <= last.time.saturating_add(last.amount) {
            last.amount += refill.amount;
        } else if full {
            *last = Refilled { time: refill.time, amount: last.amount + refill.amount };
        } else {
            self.refills[self.place(self.len)] = refill;
            self.len += 1;
        }
        self.continues = true;
    }

    /// Delays the head until the next comes.
    fn join_next(&mut self) {
        let amount = self.pop().amount;
        self.refills[self.head as usize].amount += amount;
    }

    fn pop(&mut self) -> Refilled {
        let refill = self.head();
        self.head = self.place(1) as u8;
        self.len -= 1;
        refill
    }

    #[inline]
    fn place(&self, nth: u8) -> usize {
        (self.head + nth) as usize % CAPACITY
    }
}
