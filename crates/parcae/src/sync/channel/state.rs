//! The state of a channel, and everything that changes it.
//!
//! One lock guards it all. Nobody waits, wakes, drops a value or runs code of the program under it; a
//! critical section moves at most two values and a few indices, except that closing walks over all
//! who wait, and a buffer that grows or shrinks moves its values. The module knows nothing of tasks and threads: a waiter is
//! whatever can be woken, so the models check these functions, not a copy.
//!
//! # Invariants
//!
//! Under the lock, with "waits" in the sense of *can be served* (a select that is decided does
//! not count, and neither does a watcher):
//!
//! 1. a receiver waits ⇒ the buffer is empty, no sender waits, and the channel is open;
//! 2. a sender waits ⇒ the buffer is full and the channel is open;
//! 3. the buffer has at most `capacity` values;
//! 4. somebody watches for a value ⇒ there is none to be received, by 1 or because nobody sends; the same for
//!    those who watch for room.
//!
//! Every function keeps them because trying and publishing happen in one critical section: whoever
//! finds nothing to do has joined the list before anybody else can look. So there is
//! nothing to re-check, and no wake-up that could fall in between. Values leave the lists in the
//! order of arrival, and enter the buffer behind those before them: FIFO for each sender, and nobody
//! overtakes somebody who waits. What makes an operation possible is a value or room in the buffer that no waiter
//! got, somebody who starts to wait at the other end, and a close: each of them rings the watchers.
//!
//! # Where a value is
//!
//! With the sender, in the buffer, or with the receiver: it moves from one to the next under the lock, by address. While a
//! sender or a receiver has a place in a list, the memory at its address belongs to the channel; it has it back when it
//! has given the place up, which happens under the lock. A wait that is given up therefore finds out
//! under the lock whether it has happened, and if it has not, that it will not: see
//! [`withdraw_send`](Core::withdraw_send), [`withdraw_recv`](Core::withdraw_recv). A receiver reads its memory after that
//! section, so after the one in which a sender wrote it.
//!
//! # Rejected
//!
//! Waking a receiver to *look again* instead of handing it the value: another may take the value in
//! between, and the one who waited longest starts over. Trying again while registered: two
//! cases of a select could succeed. Values in the places of those who wait: a value was copied up to 32 times on its way in
//! unoptimised builds, and one of 8 KiB overflowed a stack of 256 KiB.

use super::buffer::Buffer;
use super::{Overflow, UNBOUNDED};
use crate::base::error::Error;
use crate::base::lock::{Guard, Lock};
use crate::wait::claim::Claim;
use crate::wait::places::{PlaceEnd, Places, Ticket, Waiting};
use crate::wait::wake::{Wake, Wakes};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// What both ends share.
pub(crate) struct Core<T, W> {
    state: Lock<State<T, W>>,
    capacity: usize,
    overflow: Overflow,
}

struct State<T, W> {
    buffer: Buffer<T>,
    senders: Places<T, W>,
    receivers: Places<T, W>,
    closed: Option<Closed>,
    /// How many values a full buffer has cost, see [`Overflow::DropOld`].
    dropped: u64,
}

/// That a channel is closed, and with what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed(pub(crate) Option<Error>);

/// What came of an attempt to send the value at an address.
pub(crate) enum Put<W> {
    /// It is in the channel, and no longer there.
    Done(Wakes<W>),
    /// It is in the channel, and what had to go for it is there instead: the caller drops it. Or the channel holds nothing, and
    /// the value itself had to go.
    Displaced,
    /// There is no room, and the channel does not wait for any.
    Refused,
    /// There is no room yet.
    Full,
    Closed(Closed),
}

/// What came of an attempt to receive a value to an address.
pub(crate) enum Took<W> {
    /// It is there.
    Done(Wakes<W>),
    Empty,
    /// Closed, and nothing is left in it.
    Closed(Closed),
}

/// What came of an operation that may wait.
pub(crate) enum Begun<A> {
    /// It did not have to.
    Now(A),
    /// It has to.
    Wait(Ticket),
}

impl<T, W: Wake> State<T, W> {
    /// The only way into a channel. Inlined wherever it is used: what comes of it is moved several times otherwise.
    ///
    /// # Safety
    ///
    /// There is a value at the address, which belongs to the caller.
    #[inline(always)]
    unsafe fn put(&mut self, value: NonNull<T>, capacity: usize, overflow: Overflow) -> Put<W> {
        if let Some(closed) = &self.closed {
            return Put::Closed(closed.clone());
        }
        let watched = !self.receivers.is_empty();
        if watched && let Some((into, receiver)) = self.receivers.serve() {
            // SAFETY: a value, and the place for one of a receiver who waits.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1) };
            return Put::Done(Wakes::One(receiver));
        }
        if self.buffer.len() < capacity {
            // SAFETY: a value, which is given away.
            unsafe { self.buffer.push(value) };
            return Put::Done(if watched { self.receivers.ring(None) } else { Wakes::Nobody });
        }
        match overflow {
            Overflow::Block => Put::Full,
            Overflow::DropNew => Put::Refused,
            Overflow::DropOld => {
                self.dropped += 1;
                // Without a buffer the value itself is the oldest.
                if capacity > 0 {
                    // SAFETY: a value, and the buffer is full.
                    unsafe { self.buffer.exchange(value) };
                }
                Put::Displaced
            }
        }
    }

    /// The only way out. Inlined as `put` is.
    ///
    /// # Safety
    ///
    /// The address is that of a place for a value, without one, which belongs to the caller.
    #[inline(always)]
    unsafe fn take(&mut self, into: NonNull<T>) -> Took<W> {
        // SAFETY: as the caller says.
        if unsafe { self.buffer.pop(into) } {
            let idle = self.senders.is_empty();
            return Took::Done(if idle { Wakes::Nobody } else { self.refill() });
        }
        if !self.senders.is_empty()
            && let Some((value, sender)) = self.senders.serve()
        {
            // SAFETY: the value of a sender who waits, and the caller's place for one.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1) };
            return Took::Done(Wakes::One(sender));
        }
        self.closed.as_ref().map_or(Took::Empty, |closed| Took::Closed(closed.clone()))
    }

    /// Gives room in the buffer to the first who waits for it, or tells those who watch.
    #[inline]
    fn refill(&mut self) -> Wakes<W> {
        let Some((next, sender)) = self.senders.serve() else { return self.senders.ring(None) };
        // SAFETY: the value of a sender who waits.
        unsafe { self.buffer.push(next) };
        Wakes::One(sender)
    }

    /// Whether a send need not wait; apart from the select with this claim.
    fn can_send(&self, capacity: usize, overflow: Overflow, own: Option<&Arc<Claim>>) -> bool {
        self.closed.is_some()
            || self.buffer.len() < capacity
            || overflow != Overflow::Block
            || self.receivers.any_beside(own)
    }

    /// Whether a receive need not wait; likewise.
    fn can_recv(&self, own: Option<&Arc<Claim>>) -> bool {
        self.closed.is_some() || self.buffer.len() > 0 || self.senders.any_beside(own)
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
            buffer: Buffer::new(),
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

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
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

    /// For how many values there is memory.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn room(&self) -> usize {
        self.lock().buffer.room()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        self.lock().closed.clone()
    }

    /// Takes out all that nobody will receive, to be dropped outside of the lock.
    #[must_use = "it is dropped outside of the lock"]
    pub(super) fn drain(&self) -> Buffer<T> {
        std::mem::replace(&mut self.lock().buffer, Buffer::new())
    }
}

/// The usual case, in which nobody waits: a few instructions. What is left for the others is the lock.
impl<T, W> Core<T, W> {
    /// Sends the value at an address if there is room, and nobody waits for one.
    ///
    /// # Errors
    ///
    /// Nothing has happened; the lock is for one of the functions that go on from there.
    ///
    /// # Safety
    ///
    /// There is a value, which belongs to the caller; on success it is in the channel.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, value: NonNull<T>) -> Result<(), Locked<'_, T, W>> {
        let mut state = self.lock();
        let usual = state.closed.is_none() && state.receivers.is_empty();
        if usual && state.buffer.len() < self.capacity {
            // SAFETY: a value, which is given away.
            unsafe { state.buffer.push(value) };
            Ok(())
        } else {
            Err(Locked(state))
        }
    }

    /// Receives a value to an address if there is one, and nobody waits for room.
    ///
    /// # Errors
    ///
    /// As for [`push`](Core::push).
    ///
    /// # Safety
    ///
    /// The address is that of a place for a value, without one, which belongs to the caller; on success there is one.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, into: NonNull<T>) -> Result<(), Locked<'_, T, W>> {
        let mut state = self.lock();
        // SAFETY: as the caller says.
        if state.senders.is_empty() && unsafe { state.buffer.pop(into) } {
            Ok(())
        } else {
            Err(Locked(state))
        }
    }
}

/// A channel whose lock the caller has.
pub(crate) struct Locked<'c, T, W>(Guard<'c, State<T, W>>);

impl<W> Core<(), W> {
    /// Puts that many of nothing into a channel that nobody uses yet.
    pub(crate) fn fill(&self, count: usize) {
        self.lock().buffer.fill(count);
    }
}

impl<T, W: Wake> Core<T, W> {
    // ----- sending ----------------------------------------------------------------------

    /// Sends the value at an address, if that is possible at once.
    ///
    /// # Safety
    ///
    /// There is a value, which belongs to the caller; [`Put`] says what is there afterwards.
    #[inline]
    pub(crate) unsafe fn try_send(&self, value: NonNull<T>) -> Put<W> {
        // SAFETY: as the caller says.
        unsafe { self.lock().put(value, self.capacity, self.overflow) }
    }

    /// Sends the value at an address, or takes a place among those who wait to.
    ///
    /// # Safety
    ///
    /// The lock is this channel's. As for [`try_send`](Core::try_send). With a ticket the value belongs to the channel until the place is given up, and
    /// it is, before the memory is used for anything else.
    #[inline]
    pub(crate) unsafe fn send_locked(
        &self,
        value: NonNull<T>,
        locked: Locked<'_, T, W>,
        waiter: impl FnOnce() -> W,
    ) -> Begun<Put<W>> {
        let Locked(mut state) = locked;
        // SAFETY: as the caller says.
        match unsafe { state.put(value, self.capacity, self.overflow) } {
            Put::Full => {
                let waiting = Waiting { waiter: waiter(), claim: None, value: Some(value) };
                let ticket = state.senders.join(waiting);
                let watchers = state.receivers.ring(None);
                drop(state);
                watchers.wake();
                Begun::Wait(ticket)
            }
            done => Begun::Now(done),
        }
    }

    /// The whole of it, as `ends` puts it together.
    ///
    /// # Safety
    ///
    /// As for [`send_locked`](Core::send_locked).
    #[cfg(all(test, loom))]
    pub(crate) unsafe fn send(
        &self,
        value: NonNull<T>,
        waiter: impl FnOnce() -> W,
    ) -> Begun<Put<W>> {
        // SAFETY: as the caller says.
        match unsafe { self.push(value) } {
            Ok(()) => Begun::Now(Put::Done(Wakes::Nobody)),
            // SAFETY: as the caller says, and the lock is this channel's.
            Err(locked) => unsafe { self.send_locked(value, locked, waiter) },
        }
    }

    /// After a wake: what became of it, or the ticket again.
    pub(crate) fn poll_send(&self, ticket: Ticket) -> Result<PlaceEnd, Ticket> {
        self.lock().senders.poll(ticket)
    }

    /// Gives up waiting. It may have happened all the same.
    pub(crate) fn withdraw_send(&self, ticket: Ticket) -> PlaceEnd {
        self.lock().senders.withdraw(ticket)
    }

    // ----- receiving --------------------------------------------------------------------

    /// Receives a value to an address, if that is possible at once.
    ///
    /// # Safety
    ///
    /// The address is that of a place for a value, without one, which belongs to the caller; [`Took`] says whether there is one
    /// afterwards.
    #[inline]
    pub(crate) unsafe fn try_recv(&self, into: NonNull<T>) -> Took<W> {
        // SAFETY: as the caller says.
        unsafe { self.lock().take(into) }
    }

    /// Receives a value to an address, or takes a place among those who wait to.
    ///
    /// # Safety
    ///
    /// As for [`try_recv`](Core::try_recv). With a ticket the memory belongs to the channel until the place is given up, and
    /// it is, before the memory is used for anything else.
    #[inline]
    pub(crate) unsafe fn recv_locked(
        &self,
        into: NonNull<T>,
        locked: Locked<'_, T, W>,
        waiter: impl FnOnce() -> W,
    ) -> Begun<Took<W>> {
        let Locked(mut state) = locked;
        // SAFETY: as the caller says.
        match unsafe { state.take(into) } {
            Took::Empty => {
                let waiting = Waiting { waiter: waiter(), claim: None, value: Some(into) };
                let ticket = state.receivers.join(waiting);
                let watchers = state.senders.ring(None);
                drop(state);
                watchers.wake();
                Begun::Wait(ticket)
            }
            done => Begun::Now(done),
        }
    }

    /// The whole of it, as `ends` puts it together.
    ///
    /// # Safety
    ///
    /// As for [`recv_locked`](Core::recv_locked).
    #[cfg(all(test, loom))]
    pub(crate) unsafe fn recv(
        &self,
        into: NonNull<T>,
        waiter: impl FnOnce() -> W,
    ) -> Begun<Took<W>> {
        // SAFETY: as the caller says.
        match unsafe { self.pop(into) } {
            Ok(()) => Begun::Now(Took::Done(Wakes::Nobody)),
            // SAFETY: as the caller says, and the lock is this channel's.
            Err(locked) => unsafe { self.recv_locked(into, locked, waiter) },
        }
    }

    /// As [`poll_send`](Core::poll_send).
    pub(crate) fn poll_recv(&self, ticket: Ticket) -> Result<PlaceEnd, Ticket> {
        self.lock().receivers.poll(ticket)
    }

    /// As [`withdraw_send`](Core::withdraw_send).
    pub(crate) fn withdraw_recv(&self, ticket: Ticket) -> PlaceEnd {
        self.lock().receivers.withdraw(ticket)
    }

    // ----- selecting ----------------------------------------------------------------------

    /// Takes a place for a case of a select; none if there is something to be tried, which the select
    /// has to do *unregistered*.
    ///
    /// # Safety
    ///
    /// As for [`send_locked`](Core::send_locked).
    pub(crate) unsafe fn register_send(
        &self,
        value: NonNull<T>,
        waiter: W,
        claim: &Arc<Claim>,
        case: usize,
    ) -> Option<Ticket> {
        let mut state = self.lock();
        if state.can_send(self.capacity, self.overflow, Some(claim)) {
            return None;
        }
        let place = Some((Arc::clone(claim), case));
        let ticket = state.senders.join(Waiting { waiter, claim: place, value: Some(value) });
        let watchers = state.receivers.ring(Some(claim));
        drop(state);
        watchers.wake();
        Some(ticket)
    }

    /// As [`register_send`](Core::register_send).
    ///
    /// # Safety
    ///
    /// As for [`recv_locked`](Core::recv_locked).
    pub(crate) unsafe fn register_recv(
        &self,
        into: NonNull<T>,
        waiter: W,
        claim: &Arc<Claim>,
        case: usize,
    ) -> Option<Ticket> {
        let mut state = self.lock();
        if state.can_recv(Some(claim)) {
            return None;
        }
        let place = Some((Arc::clone(claim), case));
        let ticket = state.receivers.join(Waiting { waiter, claim: place, value: Some(into) });
        let watchers = state.senders.ring(Some(claim));
        drop(state);
        watchers.wake();
        Some(ticket)
    }

    /// Whether a send need not wait.
    pub(crate) fn can_send(&self) -> bool {
        self.lock().can_send(self.capacity, self.overflow, None)
    }

    /// Whether a receive need not wait.
    pub(crate) fn can_recv(&self) -> bool {
        self.lock().can_recv(None)
    }

    /// Takes a place among senders for somebody who waits until a send is possible; none if it is. It is given up as that of a
    /// sender.
    pub(crate) fn watch_send(&self, waiter: W, claim: &Arc<Claim>, case: usize) -> Option<Ticket> {
        let mut state = self.lock();
        let possible = state.can_send(self.capacity, self.overflow, Some(claim));
        (!possible).then(|| state.senders.watch(waiter, (Arc::clone(claim), case)))
    }

    /// The same among receivers.
    pub(crate) fn watch_recv(&self, waiter: W, claim: &Arc<Claim>, case: usize) -> Option<Ticket> {
        let mut state = self.lock();
        let possible = state.can_recv(Some(claim));
        (!possible).then(|| state.receivers.watch(waiter, (Arc::clone(claim), case)))
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
