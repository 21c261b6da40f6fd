//! The capability to spawn tasks.

use super::permits::{CapPermit, NodeRef, Refusal};
use super::{
    Attenuate, CapError, CapLimit, Delegation, Identity, Issuer, Limits, Revocable, Revoker, Usage,
    budget_not_wider, not_wider,
};
use crate::scope::budget::{Budget, Ceiling};
use std::fmt;
use std::sync::Arc;

/// The limits of a [`CapSpawn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpawnLimits {
    /// Largest number of tasks alive at once.
    pub max_tasks: u32,
    /// Largest budget of each task, its own children included. A bound, not a grant: the task draws
    /// on its nursery's budget like its siblings.
    pub task_budget: Budget,
}

impl Attenuate for SpawnLimits {
    fn within(&self, parent: &SpawnLimits) -> Result<(), CapError> {
        not_wider(CapLimit::MaxTasks, self.max_tasks.into(), parent.max_tasks.into())?;
        budget_not_wider(CapLimit::TaskBudget, self.task_budget, parent.task_budget)
    }
}

impl From<SpawnLimits> for Limits {
    fn from(limits: SpawnLimits) -> Limits {
        Limits::Spawn(limits)
    }
}

/// The capability to spawn tasks, with limits for their number and budget.
///
/// It is minted by the runtime, lent by reference, and checked at each spawn. Weaker ones can be
/// derived from a delegable one:
///
/// ```no_run
/// use parcae::cap::{CapError, CapSpawn, SpawnLimits};
///
/// fn for_a_tenant(cap: &CapSpawn) -> Result<CapSpawn, CapError> {
///     cap.attenuate(SpawnLimits { max_tasks: 5, ..cap.limits() })
/// }
/// ```
///
/// It cannot be constructed,
///
/// ```compile_fail,E0451
/// use parcae::cap::CapSpawn;
///
/// fn forge(cap: CapSpawn) -> CapSpawn {
///     CapSpawn { ..cap }
/// }
/// ```
///
/// ```compile_fail,E0277
/// use parcae::cap::CapSpawn;
///
/// fn default<T: Default>() {}
/// default::<CapSpawn>();
/// ```
///
/// minted,
///
/// ```compile_fail,E0603
/// use parcae::cap::Mint;
/// ```
///
/// cloned,
///
/// ```compile_fail,E0277
/// use parcae::cap::CapSpawn;
///
/// fn clone<T: Clone>() {}
/// clone::<CapSpawn>();
/// ```
///
/// or widened.
///
/// ```compile_fail,E0070
/// use parcae::cap::CapSpawn;
///
/// fn widen(cap: &mut CapSpawn) {
///     cap.limits() = parcae::cap::SpawnLimits { max_tasks: 1_000, ..cap.limits() };
/// }
/// ```
///
/// ```compile_fail,E0616
/// use parcae::cap::CapSpawn;
///
/// fn widen(cap: &mut CapSpawn) {
///     cap.node = todo!();
/// }
/// ```
pub struct CapSpawn {
    node: NodeRef<SpawnLimits>,
}

/// The place of one live task under a [`CapSpawn`] and all its ancestors. Dropping it returns the
/// place, even after the capability was revoked or dropped.
///
/// It cannot be cloned:
///
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<parcae::cap::TaskPermit>();
/// ```
#[must_use = "dropping a permit gives the task's place back"]
pub struct TaskPermit(CapPermit<SpawnLimits>);

// Kept in every task's record.
const _: () = assert!(size_of::<Option<TaskPermit>>() == size_of::<usize>());

impl CapSpawn {
    pub(super) fn root(id: Identity, limits: SpawnLimits) -> CapSpawn {
        CapSpawn { node: NodeRef::root(id, limits.max_tasks, limits) }
    }

    /// Derives a weaker capability, which cannot be delegated further. Tasks under it count against
    /// this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own: [`CapError::Wider`] names it.
    pub fn attenuate(&self, limits: SpawnLimits) -> Result<CapSpawn, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapSpawn::attenuate).
    pub fn attenuate_delegable(&self, limits: SpawnLimits) -> Result<CapSpawn, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(&self, limits: SpawnLimits, delegation: Delegation) -> Result<CapSpawn, CapError> {
        let node = self.node.derive(limits.max_tasks, limits, delegation)?;
        Ok(CapSpawn { node })
    }

    /// Takes a place for one task, here and in all ancestors.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked or has no place left.
    #[inline]
    pub fn admit(&self) -> Result<TaskPermit, CapError> {
        match self.node.enter() {
            Ok((place, live)) => {
                self.node.id.used(Usage::Task { live });
                Ok(TaskPermit(place))
            }
            Err(refusal) => Err(self.node.id.denied(match refusal {
                Refusal::Revoked { cap } => CapError::Revoked { cap },
                // No place is taken beyond the limit, so exactly that many were taken.
                Refusal::Full { cap, limit } => {
                    CapError::TaskLimitExceeded { cap, limit, live: limit }
                }
            })),
        }
    }

    /// Revokes it and all capabilities derived from it, from any thread. Uses that start after this
    /// has returned are refused with [`CapError::Revoked`]. Tasks that were admitted before
    /// continue.
    ///
    /// Any holder of a capability can revoke it. Lend an attenuated one to code that must not do
    /// so.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Spawn(self.node.clone()))
    }

    /// Whether it or an ancestor was revoked.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> SpawnLimits {
        self.node.limits
    }

    /// Largest budget of a task under it.
    pub fn task_budget(&self) -> Budget {
        self.node.limits.task_budget
    }

    /// The same limit, for the pool of a task.
    pub(crate) fn ceiling(&self) -> Ceiling {
        Ceiling { most: self.task_budget(), cap: self.serial() }
    }

    /// Number of live tasks under it and all capabilities derived from it. Once it is revoked, this
    /// only falls.
    pub fn live(&self) -> u32 {
        self.node.live()
    }

    /// Whether weaker capabilities can be derived from it.
    pub fn delegation(&self) -> Delegation {
        self.node.id.delegation
    }

    /// An error if it was minted by another runtime.
    pub(crate) fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        self.node.id.check_issuer(issuer)
    }

    /// The number that identifies it in errors and in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }
}

impl fmt::Debug for CapSpawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CapSpawn", &self.node.id, &self.node.limits)
    }
}

impl fmt::Debug for TaskPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPermit").field("cap", &self.0.node().id.serial).finish_non_exhaustive()
    }
}
