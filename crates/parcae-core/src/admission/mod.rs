//! Admission: whether a worker can guarantee the budgets of all its contexts.
//!
//! Partitioned EDF: each context is on one worker, which runs the earliest deadline of the highest
//! band. The worker is a *supply*: a share of the processor, after an initial delay. The contexts
//! are a *demand*: how much work with a deadline inside it can fall into a window of length t at
//! worst. All deadlines are met if demand(t) ≤ supply(t) for every t. [`examine`] decides, and
//! returns the deciding test, the interval and the slack.
//!
//! # The demand of a context
//!
//! ```text
//!  Step: jobs at least a period apart            Ramp: hard CBS, whatever its holder does
//!  C·(⌊(t − D)/T⌋ + 1)                           C·⌊t/T⌋ + min(C, C·(t mod T)/D)
//!        ┌────                                         ╱────
//!   ┌────┘                                        ╱────
//!  ─┘  D    T+D                                  ╱  D   T+D
//! ```
//!
//! The step function is exact for jobs that arrive a period or more apart, and for a sliding
//! window. A constant bandwidth server lets its holder block and resume inside a period with its
//! remaining budget, at no more than the density C/D: the ramp bounds that. It protects the *other*
//! contexts from an arbitrary holder. The price: with deadlines shorter than periods, such sets are
//! admitted hardly beyond density.
//!
//! A context in a higher band can delay a lower band by all its work in the window, not only by the
//! work due in it: C·(⌊t/T⌋ + 1), one C more for a ramp.
//!
//! # The cost of cooperative scheduling
//!
//! Code yields only at its yield checks, at most q apart. So a window can begin with q of less
//! urgent work: the blocking term, the largest q of those that are not due in the window (Baruah's
//! limited preemption). And each context may notice up to q late that its budget is used up; it
//! pays that back, so this is q once in a window, not in each period. Both are in the demand.
//!
//! # The tests
//!
//! 1. *Utilisation*: ΣC/T above the share is rejected. Exact, also at equality.
//! 2. *Density*: ΣC/D within the share, with all q inside the shortest deadline, is enough.
//! 3. *Demand*: exact for steps. Looks at the points where the demand function bends, downwards
//!    from a bound beyond which it cannot exceed the supply, skipping points that the demand at a
//!    larger point already covers (QPA; Zhang and Burns 2009). The number of steps is bounded; a
//!    set that exceeds the bound is rejected. So is a set whose numbers exceed the arithmetic:
//!    admission fails closed.
//!
//! Removing a context never turns an admitted set into a rejected one: every term of every test
//! only shrinks. (The step bound is the exception in principle. A set is not examined again when it
//! shrinks.)
//!
//! This holds for the model. On a host that preempts the runtime, it is *soft* real time, and
//! [`Usage::missed`](crate::context::Usage::missed) counts the misses.
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

/// The worst-case demand of a context in a window. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Jobs that arrive a period or more apart and run to their end; a sliding window.
    Step,
    /// A hard CBS whose holder may block and return at any time.
    Ramp,
}

/// The demand of one context.
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
    /// The criticality band.
    pub band: Band,
    /// The shape of the demand function.
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

/// The capacity of a worker for contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The share of its time, in millionths. The rest is the floor of best effort.
    pub share: u32,
    /// The longest time without any supply, for example during a turn of best effort.
    pub delay: u64,
    /// The cost of a dispatch. Each job pays two: one to it, one away from it.
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
/// Why the set does not fit, or why that is unknown.
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
