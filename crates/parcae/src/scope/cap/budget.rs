//! The capability to request budget.
//!
//! A node keeps the amount that may still be taken through it. Taking lowers it in the node and in
//! all its ancestors; giving back raises it in the same nodes:
//!
//! ```text
//! total = left + taken through this node and the ones below
//! ```
//!
//! for each node and each counted component, always; a component that is
//! [`UNLIMITED`](crate::budget::UNLIMITED) is not counted. A child never has more in total
//! than its parent, so it has no unlimited component where its parent has none.
//!
//! # Why it is atomic
//!
//! Each node has a lock. An operation locks its node and then, still holding it, the parent, and so
//! on to the root. The granted amount is settled at the root, while the whole chain is locked; on
//! the way back each level is lowered by it. All operations lock upwards, which is an order on a
//! tree, so there is no deadlock. Revoking marks a node under its lock. No user code runs under a
//! lock, the nesting is bounded by the depth of the tree, and siblings contend only for shared
//! ancestors. One lock for the whole tree would make a tenant's requests wait for those of all
//! others, and save nothing here.
//!
//! Nothing here is on the path of a spawn or a checkpoint: budget is requested once in many
//! thousand operations.

use super::{
    Attenuate, AuditEvent, CapError, CapLimit, Delegation, Identity, Issuer, Limits, Revocable,
    Revoker, Usage, budget_not_wider,
};
use crate::base::lock::{Guard, Lock};
use crate::scope::budget::{Budget, Resource};
use std::fmt;
use std::sync::Arc;

/// The limits of a [`CapBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BudgetLimits {
    /// Largest amount taken over its life, less the amount given back.
    pub total: Budget,
    /// Largest amount per request.
    pub per_request: Budget,
}

impl BudgetLimits {
    /// This much in total, in one request or in many.
    pub const fn total(total: Budget) -> BudgetLimits {
        BudgetLimits { total, per_request: total }
    }
}

impl Attenuate for BudgetLimits {
    fn within(&self, parent: &BudgetLimits) -> Result<(), CapError> {
        budget_not_wider(CapLimit::Total, self.total, parent.total)?;
        budget_not_wider(CapLimit::PerRequest, self.per_request, parent.per_request)
    }
}

impl From<BudgetLimits> for Limits {
    fn from(limits: BudgetLimits) -> Limits {
        Limits::Budget(limits)
    }
}

/// The capability to request budget, with a limit per request and a total.
///
/// ```no_run
/// use parcae::Budget;
/// use parcae::cap::{BudgetLimits, CapBudget, CapError};
///
/// fn for_a_supervisor(cap: &CapBudget) -> Result<CapBudget, CapError> {
///     cap.attenuate(BudgetLimits { total: Budget::SERVICE, per_request: Budget::CHILD })
/// }
/// ```
///
/// Like all capabilities it cannot be made, cloned or widened by its holder:
///
/// ```compile_fail,E0451
/// use parcae::cap::CapBudget;
///
/// fn forge(cap: CapBudget) -> CapBudget {
///     CapBudget { ..cap }
/// }
/// ```
///
/// ```compile_fail,E0277
/// use parcae::cap::CapBudget;
///
/// fn clone<T: Clone>() {}
/// clone::<CapBudget>();
/// ```
///
/// ```compile_fail,E0616
/// use parcae::cap::CapBudget;
///
/// fn widen(cap: &mut CapBudget) {
///     cap.node = todo!();
/// }
/// ```
///
/// nor can its holder give back budget, which may have been spent:
///
/// ```compile_fail,E0624
/// fn refill(cap: &parcae::cap::CapBudget) {
///     cap.give_back(parcae::Budget::SERVICE);
/// }
/// ```
pub struct CapBudget {
    node: Arc<BudgetNode>,
}

pub(super) struct BudgetNode {
    pub(super) id: Identity,
    limits: BudgetLimits,
    parent: Option<Arc<BudgetNode>>,
    account: Lock<CapAccount>,
}

/// The variable part of a node.
struct CapAccount {
    left: Budget,
    standing: Validity,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Validity {
    Valid,
    Revoked,
}

/// A request on its way to the root.
#[derive(Clone, Copy)]
struct Request {
    wanted: Budget,
    demand: Demand,
}

/// The policy for a request that cannot be granted in full.
#[derive(Clone, Copy)]
enum Demand {
    /// Takes any part of it, but fails if that is nothing.
    Some,
    /// Takes all or nothing.
    All,
}

impl CapBudget {
    /// The same capability, for the runtime's own bookkeeping.
    pub(crate) fn share(&self) -> CapBudget {
        CapBudget { node: Arc::clone(&self.node) }
    }

    pub(super) fn root(id: Identity, limits: BudgetLimits) -> CapBudget {
        CapBudget { node: BudgetNode::new(id, limits, None) }
    }

    /// Derives a weaker capability, which cannot be delegated further. An amount taken through it
    /// is taken from this one too; nothing is reserved for it.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own: [`CapError::Wider`] names it.
    pub fn attenuate(&self, limits: BudgetLimits) -> Result<CapBudget, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapBudget::attenuate).
    pub fn attenuate_delegable(&self, limits: BudgetLimits) -> Result<CapBudget, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(&self, limits: BudgetLimits, delegation: Delegation) -> Result<CapBudget, CapError> {
        let node = &self.node;
        let checked = match node.revoked() {
            Some(cap) => Err(CapError::Revoked { cap }),
            None => node.id.derive(&limits, &node.limits, delegation),
        };
        let id = checked.map_err(|error| node.id.denied(error))?;
        Ok(CapBudget { node: BudgetNode::new(id, limits, Some(Arc::clone(node))) })
    }

    /// Takes `wanted`, or of each component as much as possible: up to the limit per request and
    /// the amount left, here and in all ancestors.
    ///
    /// The result is an amount, not yet a budget of any task: recharging a task turns it into one.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked, or no component of `wanted` is available.
    pub fn take(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.request(Request { wanted, demand: Demand::Some })
    }

    /// Takes all of `wanted` or nothing.
    ///
    /// # Errors
    ///
    /// If this one or an ancestor is revoked, or a component is not available in full.
    pub fn take_exact(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.request(Request { wanted, demand: Demand::All })
    }

    fn request(&self, request: Request) -> Result<Budget, CapError> {
        let granted = self.node.take(request, request.wanted);
        let granted = granted.map_err(|error| self.node.id.denied(error))?;
        self.node.id.used(Usage::Budget { granted });
        Ok(granted)
    }

    /// Gives back an amount that was taken through this capability and not spent, even after it was
    /// revoked. Any excess over the amount taken is ignored: no node rises above its total.
    ///
    /// Not public: a `Budget` is a plain value, and only the nursery knows which part of it
    /// was not spent.
    pub(crate) fn give_back(&self, unspent: Budget) {
        self.node.give_back(unspent);
    }

    /// Revokes it and all capabilities derived from it, from any thread. Requests that start after
    /// this has returned are refused with [`CapError::Revoked`]. Amounts that were taken stay
    /// taken.
    ///
    /// Any holder of a capability can revoke it. Lend an attenuated one to code that must not do
    /// so.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Budget(Arc::clone(&self.node)))
    }

    /// Whether it or an ancestor was revoked.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> BudgetLimits {
        self.node.limits
    }

    /// Amount that may still be taken through it, as far as its ancestors have as much.
    pub fn left(&self) -> Budget {
        self.node.account().left
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

impl BudgetNode {
    fn new(id: Identity, limits: BudgetLimits, parent: Option<Arc<BudgetNode>>) -> Arc<BudgetNode> {
        let account = Lock::new(CapAccount { left: limits.total, standing: Validity::Valid });
        Arc::new(BudgetNode { id, limits, parent, account })
    }

    /// Takes as much as possible of `offered`, the part of the request that the levels below allow,
    /// here and in all ancestors. The caller holds the locks of the levels below.
    fn take(&self, request: Request, offered: Budget) -> Result<Budget, CapError> {
        let mut account = self.account();
        if account.standing == Validity::Revoked {
            return Err(CapError::Revoked { cap: self.id.serial });
        }
        let offered = offered.min(self.limits.per_request).min(account.left);
        // Offers only shrink on the way up, so an offer too small here is too small at the root.
        request.accepts(offered, self.id.serial)?;
        let granted = match &self.parent {
            Some(parent) => parent.take(request, offered)?,
            None => offered,
        };
        let taken = account.left.split(granted);
        debug_assert_eq!(taken, granted, "granted more than was left");
        Ok(granted)
    }

    /// Puts `unspent` back here and in all ancestors. The caller holds the locks of the
    /// levels below.
    fn give_back(&self, unspent: Budget) {
        let mut account = self.account();
        let back = unspent.min(missing(self.limits.total, account.left));
        account.left.absorb(back);
        if let Some(parent) = &self.parent {
            parent.give_back(back); // at least as much is missing there
        }
    }

    pub(super) fn revoke(&self) {
        let before = std::mem::replace(&mut self.account().standing, Validity::Revoked);
        if before == Validity::Valid {
            self.id.record(AuditEvent::Revoked);
        }
    }

    /// The nearest revoked node on the way up, this one included.
    fn revoked(&self) -> Option<u64> {
        let mut node = self;
        loop {
            if node.account().standing == Validity::Revoked {
                return Some(node.id.serial);
            }
            node = node.parent.as_deref()?;
        }
    }

    fn account(&self) -> Guard<'_, CapAccount> {
        // Nothing that can panic runs between two changes of an account.
        self.account.lock()
    }
}

impl Request {
    /// Whether the offer satisfies the request. The error names `cap` as the cause.
    fn accepts(&self, offered: Budget, cap: u64) -> Result<(), CapError> {
        let enough = match self.demand {
            Demand::Some => offered != Budget::ZERO || self.wanted == Budget::ZERO,
            Demand::All => offered == self.wanted,
        };
        let short = Resource::ALL.into_iter().find(|&r| offered.get(r) < self.wanted.get(r));
        match short {
            Some(resource) if !enough => {
                let (wanted, left) = (self.wanted.get(resource), offered.get(resource));
                Err(CapError::BudgetLimitExceeded { cap, resource, wanted, left })
            }
            _ => Ok(()),
        }
    }
}

/// The amount taken of `total`, with `left` remaining. Zero for components that are not counted,
/// where both are the same.
fn missing(total: Budget, left: Budget) -> Budget {
    Budget {
        ops: total.ops - left.ops,
        memory: total.memory - left.memory,
        spawn_count: total.spawn_count - left.spawn_count,
        channel_ops: total.channel_ops - left.channel_ops,
        syscalls: total.syscalls - left.syscalls,
    }
}

impl fmt::Debug for CapBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CapBudget", &self.node.id, &self.node.limits)
    }
}
