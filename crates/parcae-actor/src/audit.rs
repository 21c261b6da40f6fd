//! The audit of a system's addresses: a ring of fixed size with the newest records.
//!
//! Only weaker addresses are recorded: when one is made, when it is taken back, and when it refuses
//! a message. A full address pays nothing. A sender that tries again and again must not displace
//! all other records, so a refusal that repeats the newest record is counted in that record.

use crate::address::Refusal;
use parcae::time;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Records of a system's weaker addresses, the newest ones. From
/// [`System::audit`](crate::System::audit).
#[derive(Debug)]
pub struct AddressAudit {
    most: usize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    newest: VecDeque<AddressRecord>,
    next: u64,
}

/// A record of an address.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AddressRecord {
    /// Number of the record, from 0, without gaps.
    pub sequence: u64,
    /// When it happened, by the clock of the runtime; the first time, of one that repeats.
    pub at: Instant,
    /// Name of the actor.
    pub to: Arc<str>,
    /// Number of the weaker address; all its copies have the same.
    pub address: u64,
    /// Number of the weaker address that it was made from, if it was one.
    pub from: Option<u64>,
    /// The event.
    pub event: AddressEvent,
    /// Number of repetitions in a row; more than 1 only for refusals.
    pub times: u64,
}

/// An event in the life of a weaker address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressEvent {
    /// It was made, with this limit.
    Weakened(AddressLimit),
    /// It refused an operation.
    Refused(Refusal),
    /// It was taken back, with those that were made from it.
    Revoked,
}

/// The limit of a weaker address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressLimit {
    /// [`Address::tell_only`](crate::Address::tell_only).
    TellOnly,
    /// [`Address::at_most`](crate::Address::at_most).
    AtMost(u64),
    /// [`Address::at_rate`](crate::Address::at_rate).
    AtRate(u64, Duration),
    /// [`Address::until`](crate::Address::until).
    Until(Instant),
    /// [`Address::revocable`](crate::Address::revocable).
    Revocable,
}

impl AddressAudit {
    pub(crate) fn new(most: usize) -> AddressAudit {
        AddressAudit { most, log: Mutex::default() }
    }

    /// Records an event of an address, and of the one that it was made from.
    pub(crate) fn add(
        &self,
        to: &Arc<str>,
        (address, from): (u64, Option<u64>),
        event: AddressEvent,
    ) {
        if self.most == 0 {
            return;
        }
        let at = time::now();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = log.newest.back_mut()
            && matches!(event, AddressEvent::Refused(_))
            && (newest.address, newest.event) == (address, event)
        {
            newest.times += 1;
            return;
        }
        if log.newest.len() == self.most {
            log.newest.pop_front();
        }
        let (to, sequence) = (Arc::clone(to), log.next);
        log.next += 1;
        log.newest.push_back(AddressRecord { sequence, at, to, address, from, event, times: 1 });
    }

    /// Takes the records that are kept, the oldest first. Gaps in their numbers are records that
    /// were displaced.
    pub fn take(&self) -> Vec<AddressRecord> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).newest.drain(..).collect()
    }
}

impl fmt::Display for AddressRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address #{} of `{}`", self.address, self.to)?;
        if let Some(from) = self.from {
            write!(f, " (from #{from})")?;
        }
        match self.event {
            AddressEvent::Weakened(limit) => write!(f, " made: {limit:?}")?,
            AddressEvent::Refused(refusal) => write!(f, " refused: {refusal}")?,
            AddressEvent::Revoked => f.write_str(" revoked")?,
        }
        if self.times > 1 { write!(f, ", {} times", self.times) } else { Ok(()) }
    }
}
