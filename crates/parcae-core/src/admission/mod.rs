//! Admission: whether a worker can keep what its contexts are promised.
//!
//! Partitioned EDF: each context is on one worker, which runs the earliest deadline of the
//! highest band. The worker is a *supply*: a share of the processor, after an initial delay.
//! The contexts are a *demand*: how much work with a deadline inside it can fall into a
//! window of length t at worst. All deadlines are met if demand(t) ≤ supply(t) for every t.
//! [`examine`] finds out, and says by which test, in which interval and by how much.
//!
//! # What a context demands
//!
//! ```text
//!  Step: jobs at least a period apart            Ramp: hard CBS, whatever its holder does
//!  C·(⌊(t − D)/T⌋ + 1)                           C·⌊t/T⌋ + min(C, C·(t mod T)/D)
//!        ┌────                                         ╱────
//!   ┌────┘                                        ╱────
//!  ─┘  D    T+D                                  ╱  D   T+D
//! ```
//!
//! The step function is exact for jobs that arrive a period or more apart, and for a
//! sliding window. A constant bandwidth server lets its holder block and come back inside a
//! period with what is left, at no more than the density C/D: the ramp bounds that. It is what
//! keeps the promise to the *others* when a holder does as it likes, and its price is that
//! with deadlines before the periods such sets are admitted hardly beyond density.
//!
//! A context in a higher band can delay a lower band by all it does in the window, not only
//! by what is due in it: C·(⌊t/T⌋ + 1), one C more for a ramp.
//!
//! # What cooperation costs
//!
//! Code gives way only at its yield checks, at most q apart. So a window can begin with a
//! stretch of q of something less urgent: the blocking term, the largest q of those that are
//! not due in the window (Baruah's limited preemption). And each context may notice up to q
//! late that its budget is used up; it pays that back, so this is q once in a window, not in
//! each period. Both are in the demand.
//!
//! # The tests
//!
//! 1. *Utilisation*: ΣC/T above the share is hopeless. Exact, also on the edge.
//! 2. *Density*: ΣC/D within the share, with all q inside the shortest deadline, is enough.
//! 3. *Demand*: exact for steps. Looks at the points where the demand function bends, from
//!    a bound beyond which it cannot exceed the supply downwards, skipping what the demand at a
//!    larger point already settles (QPA; Zhang and Burns 2009). The number of steps is bounded;
//!    whoever runs into the bound is rejected. So is everything that does not fit into the
//!    arithmetic: admission fails closed.
//!
//! Taking a context away never turns yes into no: every term of every test only shrinks.
//! (The step bound is the exception in principle. A set is not examined again when it shrinks.)
//!
//! This proves the model. On a host that takes the processor away without telling, it is
//! admitted *soft* real time, and [`Usage::missed`](crate::context::Usage::missed) counts.
//!
//! ```
//! use parcae_core::admission::{Capacity, Demand, Test, examine};
//!
//! let capacity = Capacity::default(); // 95 % of a worker
//! let audio = Demand { deadline: 4, ..Demand::new(2, 10) };
//! let video = Demand { deadline: 9, ..Demand::new(6, 20) };
//! assert!(examine([audio, video], &capacity).is_ok());
//!
//! let more = Demand { deadline: 9, ..Demand::new(2, 20) };
//! let no = examine([audio, video, more], &capacity).unwrap_err();
//! assert_eq!((no.test, no.interval, no.missing()), (Test::Demand, 9, 2));
//! ```

mod answer;
mod bound;
mod place;

pub use answer::{Admitted, Cause, Rejected, Test};
pub use place::place;

use crate::context::{Band, MAX_PERIOD, Params, Refill};
use bound::Window;

/// The worst that a context can do in a window. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Jobs that arrive a period or more apart and run to their end; a sliding window.
    Step,
    /// A hard CBS whose holder may block and return at any time.
    Ramp,
}

/// What one context asks of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// How much per period.
    pub budget: u64,
    /// The period.
    pub period: u64,
    /// The relative deadline, at most the period.
    pub deadline: u64,
    /// The longest stretch between two yield checks.
    pub check_distance: u64,
    /// What goes first.
    pub band: Band,
    /// What may fall into a window.
    pub shape: Shape,
}

impl Demand {
    /// Jobs of `budget`, each `period`, due at its end; with yield checks everywhere.
    pub const fn new(budget: u64, period: u64) -> Demand {
        Demand {
            budget,
            period,
            deadline: period,
            check_distance: 0,
            band: Band(0),
            shape: Shape::Step,
        }
    }
}

impl From<&Params> for Demand {
    fn from(params: &Params) -> Demand {
        Demand {
            budget: params.budget,
            period: params.period,
            deadline: params.deadline,
            check_distance: params.check_distance,
            band: params.band,
            shape: match params.refill {
                Refill::HardCbs => Shape::Ramp,
                Refill::PerJob | Refill::SlidingWindow { .. } => Shape::Step,
            },
        }
    }
}

/// What a worker has for contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The share of its time, in millionths. The rest is the floor of best effort.
    pub share: u32,
    /// For how long at most nothing of it may come, as while best effort has its turn.
    pub delay: u64,
    /// What a dispatch costs. Each job pays two: one to it, one away.
    pub dispatch: u64,
    /// How many points the demand test may look at before it gives up.
    pub max_steps: u32,
}

impl Default for Capacity {
    /// 95 % without delay, dispatch for nothing, 10 000 points.
    fn default() -> Capacity {
        Capacity { share: 950_000, delay: 0, dispatch: 0, max_steps: 10_000 }
    }
}

/// Whether a worker of this capacity can serve all of `set`. Allocates nothing: the set is
/// walked several times.
///
/// # Errors
///
/// Why not, or why that is not known.
pub fn examine<S>(set: S, capacity: &Capacity) -> Result<Admitted, Rejected>
where
    S: IntoIterator<Item = Demand>,
    S::IntoIter: Clone,
{
    let set = set.into_iter();
    for (index, demand) in set.clone().enumerate() {
        check(&demand, capacity).map_err(|cause| Rejected::malformed(index, cause))?;
    }
    let window = Window::new(set, capacity);
    let Some(lowest) = window.lowest_band() else {
        return Ok(Admitted::nothing());
    };
    let load = window.load();
    window.utilisation()?;
    if let Some(admitted) = window.density(load) {
        return Ok(admitted);
    }
    let mut answer = Admitted { load, ..Admitted::nothing() };
    let mut band = Some(lowest);
    while let Some(this) = band {
        window.demand(this, &mut answer)?;
        band = window.band_above(this);
    }
    Ok(answer)
}

fn check(demand: &Demand, capacity: &Capacity) -> Result<(), Cause> {
    let whole = demand.budget.saturating_add(capacity.dispatch.saturating_mul(2));
    if demand.budget == 0 || demand.budget < capacity.dispatch.saturating_mul(2) {
        Err(Cause::BudgetTooSmall)
    } else if demand.period > MAX_PERIOD || demand.check_distance > MAX_PERIOD {
        Err(Cause::PeriodTooLong)
    } else if demand.deadline > demand.period {
        Err(Cause::DeadlineAfterPeriod)
    } else if whole > demand.deadline {
        Err(Cause::BudgetAboveDeadline)
    } else {
        Ok(())
    }
}
