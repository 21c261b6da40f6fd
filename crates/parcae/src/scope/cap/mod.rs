//! Capabilities: permissions of a task, as values that it was given.
//!
//! | capability | lets its holder | up to |
//! |---|---|---|
//! | [`CapSpawn`] | spawn tasks | a number alive at once, and a budget for each |
//! | [`CapBudget`] | request budget | an amount per request, and a total |
//! | [`CapContext`] | run on admitted time | a budget in each period |
//! | [`CpuLease`] | keep all others off a worker | until it is revoked |
//! | [`CapShare`] | open nurseries with a share of the processors | a number open at once, and a weight for each |
//! | [`CapChannel`] | create channels | a number alive at once, and a buffer size for each |
//! | [`CapNet`] | open sockets | sets of addresses, and a number open at once |
//! | [`CapFs`] | use files beneath a directory | reading or writing, and a number open at once |
//! | [`CapExec`] | start programs | a set of programs, and a number alive at once |
//!
//! The last three are for the world outside of the process: see `io/mod.rs`.
//!
//! # The tree
//!
//! The runtime's root mints; a holder of a *delegable* capability derives weaker ones from it. So
//! each minted capability is the root of a tree of at most [`MAX_DEPTH`] levels:
//!
//! ```text
//!            #1 max_tasks 10, minted, delegable
//!            /                              \
//!   #2 max_tasks 5, delegable       #3 max_tasks 8
//!            |
//!   #4 max_tasks 2
//! ```
//!
//! A task admitted under #4 is counted in #4, #2 and #1. So a limit bounds everything below it,
//! whatever the sum of the limits below: #2 and #3 may be fully used, though not both at the same
//! time. Budgets work alike: an amount taken through a capability is taken from all its ancestors.
//!
//! The budget of a task, `task_budget`, is a ceiling: the task draws on its nursery's budget like
//! its siblings, a portion at a time, up to that amount. Its own children draw through it. Nothing
//! is reserved, so a task can spawn under the same capability that it was spawned under.
//!
//! # Rules, and what enforces them
//!
//! - **None can be forged.** Fields and constructors are private, and capabilities cannot be
//!   cloned, copied, defaulted or deserialised. Only the runtime's mint makes a first one.
//! - **None can be widened.** Deriving compares each limit; asking for more than the parent has is
//!   refused with [`CapError::Wider`], which names the limit. The request is not clamped: a caller
//!   that asks for ten tasks and silently gets five would learn of it too late.
//! - **None can be delegated that was not made for it.** Deriving needs a delegable parent;
//!   [`Delegation`] is fixed when a capability is made, and forbidden by default. A holder can
//!   still lend `&CapSpawn` to code that it calls, as with any value in Rust, but it cannot make a
//!   capability that outlives its own.
//! - **Revoking works at once, on the whole subtree.** A use visits each ancestor anyway, to count
//!   itself there, and the mark of revocation is in the word that it counts in (or under the lock
//!   that it takes). So revoking is one write to one node, however many were derived from it, and
//!   makes uses no more expensive. A use that reaches the node after the mark is refused. Serial
//!   numbers are never reused, so an entry of the audit log identifies its capability.
//! - **Revoking takes back authority, not work.** Running tasks continue, channels stay open, and
//!   budget that was taken stays taken; permits are returned as tasks and channels end. Cancelling
//!   them is up to their nursery. Dropping a capability does not revoke it: capabilities derived
//!   from it stay valid.
//!
//! # Who owns what
//!
//! A capability owns a reference to its node, and a node owns one to its parent. The permits that
//! uses return keep the nodes alive in which they are counted. All nodes of all kinds share the
//! mint's serial numbers and audit log (`audit.rs`).
//!
//! `permits.rs` has the counting tree behind spawn and channel capabilities, which is on the
//! path of every spawn: one read-modify-write per level. `budget.rs` is off that path and
//! uses locks.
//!
//! # What was rejected
//!
//! - An epoch per tree, bumped by a revocation and compared at each use: it revokes all
//!   of a tree or needs a walk over the descendants to renew the others.
//! - A list of children in each node, walked by revoke: a lock on each derivation, and a revocation
//!   whose cost the holder of the revoked capability controls.
//! - Taking several permits at a time, for a nursery to hand out: a use costs one read-modify-write
//!   per level when it begins and one when it ends, a fifth of a spawn for the first level. But
//!   `live` would count permits without a task, a capability near its limit would refuse uses that
//!   it could allow, and "revoke, then wait until `live` is 0" would wait for a nursery that keeps
//!   permits and does not spawn.
//! - Moving limits to the child when it is derived, so that a use touches one node only: a
//!   child that idles would keep its siblings from working.

mod audit;
mod budget;
mod channel;
mod context;
mod io;
mod lease;
mod loan;
mod permits;
mod share;
mod spawn;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::base::error::{CapError, CapLimit, NetUse};
pub(crate) use audit::Clock;
pub use audit::{Audit, AuditEntry, AuditEvent, AuditLevel, PolicyChange, Usage};
pub use budget::{BudgetLimits, CapBudget};
pub use channel::{CapChannel, ChannelLimits, ChannelPermit};
pub(crate) use context::ContextNode;
pub use context::{
    CapContext, ContextEvent, ContextEventKind, ContextOpts, ContextStats, OverrunPolicy,
};
pub(crate) use io::IoAuthority;
#[cfg(feature = "io")]
pub(crate) use io::open_beneath;
pub use io::{
    AddressRule, AddressSet, BadAddressRule, CapExec, CapFs, CapNet, ChildPermit, ExecLimits,
    FilePermit, FsAccess, FsLimits, NetLimits, ProgramSet, SocketPermit,
};
pub use lease::{Assurance, CpuLease, LeaseCause, LeaseEnd, LeaseOpts, LeaseProof, Pin};
pub use loan::{ContextOffer, LentContext, runs_on_context};
pub use share::{CapShare, ShareLimits, SharePermit};
pub use spawn::{CapSpawn, SpawnLimits, TaskPermit};

use crate::base::error::Result as RuntimeResult;
use crate::sched::Shared;
use crate::scope::budget::{Budget, Resource};
use std::fmt;
use std::sync::Arc;
// Serial numbers only have to differ. No protocol depends on them, so no model covers them.
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number of levels of a tree of capabilities.
///
/// A use visits each level, and the end of a chain frees them recursively, so holders must not
/// control the depth. Runtime, service, tenant and task are four levels; this leaves room for more
/// and keeps the worst use below a microsecond.
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
    /// [`CapNet`].
    Net,
    /// [`CapFs`].
    Fs,
    /// [`CapExec`].
    Exec,
    /// [`CapShare`].
    Share,
    /// [`CapContext`].
    Context,
    /// The policy of a runtime: see [`policy`](crate::policy).
    Policy,
    /// [`CpuLease`].
    Lease,
}

impl fmt::Display for CapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CapKind::Spawn => "spawn",
            CapKind::Budget => "budget",
            CapKind::Channel => "channel",
            CapKind::Net => "network",
            CapKind::Fs => "file",
            CapKind::Exec => "program",
            CapKind::Share => "share",
            CapKind::Context => "context",
            CapKind::Policy => "policy",
            CapKind::Lease => "lease",
        })
    }
}

/// Whether weaker capabilities may be derived from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Delegation {
    /// Only its holder can use it.
    #[default]
    Forbidden,
    /// Its holder may attenuate it.
    Allowed,
}

/// The limits of a capability of any kind, as recorded in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limits {
    /// Of a [`CapSpawn`].
    Spawn(SpawnLimits),
    /// Of a [`CapBudget`].
    Budget(BudgetLimits),
    /// Of a [`CapChannel`].
    Channel(ChannelLimits),
    /// Of a [`CapNet`].
    Net {
        /// Most sockets.
        max_sockets: u32,
        /// Rules of the set of addresses to bind; `u32::MAX` if all are allowed.
        bind_rules: u32,
        /// Rules of the set of addresses to connect to; `u32::MAX` if all are allowed.
        connect_rules: u32,
    },
    /// Of a [`CapFs`].
    Fs(FsLimits),
    /// Of a [`CapExec`].
    Exec {
        /// Most children.
        max_children: u32,
        /// Programs of the set; `u32::MAX` if all are allowed.
        programs: u32,
    },
    /// Of a [`CapShare`].
    Share(ShareLimits),
    /// Of a [`CapContext`].
    Context(ContextOpts),
    /// Of a [`CpuLease`].
    Lease {
        /// Which worker.
        worker: usize,
        /// How long a revocation may take.
        max_latency: std::time::Duration,
    },
}

/// The common interface of limits.
trait Attenuate: Clone + Into<Limits> {
    /// Checks that no limit of `self` exceeds that of `parent`.
    fn within(&self, parent: &Self) -> Result<(), CapError>;
}

/// Refuses `asked` if it exceeds `allowed`.
fn not_wider(limit: CapLimit, asked: u64, allowed: u64) -> Result<(), CapError> {
    if asked > allowed { Err(CapError::Wider { limit, asked, allowed }) } else { Ok(()) }
}

/// Like [`not_wider`], for each component of a budget.
fn budget_not_wider(
    limit: fn(Resource) -> CapLimit,
    asked: Budget,
    allowed: Budget,
) -> Result<(), CapError> {
    Resource::ALL.iter().try_for_each(|&r| not_wider(limit(r), asked.get(r), allowed.get(r)))
}

/// Where a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FsPlace {
    System,
    Simulated,
}

/// Makes the first capabilities. It is private to the runtime.
#[derive(Debug)]
pub(crate) struct Mint {
    issuer: Arc<Issuer>,
}

/// State that all capabilities of a mint share. Its address identifies the mint.
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

    /// Whether it is as new: nothing was minted, and this is the only reference to it.
    pub(crate) fn is_unused(&self, level: AuditLevel) -> bool {
        // Relaxed: only its owner has it, if the count is 1.
        Arc::strong_count(&self.issuer) == 1
            && self.issuer.serials.load(Ordering::Relaxed) == 1
            && self.issuer.audit.is_unused(level)
    }

    /// The issuer of all capabilities that were minted here.
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

    pub(crate) fn net(&self, limits: NetLimits, delegation: Delegation) -> CapNet {
        CapNet::root(self.identity(CapKind::Net, limits.clone().into(), delegation), limits)
    }

    /// For a directory of the system, or of a simulated world.
    pub(crate) fn fs(
        &self,
        path: &std::path::Path,
        limits: FsLimits,
        delegation: Delegation,
        place: FsPlace,
    ) -> std::io::Result<CapFs> {
        let grant = io::grant(path, limits, place == FsPlace::Simulated)?;
        Ok(CapFs::root(self.identity(CapKind::Fs, grant.clone().into(), delegation), grant))
    }

    pub(crate) fn exec(&self, limits: ExecLimits, delegation: Delegation) -> CapExec {
        CapExec::root(self.identity(CapKind::Exec, limits.clone().into(), delegation), limits)
    }

    pub(crate) fn share(&self, limits: ShareLimits, delegation: Delegation) -> CapShare {
        CapShare::root(self.identity(CapKind::Share, limits.into(), delegation), limits)
    }

    /// Admits a scheduling context.
    pub(crate) fn context(
        &self,
        shared: &Arc<Shared>,
        opts: ContextOpts,
    ) -> RuntimeResult<CapContext> {
        CapContext::admit(self.unrecorded(CapKind::Context, Delegation::Forbidden), shared, opts)
    }

    /// The name of a policy in the audit log.
    pub(crate) fn policy(&self) -> PolicyName {
        PolicyName(self.unrecorded(CapKind::Policy, Delegation::Forbidden))
    }

    /// Grants a lease.
    pub(crate) fn lease(&self, shared: &Arc<Shared>, opts: LeaseOpts) -> RuntimeResult<CpuLease> {
        CpuLease::grant(self.unrecorded(CapKind::Lease, Delegation::Forbidden), shared, opts)
    }

    fn identity(&self, kind: CapKind, limits: Limits, delegation: Delegation) -> Identity {
        let id = self.unrecorded(kind, delegation);
        id.record(AuditEvent::Minted(limits));
        id
    }

    fn unrecorded(&self, kind: CapKind, delegation: Delegation) -> Identity {
        Identity {
            serial: self.issuer.serial(),
            parent: None,
            kind,
            depth: 1,
            delegation,
            issuer: Arc::clone(&self.issuer),
        }
    }
}

/// A policy in the audit log.
pub(crate) struct PolicyName(Identity);

impl PolicyName {
    pub(crate) fn record(&self, change: PolicyChange) {
        self.0.record(AuditEvent::Policy(change));
    }
}

impl Issuer {
    fn serial(&self) -> u64 {
        // Relaxed: uniqueness needs no order with anything else.
        self.serials.fetch_add(1, Ordering::Relaxed)
    }
}

/// The capability that a node stands for. Immutable.
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
    /// The identity of a capability derived from this one. The caller has seen that this one is not
    /// revoked. If it is revoked meanwhile, the new one is revoked from the start, because its uses
    /// pass through here.
    fn derive<L: Attenuate>(
        &self,
        limits: &L,
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
        id.record(AuditEvent::Attenuated(limits.clone().into()));
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

    /// Records a use, if uses are recorded.
    #[inline]
    fn used(&self, usage: Usage) {
        if self.issuer.audit.level() == AuditLevel::All {
            self.record(AuditEvent::Used(usage));
        }
    }

    /// Records a refusal and returns it.
    #[cold]
    fn denied(&self, error: CapError) -> CapError {
        self.record(AuditEvent::Denied(error));
        error
    }
}

/// The `Debug` form of a capability: its identity and limits, without addresses.
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

/// The right to revoke one capability, for a giver that does not keep the capability itself.
///
/// Dropping a revoker revokes nothing. It grants no other authority.
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
    Spawn(permits::NodeRef<SpawnLimits>),
    Budget(Arc<budget::BudgetNode>),
    Channel(permits::NodeRef<ChannelLimits>),
    Net(io::NetNode),
    Fs(io::FsNode),
    Exec(io::ExecNode),
    Share(permits::NodeRef<ShareLimits>),
    /// The context, if it is still there, and its serial number.
    Context(std::sync::Weak<ContextNode>, u64),
    /// The same for a lease.
    Lease(std::sync::Weak<lease::LeaseNode>, u64),
}

impl Revoker {
    /// Revokes the capability and all capabilities derived from it, from any thread. Uses that
    /// start after this has returned are refused with [`CapError::Revoked`]. Tasks that were
    /// admitted before continue.
    pub fn revoke(&self) {
        match &self.0 {
            Revocable::Spawn(node) => node.revoke(),
            Revocable::Budget(node) => node.revoke(),
            Revocable::Channel(node) => node.revoke(),
            Revocable::Net(node) => node.revoke(),
            Revocable::Fs(node) => node.revoke(),
            Revocable::Exec(node) => node.revoke(),
            Revocable::Share(node) => node.revoke(),
            Revocable::Context(node, _) => {
                if let Some(node) = node.upgrade() {
                    node.revoke();
                }
            }
            Revocable::Lease(node, _) => {
                if let Some(node) = node.upgrade() {
                    node.revoke(LeaseCause::Policy);
                }
            }
        }
    }

    /// The serial number of the capability.
    pub fn serial(&self) -> u64 {
        match &self.0 {
            Revocable::Spawn(node) => node.id.serial,
            Revocable::Budget(node) => node.id.serial,
            Revocable::Channel(node) => node.id.serial,
            Revocable::Net(node) => node.id.serial,
            Revocable::Fs(node) => node.id.serial,
            Revocable::Exec(node) => node.id.serial,
            Revocable::Share(node) => node.id.serial,
            Revocable::Context(_, serial) | Revocable::Lease(_, serial) => *serial,
        }
    }
}

impl fmt::Debug for Revoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revoker").field("serial", &self.serial()).finish_non_exhaustive()
    }
}
