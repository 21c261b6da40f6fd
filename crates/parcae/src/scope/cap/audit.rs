//! The audit log: grants, revocations and refusals of authority.
//!
//! A ring of fixed size, allocated when the log is made. So recording allocates nothing, which
//! would be charged to a task, and never waits for a reader. A full ring overwrites its oldest
//! entry and counts the loss.
//!
//! A task that polls at a limit must not displace all other entries, so a denial that repeats the
//! newest entry is counted in that entry. A policy does the same for events of its own.
//!
//! The [`AuditLevel`] decides which events are recorded. Unless uses are recorded, a successful use
//! only reads the level: one relaxed load. All other events are off the hot path and take a lock
//! for a few dozen instructions. Time and sequence number are taken under the lock, so that both
//! rise together.
//!
//! The primitives are those of `std` even in models: no protocol depends on the log.

use super::{CapError, CapKind, Limits};
use crate::base::error::PolicyRefused;
use crate::scope::budget::Budget;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells the time, in a unit that is the runtime's choice. Called under the log's lock.
pub(crate) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// The level of detail of an audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum AuditLevel {
    /// Nothing.
    Off,
    /// Capabilities minted, attenuated and revoked, and denials.
    #[default]
    Denials,
    /// The same, and every use, at the cost of a lock for each.
    All,
}

impl AuditLevel {
    fn from_u8(level: u8) -> AuditLevel {
        match level {
            0 => AuditLevel::Off,
            1 => AuditLevel::Denials,
            _ => AuditLevel::All,
        }
    }
}

/// An event in the life of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditEvent {
    /// The root made it, with these limits.
    Minted(Limits),
    /// It was derived from its parent, with these limits.
    Attenuated(Limits),
    /// It was used.
    Used(Usage),
    /// It refused a use or a derivation.
    Denied(CapError),
    /// It was revoked, and with it everything derived from it.
    Revoked,
    /// A policy came into force, or was refused.
    Policy(PolicyChange),
}

/// A change of the policy of a runtime, or a refusal of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyChange {
    /// A service has taken the seat.
    Seated,
    /// The service has left the seat, or has died.
    Left,
    /// A decision of the service came into force.
    Decided {
        /// Its epoch.
        epoch: u64,
    },
    /// A decision or a sign of life was refused.
    Refused(PolicyRefused),
    /// The service is silent: its last decision holds for a while.
    Silent {
        /// The epoch of that decision.
        epoch: u64,
    },
    /// The service was silent for too long: the built-in policy holds.
    Fallback,
    /// The operator has changed rules.
    Operator,
    /// The operator has put the built-in policy in force.
    Held,
    /// The operator lets the service decide again.
    Lifted,
    /// The rules for contexts have refused one.
    ContextRefused,
}

impl fmt::Display for PolicyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyChange::Seated => f.write_str("a service has taken the seat"),
            PolicyChange::Left => f.write_str("the service has left"),
            PolicyChange::Decided { epoch } => write!(f, "decision {epoch} is in force"),
            PolicyChange::Refused(why) => write!(f, "refused: {why}"),
            PolicyChange::Silent { epoch } => {
                write!(f, "the service is silent, decision {epoch} holds for now")
            }
            PolicyChange::Fallback => f.write_str("the built-in policy is in force"),
            PolicyChange::Operator => f.write_str("the operator has changed rules"),
            PolicyChange::Held => f.write_str("the operator holds the built-in policy in force"),
            PolicyChange::Lifted => f.write_str("the operator lets the service decide again"),
            PolicyChange::ContextRefused => f.write_str("a context was refused"),
        }
    }
}

/// A successful use of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Usage {
    /// A task was admitted.
    Task {
        /// Number of live tasks under the capability, this one included.
        live: u32,
    },
    /// A channel was admitted.
    Channel {
        /// Number of live channels under the capability, this one included.
        live: u32,
        /// The channel's buffer, in messages.
        buffer: usize,
    },
    /// A nursery with a share was admitted.
    Share {
        /// Number of open nurseries under the capability, this one included.
        live: u32,
        /// Its weight.
        weight: u32,
    },
    /// A nursery or a task was bound to a context.
    Bound,
    /// Budget was taken.
    Budget {
        /// The amount that was granted.
        granted: Budget,
    },
    /// A socket was admitted.
    Socket {
        /// Number of sockets under the capability, this one included.
        live: u32,
    },
    /// A file was admitted.
    File {
        /// Number of files under the capability, this one included.
        live: u32,
    },
    /// A child process was admitted.
    Child {
        /// Number of children under the capability, this one included.
        live: u32,
    },
}

/// One entry of an audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Number of the entry, from 0, without gaps.
    pub sequence: u64,
    /// Time of the event by the runtime's clock; of the first one if it repeats.
    pub time: u64,
    /// The kind of the capability.
    pub kind: CapKind,
    /// The capability's serial number.
    pub serial: u64,
    /// Serial number of its parent, if it was derived.
    pub parent: Option<u64>,
    /// The event.
    pub event: AuditEvent,
    /// Number of repetitions in a row; more than 1 only for denials.
    pub times: u64,
}

impl fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuditEntry { sequence, time, kind, serial, parent, event, times } = self;
        write!(f, "{sequence} at {time}: {kind} capability #{serial}")?;
        if let Some(parent) = parent {
            write!(f, " (from #{parent})")?;
        }
        match event {
            AuditEvent::Minted(limits) => write!(f, " minted: {limits:?}"),
            AuditEvent::Attenuated(limits) => write!(f, " attenuated: {limits:?}"),
            AuditEvent::Used(Usage::Task { live }) => write!(f, " used for a task, {live} live"),
            AuditEvent::Used(Usage::Channel { live, buffer }) => {
                write!(f, " used for a channel with buffer {buffer}, {live} live")
            }
            AuditEvent::Used(Usage::Share { live, weight }) => {
                write!(f, " used for a share of weight {weight}, {live} open")
            }
            AuditEvent::Used(Usage::Bound) => f.write_str(" used to bind tasks"),
            AuditEvent::Used(Usage::Budget { granted }) => write!(f, " used for {granted:?}"),
            AuditEvent::Used(Usage::Socket { live }) => {
                write!(f, " used for a socket, {live} open")
            }
            AuditEvent::Used(Usage::File { live }) => write!(f, " used for a file, {live} open"),
            AuditEvent::Used(Usage::Child { live }) => write!(f, " used for a child, {live} alive"),
            AuditEvent::Denied(error) if *times == 1 => write!(f, " denied: {error}"),
            AuditEvent::Denied(error) => write!(f, " denied {times} times: {error}"),
            AuditEvent::Revoked => f.write_str(" revoked"),
            AuditEvent::Policy(change) => write!(f, ": {change}"),
        }
    }
}

/// The audit log of a runtime's capabilities. Clones are the same log.
#[derive(Clone)]
pub struct Audit(Arc<Log>);

struct Log {
    /// An [`AuditLevel`]. Written by `set_level` only.
    level: AtomicU8,
    capacity: usize,
    clock: Clock,
    ring: Mutex<Ring>,
}

struct Ring {
    entries: VecDeque<AuditEntry>,
    /// The next sequence number.
    next: u64,
    /// Events that were overwritten before they were drained.
    dropped: u64,
}

impl Audit {
    pub(super) fn new(capacity: usize, level: AuditLevel, clock: Clock) -> Audit {
        let entries = VecDeque::with_capacity(capacity);
        let ring = Mutex::new(Ring { entries, next: 0, dropped: 0 });
        Audit(Arc::new(Log { level: AtomicU8::new(level as u8), capacity, clock, ring }))
    }

    /// Whether it is as new, and this is the only reference to it.
    pub(super) fn is_unused(&self, level: AuditLevel) -> bool {
        let ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::strong_count(&self.0) == 1 && self.level() == level && ring.next == 0
    }

    /// The present level of detail.
    #[inline]
    pub fn level(&self) -> AuditLevel {
        // Relaxed: a change may take effect a little later; nothing else depends on it.
        AuditLevel::from_u8(self.0.level.load(Ordering::Relaxed))
    }

    /// Changes the level of detail. Concurrent uses may still see the former level.
    pub fn set_level(&self, level: AuditLevel) {
        self.0.level.store(level as u8, Ordering::Relaxed); // as in `level`
    }

    /// Takes all entries out, oldest first.
    pub fn drain(&self) -> Vec<AuditEntry> {
        let fresh = VecDeque::with_capacity(self.0.capacity); // outside of the lock
        let entries = std::mem::replace(&mut self.ring().entries, fresh);
        entries.into()
    }

    /// Number of events that were overwritten before they were drained, since the log was made.
    pub fn dropped(&self) -> u64 {
        self.ring().dropped
    }

    pub(super) fn record(
        &self,
        kind: CapKind,
        serial: u64,
        parent: Option<u64>,
        event: AuditEvent,
    ) {
        if self.level() == AuditLevel::Off {
            return;
        }
        let mut ring = self.ring();
        let ring = &mut *ring;
        if let Some(newest) = ring.entries.back_mut()
            && matches!(event, AuditEvent::Denied(_))
            && newest.serial == serial
            && newest.event == event
        {
            newest.times += 1;
            return;
        }
        let time = (self.0.clock)(); // before anything changes: it might panic
        let sequence = ring.next;
        ring.next += 1;
        if ring.entries.len() == self.0.capacity {
            ring.dropped += ring.entries.pop_front().map_or(1, |oldest| oldest.times);
        }
        if self.0.capacity > 0 {
            let times = 1;
            let entry = AuditEntry { sequence, time, kind, serial, parent, event, times };
            ring.entries.push_back(entry);
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Poisoned only by a clock that panics, which leaves the ring whole.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit")
            .field("level", &self.level())
            .field("capacity", &self.0.capacity)
            .finish_non_exhaustive()
    }
}
