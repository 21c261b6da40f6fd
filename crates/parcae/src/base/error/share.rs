//! Refusals of shares of the processors.

use std::fmt;

/// Why a nursery could not be opened with its share. No nursery was opened, and nothing was
/// charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareRefused {
    /// All slots for tenants are taken by open nurseries with a share.
    Full {
        /// How many there are.
        max_tenants: usize,
    },
    /// Nurseries with a share are nested too deep.
    TooDeep {
        /// How deep they may be.
        max_depth: u32,
    },
    /// The slice is outside of the limits. Nanoseconds on threads, ops under the deterministic
    /// executor.
    Slice {
        /// The shortest slice.
        min: u64,
        /// The longest slice.
        max: u64,
    },
    /// The nursery was opened without a share, so there is none to change.
    NoShare,
    /// In the profile Sovereign a share needs a capability:
    /// [`Cx::nursery_with_share`](crate::Cx::nursery_with_share).
    Sovereign,
    /// The runtime was built without room for tenants.
    Off,
    /// There is no memory for the table of tenants.
    OutOfMemory,
}

impl fmt::Display for ShareRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareRefused::Full { max_tenants } => write!(
                f,
                "all {max_tenants} tenants of the runtime are open: raise `Builder::max_tenants`, \
                 or give nurseries of one tenant the same name"
            ),
            ShareRefused::TooDeep { max_depth } => write!(
                f,
                "nurseries with a share nest at most {max_depth} deep: open this one without"
            ),
            ShareRefused::Slice { min, max } => write!(
                f,
                "a slice has from {min} to {max} units (nanoseconds, or ops under the \
                 deterministic executor): ask for one of these"
            ),
            ShareRefused::NoShare => {
                f.write_str("the nursery has no share to change: open it with `NurseryOpts::share`")
            }
            ShareRefused::Sovereign => f.write_str(
                "in the profile Sovereign a share needs a capability: use `Cx::nursery_with_share`",
            ),
            ShareRefused::Off => f.write_str(
                "the runtime has no room for tenants: build it with `Builder::max_tenants` above 0",
            ),
            ShareRefused::OutOfMemory => {
                f.write_str("no memory for the table of tenants: lower `Builder::max_tenants`")
            }
        }
    }
}

impl std::error::Error for ShareRefused {}
