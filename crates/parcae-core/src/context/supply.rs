//! Use and replenishment of budget: two servers behind one interface.
//!
//! Both hold pairs *(time, amount)*: the amount is available from that time on. The amounts always
//! sum to the budget; using an amount moves it into the future.
//!
//! # Hard CBS (Abeni and Buttazzo's constant bandwidth server, throttled when empty)
//!
//! Two numbers: the *arrival* of the current job, or its earliest possible arrival, and the amount
//! *left* for it. The rest of the budget is replenished at arrival + period. Hence:
//!
//! - A charge beyond the amount left moves the arrival by as many periods as the overrun consumes
//!   budgets, and the remainder is missing from the budget that arrives then. There are no negative
//!   amounts, and a charge of any size takes constant time.
//! - `arrival > now` *is* the throttled state.
//! - A job that wakes so early that the amount left would have a higher density than the context
//!   was admitted with, `left / (deadline − now) > budget / deadline`, gets a new arrival and a
//!   full budget if deadline = period; if deadline < period it keeps its deadline and only as much
//!   as the density allows, because a new arrival less than a period after the last would be too
//!   much (Linux calls this the revised wake-up rule).
//!
//! So arrivals with deadlines are never denser than [`Shape::Ramp`] in admission says. With
//! [`Refill::PerJob`] a job ends when it blocks, so jobs are a period apart: [`Shape::Step`].
//!
//! # Sliding window (sporadic server)
//!
//! A ring of up to eight pairs. A dispatch dates the head *now*; the used part of it is replenished
//! a period later. Two rules differ from the published sporadic servers, both for a guarantee
//! without exceptions:
//!
//! - The date is that of the dispatch, not of the wake-up. A server that had to wait
//!   before it ran would otherwise get its budget back less than a period after using it.
//! - Merging two pairs only ever delays: the sum is available at the *later* time. The one
//!   exception is continued use of the pair that the last refill came from: it is merged with that
//!   refill, so no unit is used less than a period after its last use.
//!
//! Let *u* be a unit of budget that is used at time *x*. Normally it is available again at
//! *x* + period or later. An overrun uses units before their time, *n* > *x*; they come back at
//! *n* + period, later still. A window of one period therefore holds a unit twice only if
//! the second use was an overrun; and after an overrun nothing runs before *n*, which is
//! past the window's end. So at most one overrun counts twice, and an overrun is at most
//! the check distance q: **use ≤ budget + q in every window as long as the period**.
//!
//! [`Shape::Ramp`]: crate::admission::Shape::Ramp
//! [`Shape::Step`]: crate::admission::Shape::Step

use super::params::{MAX_REFILLS, Params, Refill};
use super::ring::Ring;

/// A time that never comes. Sums of times stop here, and nothing is ever ready then: a
/// context that owes more than time can hold does not run again.
pub const NEVER: u64 = u64::MAX;

/// An amount, and the time from which it is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refilled {
    /// From when.
    pub time: u64,
    /// How much.
    pub amount: u64,
}

/// The budget of one context.
#[derive(Debug, Clone, Copy)]
pub(super) enum Supply {
    Cbs(Cbs),
    Window(Ring),
}

impl Supply {
    /// A full budget from `start` on.
    pub(super) fn new(params: &Params, start: u64) -> Supply {
        match params.refill {
            Refill::HardCbs | Refill::PerJob => Supply::Cbs(Cbs::new(params, start)),
            Refill::SlidingWindow { refills } => Supply::Window(Ring::new(params, refills, start)),
        }
    }

    /// From when there is something to use.
    #[inline]
    pub(super) fn ready_at(&self) -> u64 {
        match self {
            Supply::Cbs(cbs) => cbs.arrival,
            Supply::Window(ring) => ring.head().time,
        }
    }

    #[inline(always)]
    pub(super) fn is_ready(&self, now: u64) -> bool {
        let ready = self.ready_at();
        ready <= now && ready != NEVER
    }

    /// When all of the budget is there if nothing more is used.
    pub(super) fn whole_at(&self, params: &Params) -> u64 {
        match self {
            Supply::Cbs(cbs) if cbs.left == params.budget => cbs.arrival,
            Supply::Cbs(cbs) => cbs.arrival.saturating_add(params.period),
            Supply::Window(ring) => ring.last().time,
        }
    }

    /// How much can be used from `from` on without a break.
    #[inline]
    pub(super) fn lasts(&self, from: u64) -> u64 {
        match self {
            _ if !self.is_ready(from) => 0,
            Supply::Cbs(cbs) => cbs.left,
            Supply::Window(ring) => ring.lasts(from),
        }
    }

    /// For how long the current piece lasts.
    #[inline]
    pub(super) fn piece(&self) -> u64 {
        match self {
            Supply::Cbs(cbs) => cbs.left,
            Supply::Window(ring) => ring.head().amount,
        }
    }

    /// By when the current piece should have been used.
    #[inline]
    pub(super) fn deadline(&self, params: &Params) -> u64 {
        match self {
            Supply::Cbs(cbs) => cbs.arrival.saturating_add(params.deadline),
            Supply::Window(ring) => ring.due(),
        }
    }

    /// A holder becomes runnable at `now`.
    #[inline]
    pub(super) fn wake(&mut self, params: &Params, now: u64) {
        match self {
            Supply::Cbs(cbs) => cbs.wake(params, now),
            Supply::Window(ring) => ring.wake(params, now),
        }
    }

    /// Use begins at `now`. Only called when [ready](Supply::is_ready).
    #[inline]
    pub(super) fn begin(&mut self, params: &Params, now: u64) {
        match self {
            Supply::Cbs(cbs) => cbs.begin(params, now),
            Supply::Window(ring) => ring.begin(now),
        }
    }

    /// Charges the use since the beginning, even if it exceeds the budget. Pieces below `min_slice`
    /// are not handed out: they wait for more.
    #[inline]
    pub(super) fn charge(&mut self, params: &Params, used: u64, min_slice: u64) {
        match self {
            Supply::Cbs(cbs) => cbs.charge(params, used, min_slice),
            Supply::Window(ring) => ring.charge(params, used, min_slice),
        }
        debug_assert_eq!(self.total(params), params.budget, "refills sum to the budget");
        debug_assert!(self.refills(params).is_sorted_by_key(|pair| pair.time), "in order");
    }

    /// Gives up the available amount until its replenishment.
    pub(super) fn forfeit(&mut self, params: &Params, now: u64) {
        match self {
            Supply::Cbs(cbs) => cbs.next_job(params, 0),
            Supply::Window(ring) => ring.forfeit(params, now),
        }
    }

    /// All pairs, in the order in which they come.
    pub(super) fn refills(&self, params: &Params) -> impl Iterator<Item = Refilled> {
        const NOTHING: Refilled = Refilled { time: 0, amount: 0 };
        let mut pairs = [NOTHING; MAX_REFILLS as usize];
        match self {
            Supply::Cbs(Cbs { arrival, left, .. }) => {
                pairs[0] = Refilled { time: *arrival, amount: *left };
                let time = arrival.saturating_add(params.period);
                pairs[1] = Refilled { time, amount: params.budget - left };
            }
            Supply::Window(ring) => {
                for (pair, refill) in pairs.iter_mut().zip(ring.iter()) {
                    *pair = refill;
                }
            }
        }
        pairs.into_iter().filter(|pair| pair.amount > 0)
    }

    /// The conserved quantity.
    pub(super) fn total(&self, params: &Params) -> u64 {
        self.refills(params).map(|pair| pair.amount).sum()
    }
}

/// The hard constant bandwidth server. See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cbs {
    /// When the current job arrived, or will.
    arrival: u64,
    /// The amount left for it: 1 to the budget.
    left: u64,
    /// Whether some was used of it.
    begun: bool,
}

impl Cbs {
    fn new(params: &Params, arrival: u64) -> Cbs {
        Cbs { arrival, left: params.budget, begun: false }
    }

    fn wake(&mut self, params: &Params, now: u64) {
        if now < self.arrival {
            return; // throttled, and stays so
        }
        if now - self.arrival >= params.period {
            *self = Cbs::new(params, now);
            return;
        }
        if !self.begun {
            self.arrival = now; // it could have arrived earlier, and did not
            return;
        }
        if params.refill == Refill::PerJob {
            self.next_job(params, 0);
            return;
        }
        let deadline = self.arrival.saturating_add(params.deadline);
        let laxity = u128::from(deadline.saturating_sub(now)) * u128::from(params.budget);
        if u128::from(self.left) * u128::from(params.deadline) <= laxity {
            return; // not denser than admitted: the job continues
        }
        if params.deadline == params.period {
            *self = Cbs::new(params, now);
            return;
        }
        match (laxity / u128::from(params.deadline)) as u64 {
            0 => self.next_job(params, 0),
            left => self.left = left,
        }
    }

    /// A server that is late by a whole job starts anew: it does not catch up at the
    /// others' expense.
    #[inline]
    fn begin(&mut self, params: &Params, now: u64) {
        if now.saturating_sub(self.arrival) >= params.period + params.deadline {
            self.arrival = now;
        }
    }

    #[inline]
    fn charge(&mut self, params: &Params, used: u64, min_slice: u64) {
        if used < self.left && self.left - used >= min_slice {
            self.left -= used;
            self.begun = true;
        } else if used > 0 {
            self.next_job(params, used.saturating_sub(self.left));
        }
    }

    /// Ends the job, which used `over` beyond its budget.
    fn next_job(&mut self, params: &Params, over: u64) {
        let periods = 1 + over / params.budget;
        self.left = params.budget - over % params.budget;
        self.begun = false;
        self.arrival = self.arrival.saturating_add(periods.saturating_mul(params.period));
    }
}
