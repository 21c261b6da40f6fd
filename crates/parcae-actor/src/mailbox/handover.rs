//! A mailbox without room: the sender waits until the actor has its message.
//!
//! # Protocol
//!
//! A sender puts its message into the line with a ticket, rings, and waits for the ticket's flag.
//! The line decides about a message: the task that takes it out of the line, under the lock, has
//! it. That is the actor, or the sender that gives up or hears that the line was closed. So a
//! message is handled or comes back, never both and never neither.
//!
//! The actor sets the flag after it has taken the message out, and a close sets the flags of all
//! that are left. A flag stays set, so a sender that waits later finds it. The sender then looks
//! for its ticket: if it is gone, the actor has the message.
//!
//! A message that must not wait has no ticket. It is taken only if the actor has looked for a
//! message since the last one and found none, so at most one such message is in the line.

use super::{Envelope, Patience, Put, Undelivered};
use parcae::sync::Event as Flag;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Handover<M> {
    line: Mutex<Line<M>>,
}

struct Line<M> {
    offers: VecDeque<Offer<M>>,
    /// The actor has looked for a message and found none.
    is_awaited: bool,
    is_closed: bool,
}

struct Offer<M> {
    envelope: Envelope<M>,
    ticket: Option<Arc<Flag>>,
}

impl<M> Handover<M> {
    pub(super) fn new() -> Handover<M> {
        let line = Line { offers: VecDeque::new(), is_awaited: false, is_closed: false };
        Handover { line: Mutex::new(line) }
    }

    fn lock(&self) -> MutexGuard<'_, Line<M>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, envelope: Envelope<M>, patience: Patience, ring: impl Fn()) -> Put<M> {
        if let Err(error) = parcae::checkpoint() {
            return Err((envelope, Undelivered::Interrupted(error)));
        }
        let mut line = self.lock();
        if line.is_closed {
            return Err((envelope, Undelivered::Closed));
        }
        let until = match patience {
            Patience::Forever => None,
            Patience::Until(at) => Some(at),
            Patience::None if line.is_awaited && line.offers.is_empty() => {
                line.is_awaited = false;
                line.offers.push_back(Offer { envelope, ticket: None });
                return Ok(None);
            }
            Patience::None => return Err((envelope, Undelivered::Full)),
        };
        let ticket = Arc::new(Flag::new());
        line.offers.push_back(Offer { envelope, ticket: Some(Arc::clone(&ticket)) });
        drop(line);
        ring();
        let waited = match until {
            None => ticket.wait(),
            Some(at) => ticket.wait_deadline(at),
        };
        let mut line = self.lock();
        let is_own = |offer: &Offer<M>| {
            offer.ticket.as_ref().is_some_and(|other| Arc::ptr_eq(other, &ticket))
        };
        let at = line.offers.iter().position(is_own);
        let Some(offer) = at.and_then(|at| line.offers.remove(at)) else { return Ok(None) };
        Err((
            offer.envelope,
            match waited {
                Ok(()) => Undelivered::Closed,
                Err(error) if error.is_timed_out() && !error.is_cancelled() => Undelivered::Expired,
                Err(error) => Undelivered::Interrupted(error),
            },
        ))
    }

    pub(super) fn take(&self) -> Option<Envelope<M>> {
        let mut line = self.lock();
        let offer = line.offers.pop_front();
        line.is_awaited = offer.is_none();
        drop(line);
        let Offer { envelope, ticket } = offer?;
        if let Some(ticket) = ticket {
            ticket.set();
        }
        Some(envelope)
    }

    /// Takes no more messages. Returns those whose senders do not wait; the others go back.
    pub(super) fn close(&self) -> Vec<Envelope<M>> {
        let mut line = self.lock();
        line.is_closed = true;
        let (waiting, left): (VecDeque<_>, VecDeque<_>) =
            line.offers.drain(..).partition(|offer| offer.ticket.is_some());
        let tickets: Vec<_> = waiting.iter().filter_map(|offer| offer.ticket.clone()).collect();
        line.offers = waiting;
        drop(line);
        tickets.iter().for_each(|ticket| ticket.set());
        left.into_iter().map(|offer| offer.envelope).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().offers.len()
    }
}
