//! The capability to open nurseries with a share of the processors.

use super::permits::{CapPermit, NodeRef, Refusal};
use super::{
    Attenuate, CapError, CapLimit, Delegation, Identity, Issuer, Limits, Revocable, Revoker, Usage,
    not_wider,
};
use parcae_core::fair::Weight;
use std::fmt;
use std::sync::Arc;

/// The limits of a [`CapShare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareLimits {
    /// Largest number of nurseries with a share that are open at once.
    pub max_open: u32,
    /// Largest weight of each.
    pub max_weight: Weight,
}

impl Attenuate for ShareLimits {
    fn within(&self, parent: &ShareLimits) -> Result<(), CapError> {
        let weight = |limits: &ShareLimits| u64::from(limits.max_weight.get());
        not_wider(CapLimit::MaxOpen, self.max_open.into(), parent.max_open.into())?;
        not_wider(CapLimit::MaxWeight, weight(self), weight(parent))
    }
}

impl From<ShareLimits> for Limits {
    fn from(limits: ShareLimits) -> Limits {
        Limits::Share(limits)
    }
}

/// The capability to open nurseries with a share of the processors, with limits for their number
/// and weight. In the profile Sovereign no nursery has a share without it; see
/// [`Cx::nursery_with_share`](crate::Cx::nursery_with_share).
///
/// ```
/// use parcae::cap::{Delegation, ShareLimits};
/// use parcae::policy::Weight;
/// use parcae::prelude::*;
/// use parcae::profile::Sovereign;
///
/// let rt = Runtime::builder().profile::<Sovereign>().deterministic(1).build()?;
/// let limits = ShareLimits { max_open: 2, max_weight: Weight::NORMAL };
/// let cap = rt.cap_share(limits, Delegation::Allowed);
/// let light = cap.attenuate(ShareLimits { max_weight: Weight::MIN, ..limits })?;
/// rt.run(|cx| {
///     let opts = || NurseryOpts::new().name("plugin").share(Weight::NORMAL);
///     assert!(cx.nursery_with(opts(), |_| Ok(())).is_err()); // no capability
///     assert!(cx.nursery_with_share(&light, opts(), |_| Ok(())).is_err()); // too heavy
///     cx.nursery_with_share(&cap, opts(), |_| Ok(()))
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct CapShare {
    node: NodeRef<ShareLimits>,
}

/// The place of one open nursery under a [`CapShare`] and all its ancestors. Dropping it returns
/// the place, even after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the nursery's place back"]
pub struct SharePermit(CapPermit<ShareLimits>);

impl CapShare {
    pub(super) fn root(id: Identity, limits: ShareLimits) -> CapShare {
        CapShare { node: NodeRef::root(id, limits.max_open, limits) }
    }

    /// Derives a weaker capability, which cannot be delegated further. Nurseries under it count
    /// against this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own: [`CapError::Wider`] names it.
    pub fn attenuate(&self, limits: ShareLimits) -> Result<CapShare, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapShare::attenuate).
    pub fn attenuate_delegable(&self, limits: ShareLimits) -> Result<CapShare, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(&self, limits: ShareLimits, delegation: Delegation) -> Result<CapShare, CapError> {
        let node = self.node.derive(limits.max_open, limits, delegation)?;
        Ok(CapShare { node })
    }

    /// Takes a place for one nursery of this weight, here and in all ancestors.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked or has no place left, or the weight is too large.
    pub fn admit(&self, weight: Weight) -> Result<SharePermit, CapError> {
        let id = &self.node.id;
        let (place, live) = self.enter(weight).map_err(|error| id.denied(error))?;
        id.used(Usage::Share { live, weight: weight.get() });
        Ok(SharePermit(place))
    }

    fn enter(&self, weight: Weight) -> Result<(CapPermit<ShareLimits>, u32), CapError> {
        let limit = self.node.limits.max_weight; // no ancestor has a smaller one
        if let Some(cap) = self.node.revoked() {
            return Err(CapError::Revoked { cap });
        }
        if weight > limit {
            let (cap, requested) = (self.node.id.serial, weight.get());
            return Err(CapError::WeightTooLarge { cap, limit: limit.get(), requested });
        }
        self.node.enter().map_err(|refusal| match refusal {
            Refusal::Revoked { cap } => CapError::Revoked { cap },
            Refusal::Full { cap, limit } => CapError::ShareLimitExceeded { cap, limit },
        })
    }

    /// An error if it was minted by another runtime.
    pub(crate) fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        self.node.id.check_issuer(issuer)
    }

    /// Revokes it and all capabilities derived from it, from any thread. Nurseries that are open
    /// keep their shares.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Share(self.node.clone()))
    }

    /// Whether it or an ancestor was revoked.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> ShareLimits {
        self.node.limits
    }

    /// Number of open nurseries under it and all capabilities derived from it.
    pub fn live(&self) -> u32 {
        self.node.live()
    }

    /// The number that identifies it in errors and in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }
}

impl fmt::Debug for CapShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CapShare", &self.node.id, &self.node.limits)
    }
}

impl fmt::Debug for SharePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharePermit").field("cap", &self.0.node().id.serial).finish_non_exhaustive()
    }
}
