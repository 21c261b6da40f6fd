//! Errors of the fair queue.

use super::scale::Limits;
use core::fmt;

/// Why an operation was refused. The queue is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FairError {
    /// The handle's entity or group is gone.
    Stale,
    /// All slots for entities are taken.
    Full,
    /// All slots for groups are taken.
    GroupsFull,
    /// Groups would be nested deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    TooDeep,
    /// The entity is not the one that runs.
    NotRunning,
    /// The entity is runnable already.
    Awake,
    /// The entity is asleep already.
    Asleep,
    /// The entity stands for a group, whose members say whether it is runnable.
    IsGroup,
    /// The group has members, or is the root.
    InUse,
    /// The slice is outside of the queue's limits.
    Slice {
        /// The shortest allowed.
        min: u64,
        /// The longest allowed.
        max: u64,
    },
    /// The limits contradict each other.
    Limits(Limits),
    /// The memory is too small or too large.
    Memory {
        /// How many nodes are needed beside these slots.
        needed: usize,
    },
}

impl fmt::Display for FairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FairError::Stale => f.write_str(
                "the handle is stale: its entity or group was removed or left; drop the handle",
            ),
            FairError::Full => f.write_str(
                "no slot for another entity: give the queue more slots, or remove some first (one \
                 that is removed in debt frees its slot when the others have caught up)",
            ),
            FairError::GroupsFull => f.write_str(
                "no slot for another group: give the queue more, or remove an empty group first",
            ),
            FairError::TooDeep => {
                write!(f, "groups nest at most {} deep: put this one higher up", super::MAX_DEPTH)
            }
            FairError::NotRunning => {
                f.write_str("only the entity that runs can do this: use what `pick` returned last")
            }
            FairError::Awake => {
                f.write_str("it is runnable already: put it to sleep before it is woken")
            }
            FairError::Asleep => f.write_str("it is asleep already: wake it first"),
            FairError::IsGroup => {
                f.write_str("it stands for a group: wake, move or remove the members instead")
            }
            FairError::InUse => {
                f.write_str("the group has members or is the root: remove its members first")
            }
            FairError::Slice { min, max } => write!(
                f,
                "a slice has from {min} to {max} units here: ask for one of these, or raise the \
                 queue's limits"
            ),
            FairError::Limits(Limits { min_slice, slice, max_slice, min_charge }) => write!(
                f,
                "limits must be 1 ≤ min_charge ≤ min_slice ≤ slice ≤ max_slice < 2³², not \
                 {min_charge}, {min_slice}, {slice}, {max_slice}"
            ),
            FairError::Memory { needed } => write!(
                f,
                "a queue takes from 1 to 2²⁴ slots for entities, at least {needed} nodes beside \
                 these, and from 1 to 2²⁴ slots for groups: the root needs one"
            ),
        }
    }
}

impl core::error::Error for FairError {}
