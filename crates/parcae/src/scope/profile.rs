//! Profiles: how much a runtime lets its tasks do without being asked.
//!
//! A profile is a type. [`Runtime`](crate::Runtime), [`Cx`](crate::Cx) and
//! [`Nursery`](crate::Nursery) carry it, so what it does not allow does not compile:
//!
//! | profile | nurseries | spawning | stack | ops between yields |
//! |---|---|---|---|---|
//! | [`Core`] | none | no | 64 KiB | 1024 |
//! | [`Service`], the default | yes | freely, within the budget | 256 KiB | 1024 |
//! | [`Cluster`] | yes | freely, within the budget | 256 KiB | 512 |
//! | [`Sovereign`] | yes | with a [`CapSpawn`](crate::cap::CapSpawn) | 512 KiB | 1024, or as set |
//!
//! ```compile_fail,E0599
//! use parcae::prelude::*;
//! use parcae::profile::Core;
//!
//! let rt = Runtime::builder().profile::<Core>().build().unwrap();
//! rt.run(|cx| cx.nursery(|n| Ok(()))).unwrap(); // no such method
//! ```
//!
//! In [`Sovereign`] sockets, files and programs need a capability as well
//! ([`CapNet`](crate::cap::CapNet), [`CapFs`](crate::cap::CapFs),
//! [`CapExec`](crate::cap::CapExec)): shown by the call, or given to the nursery.
//!
//! Adapters that learn the profile at run time check with [`ProfileId`].

use crate::base::error::{Error, Result};
use crate::stack::StackSize;
use parcae_core::Budget;
use std::fmt;

mod sealed {
    pub trait Sealed {}
}

/// One of [`Core`], [`Service`], [`Cluster`] and [`Sovereign`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a profile",
    note = "the profiles are `Core`, `Service`, `Cluster` and `Sovereign`"
)]
pub trait Profile: sealed::Sealed + 'static {
    /// The same, as a value.
    const ID: ProfileId;
    /// How much stack a task gets.
    const STACK: StackSize;
    /// How many ops a task does before it lets others run.
    const YIELD_INTERVAL: u64;
    /// The slice of a root task, of resources that its runtime counts.
    const ROOT: Budget;
    /// The default slice of a child, of resources that its nursery counts.
    const CHILD: Budget;
}

/// A profile in which tasks open nurseries.
#[diagnostic::on_unimplemented(
    message = "tasks of the profile `{Self}` cannot open nurseries",
    note = "choose `Service`, `Cluster` or `Sovereign`; a generic function needs `P: Spawns`"
)]
pub trait Spawns: Profile {}

/// A profile in which spawning needs no capability to be shown.
#[diagnostic::on_unimplemented(
    message = "tasks of the profile `{Self}` cannot spawn freely",
    note = "`Core` does not spawn at all, and in `Sovereign` every `spawn` takes a `&CapSpawn`"
)]
pub trait SpawnsFreely: Spawns {}

macro_rules! profile {
    ($(#[$doc:meta])* $name:ident, $stack:expr, $interval:expr, $root:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub struct $name;

        impl sealed::Sealed for $name {}
        impl Profile for $name {
            const ID: ProfileId = ProfileId::$name;
            const STACK: StackSize = $stack;
            const YIELD_INTERVAL: u64 = $interval;
            const ROOT: Budget = $root;
            const CHILD: Budget = Budget::CHILD;
        }
    };
}

profile!(
    /// One task, which computes: no nurseries.
    Core,
    StackSize::CORE,
    1024,
    Budget::SERVICE
);
profile!(
    /// Tasks spawn freely, within their budgets.
    Service,
    StackSize::SERVICE,
    1024,
    Budget::SERVICE
);
profile!(
    /// As [`Service`], for many small tasks that are supervised: shorter turns.
    Cluster,
    StackSize::CLUSTER,
    512,
    Budget::CLUSTER
);
profile!(
    /// Authority is explicit: spawning needs a [`CapSpawn`](crate::cap::CapSpawn).
    Sovereign,
    StackSize::SOVEREIGN,
    1024,
    Budget::CLUSTER
);

impl Spawns for Service {}
impl Spawns for Cluster {}
impl Spawns for Sovereign {}
impl SpawnsFreely for Service {}
impl SpawnsFreely for Cluster {}

/// A profile as a value, for adapters that learn it at run time.
///
/// ```
/// use parcae::profile::{Feature, ProfileId};
///
/// assert!(ProfileId::Service.check(Feature::Spawn).is_ok());
/// let error = ProfileId::Core.check(Feature::Nursery).unwrap_err();
/// assert!(error.to_string().starts_with("a nursery requires the service profile or higher"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProfileId {
    /// [`Core`].
    Core,
    /// [`Service`].
    Service,
    /// [`Cluster`].
    Cluster,
    /// [`Sovereign`].
    Sovereign,
}

/// A feature that depends on the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Opening a nursery.
    Nursery,
    /// Spawning a task.
    Spawn,
    /// Making a channel.
    Channel,
    /// Recharging the budget of a task that is not a child of the caller.
    Supervise,
}

impl ProfileId {
    /// Whether the profile has a feature.
    ///
    /// # Errors
    ///
    /// An error that names the profile that would have it.
    pub fn check(self, feature: Feature) -> Result<()> {
        let least = match feature {
            Feature::Nursery | Feature::Spawn | Feature::Channel => ProfileId::Service,
            Feature::Supervise => ProfileId::Cluster,
        };
        if self >= least {
            return Ok(());
        }
        Err(Error::msg(format!(
            "{feature} requires the {least} profile or higher (current: {self}); build the runtime \
             with a higher profile"
        )))
    }

    /// Whether spawning needs a capability to be shown.
    pub fn needs_capability(self) -> bool {
        self == ProfileId::Sovereign
    }

    /// How much stack a task gets.
    pub fn stack_size(self) -> StackSize {
        match self {
            ProfileId::Core => Core::STACK,
            ProfileId::Service => Service::STACK,
            ProfileId::Cluster => Cluster::STACK,
            ProfileId::Sovereign => Sovereign::STACK,
        }
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProfileId::Core => "core",
            ProfileId::Service => "service",
            ProfileId::Cluster => "cluster",
            ProfileId::Sovereign => "sovereign",
        })
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Nursery => "a nursery",
            Feature::Spawn => "spawning",
            Feature::Channel => "a channel",
            Feature::Supervise => "supervising",
        })
    }
}
