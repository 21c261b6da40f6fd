//! Refusals of scheduling contexts.

use parcae_core::admission::{Cause, Rejected, Test};
use parcae_core::context::BadParams;
use std::fmt;
use std::time::Duration;

/// Why a scheduling context was not admitted, or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextRefused {
    /// The terms make no sense by themselves.
    Terms(BadParams),
    /// No worker can guarantee the budget beside those that it has promised. Times are in
    /// nanoseconds.
    Rejected(Rejected),
    /// There are as many contexts as the runtime, or a worker, can have.
    Full {
        /// How many that is.
        most: usize,
    },
    /// The policy in force does not allow it.
    Policy {
        /// The rule.
        rule: &'static str,
        /// The value.
        asked: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// All workers that admission may choose from are leased.
    Leased,
    /// The capability was revoked.
    Revoked,
    /// The capability was minted by another runtime.
    Foreign,
    /// The task runs on no context.
    NoContext,
    /// A root task cannot be bound to a context.
    Root,
}

impl fmt::Display for ContextRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextRefused::Terms(terms) => {
                f.write_str("the context was refused: ")?;
                show_terms(f, terms)
            }
            ContextRefused::Rejected(rejected) => {
                f.write_str("the context was not admitted: ")?;
                show_rejected(f, rejected)
            }
            ContextRefused::Full { most } => write!(
                f,
                "there are {most} contexts already, and room for no more: drop one, or let several \
                 tasks share one"
            ),
            ContextRefused::Policy { rule, asked, most } => write!(
                f,
                "the policy in force does not allow the context: {rule} is {asked}, and {most} is \
                 the most: ask for less, or ask the operator"
            ),
            ContextRefused::Leased => f.write_str(
                "all workers that admission may choose from are leased: admit the context before \
                 the lease is taken, and name it there, or allow other workers",
            ),
            ContextRefused::Revoked => {
                f.write_str("the context was revoked: ask for admission again")
            }
            ContextRefused::Foreign => f.write_str(
                "the context is of another runtime: use one that this runtime has admitted",
            ),
            ContextRefused::NoContext => f.write_str(
                "the task runs on no context: spawn it with `SpawnOpts::context`, or in a nursery \
                 with `NurseryOpts::context`",
            ),
            ContextRefused::Root => f.write_str(
                "a root task cannot be bound to a context: spawn a task of a nursery on it",
            ),
        }
    }
}

/// As `parcae_core` says it, but with units: there a time is a number.
fn show_terms(f: &mut fmt::Formatter<'_>, terms: &BadParams) -> fmt::Result {
    let time = Duration::from_nanos;
    match *terms {
        BadParams::BudgetTooSmall { budget, least } => write!(
            f,
            "a budget of {:?} is less than a dispatch costs; ask for {:?} or more",
            time(budget),
            time(least)
        ),
        BadParams::DeadlineAfterPeriod { deadline, period } => write!(
            f,
            "the deadline of {:?} is after the period of {:?}; lower it or lengthen the period",
            time(deadline),
            time(period)
        ),
        BadParams::BudgetAboveDeadline { budget, deadline } => write!(
            f,
            "a budget of {:?} cannot be used within a deadline of {:?}; lower the budget or extend \
             the deadline",
            time(budget),
            time(deadline)
        ),
        _ => write!(f, "{terms}"),
    }
}

/// As `show_terms`.
fn show_rejected(f: &mut fmt::Formatter<'_>, rejected: &Rejected) -> fmt::Result {
    let Rejected { needed, available, interval, .. } = *rejected;
    let time = Duration::from_nanos;
    let percent = |millionths: u64| millionths as f64 / 10_000.0;
    match (rejected.cause, rejected.test) {
        (Cause::TooMuch { .. }, Test::Utilisation) => write!(
            f,
            "the contexts of its worker would need {:.1} % of it, and {:.1} % can be promised; lower a \
             budget, lengthen a period, or use another worker",
            percent(needed),
            percent(available)
        ),
        (Cause::TooMuch { .. }, _) => write!(
            f,
            "the contexts of its worker may need {:?} of processor time in an interval of {:?}, and \
             {:?} are available; lower a budget, extend a deadline, or use another worker",
            time(needed),
            time(interval),
            time(available)
        ),
        _ => write!(f, "{rejected}"),
    }
}

impl std::error::Error for ContextRefused {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::ContextOpts;
    use crate::prelude::*;

    #[test]
    fn refusals_name_times_with_their_units() {
        let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
        let ms = Duration::from_millis;
        let refused = |opts| rt.admit(opts).unwrap_err().to_string();
        let text = refused(ContextOpts::new(ms(20), ms(30)).deadline(ms(10)));
        assert!(text.contains("a budget of 20ms"), "{text}");
        assert!(text.contains("a deadline of 10ms"), "{text}");
        let text = refused(ContextOpts::new(ms(5), ms(10)).deadline(ms(20)));
        assert!(text.contains("the deadline of 20ms is after the period of 10ms"), "{text}");
        let _half = rt.admit(ContextOpts::new(ms(5), ms(10))).unwrap();
        let text = refused(ContextOpts::new(ms(6), ms(10)));
        assert!(text.contains("would need 110.0 % of it, and 90.0 % can be promised"), "{text}");
        let text = refused(ContextOpts::new(ms(5), ms(100)).deadline(ms(8)));
        assert!(text.contains("may need 10.") && text.contains("ms of processor time"), "{text}");
    }
}
