//! Leases: exclusive use of workers by one owner.
//!
//! A lease is about *where*, not about *how long*: it keeps others and their chores off some
//! workers. It holds no budget: work there runs on scheduling contexts and is charged as anywhere
//! else.
//!
//! ```text
//!   grant           activate               revoke                release, or force
//!  ------> Granted ---------> Active ---------------> Revoking ------------------> free
//!             |                  |                   due = now + max_latency          ^
//!             '---- revoke ------)---------------------------------------------------->|
//!                                '------------------ release ------------------------->|
//! ```
//!
//! *Granted* reserves: no other lease gets these workers. *Active* excludes: the proof is on
//! record that nothing else is pinned there, that the ring it polls has no other consumer, that
//! its work can be charged, and that it can be revoked in time. *Revoking* waits for the
//! owner to leave; past the bound the lease is taken by [`force`](Leases::force).
//!
//! Invariants:
//!
//! - No worker is in two leases, no ring is polled by two.
//! - A grant leaves at least one online worker without a lease, for housekeeping. If workers
//!   go offline until none is left, a lease is revoked for that.
//! - A revocation ends: by release or, from its due time on, by force.
//!
//! Exclusive means exclusive *inside the runtime*. The proof records what is known about the host
//! ([`Host`]).
//!
//! ```
//! use parcae_core::context::{ContextSlot, Contexts, Endpoint, Params, PartySlot};
//! use parcae_core::lease::*;
//! use parcae_core::WorkerSet;
//!
//! let mut table = Contexts::new(1, [ContextSlot::EMPTY; 1], [PartySlot::EMPTY; 1]);
//! let account = table.create(Params::new(9, 10), 0)?;
//! let mut leases = Leases::new(WorkerSet::first(2), [LeaseSlot::EMPTY; 4]);
//! let lease = leases.grant(Terms {
//!     owner: Owner { service: 1, session: 1 },
//!     workers: WorkerSet::of(1),
//!     mode: Mode::Polling { ring: 7 },
//!     excludes: Chores::ALL,
//!     account,
//!     max_latency: 100,
//!     revoked: Endpoint { port: 0, badge: 0 },
//! })?;
//! let proof = Proof { pinned: Chores::NONE, consumers: 0, latency: 80, host: Host::Assumed };
//! let consumer = leases.activate(lease, proof, &table)?;
//! assert!(leases.consumes(consumer.as_ref().unwrap()));
//!
//! let notice = leases.revoke(lease, 1000, Cause::Policy)?;
//! assert_eq!(notice.due, 1100);
//! assert_eq!(leases.release(lease, 1050, consumer)?, 50);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::WorkerSet;
use crate::context::{ContextId, ContextSlot, Contexts, Endpoint, PartySlot};
use crate::slab::{Key, Memory, Slab, Slot};
use core::fmt;

/// The owner of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process or service; its leases end with it.
    pub service: u64,
    /// The session it belongs to; all leases of a session end with that.
    pub session: u64,
}

/// The purpose of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To run the owner's work undisturbed.
    Exclusive,
    /// To poll a submission ring.
    Polling {
        /// Which one.
        ring: u64,
    },
}

/// Kinds of work that a runtime does besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chores(u8);

impl Chores {
    /// None.
    pub const NONE: Chores = Chores(0);
    /// Timers of others.
    pub const TIMERS: Chores = Chores(1);
    /// Cleanup that was put off.
    pub const CLEANUP: Chores = Chores(2);
    /// Polling of the network.
    pub const NETWORK: Chores = Chores(4);
    /// Watchdogs and debugging.
    pub const WATCHDOG: Chores = Chores(8);
    /// All of them.
    pub const ALL: Chores = Chores(15);

    /// Both together.
    pub const fn with(self, other: Chores) -> Chores {
        Chores(self.0 | other.0)
    }

    /// Whether they have one in common.
    pub const fn meets(self, other: Chores) -> bool {
        self.0 & other.0 != 0
    }
}

/// The terms of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The owner.
    pub owner: Owner,
    /// Which workers.
    pub workers: WorkerSet,
    /// The purpose.
    pub mode: Mode,
    /// Chores that must be kept off the workers.
    pub excludes: Chores,
    /// The context that the work there is charged to.
    pub account: ContextId,
    /// How long a revocation may take.
    pub max_latency: u64,
    /// The endpoint for revocations.
    pub revoked: Endpoint,
}

/// The proof for the activation of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Chores that are pinned to its workers.
    pub pinned: Chores,
    /// How many consumers its ring has already.
    pub consumers: u32,
    /// How long it takes at worst to get the owner off, measured or argued.
    pub latency: u64,
    /// Whether the host keeps off, too.
    pub host: Host,
}

/// Whether the host isolates the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// There is none.
    Absent,
    /// Claimed, not checked.
    Assumed,
    /// Checked.
    Verified,
}

/// Why a lease is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The policy wants it.
    Policy,
    /// The owner's process or service ended.
    OwnerExit,
    /// The owner's session was closed.
    SessionClosed,
    /// One of its workers went offline.
    WorkerLost,
    /// No worker was left for housekeeping.
    Housekeeping,
}

/// The leases of an owner or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Those of a process or service, which exits.
    Service(u64),
    /// Those of a session, which closes.
    Session(u64),
}

/// The notice to the owner of a revoked lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// Which lease.
    pub lease: LeaseId,
    /// Its destination.
    pub endpoint: Endpoint,
    /// By when its workers must be left. Already free if that is when it was revoked.
    pub due: u64,
    /// Why.
    pub cause: Cause,
}

/// The right to take from a ring. There is one per ring, and it cannot be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct RingConsumer {
    ring: u64,
    lease: LeaseId,
}

impl RingConsumer {
    /// Which ring.
    pub const fn ring(&self) -> u64 {
        self.ring
    }
}

/// A lease, as a record in a table.
#[derive(Debug)]
pub struct Lease {
    terms: Terms,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Granted,
    Active(Proof),
    Revoking { since: u64, due: u64, cause: Cause },
}

/// Handle of a lease.
pub type LeaseId = Key<Lease>;
/// Memory for one lease.
pub type LeaseSlot = Slot<Lease>;

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Reserved.
    Granted,
    /// Exclusive, on this proof.
    Active(Proof),
    /// To be left by then.
    Revoking {
        /// When.
        due: u64,
    },
}

/// How revocations went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revocations {
    /// How many ended.
    pub ended: u64,
    /// How many of them by force, past their bound.
    pub forced: u64,
    /// The longest that one took.
    pub worst_latency: u64,
}

/// All leases of a runtime. See the [module](self).
#[derive(Debug)]
pub struct Leases<M> {
    leases: Slab<Lease, M>,
    online: WorkerSet,
    revocations: Revocations,
}

impl<M: Memory<LeaseSlot>> Leases<M> {
    /// No leases, on these workers.
    pub fn new(online: WorkerSet, memory: M) -> Leases<M> {
        Leases { leases: Slab::new(memory), online, revocations: Revocations::default() }
    }

    /// Reserves the workers.
    ///
    /// # Errors
    ///
    /// As [`check`](Leases::check).
    pub fn grant(&mut self, terms: Terms) -> Result<LeaseId, Refused> {
        self.check(&[terms])?;
        let record = Lease { terms, state: State::Granted };
        self.leases.insert(record).ok_or(Refused::Full)
    }

    /// Whether all of these could be granted together.
    ///
    /// # Errors
    ///
    /// No free slot, workers that are offline or leased, a ring that is polled already, no
    /// worker left for housekeeping.
    pub fn check(&self, all: &[Terms]) -> Result<(), Refused> {
        if self.leases.vacant() < all.len() {
            return Err(Refused::Full);
        }
        let mut taken = self.leased();
        for (nth, terms) in all.iter().enumerate() {
            if terms.workers.is_empty() || !terms.workers.without(self.online).is_empty() {
                return Err(Refused::Offline);
            }
            if !terms.workers.common(taken).is_empty() {
                return Err(Refused::Leased);
            }
            if let Mode::Polling { .. } = terms.mode {
                let mut others = self.leases.iter().map(|(_, lease)| &lease.terms);
                let same = |other: &Terms| other.mode == terms.mode;
                if others.any(same) || all[..nth].iter().any(same) {
                    return Err(Refused::RingTaken);
                }
            }
            taken = taken.with(terms.workers);
        }
        if self.online.without(taken).is_empty() && !all.is_empty() {
            return Err(Refused::NoHousekeeping);
        }
        Ok(())
    }

    /// Makes the lease exclusive. A polling lease gets the right to its ring.
    ///
    /// # Errors
    ///
    /// The first gap of the proof. The lease stays granted.
    pub fn activate<C: Memory<ContextSlot>, P: Memory<PartySlot>>(
        &mut self,
        lease: LeaseId,
        proof: Proof,
        contexts: &Contexts<C, P>,
    ) -> Result<Option<RingConsumer>, Refused> {
        let record = self.leases.get(lease).ok_or(Refused::Stale)?;
        let terms = &record.terms;
        if record.state != State::Granted {
            return Err(Refused::NotGranted);
        }
        if self.online.without(self.leased()).is_empty() {
            return Err(Refused::NoHousekeeping);
        }
        if proof.pinned.meets(terms.excludes) {
            return Err(Refused::Pinned);
        }
        if !terms.workers.contains(contexts.worker()) || contexts.params(terms.account).is_none() {
            return Err(Refused::NoAccount);
        }
        if proof.latency > terms.max_latency {
            let (latency, allowed) = (proof.latency, terms.max_latency);
            return Err(Refused::TooSlow { latency, allowed });
        }
        let consumer = match terms.mode {
            Mode::Exclusive => None,
            Mode::Polling { .. } if proof.consumers > 0 => return Err(Refused::RingTaken),
            Mode::Polling { ring } => Some(RingConsumer { ring, lease }),
        };
        self.leases.at_mut(lease.index()).state = State::Active(proof);
        Ok(consumer)
    }

    /// Asks the owner to leave. A lease that was not active is free immediately. Asking again
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn revoke(&mut self, lease: LeaseId, now: u64, cause: Cause) -> Result<Notice, Refused> {
        let record = self.leases.get_mut(lease).ok_or(Refused::Stale)?;
        let endpoint = record.terms.revoked;
        let (due, cause) = match record.state {
            State::Revoking { due, cause, .. } => (due, cause),
            State::Active(_) => {
                let due = now.saturating_add(record.terms.max_latency);
                record.state = State::Revoking { since: now, due, cause };
                (due, cause)
            }
            State::Granted => {
                self.end(lease, 0);
                (now, cause)
            }
        };
        Ok(Notice { lease, endpoint, due, cause })
    }

    /// Asks an owner to leave all its workers, or all owners of a session.
    pub fn revoke_all(&mut self, whose: Whose, now: u64, mut tell: impl FnMut(Notice)) {
        let (cause, matches): (_, &dyn Fn(&Owner) -> bool) = match &whose {
            Whose::Service(service) => (Cause::OwnerExit, &move |o| o.service == *service),
            Whose::Session(session) => (Cause::SessionClosed, &move |o| o.session == *session),
        };
        self.revoke_if(now, cause, |terms| matches(&terms.owner), &mut tell);
    }

    /// These workers are online now. Leases on others are revoked, and one more at a time
    /// until a worker is or will be free for housekeeping.
    pub fn set_online(&mut self, online: WorkerSet, now: u64, mut tell: impl FnMut(Notice)) {
        self.online = online;
        let lost = |terms: &Terms| !terms.workers.without(online).is_empty();
        self.revoke_if(now, Cause::WorkerLost, lost, &mut tell);
        while self.housekeeping().is_empty() {
            let kept = |lease: &Lease| !matches!(lease.state, State::Revoking { .. });
            let Some((lease, _)) = self.leases.iter().find(|(_, lease)| kept(lease)) else {
                return;
            };
            if let Ok(notice) = self.revoke(lease, now, Cause::Housekeeping) {
                tell(notice);
            }
        }
    }

    /// The owner has left; with its right to the ring, if it had one. Returns how long the
    /// revocation took, 0 if there was none.
    ///
    /// # Errors
    ///
    /// A stale handle, the wrong consumer or none.
    pub fn release(
        &mut self,
        lease: LeaseId,
        now: u64,
        consumer: Option<RingConsumer>,
    ) -> Result<u64, Refused> {
        let record = self.leases.get(lease).ok_or(Refused::Stale)?;
        let polls = matches!(record.terms.mode, Mode::Polling { .. });
        if polls && record.state != State::Granted && consumer.is_none_or(|c| c.lease != lease) {
            return Err(Refused::ConsumerMissing);
        }
        let latency = match record.state {
            State::Revoking { since, .. } => now.saturating_sub(since),
            _ => 0,
        };
        self.end(lease, latency);
        Ok(latency)
    }

    /// Takes a lease whose owner did not leave in time. Its right to the ring is void.
    ///
    /// # Errors
    ///
    /// A stale handle, a lease that is not overdue.
    pub fn force(&mut self, lease: LeaseId, now: u64) -> Result<u64, Refused> {
        match self.leases.get(lease).ok_or(Refused::Stale)?.state {
            State::Revoking { since, due, .. } if due <= now => {
                self.revocations.forced += 1;
                self.end(lease, now - since);
                Ok(now - since)
            }
            State::Revoking { due, .. } => Err(Refused::NotDue { due }),
            _ => Err(Refused::NotRevoked),
        }
    }

    /// The leases that may be taken by force.
    pub fn overdue(&self, now: u64) -> impl Iterator<Item = LeaseId> {
        self.leases.iter().filter_map(move |(lease, record)| match record.state {
            State::Revoking { due, .. } if due <= now => Some(lease),
            _ => None,
        })
    }

    /// In which state a lease is.
    pub fn status(&self, lease: LeaseId) -> Option<Status> {
        Some(match self.leases.get(lease)?.state {
            State::Granted => Status::Granted,
            State::Active(proof) => Status::Active(proof),
            State::Revoking { due, .. } => Status::Revoking { due },
        })
    }

    /// The exclusive owner of the worker, if it is leased and activated.
    pub fn owner_of(&self, worker: u8) -> Option<Owner> {
        self.leases.iter().find_map(|(_, lease)| {
            let exclusive = lease.state != State::Granted && lease.terms.workers.contains(worker);
            exclusive.then_some(lease.terms.owner)
        })
    }

    /// Where chores may run: on workers without a lease; if there are none, on those whose
    /// lease is being revoked.
    pub fn housekeeping(&self) -> WorkerSet {
        let free = self.online.without(self.leased());
        if free.is_empty() {
            let leaving = |lease: &Lease| matches!(lease.state, State::Revoking { .. });
            self.online.common(self.workers(leaving))
        } else {
            free
        }
    }

    /// Whether the right to a ring still holds.
    pub fn consumes(&self, consumer: &RingConsumer) -> bool {
        self.leases.get(consumer.lease).is_some()
    }

    /// How revocations went so far.
    pub fn revocations(&self) -> Revocations {
        self.revocations
    }

    fn leased(&self) -> WorkerSet {
        self.workers(|_| true)
    }

    fn workers(&self, of: impl Fn(&Lease) -> bool) -> WorkerSet {
        let leases = self.leases.iter().filter(|(_, lease)| of(lease));
        leases.fold(WorkerSet::NONE, |set, (_, lease)| set.with(lease.terms.workers))
    }

    fn revoke_if(
        &mut self,
        now: u64,
        cause: Cause,
        which: impl Fn(&Terms) -> bool,
        tell: &mut impl FnMut(Notice),
    ) {
        let open = |lease: &Lease| !matches!(lease.state, State::Revoking { .. });
        // One at a time: a lease that was revoked is not found again.
        loop {
            let mut leases = self.leases.iter();
            let found = leases.find(|(_, lease)| open(lease) && which(&lease.terms));
            let Some((lease, _)) = found else { return };
            drop(leases);
            if let Ok(notice) = self.revoke(lease, now, cause) {
                tell(notice);
            }
        }
    }

    fn end(&mut self, lease: LeaseId, latency: u64) {
        if let Some(Lease { state: State::Revoking { .. }, .. }) = self.leases.remove(lease) {
            self.revocations.ended += 1;
            self.revocations.worst_latency = self.revocations.worst_latency.max(latency);
        }
    }
}

/// Why an operation on leases was refused. It has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No slot is free.
    Full,
    /// The lease has ended.
    Stale,
    /// A worker is offline, or none was named.
    Offline,
    /// A worker is leased already.
    Leased,
    /// The ring has a consumer already.
    RingTaken,
    /// No worker would be left for housekeeping.
    NoHousekeeping,
    /// The lease is active already, or being revoked.
    NotGranted,
    /// Something that the lease excludes is pinned to its workers.
    Pinned,
    /// The account is not a live context on the lease's workers.
    NoAccount,
    /// Revoking it may take longer than it allows.
    TooSlow {
        /// How long.
        latency: u64,
        /// How long it may take.
        allowed: u64,
    },
    /// The right to the ring was not handed back.
    ConsumerMissing,
    /// The owner still has time to leave.
    NotDue {
        /// Until then.
        due: u64,
    },
    /// The lease is not being revoked.
    NotRevoked,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::TooSlow { latency, allowed } => {
                return write!(
                    f,
                    "revoking may take {latency} and {allowed} are allowed; shorten the distance \
                     between yield checks or allow more"
                );
            }
            Refused::NotDue { due } => {
                return write!(f, "the owner may stay until {due}; try again then");
            }
            Refused::Full => "no slot is free; give the table more memory or release a lease",
            Refused::Stale => "the lease has ended; ask for another",
            Refused::Offline => "no worker, or one that is offline; name online workers",
            Refused::Leased => "a worker is leased already; name others or revoke that lease",
            Refused::RingTaken => "the ring has a consumer already; stop that first",
            Refused::NoHousekeeping => "no worker would be left for housekeeping; lease fewer",
            Refused::NotGranted => "the lease is active or being revoked; ask for another",
            Refused::Pinned => "excluded chores are pinned to the workers; move them first",
            Refused::NoAccount => "no live context on these workers to charge; create one",
            Refused::ConsumerMissing => "return the consumer of the ring together with the lease",
            Refused::NotRevoked => "the lease is not being revoked; revoke it first",
        })
    }
}

impl core::error::Error for Refused {}
