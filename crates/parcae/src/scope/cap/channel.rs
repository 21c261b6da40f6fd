//! The capability to create channels.

use super::permits::{CapPermit, NodeRef, Refusal};
use super::{
    Attenuate, CapError, CapLimit, Delegation, Identity, Limits, Revocable, Revoker, Usage,
    not_wider,
};
use std::fmt;

/// The limits of a [`CapChannel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelLimits {
    /// Largest number of channels alive at once.
    pub max_channels: u32,
    /// Largest buffer of each, in messages.
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

/// The capability to create channels, with limits for their number and buffer size.
///
/// It is needed only to create a channel, not to use one.
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

/// The place of one live channel under a [`CapChannel`] and all its ancestors. Dropping it returns
/// the place, even after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the channel's place back"]
pub struct ChannelPermit(CapPermit<ChannelLimits>);

impl CapChannel {
    pub(super) fn root(id: Identity, limits: ChannelLimits) -> CapChannel {
        CapChannel { node: NodeRef::root(id, limits.max_channels, limits) }
    }

    /// Derives a weaker capability, which cannot be delegated further. Channels under it count
    /// against this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own: [`CapError::Wider`] names it.
    pub fn attenuate(&self, limits: ChannelLimits) -> Result<CapChannel, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
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

    /// Takes a place for one channel with a buffer of `buffer` messages, here and in all ancestors.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked or has no place left, or the buffer is too large.
    pub fn admit(&self, buffer: usize) -> Result<ChannelPermit, CapError> {
        let id = &self.node.id;
        let (place, live) = self.enter(buffer).map_err(|error| id.denied(error))?;
        id.used(Usage::Channel { live, buffer });
        Ok(ChannelPermit(place))
    }

    fn enter(&self, buffer: usize) -> Result<(CapPermit<ChannelLimits>, u32), CapError> {
        let limit = self.node.limits.max_buffer; // no ancestor has a smaller one
        if buffer > limit {
            // Checked before a place is taken, so that a use that cannot succeed disturbs no other.
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
            // No place is taken beyond the limit, so exactly that many were taken.
            Refusal::Full { cap, limit } => {
                CapError::ChannelLimitExceeded { cap, limit, live: limit }
            }
        })
    }

    /// Revokes it and all capabilities derived from it, from any thread. Uses that start after this
    /// has returned are refused with [`CapError::Revoked`]. Existing channels remain.
    ///
    /// Any holder of a capability can revoke it. Lend an attenuated one to code that must not do
    /// so.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Channel(self.node.clone()))
    }

    /// Whether it or an ancestor was revoked.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> ChannelLimits {
        self.node.limits
    }

    /// Number of live channels under it and all capabilities derived from it. Once it is revoked,
    /// this only falls.
    pub fn live(&self) -> u32 {
        self.node.live()
    }

    /// Whether weaker capabilities can be derived from it.
    pub fn delegation(&self) -> Delegation {
        self.node.id.delegation
    }

    /// The number that identifies it in errors and in the audit log.
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
