//! The authority of a call: the capability that it shows, or else that of its nursery.
//!
//! | call | authority |
//! |---|---|
//! | `connect_under(&cap, …)` and the like | `cap` |
//! | `connect(…)` in a nursery with [`NurseryOpts::net`](parcae::NurseryOpts::net) | the nursery's |
//! | `connect(…)` elsewhere | all of it; in the sovereign profile none: an error |
//! | any, outside of tasks | that which is shown, or else all of it |
//!
//! A permit lies in the socket, file or child behind its descriptor, so the descriptor is closed
//! before the place is free again. An accepted connection is counted under the capability of its
//! listener.

use crate::error;
use parcae::cap::{CapError, CapNet, NetUse, SocketPermit};
use parcae::io::IoCapability;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The authority of a call.
#[derive(Debug)]
pub(crate) enum Authority<'c, C> {
    Unlimited,
    /// Of the nursery.
    Implicit(Arc<C>),
    Shown(&'c C),
}

impl<'c, C: IoCapability> Authority<'c, C> {
    /// That of a call which shows none.
    pub(crate) fn implicit() -> io::Result<Authority<'c, C>> {
        let cap = C::implicit().map_err(error::from_authority)?;
        Ok(cap.map_or(Authority::Unlimited, Authority::Implicit))
    }

    pub(crate) fn shown(cap: &'c C) -> io::Result<Authority<'c, C>> {
        cap.check_here().map_err(error::from_authority)?;
        Ok(Authority::Shown(cap))
    }
}

impl<C> Authority<'_, C> {
    /// The capability; none without limits.
    pub(crate) fn cap(&self) -> Option<&C> {
        match self {
            Authority::Unlimited => None,
            Authority::Implicit(cap) => Some(cap),
            Authority::Shown(cap) => Some(cap),
        }
    }

    /// A permit, if there are limits.
    pub(crate) fn admit<P>(
        &self,
        admit: impl FnOnce(&C) -> Result<P, CapError>,
    ) -> io::Result<Option<P>> {
        self.cap().map(admit).transpose().map_err(error::denied)
    }
}

impl Authority<'_, CapNet> {
    pub(crate) fn bind(&self, at: SocketAddr) -> io::Result<Option<SocketPermit>> {
        self.admit(|cap| cap.admit_bind(at))
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<Option<SocketPermit>> {
        self.admit(|cap| cap.admit_connect(to))
    }

    pub(crate) fn path(&self, usage: NetUse) -> io::Result<Option<SocketPermit>> {
        self.admit(|cap| cap.admit_path(usage))
    }

    /// Whether names may be asked for.
    pub(crate) fn names(&self) -> io::Result<()> {
        self.admit(CapNet::check_names).map(drop)
    }
}

/// A place for a connection that a socket with this permit accepts.
pub(crate) fn another(permit: Option<&SocketPermit>) -> io::Result<Option<SocketPermit>> {
    permit.map(SocketPermit::admit_another).transpose().map_err(error::denied)
}
