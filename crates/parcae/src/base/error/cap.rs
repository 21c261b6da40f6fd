//! Refusals of capabilities, with their remedies.

use parcae_core::Resource;
use std::fmt;
use std::net::SocketAddr;

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
    /// The limit of open nurseries with a share is reached.
    ShareLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
    },
    /// The weight of a share would be larger than allowed.
    WeightTooLarge {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The largest weight allowed.
        limit: u32,
        /// The requested weight.
        requested: u32,
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
    /// A derived capability would have a set that is not part of its parent's.
    WiderSet {
        /// Which set.
        limit: CapLimit,
    },
    /// The limit of open sockets is reached.
    SocketLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
        /// Number that was open.
        live: u32,
    },
    /// The limit of open files is reached.
    FileLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
        /// Number that was open.
        live: u32,
    },
    /// The limit of child processes is reached.
    ChildLimitExceeded {
        /// Serial number of the capability that has the limit.
        cap: u64,
        /// The limit.
        limit: u32,
        /// Number that was alive.
        live: u32,
    },
    /// The address is not in the set.
    AddressDenied {
        /// Serial number of the capability.
        cap: u64,
        /// Which set.
        usage: NetUse,
        /// The address.
        address: SocketAddr,
    },
    /// A Unix socket with a path, under a capability that names addresses.
    SocketPathDenied {
        /// Serial number of the capability.
        cap: u64,
    },
    /// A name of a host, under a capability that connects to no one.
    NamesDenied {
        /// Serial number of the capability.
        cap: u64,
    },
    /// A path leads out of the directory.
    PathOutside {
        /// Serial number of the capability.
        cap: u64,
    },
    /// The capability allows reading only.
    WriteDenied {
        /// Serial number of the capability.
        cap: u64,
    },
    /// The program is not in the set.
    ProgramDenied {
        /// Serial number of the capability.
        cap: u64,
    },
    /// The call has to show a capability, and the nursery has none.
    NotShown {
        /// Its type.
        cap: &'static str,
    },
    /// The capability is derived over too many levels to derive another from it.
    TooDeep {
        /// The limit of levels: [`MAX_DEPTH`](crate::cap::MAX_DEPTH).
        limit: u32,
    },
}

/// The use of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetUse {
    /// A socket listens or receives there.
    Bind,
    /// A socket connects or sends there.
    Connect,
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
    /// [`NetLimits::bind`](crate::cap::NetLimits::bind).
    Bind,
    /// [`NetLimits::connect`](crate::cap::NetLimits::connect).
    Connect,
    /// [`NetLimits::max_sockets`](crate::cap::NetLimits::max_sockets).
    MaxSockets,
    /// [`FsLimits::access`](crate::cap::FsLimits::access).
    Access,
    /// [`FsLimits::max_files`](crate::cap::FsLimits::max_files).
    MaxFiles,
    /// [`ExecLimits::programs`](crate::cap::ExecLimits::programs).
    Programs,
    /// [`ExecLimits::max_children`](crate::cap::ExecLimits::max_children).
    MaxChildren,
    /// [`ShareLimits::max_open`](crate::cap::ShareLimits::max_open).
    MaxOpen,
    /// [`ShareLimits::max_weight`](crate::cap::ShareLimits::max_weight).
    MaxWeight,
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
            CapLimit::Bind => f.write_str("bind"),
            CapLimit::Connect => f.write_str("connect"),
            CapLimit::MaxSockets => f.write_str("max_sockets"),
            CapLimit::Access => f.write_str("access"),
            CapLimit::MaxFiles => f.write_str("max_files"),
            CapLimit::Programs => f.write_str("programs"),
            CapLimit::MaxChildren => f.write_str("max_children"),
            CapLimit::MaxOpen => f.write_str("max_open"),
            CapLimit::MaxWeight => f.write_str("max_weight"),
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
            CapError::ShareLimitExceeded { cap, limit } => write!(
                f,
                "{limit} nurseries with a share are open under capability #{cap}, which is its \
                 max_open; wait for one to end, or use a capability with a higher max_open"
            ),
            CapError::WeightTooLarge { cap, limit, requested } => write!(
                f,
                "a weight of {requested} exceeds the max_weight of capability #{cap}, which is \
                 {limit}; request less, or use a capability with a higher max_weight"
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
            CapError::WiderSet { limit } => write!(
                f,
                "a derived capability cannot exceed its parent: its `{limit}` is not part of the \
                 parent's; request less, or derive from a capability with a wider `{limit}`"
            ),
            CapError::SocketLimitExceeded { cap, limit, live } => write!(
                f,
                "{live} sockets open under capability #{cap}, whose max_sockets is {limit}; close \
                 one, or use a capability with a higher max_sockets"
            ),
            CapError::FileLimitExceeded { cap, limit, live } => write!(
                f,
                "{live} files open under capability #{cap}, whose max_files is {limit}; close \
                 one, or use a capability with a higher max_files"
            ),
            CapError::ChildLimitExceeded { cap, limit, live } => write!(
                f,
                "{live} children alive under capability #{cap}, whose max_children is {limit}; \
                 wait for one and drop it, or use a capability with a higher max_children"
            ),
            CapError::AddressDenied { cap, usage: NetUse::Bind, address } => write!(
                f,
                "capability #{cap} does not allow a socket at {address}; use one whose `bind` has \
                 that address"
            ),
            CapError::AddressDenied { cap, usage: NetUse::Connect, address } => write!(
                f,
                "capability #{cap} does not allow a connection to {address}; use one whose \
                 `connect` has that address"
            ),
            CapError::SocketPathDenied { cap } => write!(
                f,
                "capability #{cap} names addresses, and a Unix socket has a path; use one with \
                 AddressSet::ANY"
            ),
            CapError::NamesDenied { cap } => write!(
                f,
                "capability #{cap} connects to no one, so it asks for no names; use one whose \
                 `connect` is not empty"
            ),
            CapError::PathOutside { cap } => write!(
                f,
                "the path leads out of the directory of capability #{cap}; use a path beneath it, \
                 or a capability for another directory"
            ),
            CapError::WriteDenied { cap } => {
                write!(f, "capability #{cap} allows reading only; use one with FsAccess::Write")
            }
            CapError::ProgramDenied { cap } => write!(
                f,
                "capability #{cap} does not allow this program; name one of its `programs` by the \
                 absolute path, or use a capability that has it"
            ),
            CapError::NotShown { cap } => write!(
                f,
                "the sovereign profile gives no authority that was not shown: pass a `&{cap}` to \
                 the form of the call that takes one, or give it to the nursery by its NurseryOpts"
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
