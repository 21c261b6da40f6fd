//! Refusals of a policy's decisions.

use std::fmt;

/// Why a decision or a sign of life of a policy service was refused. The decision in force is
/// unchanged, and the refusal is no sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyRefused {
    /// The bytes are no record of a decision.
    Record(RecordFault),
    /// Another service has the seat now.
    NotSeated,
    /// The seat is taken by a service that has decided with this epoch.
    Seated {
        /// The last epoch, to be named by a service that takes the seat over.
        epoch: u64,
    },
    /// The operator has put the built-in policy in force.
    Held,
    /// It names the nonce of another runtime, or of an earlier run.
    WrongRuntime,
    /// Its epoch is not above that of the last decision; for a sign of life, not the last one.
    Stale {
        /// The epoch of the last decision that was accepted.
        last: u64,
    },
    /// The view that it is based on is too old, was not handed out, or was before the operator
    /// last changed the rules.
    StaleView {
        /// The oldest view that still counts.
        oldest: u64,
    },
    /// The last decision is no longer in force, so a sign of life cannot keep it there.
    Expired,
    /// There were too many decisions in the last second.
    TooFast {
        /// How many may come into force in a second.
        most: u32,
    },
    /// It has too many rules.
    TooMany {
        /// How many it may have.
        most: usize,
    },
    /// The address of a tenant or the name of a context is empty, too long, or there twice.
    Address,
    /// A weight is out of the operator's bounds.
    Weight {
        /// The weight.
        asked: u32,
        /// The least allowed.
        least: u32,
        /// The greatest allowed.
        greatest: u32,
    },
    /// A slice is out of bounds, in nanoseconds, or in ops under the deterministic executor.
    Slice {
        /// The shortest allowed.
        min: u64,
        /// The longest allowed.
        max: u64,
    },
    /// A weight changes by too much at once.
    TooFar {
        /// The weight so far.
        from: u32,
        /// The weight.
        asked: u32,
    },
    /// More of a worker for contexts than the runtime promises.
    Contexts {
        /// The most, in thousandths of a worker.
        most: u16,
    },
    /// The runtime has ended.
    Ended,
}

/// The part of a record that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// It does not begin with the mark of a record.
    Mark,
    /// It is of a version that this runtime does not know.
    Version,
    /// It is shorter or longer than it says, or than any record.
    Length,
    /// Its checksum is wrong.
    Checksum,
    /// A number, a text or a tag in it is out of its range.
    Value,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordFault::Mark => "it does not begin with its mark",
            RecordFault::Version => "its version is unknown",
            RecordFault::Length => "its length is wrong",
            RecordFault::Checksum => "its checksum is wrong",
            RecordFault::Value => "a value in it is out of range",
        })
    }
}

impl fmt::Display for PolicyRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyRefused::Record(fault) => write!(f, "this is no record of a decision: {fault}"),
            PolicyRefused::NotSeated => {
                f.write_str("another policy service has the seat: take it over by the last epoch")
            }
            PolicyRefused::Seated { epoch } => write!(
                f,
                "a policy service has the seat: to take it over, name its last epoch, {epoch}"
            ),
            PolicyRefused::Held => f.write_str(
                "the operator has put the built-in policy in force: wait until it is lifted",
            ),
            PolicyRefused::WrongRuntime => f.write_str(
                "the decision is for another runtime, or for an earlier run: take a new view",
            ),
            PolicyRefused::Stale { last } => write!(
                f,
                "the epoch is stale: the last decision has {last}; take a new view and decide again"
            ),
            PolicyRefused::StaleView { oldest } => write!(
                f,
                "the view that it is based on is stale: take a new one, {oldest} or later"
            ),
            PolicyRefused::Expired => f.write_str(
                "the sign of life came too late, and the built-in policy is in force: decide anew",
            ),
            PolicyRefused::TooFast { most } => {
                write!(f, "{most} decisions come into force in a second: decide less often")
            }
            PolicyRefused::TooMany { most } => {
                write!(f, "a decision has {most} rules at most: let the others be as they ask")
            }
            PolicyRefused::Address => f.write_str(
                "an address is empty, longer than 512 bytes, or there twice: name each tenant once",
            ),
            PolicyRefused::Weight { asked, least, greatest } => write!(
                f,
                "weight {asked} is not from {least} to {greatest}: choose one of these, or ask the \
                 operator for wider bounds"
            ),
            PolicyRefused::Slice { min, max } => write!(
                f,
                "a slice is from {min} to {max} (nanoseconds, or ops under the deterministic \
                 executor): choose one of these"
            ),
            PolicyRefused::TooFar { from, asked } => write!(
                f,
                "weight {asked} is more than four times {from}, or less than a quarter: go there \
                 in steps"
            ),
            PolicyRefused::Contexts { most } => {
                write!(f, "a worker promises {most} ‰ to contexts at most: ask for less")
            }
            PolicyRefused::Ended => f.write_str("the runtime has ended, or has no policy any more"),
        }
    }
}

impl std::error::Error for PolicyRefused {}
