//! The state of a channel, and everything that changes it.
//!
//! One lock guards it all. Nobody waits, wakes, drops a value or runs code of the program under it; a
//! critical section moves at most two values and a few indices, except that closing walks over all
//! who wait. The module knows nothing of tasks and threads: a waiter is whatever can be woken, so
//! the models check these functions, not a copy.
//!
//! # Invariants
//!
//! Under the lock, with "waits" in the sense of *can be served* (a select that is decided does
//! not count):
//!
//! 1. a receiver waits ⇒ the buffer is empty, no sender waits, and the channel is open;
//! 2. a sender waits ⇒ the buffer is full and the channel is open;
//! 3. the buffer has at most `capacity` values.
//!
//! Every function keeps them because trying and publishing happen in one critical section: whoever
//! finds nothing to do has joined the list before anybody else can look. So there is
//! nothing to re-check, and no wake-up that could fall in between. Values leave the lists in the
//! order of arrival, and enter the buffer behind those before them: FIFO for each sender, and nobody
//! overtakes somebody who waits.
//!
//! # Where a value is
//!
//! With the sender, in the sender's place, in the buffer, in the receiver's place, or with
//! the receiver: it moves from one to the next under the lock. A wait that is given up therefore finds out
//! under the lock whether it has happened, and if it has not, that it will not: see
//! [`withdraw_send`](Core::withdraw_send), [`withdraw_recv`](Core::withdraw_recv).
//!
//! # Rejected
//!
//! Waking a receiver to *look again* instead of handing it the value: another may take the value in
//! between, and the one who waited longest starts over. Trying again while registered: two
//! cases of a select could succeed.

use super::claim::Claim;
use super::places::{Outcome, Places, Ticket, Waiting};
use super::{Overflow, UNBOUNDED};
use crate::error::Error;
use crate::lock::{Guard, Lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// Who waits.
pub(crate) trait Wake {
    /// Wakes it, from anywhere, at any time. Idempotent.
    fn wake(&self);

    /// Called by whoever takes it out to wake it, under the lock under which it was put there: when that is let go of,
    /// whoever waits may go on before it is woken.
    fn keep(&mut self) {}
}

/// What both ends share.
pub(crate) struct Core<T, W> {
    state: Lock<State<T, W>>,
    capacity: usize,
    overflow: Overflow,
}

struct State<T, W> {
    buffer: VecDeque<T>,
    senders: Places<T, W>,
    receivers: Places<T, W>,
    closed: Option<Closed>,
    /// How many values a full buffer has cost, see [`Overflow::DropOld`].
    dropped: u64,
}

/// That a channel is closed, and with what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed(pub(crate) Option<Error>);

/// What came of an attempt to send.
pub(crate) enum Put<T, W> {
    /// It is in the channel. Wake somebody, and drop what had to go for it.
    Done(Option<W>, Option<T>),
    /// There is no room, and the channel does not wait for any.
    Refused(T),
    /// There is no room yet.
    Full(T),
    Closed(T, Closed),
}

/// What came of an attempt to receive.
pub(crate) enum Took<T, W> {
    /// A value. Wake somebody.
    Done(T, Option<W>),
    Empty,
    /// Closed, and nothing is left in it.
    Closed(Closed),
}

/// What came of a send that may wait.
pub(crate) enum Begun<A> {
    /// It did not have to.
    Now(A),
    /// It has to.
    Wait(Ticket),
}

impl<T, W: Wake> State<T, W> {
    /// The only way into a channel. Inlined wherever it is used: what comes of it is moved several times otherwise.
    #[inline(always)]
    fn put(&mut self, value: T, capacity: usize, overflow: Overflow) -> Put<T, W> {
        if let Some(closed) = &self.closed {
            return Put::Closed(value, closed.clone());
        }
        let value = match self.receivers.give(value) {
            Ok(receiver) => return Put::Done(Some(receiver), None),
            Err(value) => value,
        };
        if self.buffer.len() < capacity {
            self.buffer.push_back(value);
            return Put::Done(None, None);
        }
        match overflow {
            Overflow::Block => Put::Full(value),
            Overflow::DropNew => Put::Refused(value),
            Overflow::DropOld => {
                // Without a buffer the value itself is the oldest.
                self.buffer.push_back(value);
                self.dropped += 1;
                Put::Done(None, self.buffer.pop_front())
            }
        }
    }

    /// The only way out. Inlined as `put` is.
    #[inline(always)]
    fn take(&mut self) -> Took<T, W> {
        if let Some(value) = self.buffer.pop_front() {
            let Some((next, sender)) = self.senders.take() else { return Took::Done(value, None) };
            self.buffer.push_back(next);
            return Took::Done(value, Some(sender));
        }
        if let Some((value, sender)) = self.senders.take() {
            return Took::Done(value, Some(sender));
        }
        self.closed.as_ref().map_or(Took::Empty, |closed| Took::Closed(closed.clone()))
    }
}

impl<T, W> State<T, W> {
    #[cfg(test)]
    fn check(&self, capacity: usize) {
        assert!(self.buffer.len() <= capacity);
        if self.closed.is_some() {
            assert_eq!((self.senders.len(), self.receivers.len()), (0, 0), "closed to all");
        }
    }

    #[cfg(not(test))]
    fn check(&self, _: usize) {}
}

impl<T, W> Core<T, W> {
    pub(crate) fn new(capacity: usize, overflow: Overflow) -> Core<T, W> {
        let state = State {
            buffer: VecDeque::new(),
            senders: Places::new(),
            receivers: Places::new(),
            closed: None,
            dropped: 0,
        };
        Core { state: Lock::new(state), capacity, overflow }
    }

    #[inline]
    fn lock(&self) -> Guard<'_, State<T, W>> {
        // Nothing under the lock panics but running out of memory.
        let state = self.state.lock();
        state.check(self.capacity);
        state
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        (self.capacity != UNBOUNDED).then_some(self.capacity)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().buffer.len()
    }

    /// As `len`, if nobody is just changing the channel.
    pub(crate) fn try_len(&self) -> Option<usize> {
        Some(self.state.try_lock()?.buffer.len())
    }

    /// How many wait to send, and to receive.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.senders.len(), state.receivers.len())
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        self.lock().closed.clone()
    }

    /// Takes out all that nobody will receive, to be dropped outside of the lock.
    pub(crate) fn drain(&self) -> VecDeque<T> {
        std::mem::take(&mut self.lock().buffer)
    }
}

impl<T, W: Wake> Core<T, W> {
    // ----- sending ----------------------------------------------------------------------

    #[inline]
    pub(crate) fn try_send(&self, value: T) -> Put<T, W> {
        self.lock().put(value, self.capacity, self.overflow)
    }

    /// Sends, or takes a place among those who wait to.
    #[inline]
    pub(crate) fn send(&self, value: T, waiter: impl FnOnce() -> W) -> Begun<Put<T, W>> {
        let mut state = self.lock();
        match state.put(value, self.capacity, self.overflow) {
            Put::Full(value) => {
                let waiting = Waiting { waiter: waiter(), claim: None, value: Some(value) };
                Begun::Wait(state.senders.join(waiting))
            }
            done => Begun::Now(done),
        }
    }

    /// After a wake: what became of it, or the ticket again.
    pub(crate) fn poll_send(&self, ticket: Ticket) -> Result<Outcome<T>, Ticket> {
        self.lock().senders.poll(ticket)
    }

    /// Gives up waiting. It may have happened all the same.
    pub(crate) fn withdraw_send(&self, ticket: Ticket) -> Outcome<T> {
        self.lock().senders.withdraw(ticket)
    }

    // ----- receiving --------------------------------------------------------------------

    #[inline]
    pub(crate) fn try_recv(&self) -> Took<T, W> {
        self.lock().take()
    }

    /// Receives, or takes a place among those who wait to.
    #[inline]
    pub(crate) fn recv(&self, waiter: impl FnOnce() -> W) -> Begun<Took<T, W>> {
        let mut state = self.lock();
        match state.take() {
            Took::Empty => {
                let waiting = Waiting { waiter: waiter(), claim: None, value: None };
                Begun::Wait(state.receivers.join(waiting))
            }
            done => Begun::Now(done),
        }
    }

    /// As [`poll_send`](Core::poll_send).
    pub(crate) fn poll_recv(&self, ticket: Ticket) -> Result<Outcome<T>, Ticket> {
        self.lock().receivers.poll(ticket)
    }

    /// As [`withdraw_send`](Core::withdraw_send).
    pub(crate) fn withdraw_recv(&self, ticket: Ticket) -> Outcome<T> {
        self.lock().receivers.withdraw(ticket)
    }

    // ----- selecting ----------------------------------------------------------------------

    /// Takes a place for a case of a select; gives the value back if there is something to be
    /// tried, which the select has to do *unregistered*.
    pub(crate) fn register_send(
        &self,
        value: T,
        waiter: W,
        claim: &Arc<Claim>,
        case: usize,
    ) -> Result<Ticket, T> {
        let mut state = self.lock();
        if state.closed.is_some()
            || state.buffer.len() < self.capacity
            || self.overflow != Overflow::Block
            || state.receivers.any_beside(claim)
        {
            return Err(value);
        }
        let claim = Some((Arc::clone(claim), case));
        Ok(state.senders.join(Waiting { waiter, claim, value: Some(value) }))
    }

    /// As [`register_send`](Core::register_send).
    pub(crate) fn register_recv(
        &self,
        waiter: W,
        claim: &Arc<Claim>,
        case: usize,
    ) -> Option<Ticket> {
        let mut state = self.lock();
        if state.closed.is_some() || !state.buffer.is_empty() || state.senders.any_beside(claim) {
            return None;
        }
        let claim = Some((Arc::clone(claim), case));
        Some(state.receivers.join(Waiting { waiter, claim, value: None }))
    }

    // ----- closing ------------------------------------------------------------------------

    /// Closes it; returns whom to wake. What is in the buffer stays there. Only the first call
    /// has an effect.
    #[must_use = "those who waited have to be woken"]
    pub(crate) fn close(&self, error: Option<Error>) -> Vec<W> {
        let mut wake = Vec::new();
        let mut state = self.lock();
        if state.closed.is_none() {
            state.closed = Some(Closed(error));
            state.senders.close(&mut wake);
            state.receivers.close(&mut wake);
        }
        wake
    }
}
