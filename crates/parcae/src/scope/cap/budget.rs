//! The capability to ask for budget.
//!
//! A node keeps what may still be taken through it. Taking lowers that in the node and in all
//! its ancestors, giving back raises it in the same nodes:
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
//! Each node has a lock; an operation locks its node and then, still holding it, the parent,
//! and so on to the root. What is granted is settled at the root, while all of the chain is
//! locked; then each level is lowered by that on the way back. Everybody locks from below
//! to above, which is an order on a tree, so nobody waits in a circle. Revoking marks a node
//! under its lock. No user code runs under a lock, the nesting is bounded by the depth of the
//! tree, and siblings meet only at what they share. A lock for the whole tree would do as
//! well; it would let one tenant's requests wait for those of all others, and save nothing
//! here.
//!
//! Nothing here is on the path of a spawn or a checkpoint: a budget is asked for once in
//! many thousand operations.

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
    /// The most that can be taken over its life, less what is given back.
    pub total: Budget,
    /// The most that one request gets.
    pub per_request: Budget,
}

impl BudgetLimits {
    /// So much in total, in one request or in many.
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

/// The capability to ask for budget: so much at once, so much in total.
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
/// nor can what was taken be given back by who may have spent it:
///
/// ```compile_fail,E0624
/// fn refill(cap: &parcae::cap::CapBudget) {
///     cap.give_back(parcae::Budget::SERVICE);
/// }
/// ```
pub struct CapBudget {
    node: Arc<Node>,
}

pub(super) struct Node {
    pub(super) id: Identity,
    limits: BudgetLimits,
    parent: Option<Arc<Node>>,
    account: Lock<Account>,
}

/// The variable part of a node.
struct Account {
    left: Budget,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
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
    /// Takes it, unless it is nothing at all.
    Some,
    /// Takes all or nothing.
    All,
}

impl CapBudget {
    pub(super) fn root(id: Identity, limits: BudgetLimits) -> CapBudget {
        CapBudget { node: Node::new(id, limits, None) }
    }

    /// Derives a weaker capability, from which nothing more can be derived. What is taken
    /// through it is taken from this one too; nothing is set aside for it.
    ///
    /// # Errors
    ///
    /// This one is revoked or not delegable, is derived over too many levels, or a limit is
    /// wider than its own: [`CapError::Wider`] says which.
    pub fn attenuate(&self, limits: BudgetLimits) -> Result<CapBudget, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability whose holder may derive further ones.
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
            None => node.id.derive(limits, &node.limits, delegation),
        };
        let id = checked.map_err(|error| node.id.denied(error))?;
        Ok(CapBudget { node: Node::new(id, limits, Some(Arc::clone(node))) })
    }

    /// Takes `wanted`, or of each component what can be had: at most what the limits on one
    /// request allow and what is left, here and in all that this was derived from.
    ///
    /// What is returned is an amount, not yet anybody's budget: it becomes that when a task
    /// is recharged with it.
    ///
    /// # Errors
    ///
    /// One of them is revoked, or nothing of what is wanted can be had.
    pub fn take(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.request(Request { wanted, demand: Demand::Some })
    }

    /// Takes `wanted`, all of it or nothing.
    ///
    /// # Errors
    ///
    /// One of them is revoked, or a component cannot be had in full.
    pub fn take_exact(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.request(Request { wanted, demand: Demand::All })
    }

    fn request(&self, request: Request) -> Result<Budget, CapError> {
        let granted = self.node.take(request, request.wanted);
        let granted = granted.map_err(|error| self.node.id.denied(error))?;
        self.node.id.used(Usage::Budget { granted });
        Ok(granted)
    }

    /// Gives back what was taken through this capability and not spent. Works after it was
    /// revoked, too. What is above all that was taken is ignored: nothing rises above its
    /// total.
    ///
    /// Not public: a `Budget` is a plain value, and only the nursery knows which part of it
    /// was not spent.
    pub(crate) fn give_back(&self, unspent: Budget) {
        self.node.give_back(unspent);
    }

    /// Revokes it and everything derived from it, from any thread: requests that start after
    /// this returned are refused with [`CapError::Revoked`]. What was taken stays taken.
    ///
    /// Whoever can use a capability can give it up. Lend an attenuated one to those who
    /// should not do that to others.
    pub fn revoke(&self) {
        self.node.revoke();
    }

    /// The right to revoke it, to be kept by who gives it away.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Budget(Arc::clone(&self.node)))
    }

    /// Whether it was revoked, or one that it was derived from.
    pub fn is_revoked(&self) -> bool {
        self.node.revoked().is_some()
    }

    /// Its limits. Those above it may bind first.
    pub fn limits(&self) -> BudgetLimits {
        self.node.limits
    }

    /// What may still be taken through it, if all that it was derived from have as much.
    pub fn left(&self) -> Budget {
        self.node.account().left
    }

    /// Whether weaker ones can be derived from it.
    pub fn delegation(&self) -> Delegation {
        self.node.id.delegation
    }

    /// An error if it was minted by another runtime.
    pub(crate) fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        self.node.id.check_issuer(issuer)
    }

    /// The number that names it in errors and in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }
}

impl Node {
    fn new(id: Identity, limits: BudgetLimits, parent: Option<Arc<Node>>) -> Arc<Node> {
        let account = Lock::new(Account { left: limits.total, standing: Standing::Valid });
        Arc::new(Node { id, limits, parent, account })
    }

    /// Takes what can be had of `offered`, which is what the levels below leave of the
    /// request, here and in all ancestors. The caller holds the locks of the levels below.
    fn take(&self, request: Request, offered: Budget) -> Result<Budget, CapError> {
        let mut account = self.account();
        if account.standing == Standing::Revoked {
            return Err(CapError::Revoked { cap: self.id.serial });
        }
        let offered = offered.min(self.limits.per_request).min(account.left);
        // Offers only shrink on the way up, so what is too little here is so at the root.
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
            parent.give_back(back); // where at least as much is missing
        }
    }

    pub(super) fn revoke(&self) {
        let before = std::mem::replace(&mut self.account().standing, Standing::Revoked);
        if before == Standing::Valid {
            self.id.record(AuditEvent::Revoked);
        }
    }

    /// The nearest revoked node on the way up, this one included.
    fn revoked(&self) -> Option<u64> {
        let mut node = self;
        loop {
            if node.account().standing == Standing::Revoked {
                return Some(node.id.serial);
            }
            node = node.parent.as_deref()?;
        }
    }

    fn account(&self) -> Guard<'_, Account> {
        // Nothing that can panic runs between two changes of an account.
        self.account.lock()
    }
}

impl Request {
    /// Whether what is offered will do; otherwise says that `cap` is what it fails on.
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

/// What was taken of `total`, if `left` is left. Nothing where it is not counted: then both
/// are the same.
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
