//! Capabilities: permissions of a task, as values that it was given.
//!
//! | capability | lets its holder | up to |
//! |---|---|---|
//! | [`CapSpawn`] | spawn tasks | so many alive at once, each with at most such a budget |
//! | [`CapBudget`] | ask for budget | so much in one request and so much in total |
//! | [`CapChannel`] | create channels | so many alive at once, each with at most such a buffer |
//!
//! # The tree
//!
//! The runtime's root mints; a holder of a *delegable* capability derives weaker ones from
//! it. That makes a tree for each minted capability, with at most [`MAX_DEPTH`] levels:
//!
//! ```text
//!            #1 max_tasks 10, minted, delegable
//!            /                              \
//!   #2 max_tasks 5, delegable       #3 max_tasks 8
//!            |
//!   #4 max_tasks 2
//! ```
//!
//! A task admitted under #4 is counted in #4, #2 and #1. So a limit bounds everything below
//! it, whatever the sum of the limits below: #2 and #3 may be fully used, though not both at
//! the same time. Budgets work alike: what is taken through a capability is taken from all
//! that it was derived from.
//!
//! The budget of a task, `task_budget`, is a ceiling: the task draws on its nursery's budget like
//! its siblings, a portion at a time, until it has had that much. What it spawns in turn draws
//! through it. Nothing is set aside, so that a task can spawn by the very capability that it was
//! spawned by.
//!
//! # Rules, and what enforces them
//!
//! - **None can be forged.** Fields and constructors are private, nothing clones, copies,
//!   defaults or deserialises. Only the runtime's mint makes a first one.
//! - **None can be widened.** Deriving compares each limit; asking for more than the parent has
//!   is refused with [`CapError::Wider`], which names the limit. It is not clamped: who asks
//!   for ten tasks and silently gets five learns of it at the wrong time.
//! - **None can be delegated that was not made for it.** Deriving needs a delegable parent;
//!   [`Delegation`] is fixed when a capability is made, and forbidden unless asked for.
//!   A holder can still lend `&CapSpawn` to code that it calls, as with any value in Rust;
//!   what it cannot make is a capability that lives apart from its own.
//! - **Revoking works at once, on the whole subtree.** A use visits each ancestor anyway, to
//!   count itself there, and the mark of revocation is in the word that it counts in (or
//!   under the lock that it takes). So revoking is one write to one node, however many were
//!   derived from it, and a use costs nothing more for it. A use whose turn at that node
//!   comes after the mark is refused. Serial numbers are never reused, so that an entry of
//!   the audit log can mean no other capability.
//! - **Revoking takes back authority, not work.** Tasks that run go on, channels stay open,
//!   budget that was taken stays taken; their places are given back when they end. To cancel
//!   them is the business of their nursery. Dropping a capability is not revoking it: what was
//!   derived from it stays valid.
//!
//! # Who owns what
//!
//! A capability owns a reference to its node, a node one to its parent; the permits that uses
//! return keep the nodes alive that they are counted in. All nodes of all kinds share the
//! mint's serial numbers and audit log (`audit.rs`).
//!
//! `places.rs` has the counting tree behind spawn and channel capabilities, which is on the
//! path of every spawn: one read-modify-write per level. `budget.rs` is off that path and
//! uses locks.
//!
//! # What was rejected
//!
//! - An epoch per tree, bumped by a revocation and compared at each use: it revokes all
//!   of a tree or needs a walk over the descendants to renew the others.
//! - A list of children in each node, walked by revoke: a lock on each derivation and a
//!   revocation that takes as long as its victim likes.
//! - Taking several places at a time, for a nursery to hand out: a use costs one read-modify-write
//!   per level when it begins and one when it ends, a fifth of a spawn for the first level. But
//!   `live` would count places that no task has, a capability near its limit would refuse what it
//!   could allow, and "revoke, then wait until `live` is 0" would wait for whoever keeps places and
//!   does not spawn.
//! - Moving limits to the child when it is derived, so that a use touches one node only: a
//!   child that idles would keep its siblings from working.

mod audit;
mod budget;
mod channel;
mod places;
mod spawn;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::base::error::{CapError, CapLimit};
pub(crate) use audit::Clock;
pub use audit::{Audit, AuditEntry, AuditEvent, AuditLevel, Usage};
pub use budget::{BudgetLimits, CapBudget};
pub use channel::{CapChannel, ChannelLimits, ChannelPermit};
pub use spawn::{CapSpawn, SpawnLimits, TaskPermit};

use crate::scope::budget::{Budget, Resource};
use std::fmt;
use std::sync::Arc;
// Serial numbers only have to differ: no protocol rests on them, so no model covers them.
use std::sync::atomic::{AtomicU64, Ordering};

/// How many levels a tree of capabilities may have.
///
/// A use visits each level and the end of a chain frees them one inside the other, so that
/// the depth must not be the choice of who derives. Runtime, service, tenant and task are
/// four; this leaves room for more and keeps the worst use below a microsecond.
pub const MAX_DEPTH: u32 = 32;

/// The kind of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CapKind {
    /// [`CapSpawn`].
    Spawn,
    /// [`CapBudget`].
    Budget,
    /// [`CapChannel`].
    Channel,
}

impl fmt::Display for CapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CapKind::Spawn => "spawn",
            CapKind::Budget => "budget",
            CapKind::Channel => "channel",
        })
    }
}

/// Whether weaker capabilities may be derived from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Delegation {
    /// It is its holder's alone.
    #[default]
    Forbidden,
    /// Its holder may attenuate it.
    Allowed,
}

/// The limits of a capability of any kind, as the audit log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limits {
    /// Of a [`CapSpawn`].
    Spawn(SpawnLimits),
    /// Of a [`CapBudget`].
    Budget(BudgetLimits),
    /// Of a [`CapChannel`].
    Channel(ChannelLimits),
}

/// The common interface of limits.
trait Attenuate: Copy + Into<Limits> {
    /// Checks that nothing in `self` is above what `parent` has.
    fn within(&self, parent: &Self) -> Result<(), CapError>;
}

/// Refuses `asked` if it is above `allowed`.
fn not_wider(limit: CapLimit, asked: u64, allowed: u64) -> Result<(), CapError> {
    if asked > allowed { Err(CapError::Wider { limit, asked, allowed }) } else { Ok(()) }
}

/// The same for each component of a budget.
fn budget_not_wider(
    limit: fn(Resource) -> CapLimit,
    asked: Budget,
    allowed: Budget,
) -> Result<(), CapError> {
    Resource::ALL.iter().try_for_each(|&r| not_wider(limit(r), asked.get(r), allowed.get(r)))
}

/// Makes the first capabilities. It is private to the runtime.
#[derive(Debug)]
pub(crate) struct Mint {
    issuer: Arc<Issuer>,
}

/// What all capabilities of a mint share: whose they are.
#[derive(Debug)]
pub(crate) struct Issuer {
    /// The next serial number.
    serials: AtomicU64,
    audit: Audit,
}

impl Mint {
    /// A mint whose audit log keeps `entries` entries, stamped by `clock`.
    pub(crate) fn new(entries: usize, level: AuditLevel, clock: Clock) -> Mint {
        let audit = Audit::new(entries, level, clock);
        Mint { issuer: Arc::new(Issuer { serials: AtomicU64::new(1), audit }) }
    }

    /// Whose the capabilities are that were minted here.
    pub(crate) fn issuer(&self) -> Arc<Issuer> {
        Arc::clone(&self.issuer)
    }

    /// The log of everything that was minted here or derived from it.
    pub(crate) fn audit(&self) -> Audit {
        self.issuer.audit.clone()
    }

    pub(crate) fn spawn(&self, limits: SpawnLimits, delegation: Delegation) -> CapSpawn {
        CapSpawn::root(self.identity(CapKind::Spawn, limits.into(), delegation), limits)
    }

    pub(crate) fn budget(&self, limits: BudgetLimits, delegation: Delegation) -> CapBudget {
        CapBudget::root(self.identity(CapKind::Budget, limits.into(), delegation), limits)
    }

    pub(crate) fn channel(&self, limits: ChannelLimits, delegation: Delegation) -> CapChannel {
        CapChannel::root(self.identity(CapKind::Channel, limits.into(), delegation), limits)
    }

    fn identity(&self, kind: CapKind, limits: Limits, delegation: Delegation) -> Identity {
        let id = Identity {
            serial: self.issuer.serial(),
            parent: None,
            kind,
            depth: 1,
            delegation,
            issuer: Arc::clone(&self.issuer),
        };
        id.record(AuditEvent::Minted(limits));
        id
    }
}

impl Issuer {
    fn serial(&self) -> u64 {
        // Relaxed: that no number comes twice needs no order with anything else.
        self.serials.fetch_add(1, Ordering::Relaxed)
    }
}

/// Which capability a node stands for. Never changes.
struct Identity {
    serial: u64,
    parent: Option<u64>,
    kind: CapKind,
    /// Levels from the root down to here, counting both.
    depth: u32,
    delegation: Delegation,
    issuer: Arc<Issuer>,
}

impl Identity {
    /// The identity of a capability that is derived from this one. The caller has seen that
    /// this one is not revoked; if it is revoked meanwhile, the new one is born revoked,
    /// because its uses come by here.
    fn derive<L: Attenuate>(
        &self,
        limits: L,
        own: &L,
        delegation: Delegation,
    ) -> Result<Identity, CapError> {
        if self.delegation == Delegation::Forbidden {
            return Err(CapError::NotDelegable { cap: self.serial });
        }
        if self.depth == MAX_DEPTH {
            return Err(CapError::TooDeep { limit: MAX_DEPTH });
        }
        limits.within(own)?;
        let id = Identity {
            serial: self.issuer.serial(),
            parent: Some(self.serial),
            kind: self.kind,
            depth: self.depth + 1,
            delegation,
            issuer: Arc::clone(&self.issuer),
        };
        id.record(AuditEvent::Attenuated(limits.into()));
        Ok(id)
    }

    /// An error if it was minted by another runtime.
    fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        if Arc::ptr_eq(&self.issuer, issuer) {
            Ok(())
        } else {
            Err(self.denied(CapError::Foreign { cap: self.serial }))
        }
    }

    fn record(&self, event: AuditEvent) {
        self.issuer.audit.record(self.kind, self.serial, self.parent, event);
    }

    /// Records what a use got, if uses are recorded.
    #[inline]
    fn used(&self, usage: Usage) {
        if self.issuer.audit.level() == AuditLevel::All {
            self.record(AuditEvent::Used(usage));
        }
    }

    /// Records a refusal and hands it on.
    #[cold]
    fn denied(&self, error: CapError) -> CapError {
        self.record(AuditEvent::Denied(error));
        error
    }
}

/// What `Debug` shows of a capability: who it is and its limits, nothing of where it lives.
fn debug(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    id: &Identity,
    limits: &dyn fmt::Debug,
) -> fmt::Result {
    f.debug_struct(name)
        .field("serial", &id.serial)
        .field("parent", &id.parent)
        .field("delegation", &id.delegation)
        .field("limits", limits)
        .finish_non_exhaustive()
}

/// The right to revoke one capability, for who gives the capability itself away.
///
/// Dropping a revoker revokes nothing. It is of no other use: nothing can be spawned or
/// taken with it.
///
/// ```no_run
/// use parcae::cap::{CapError, CapSpawn, SpawnLimits};
///
/// fn lend(cap: &CapSpawn, plugin: impl FnOnce(CapSpawn)) -> Result<(), CapError> {
///     let weaker = cap.attenuate(SpawnLimits { max_tasks: 4, ..cap.limits() })?;
///     let revoker = weaker.revoker();
///     plugin(weaker);
///     revoker.revoke(); // whatever the plugin kept of it
///     Ok(())
/// }
/// ```
pub struct Revoker(Revocable);

enum Revocable {
    Spawn(places::NodeRef<SpawnLimits>),
    Budget(Arc<budget::Node>),
    Channel(places::NodeRef<ChannelLimits>),
}

impl Revoker {
    /// Revokes the capability and everything derived from it, from any thread. Uses that
    /// start after this returned are refused with [`CapError::Revoked`]; tasks that were
    /// admitted before go on.
    pub fn revoke(&self) {
        match &self.0 {
            Revocable::Spawn(node) => node.revoke(),
            Revocable::Budget(node) => node.revoke(),
            Revocable::Channel(node) => node.revoke(),
        }
    }

    /// The serial number of the capability.
    pub fn serial(&self) -> u64 {
        match &self.0 {
            Revocable::Spawn(node) => node.id.serial,
            Revocable::Budget(node) => node.id.serial,
            Revocable::Channel(node) => node.id.serial,
        }
    }
}

impl fmt::Debug for Revoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revoker").field("serial", &self.serial()).finish_non_exhaustive()
    }
}
