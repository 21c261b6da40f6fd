//! Answers of admission.

use crate::context::Band;
use core::fmt;

/// The test that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// The check of each single demand.
    Terms,
    /// The share of time that all need in the long run. Intervals are a million long.
    Utilisation,
    /// The sum of budget over deadline.
    Density,
    /// The demand in every interval.
    Demand,
}

/// Admitted, with the remaining slack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Which test was enough.
    pub test: Test,
    /// The examined interval that is closest to its limit. 0 if none was examined.
    pub interval: u64,
    /// The slack in that interval.
    pub slack: u64,
    /// The share of the worker that is promised now, in millionths, rounded up.
    pub load: u64,
    /// How many points the demand test looked at.
    pub steps: u32,
}

impl Admitted {
    pub(super) const fn nothing() -> Admitted {
        Admitted { test: Test::Demand, interval: 0, slack: u64::MAX, load: 0, steps: 0 }
    }
}

/// Rejected, with the missing amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// Which test failed.
    pub test: Test,
    /// The reason.
    pub cause: Cause,
    /// The interval.
    pub interval: u64,
    /// The worst-case demand in it.
    pub needed: u64,
    /// The supply in it.
    pub available: u64,
}

/// Why a set is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The demand exceeds the supply, in the given band.
    TooMuch {
        /// The band whose deadlines could be missed.
        band: Band,
    },
    /// The demand test exceeded its step limit; the result is unknown, so the set is rejected.
    OutOfSteps,
    /// The numbers exceed the range of the arithmetic, so the set is rejected.
    OutOfRange,
    /// The demand with this number asks for less than two dispatches cost, or for nothing.
    BudgetTooSmall,
    /// The period, or the distance between yield checks, is beyond the maximum.
    PeriodTooLong,
    /// The deadline is after the period.
    DeadlineAfterPeriod,
    /// The budget, with its dispatches, does not fit before the deadline.
    BudgetAboveDeadline,
    /// No worker of the set could be asked.
    NoWorker,
}

impl Rejected {
    /// How much is missing.
    pub const fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.available)
    }

    /// The demand at `index` is invalid alone; the index is stored as the interval.
    pub(super) const fn malformed(index: usize, cause: Cause) -> Rejected {
        Rejected { test: Test::Terms, cause, interval: index as u64, needed: 0, available: 0 }
    }

    pub(super) const fn unknown(test: Test, cause: Cause, interval: u64) -> Rejected {
        Rejected { test, cause, interval, needed: 0, available: 0 }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rejected { interval, needed, available, .. } = self;
        match self.cause {
            Cause::TooMuch { band: Band(band) } => write!(
                f,
                "up to {needed} may be needed and {available} are available in an interval of \
                 {interval} (band {band}): {} too much; lower a budget, extend a deadline, or use \
                 another worker",
                self.missing()
            ),
            Cause::OutOfSteps => write!(
                f,
                "not decided within the bound on steps, at an interval of {interval}; raise \
                 `max_steps` or lower the load"
            ),
            Cause::OutOfRange => {
                f.write_str("the load is too close to the share to be decided; lower a budget")
            }
            Cause::BudgetTooSmall => {
                write!(
                    f,
                    "demand {interval}: the budget is less than the cost of two dispatches; raise \
                     it"
                )
            }
            Cause::PeriodTooLong => {
                write!(f, "demand {interval}: period or check distance too long; shorten it")
            }
            Cause::DeadlineAfterPeriod => {
                write!(f, "demand {interval}: deadline after the period; lower it")
            }
            Cause::BudgetAboveDeadline => write!(
                f,
                "demand {interval}: the budget and two dispatches do not fit before the \
                 deadline; lower the budget"
            ),
            Cause::NoWorker => f.write_str("no worker to place it on; extend the set of workers"),
        }
    }
}

impl core::error::Error for Rejected {}
