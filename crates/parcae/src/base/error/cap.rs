//! Refusals of capabilities, with their remedies.

use parcae_core::Resource;
use std::fmt;

/// Refusal of a capability.
///
/// Nothing is lost when one of these is returned: all counts are as they were before. `cap`
/// is the serial number of the capability whose limit was hit: the one that was used, or one
/// that it was derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapError {
    /// Nothing may be derived from this capability.
    NotDelegable {
        /// Its serial number.
        cap: u64,
    },
    /// It was revoked, or one that it was derived from.
    Revoked {
        /// The serial number of the revoked one.
        cap: u64,
    },
    /// The limit of live tasks is reached.
    TaskLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
        /// Number that was live.
        live: u32,
    },
    /// The limit of live channels is reached.
    ChannelLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
        /// Number that was live.
        live: u32,
    },
    /// A channel's buffer would be larger than allowed.
    BufferTooLarge {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The largest buffer allowed, in messages.
        limit: usize,
        /// The requested buffer.
        requested: usize,
    },
    /// The requested budget is more than may be taken.
    BudgetLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The first component that is short.
        resource: Resource,
        /// The requested amount.
        wanted: u64,
        /// The available amount.
        left: u64,
    },
    /// It was minted by another runtime.
    Foreign {
        /// Its serial number.
        cap: u64,
    },
    /// A derived capability would allow more than the one it is derived from.
    Wider {
        /// Which limit.
        limit: CapLimit,
        /// The requested limit.
        asked: u64,
        /// The most that can be derived.
        allowed: u64,
    },
    /// The capability is derived over too many levels to derive another from it.
    TooDeep {
        /// The limit of levels: [`MAX_DEPTH`](crate::cap::MAX_DEPTH).
        limit: u32,
    },
}

/// A limit of a capability, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CapLimit {
    /// [`SpawnLimits::max_tasks`](crate::cap::SpawnLimits::max_tasks).
    MaxTasks,
    /// A component of [`SpawnLimits::task_budget`](crate::cap::SpawnLimits::task_budget).
    TaskBudget(Resource),
    /// A component of [`BudgetLimits::total`](crate::cap::BudgetLimits::total).
    Total(Resource),
    /// A component of [`BudgetLimits::per_request`](crate::cap::BudgetLimits::per_request).
    PerRequest(Resource),
    /// [`ChannelLimits::max_channels`](crate::cap::ChannelLimits::max_channels).
    MaxChannels,
    /// [`ChannelLimits::max_buffer`](crate::cap::ChannelLimits::max_buffer).
    MaxBuffer,
}

impl fmt::Display for CapLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapLimit::MaxTasks => f.write_str("max_tasks"),
            CapLimit::TaskBudget(resource) => write!(f, "task_budget.{resource}"),
            CapLimit::Total(resource) => write!(f, "total.{resource}"),
            CapLimit::PerRequest(resource) => write!(f, "per_request.{resource}"),
            CapLimit::MaxChannels => f.write_str("max_channels"),
            CapLimit::MaxBuffer => f.write_str("max_buffer"),
        }
    }
}

impl fmt::Display for CapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CapError::NotDelegable { cap } => write!(
                f,
                "capability #{cap} is not delegable: nothing can be derived from it; have it \
                 minted with Delegation::Allowed or derived with attenuate_delegable"
            ),
            CapError::Revoked { cap } => write!(
                f,
                "capability #{cap} was revoked, together with all capabilities derived from it; \
                 obtain another one from its issuer"
            ),
            CapError::Foreign { cap } => write!(
                f,
                "capability #{cap} was minted by another runtime and gives no authority in this \
                 one; use one that this runtime has minted"
            ),
            CapError::TaskLimitExceeded { cap, limit, live } => write!(
                f,
                "{live} tasks live under capability #{cap}, whose max_tasks is {limit}; wait \
                 for one to end, or use a capability with a higher max_tasks"
            ),
            CapError::ChannelLimitExceeded { cap, limit, live } => write!(
                f,
                "{live} channels live under capability #{cap}, whose max_channels is {limit}; \
                 drop one, or use a capability with a higher max_channels"
            ),
            CapError::BufferTooLarge { cap, limit, requested } => write!(
                f,
                "a buffer of {requested} messages exceeds the max_buffer of capability #{cap}, \
                 which is {limit}; request less, or use a capability with a higher max_buffer"
            ),
            CapError::BudgetLimitExceeded { cap, resource, wanted, left } => write!(
                f,
                "{wanted} {resource} requested, but capability #{cap} allows only {left}; request \
                 less, or use one with more {resource} in total and per_request"
            ),
            CapError::Wider { limit, asked, allowed } => write!(
                f,
                "a derived capability cannot exceed its parent: {limit} of {asked} requested, \
                 {allowed} allowed; request at most that, or derive from a capability with a \
                 higher {limit}"
            ),
            CapError::TooDeep { limit } => {
                write!(
                    f,
                    "this capability is {limit} derivations deep, which is the maximum; derive \
                     from one of its ancestors"
                )
            }
        }
    }
}

impl std::error::Error for CapError {}
