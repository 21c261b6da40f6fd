//! The parameters of a scheduling context.

use crate::WorkerSet;
use core::fmt;

/// The longest period: leaves room to compute with times far ahead of any clock.
pub const MAX_PERIOD: u64 = 1 << 60;

/// The most refills that a sliding window can be divided into.
pub const MAX_REFILLS: u8 = 8;

/// The terms of a scheduling context, in the caller's unit of time.
///
/// ```
/// use parcae_core::context::{Params, Refill};
///
/// let audio = Params { deadline: 5_000, ..Params::new(1_000, 10_000) };
/// assert!(audio.check(1).is_ok());
///
/// let guest = Params { refill: Refill::SlidingWindow { refills: 4 }, ..audio };
/// assert!(guest.check(1).is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// How much may be used per period.
    pub budget: u64,
    /// The time after which used budget is replenished.
    pub period: u64,
    /// By when, after it becomes ready, the budget is to have been available. At most the
    /// period.
    pub deadline: u64,
    /// Criticality: a higher band goes first, whatever the deadlines.
    pub band: Band,
    /// The workers that the context may be placed on, one at a time.
    pub workers: WorkerSet,
    /// How the budget is replenished.
    pub refill: Refill,
    /// The response to an overrun.
    pub overrun: Overrun,
    /// The endpoint for timeouts: a party had to stop for lack of budget.
    pub timeout: Option<Endpoint>,
    /// The longest time between two yield checks of the code that runs on it, including called
    /// services: how long it may keep the worker although its budget is used up or more urgent work
    /// waits.
    pub check_distance: u64,
}

impl Params {
    /// `budget` in each `period`, which is also the deadline; the lowest band, any worker,
    /// hard CBS, throttled without notice.
    pub const fn new(budget: u64, period: u64) -> Params {
        Params {
            budget,
            period,
            deadline: period,
            band: Band(0),
            workers: WorkerSet::ALL,
            refill: Refill::HardCbs,
            overrun: Overrun::Throttle,
            timeout: None,
            check_distance: 0,
        }
    }

    /// Whether the terms make sense where budgets below `min_slice` are not worth a dispatch.
    ///
    /// # Errors
    ///
    /// The first term that does not.
    pub fn check(&self, min_slice: u64) -> Result<(), BadParams> {
        let min_slice = min_slice.max(1);
        if self.budget < min_slice {
            Err(BadParams::BudgetTooSmall { budget: self.budget, least: min_slice })
        } else if self.period > MAX_PERIOD {
            Err(BadParams::PeriodTooLong { period: self.period })
        } else if self.deadline > self.period {
            Err(BadParams::DeadlineAfterPeriod { deadline: self.deadline, period: self.period })
        } else if self.budget > self.deadline {
            Err(BadParams::BudgetAboveDeadline { budget: self.budget, deadline: self.deadline })
        } else if self.workers.is_empty() {
            Err(BadParams::NoWorker)
        } else {
            match self.refill {
                Refill::SlidingWindow { refills } if !(2..=MAX_REFILLS).contains(&refills) => {
                    Err(BadParams::Refills { refills })
                }
                _ => Ok(()),
            }
        }
    }
}

/// A criticality band: a higher one goes before a lower one, whatever the deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Band(pub u8);

/// How urgent a ready context is; the least is to run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Urgency {
    band: core::cmp::Reverse<Band>,
    deadline: u64,
}

impl Urgency {
    /// The band decides, then the earlier deadline.
    pub const fn new(band: Band, deadline: u64) -> Urgency {
        Urgency { band: core::cmp::Reverse(band), deadline }
    }

    /// The absolute deadline in it.
    pub const fn deadline(self) -> u64 {
        self.deadline
    }
}

/// How used budget is replenished. In each case, available and future amounts add up to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// In one piece, a period after the job arrived (constant bandwidth server, throttled when
    /// empty). The holder may block and continue with the rest.
    HardCbs,
    /// The same for jobs that run to completion: a holder that blocks gives up the rest, and
    /// continues when the next job may arrive. Admission relies on that, and admits more.
    PerJob,
    /// Each piece a period after its use began (sporadic server). No window as long as the
    /// period holds more use than the budget, so neighbours are never hit twice at a border.
    SlidingWindow {
        /// The number of pieces, 2 to [`MAX_REFILLS`]. With fewer pieces, more budget is
        /// replenished later than necessary.
        refills: u8,
    },
}

/// The response to an overrun. All use is charged in any case, over as many periods as
/// necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrun {
    /// It waits for its replenishment. Counted, without an event.
    Throttle,
    /// It waits, with events for depletion, overruns and missed deadlines.
    Notify,
    /// As [`Notify`](Overrun::Notify), and an overrun beyond the tolerance halts the
    /// context until it is resumed by name.
    Halt {
        /// How much beyond the budget is forgiven; usually the check distance.
        tolerance: u64,
    },
}

/// The destination of a timeout. Its meaning is up to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Which endpoint.
    pub port: u32,
    /// A value that identifies the sender to the receiver.
    pub badge: u64,
}

/// Invalid parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadParams {
    /// The budget is not worth a dispatch.
    BudgetTooSmall {
        /// The requested value.
        budget: u64,
        /// The least allowed.
        least: u64,
    },
    /// The period is beyond [`MAX_PERIOD`].
    PeriodTooLong {
        /// The requested value.
        period: u64,
    },
    /// The deadline is after the end of the period.
    DeadlineAfterPeriod {
        /// The requested value.
        deadline: u64,
        /// The period.
        period: u64,
    },
    /// The budget cannot be used before the deadline even on an empty worker.
    BudgetAboveDeadline {
        /// The requested value.
        budget: u64,
        /// The deadline.
        deadline: u64,
    },
    /// The set of workers is empty.
    NoWorker,
    /// A sliding window of one refill or too many.
    Refills {
        /// The requested value.
        refills: u8,
    },
}

impl fmt::Display for BadParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadParams::BudgetTooSmall { budget, least } => {
                write!(
                    f,
                    "a budget of {budget} is less than a dispatch costs; ask for {least} or more"
                )
            }
            BadParams::PeriodTooLong { period } => {
                write!(f, "a period of {period} is too long; {MAX_PERIOD} is the most")
            }
            BadParams::DeadlineAfterPeriod { deadline, period } => write!(
                f,
                "the deadline {deadline} is after the period {period}; lower it or lengthen the \
                 period"
            ),
            BadParams::BudgetAboveDeadline { budget, deadline } => write!(
                f,
                "a budget of {budget} cannot be used within a deadline of {deadline}; lower the \
                 budget or extend the deadline"
            ),
            BadParams::NoWorker => f.write_str("the set of workers is empty; name at least one"),
            BadParams::Refills { refills } => {
                write!(f, "{refills} refills; choose 2 to {MAX_REFILLS}")
            }
        }
    }
}

impl core::error::Error for BadParams {}
