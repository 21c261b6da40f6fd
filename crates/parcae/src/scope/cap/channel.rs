//! The capability to create channels.

use super::places::{NodeRef, Place, Refusal};
use super::{
    Attenuate, CapError, CapLimit, Delegation, Identity, Limits, Revocable, Revoker, Usage,
    not_wider,
};
use std::fmt;

/// The limits of a [`CapChannel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelLimits {
    /// How many channels may be alive at once.
    pub max_channels: u32,
    /// The largest buffer of each, in messages.
    pub max_buffer: usize,
}

impl Attenuate for ChannelLimits {
    fn within(&self, parent: &ChannelLimits) -> Result<(), CapError> {
        not_wider(CapLimit::MaxChannels, self.max_channels.into(), parent.max_channels.into())?;
        not_wider(CapLimit::MaxBuffer, self.max_buffer as u64, parent.max_buffer as u64)
    }
}

impl From<ChannelLimits> for Limits {
    fn from(limits: ChannelLimits) -> Limits {
        Limits::Channel(limits)
    }
}

/// The capability to create channels: so many at once, each with at most such a buffer.
///
/// Only creating needs it; a channel's ends work without.
///
/// ```no_run
/// use parcae::cap::{CapChannel, CapError, ChannelLimits};
///
/// fn for_a_tenant(cap: &CapChannel) -> Result<CapChannel, CapError> {
///     cap.attenuate(ChannelLimits { max_buffer: 16, ..cap.limits() })
/// }
/// ```
///
/// Like all capabilities it cannot be made, cloned or widened by its holder:
///
/// ```compile_fail,E0451
/// use parcae::cap::CapChannel;
///
/// fn forge(cap: CapChannel) -> CapChannel {
///     CapChannel { ..cap }
/// }
/// ```
///
/// ```compile_fail,E0277
/// use parcae::cap::CapChannel;
///
/// fn clone<T: Clone>() {}
/// clone::<CapChannel>();
/// ```
///
/// ```compile_fail,E0616
/// use parcae::cap::CapChannel;
///
/// fn widen(cap: &mut CapChannel) {
///     cap.node = todo!();
/// }
/// ```
pub struct CapChannel {
    node: NodeRef<ChannelLimits>,
}

/// The place of one live channel under a [`CapChannel`] and all that it was derived from.
/// Dropping it gives the place back, also after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the channel's place back"]
pub struct ChannelPermit(Place<ChannelLimits>);

impl CapChannel {
    pub(super) fn root(id: Identity, limits: ChannelLimits) -> CapChannel {
        CapChannel { node: NodeRef::root(id, limits.max_channels, limits) }
    }

    /// Derives a weaker capability, from which nothing more can be derived. Channels under it
    /// count against this one too.
    ///
    /// # Errors
    ///
    /// This one is revoked or not delegable, is derived over too many levels, or a limit is
    /// wider than its own: [`CapError::Wider`] says which.
    pub fn attenuate(&self, limits: ChannelLimits) -> Result<CapChannel, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability whose holder may derive further ones.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapChannel::attenuate).
    pub fn attenuate_delegable(&self, limits: ChannelLimits) -> Result<CapChannel, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(
        &self,
        limits: ChannelLimits,
        delegation: Delegation,
    ) -> Result<CapChannel, CapError> {
        let node = self.node.derive(limits.max_channels, limits, delegation)?;
        Ok(CapChannel { node })
    }

    /// Takes a place for one channel with a buffer of `buffer` messages, here and in all that
    /// this was derived from.
    ///
    /// # Errors
    ///
    /// One of them is revoked, or has as many live channels as it may; or the buffer is too
    /// large.
    pub fn admit(&self, buffer: usize) -> Result<ChannelPermit, CapError> {
        let id = &self.node.id;
        let (place, live) = self.enter(buffer).map_err(|error| id.denied(error))?;
        id.used(Usage::Channel { live, buffer });
        Ok(ChannelPermit(place))
    }

    fn enter(&self, buffer: usize) -> Result<(Place<ChannelLimits>, u32), CapError> {
        let limit = self.node.limits.max_buffer; // no ancestor has a smaller one
        if buffer > limit {
            // Found before any place is taken: what cannot succeed disturbs nobody.
            return Err(match self.node.revoked() {
                Some(cap) => CapError::Revoked { cap },
                None => {
                    let cap = self.node.id.serial;
                    CapError::BufferTooLarge { cap, limit, requested: buffer }
                }
            });
        }
        self.node.enter().map_err(|refusal| match refusal {
            Refusal::Revoked { cap } => CapError::Revoked { cap },
            // No place is taken beyond the limit, so there were just that many.
            Refusal::Full { cap, limit } => {
                CapError::ChannelLimitExceeded { cap, limit, live: limit }
            }
        })
    }

    /// Revokes it and everything derived from it, from any thread: uses that start after
    /// this returned are refused with [`CapError::Revoked`]. Channels made before live on.
    ///
    /// Whoever can use a capability can give it up. Lend an attenuated one to those who
    /// should not do that to others.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, to be kept by who gives it away.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Channel(self.node.clone()))
    }

    /// Whether it was revoked, or one that it was derived from.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. Those above it may bind first.
    pub fn limits(&self) -> ChannelLimits {
        self.node.limits
    }

    /// How many channels are alive under it and all that was derived from it. Once it is
    /// revoked this only falls.
    pub fn live(&self) -> u32 {
        self.node.live()
    }

    /// Whether weaker ones can be derived from it.
    pub fn delegation(&self) -> Delegation {
        self.node.id.delegation
    }

    /// The number that names it in errors and in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }
}

impl fmt::Debug for CapChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CapChannel", &self.node.id, &self.node.limits)
    }
}

impl fmt::Debug for ChannelPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelPermit")
            .field("cap", &self.0.node().id.serial)
            .finish_non_exhaustive()
    }
}
