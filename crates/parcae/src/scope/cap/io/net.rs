//! The capability to open sockets.

use super::super::permits::{CapPermit, NodeRef, Refusal};
use super::super::{
    Attenuate, CapError, CapLimit, Delegation, Identity, Limits, NetUse, Usage, not_wider,
};
use super::address::AddressSet;
use super::common_methods;
use std::fmt;
use std::net::SocketAddr;

/// The limits of a [`CapNet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetLimits {
    /// Addresses at which sockets may listen or receive.
    pub bind: AddressSet,
    /// Addresses to which sockets may connect or send.
    pub connect: AddressSet,
    /// Largest number of sockets open at once, accepted connections included.
    pub max_sockets: u32,
}

impl Attenuate for NetLimits {
    fn within(&self, parent: &NetLimits) -> Result<(), CapError> {
        let subset = |limit, own: &AddressSet, parent: &AddressSet| match own.is_within(parent) {
            true => Ok(()),
            false => Err(CapError::WiderSet { limit }),
        };
        subset(CapLimit::Bind, &self.bind, &parent.bind)?;
        subset(CapLimit::Connect, &self.connect, &parent.connect)?;
        not_wider(CapLimit::MaxSockets, self.max_sockets.into(), parent.max_sockets.into())
    }
}

impl From<NetLimits> for Limits {
    fn from(limits: NetLimits) -> Limits {
        Limits::Net {
            max_sockets: limits.max_sockets,
            bind_rules: limits.bind.len(),
            connect_rules: limits.connect.len(),
        }
    }
}

pub(in crate::scope::cap) type NetNode = NodeRef<NetLimits>;

/// The capability to open sockets, with sets of addresses and a limit for their number.
///
/// Names of hosts may be asked for under a capability that may connect to some address. Unix
/// sockets are reached by paths, which the sets do not name: they need [`AddressSet::ANY`].
///
/// ```no_run
/// use parcae::cap::{AddressSet, CapError, CapNet, NetLimits};
///
/// fn for_a_plugin(cap: &CapNet) -> Result<CapNet, CapError> {
///     let connect = "10.0.0.7:5432".parse().expect("an address");
///     cap.attenuate(NetLimits { bind: AddressSet::NONE, connect, max_sockets: 4 })
/// }
/// ```
///
/// Like all capabilities it cannot be made or cloned by its holder:
///
/// ```compile_fail,E0451
/// use parcae::cap::CapNet;
///
/// fn forge(cap: CapNet) -> CapNet {
///     CapNet { ..cap }
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<parcae::cap::CapNet>();
/// ```
pub struct CapNet {
    node: NetNode,
}

/// The place of one open socket under a [`CapNet`] and all its ancestors. Dropping it returns the
/// place, even after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the socket's place back"]
pub struct SocketPermit(CapPermit<NetLimits>);

// Kept in every socket.
const _: () = assert!(size_of::<Option<SocketPermit>>() == size_of::<usize>());

common_methods!(CapNet, NetLimits, Net, "Sockets");

impl CapNet {
    pub(in crate::scope::cap) fn root(id: Identity, limits: NetLimits) -> CapNet {
        CapNet { node: NodeRef::root(id, limits.max_sockets, limits) }
    }

    /// Derives a weaker capability, which cannot be delegated further. Sockets under it count
    /// against this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own: [`CapError::Wider`] or [`CapError::WiderSet`] names it.
    pub fn attenuate(&self, limits: NetLimits) -> Result<CapNet, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapNet::attenuate).
    pub fn attenuate_delegable(&self, limits: NetLimits) -> Result<CapNet, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(&self, limits: NetLimits, delegation: Delegation) -> Result<CapNet, CapError> {
        let node = self.node.derive(limits.max_sockets, limits, delegation)?;
        Ok(CapNet { node })
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> NetLimits {
        self.node.limits.clone()
    }

    /// Takes a place for a socket at this address.
    ///
    /// # Errors
    ///
    /// If the address is not in the set `bind`, or this one or an ancestor is revoked or has no
    /// place left.
    pub fn admit_bind(&self, address: SocketAddr) -> Result<SocketPermit, CapError> {
        self.check(NetUse::Bind, address)?;
        self.admit()
    }

    /// Takes a place for a socket that connects to this address.
    ///
    /// # Errors
    ///
    /// As for [`admit_bind`](CapNet::admit_bind), of the set `connect`.
    pub fn admit_connect(&self, address: SocketAddr) -> Result<SocketPermit, CapError> {
        self.check(NetUse::Connect, address)?;
        self.admit()
    }

    /// Whether a socket may send to this address. Takes no place.
    ///
    /// # Errors
    ///
    /// If the address is not in the set `connect`, or this one or an ancestor is revoked.
    pub fn check_connect(&self, address: SocketAddr) -> Result<(), CapError> {
        self.check(NetUse::Connect, address)?;
        self.check_revoked()
    }

    /// Takes a place for a socket without an address: an end of a pair.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked or has no place left.
    pub fn admit(&self) -> Result<SocketPermit, CapError> {
        admitted(&self.node.id, self.node.enter())
    }

    /// Takes a place for a Unix socket that has a path.
    ///
    /// # Errors
    ///
    /// If the set for that use is not [`AddressSet::ANY`]; otherwise as for
    /// [`admit`](CapNet::admit).
    pub fn admit_path(&self, usage: NetUse) -> Result<SocketPermit, CapError> {
        if !self.set(usage).is_any() {
            let denied = CapError::SocketPathDenied { cap: self.node.id.serial };
            return Err(self.node.id.denied(denied));
        }
        self.admit()
    }

    /// Whether names of hosts may be asked for.
    ///
    /// # Errors
    ///
    /// If it may connect to no address, or this one or an ancestor is revoked.
    pub fn check_names(&self) -> Result<(), CapError> {
        if self.node.limits.connect.is_none() {
            let denied = CapError::NamesDenied { cap: self.node.id.serial };
            return Err(self.node.id.denied(denied));
        }
        self.check_revoked()
    }

    fn set(&self, usage: NetUse) -> &AddressSet {
        // No ancestor has a smaller one.
        match usage {
            NetUse::Bind => &self.node.limits.bind,
            NetUse::Connect => &self.node.limits.connect,
        }
    }

    fn check(&self, usage: NetUse, address: SocketAddr) -> Result<(), CapError> {
        if self.set(usage).contains(address) {
            return Ok(());
        }
        let cap = self.node.id.serial;
        Err(self.node.id.denied(CapError::AddressDenied { cap, usage, address }))
    }

    fn check_revoked(&self) -> Result<(), CapError> {
        match self.node.revoked() {
            Some(cap) => Err(self.node.id.denied(CapError::Revoked { cap })),
            None => Ok(()),
        }
    }
}

fn admitted(
    id: &Identity,
    entered: Result<(CapPermit<NetLimits>, u32), Refusal>,
) -> Result<SocketPermit, CapError> {
    match entered {
        Ok((place, live)) => {
            id.used(Usage::Socket { live });
            Ok(SocketPermit(place))
        }
        Err(refusal) => Err(id.denied(match refusal {
            Refusal::Revoked { cap } => CapError::Revoked { cap },
            // No place is taken beyond the limit, so exactly that many were taken.
            Refusal::Full { cap, limit } => {
                CapError::SocketLimitExceeded { cap, limit, live: limit }
            }
        })),
    }
}

impl SocketPermit {
    /// Whether the socket may ask for names of hosts.
    ///
    /// # Errors
    ///
    /// If it may connect to no address.
    pub fn check_names(&self) -> Result<(), CapError> {
        let node = self.0.node();
        match node.limits.connect.is_none() {
            true => Err(node.id.denied(CapError::NamesDenied { cap: node.id.serial })),
            false => Ok(()),
        }
    }

    /// Another place under the same capability: for a connection that this socket accepts.
    ///
    /// # Errors
    ///
    /// As for [`CapNet::admit`].
    pub fn admit_another(&self) -> Result<SocketPermit, CapError> {
        admitted(&self.0.node().id, self.0.enter_again())
    }

    /// Whether the socket may send to this address.
    ///
    /// # Errors
    ///
    /// If the address is not in the set `connect`.
    pub fn check_connect(&self, address: SocketAddr) -> Result<(), CapError> {
        let node = self.0.node();
        if node.limits.connect.contains(address) {
            return Ok(());
        }
        let (cap, usage) = (node.id.serial, NetUse::Connect);
        Err(node.id.denied(CapError::AddressDenied { cap, usage, address }))
    }
}

impl fmt::Debug for SocketPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketPermit")
            .field("cap", &self.0.node().id.serial)
            .finish_non_exhaustive()
    }
}
