//! Why an operation on contexts was refused. A refused operation has changed nothing.

use super::params::BadParams;
use core::fmt;

/// Why an operation on contexts was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The parameters are invalid.
    BadParams(BadParams),
    /// The terms do not allow the worker of this table.
    WrongWorker {
        /// The table's.
        worker: u8,
    },
    /// No slot is free.
    Full,
    /// The context was destroyed.
    StaleContext,
    /// The party was unregistered.
    StaleParty,
    /// The call was returned or revoked.
    StaleCall,
    /// The context is bound or held already.
    Bound,
    /// The context is not bound.
    NotBound,
    /// The party has a context already.
    HasContext,
    /// The party has no context.
    NoContext,
    /// The party waits for a call to return.
    Waits,
    /// The party is asleep.
    Asleep,
    /// The budget is used up.
    Depleted {
        /// When it will be replenished.
        until: u64,
    },
    /// The context overran and was halted.
    Halted,
    /// The worker runs on a context already.
    WorkerBusy,
    /// The context is in use right now.
    Running,
    /// Nothing runs on this context now.
    NotRunning,
    /// The remaining budget is less than the worst case of the call.
    BelowMinimum {
        /// The remaining budget.
        left: u64,
        /// The endpoint's requirement.
        needed: u64,
    },
    /// The context is lent to a callee.
    Lent,
    /// The callee has made a call of its own that is still open.
    NotLast,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::BadParams(why) => return why.fmt(f),
            Refused::WrongWorker { worker } => {
                return write!(f, "worker {worker} is not in the set of workers; add it");
            }
            Refused::Depleted { until } => {
                return write!(f, "the budget is used up; try again at {until}");
            }
            Refused::BelowMinimum { left, needed } => {
                return write!(
                    f,
                    "{left} are left, and the call may use {needed}; call after the next refill, \
                     or with a larger budget"
                );
            }
            _ => {}
        }
        f.write_str(match self {
            Refused::Full => "no slot is free; give the table more memory or destroy an entry",
            Refused::StaleContext => "the context was destroyed; create another",
            Refused::StaleParty => "the party was unregistered; register it again",
            Refused::StaleCall => "the call was returned or revoked already; drop the handle",
            Refused::Bound => "the context is bound; unbind it first",
            Refused::NotBound => "the context has no home; bind it to a party first",
            Refused::HasContext => "the party has a context; unbind that first",
            Refused::NoContext => "the party has no context; bind one or lend it one by a call",
            Refused::Waits => "the party waits for a call; return or revoke that first",
            Refused::Asleep => "the party sleeps; wake it first",
            Refused::Halted => "the context was halted by an overrun; resume or destroy it",
            Refused::WorkerBusy => "the worker is running another context; stop that first",
            Refused::Running => "the context is in use; stop it first",
            Refused::NotRunning => "nothing runs on the context; start it first",
            Refused::Lent => "the context is lent along a call; recall it first",
            Refused::NotLast => "the callee waits for a call of its own; revoke the call instead",
            _ => unreachable!("told above"),
        })
    }
}

impl core::error::Error for Refused {}

impl From<BadParams> for Refused {
    fn from(why: BadParams) -> Refused {
        Refused::BadParams(why)
    }
}
