//! The state of a channel, and all operations that change it.
//!
//! One lock guards the state. No thread waits, wakes, drops a value or runs user code under it. A
//! critical section moves at most two values and a few pointers, with two exceptions: closing walks
//! over all waiters, and a buffer that is resized moves its values. The module is independent of
//! tasks and threads: a waiter is anything that can be woken, so the models check these functions,
//! not a copy.
//!
//! # Invariants
//!
//! They hold under the lock. A decided select does not count as waiting, and neither does a
//! watcher:
//!
//! 1. a receiver waits ⇒ the buffer is empty, no sender waits, and the channel is open;
//! 2. a sender waits ⇒ the buffer is full and the channel is open;
//! 3. the buffer has at most `capacity` values;
//! 4. a watcher waits for a value ⇒ there is none to be received, by 1 or because no sender waits;
//!    the same for watchers that wait for room.
//!
//! Every function keeps them because trying and publishing happen in one critical section: a caller
//! that cannot proceed has joined the queue before any other thread can look. So there is nothing
//! to re-check, and no wake-up can be lost in between. Waiters leave the queues in the order of
//! arrival, and their values enter the buffer behind the earlier ones: FIFO for each sender, and no
//! caller overtakes a waiter.
//!
//! # Watchers
//!
//! A *watcher* waits until an operation is possible and takes no part in it (`Select::ready`,
//! `send_with`). Its node has no address, and the functions that hand values over skip it. An
//! operation becomes possible by a value or room in the buffer that no waiter got, by a waiter that
//! joins at the other end, and by a close. Each of them ends the wait of all watchers.
//!
//! # Where a value is
//!
//! With the sender, in the buffer, or with the receiver. A value moves from one to the next under
//! the lock, by address, in one step. While the node of a sender or receiver is queued, the memory
//! at its address belongs to the channel. The owner has it back when it reads a final state of its
//! node, or has removed the node under the lock. So a waiter that gives up learns whether the
//! operation has happened, and if it has not, that it never will. A value is written before the
//! final state is stored (`Queue::grant_where`), so a receiver that reads the state sees the value.
//!
//! | final state | value of a sender | value of a receiver |
//! |---|---|---|
//! | `Granted(Own)` | moved away | at its address, unless it is a watcher |
//! | `Granted(Closed)`, `Lost`, removed | at its address | – |
//!
//! # Cache lines
//!
//! A processor that takes the lock of a channel which another one has used last takes the lines of
//! its state too, one after the other. So the state is laid out by how often it is written
//! ([`ChannelCore`]): the lock, the buffer and the queue of receivers share one line, the only one
//! that moves as long as no sender waits. The next line has fields that are read only: `closed`,
//! the capacity, and the queue of senders while it is empty. Counts of handles are on neither.
//!
//! # Rejected
//!
//! Waking a receiver to *look again* instead of handing it the value: another receiver may take the
//! value in between, and the first waiter starts over. Trying again while registered: two cases of
//! a select could succeed. Values in the nodes of waiters: unoptimised builds copied a value up to
//! 32 times, and a value of 8 KiB overflowed a stack of 256 KiB.

use super::buffer::Buffer;
use super::{Overflow, UNBOUNDED};
use crate::base::error::Error;
use crate::sched::task::TaskRef;
use crate::sched::worker::Worker;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock};
use crate::wait::{CaseClaim, Claim, Grant, Queue, WaitNode, Waitable, Wake, Wakes, wake_all};
use std::ptr::{self, NonNull};

/// A channel, shared by both ends. The header says why the order of the fields matters, here and in
/// the state.
#[repr(C, align(64))]
pub(crate) struct ChannelCore<T, W> {
    state: Lock<ChannelState<T, W>>,
    capacity: usize,
    overflow: Overflow,
}

#[repr(C)]
struct ChannelState<T, W> {
    buffer: Buffer<T>,
    receivers: Queue<W, ValueAddress<T>>,
    senders: Queue<W, ValueAddress<T>>,
    closed: Option<Closed>,
    /// Values dropped because the buffer was full, see [`Overflow::DropOld`].
    dropped: u64,
}

// With the recorder, the lock has the last worker beside it.
#[cfg(all(target_pointer_width = "64", not(loom), not(feature = "record")))]
const _: () = {
    const LOCK: usize = size_of::<usize>();
    const LINE: usize = 64;
    assert!(std::mem::offset_of!(ChannelCore<u64, ()>, state) == 0);
    let receivers = LOCK + std::mem::offset_of!(ChannelState<u64, ()>, receivers);
    assert!(receivers + Queue::<(), ValueAddress<u64>>::LINKS <= LINE, "on the first line");
    assert!(LOCK + std::mem::offset_of!(ChannelState<u64, ()>, senders) >= LINE);
    assert!(std::mem::offset_of!(ChannelCore<u64, ()>, capacity) < 2 * LINE);
};

/// Address of a sender's value, or of a receiver's memory for one. `None` for a watcher.
pub(crate) struct ValueAddress<T>(Option<NonNull<T>>);

impl<T> Clone for ValueAddress<T> {
    fn clone(&self) -> ValueAddress<T> {
        *self
    }
}

impl<T> Copy for ValueAddress<T> {}

// SAFETY: the value at the address is moved under the channel's lock, between threads if it is
// `Send`.
unsafe impl<T: Send> Send for ValueAddress<T> {}

impl<T> ValueAddress<T> {
    pub(crate) const WATCHER: ValueAddress<T> = ValueAddress(None);

    #[inline]
    pub(crate) fn of(value: NonNull<T>) -> ValueAddress<T> {
        ValueAddress(Some(value))
    }

    #[inline]
    pub(super) fn get(&self) -> Option<NonNull<T>> {
        self.0
    }

    #[inline]
    fn is_some(&self) -> bool {
        self.0.is_some()
    }

    fn is_watcher(&self) -> bool {
        self.0.is_none()
    }
}

/// The node of a sender, a receiver, or a watcher of a channel.
pub(crate) type ChannelNode<T, W> = WaitNode<W, ValueAddress<T>>;

/// Ends the wait of the first waiter with an address; `hand_over` moves its value.
#[inline(always)]
fn serve<T, W: Wake>(
    waiters: &mut Queue<W, ValueAddress<T>>,
    mut hand_over: impl FnMut(NonNull<T>),
) -> Option<W> {
    waiters.grant_where(Grant::Own, ValueAddress::is_some, |address| {
        if let Some(address) = address.0 {
            hand_over(address);
        }
    })
}

/// Ends the wait of all watchers, except those of the select with this claim.
#[inline]
fn notify_watchers<T, W: Wake>(
    waiters: &mut Queue<W, ValueAddress<T>>,
    own: Option<&Claim>,
) -> Wakes<W> {
    if waiters.is_empty() { Wakes::Nobody } else { notify_all_watchers(waiters, own) }
}

#[cold]
fn notify_all_watchers<T, W: Wake>(
    waiters: &mut Queue<W, ValueAddress<T>>,
    own: Option<&Claim>,
) -> Wakes<W> {
    let mut woken = Vec::new();
    waiters.grant_all(Grant::Own, own, ValueAddress::is_watcher, &mut woken);
    Wakes::Many(woken)
}

/// Outcome of an operation on a closed channel, with the error of `close_with`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed(pub(crate) Option<Error>);

/// Outcome of an attempt to send the value at an address.
pub(crate) enum Put<W> {
    /// The value was moved into the channel.
    Done(Wakes<W>),
    /// The value was moved into the channel, and the address holds the value that made room for it,
    /// for the caller to drop. With capacity 0 that is the value itself.
    Displaced,
    /// There is no room, and the channel's policy is not to wait.
    Refused,
    /// There is no room yet.
    Full,
    Closed(Closed),
}

/// Outcome of an attempt to receive a value to an address.
pub(crate) enum Took<W> {
    /// The value is at the address.
    Done(Wakes<W>),
    Empty,
    /// Closed, and no value is left.
    Closed(Closed),
}

impl<T, W: Wake> ChannelState<T, W> {
    /// The only way into a channel. Always inlined: otherwise the outcome is copied several times.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, owned by the caller.
    #[inline(always)]
    unsafe fn put(&mut self, value: NonNull<T>, capacity: usize, overflow: Overflow) -> Put<W> {
        if let Some(closed) = &self.closed {
            return Put::Closed(closed.clone());
        }
        let waiters = !self.receivers.is_empty();
        // SAFETY: an initialised value, and the memory of a queued receiver.
        let hand_over = |into: NonNull<T>| unsafe {
            ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1);
        };
        if waiters && let Some(receiver) = serve(&mut self.receivers, hand_over) {
            return Put::Done(Wakes::One(receiver));
        }
        if self.buffer.len() < capacity {
            // SAFETY: an initialised value, whose ownership moves.
            unsafe { self.buffer.push(value) };
            return Put::Done(match waiters {
                true => notify_watchers(&mut self.receivers, None),
                false => Wakes::Nobody,
            });
        }
        match overflow {
            Overflow::Block => Put::Full,
            Overflow::DropNew => Put::Refused,
            Overflow::DropOld => {
                self.dropped += 1;
                // Without a buffer the value itself is the oldest.
                if capacity > 0 {
                    // SAFETY: an initialised value, and the buffer is full.
                    unsafe { self.buffer.exchange(value) };
                }
                Put::Displaced
            }
        }
    }

    /// The only way out. Inlined like `put`.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller.
    #[inline(always)]
    unsafe fn take(&mut self, into: NonNull<T>) -> Took<W> {
        // SAFETY: the caller upholds the contract.
        if unsafe { self.buffer.pop(into) } {
            let idle = self.senders.is_empty();
            return Took::Done(if idle { Wakes::Nobody } else { self.refill() });
        }
        // SAFETY: the value of a queued sender, and the caller's memory for one.
        let hand_over = |value: NonNull<T>| unsafe {
            ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1);
        };
        if !self.senders.is_empty()
            && let Some(sender) = serve(&mut self.senders, hand_over)
        {
            return Took::Done(Wakes::One(sender));
        }
        self.closed.as_ref().map_or(Took::Empty, |closed| Took::Closed(closed.clone()))
    }

    /// Gives room in the buffer to the first waiting sender, or notifies the watchers.
    #[inline]
    fn refill(&mut self) -> Wakes<W> {
        let ChannelState { senders, buffer, .. } = self;
        // SAFETY: the value of a queued sender.
        match serve(senders, |next| unsafe { buffer.push(next) }) {
            Some(sender) => Wakes::One(sender),
            None => notify_watchers(senders, None),
        }
    }

    /// Whether a send need not wait, disregarding waiters of the select with this claim.
    fn can_send(&mut self, capacity: usize, overflow: Overflow, own: Option<&Claim>) -> bool {
        self.closed.is_some()
            || self.buffer.len() < capacity
            || overflow != Overflow::Block
            || self.receivers.any(own, ValueAddress::is_some)
    }

    /// Whether a receive need not wait, disregarding the same.
    fn can_recv(&mut self, own: Option<&Claim>) -> bool {
        self.closed.is_some()
            || self.buffer.len() > 0
            || self.senders.any(own, ValueAddress::is_some)
    }
}

impl<T, W> ChannelState<T, W> {
    #[cfg(test)]
    fn check(&mut self, capacity: usize) {
        assert!(self.buffer.len() <= capacity);
        if self.closed.is_some() {
            assert_eq!((self.senders.len(), self.receivers.len()), (0, 0), "closed to all");
        }
    }

    #[cfg(not(test))]
    fn check(&mut self, _: usize) {}
}

impl<T, W> ChannelCore<T, W> {
    pub(crate) fn new(capacity: usize, overflow: Overflow) -> ChannelCore<T, W> {
        let state = ChannelState {
            buffer: Buffer::new(),
            senders: Queue::new(),
            receivers: Queue::new(),
            closed: None,
            dropped: 0,
        };
        ChannelCore { state: Lock::new(state), capacity, overflow }
    }

    #[inline]
    fn lock(&self) -> Guard<'_, ChannelState<T, W>> {
        // Only an allocation failure can panic under the lock.
        let mut state = self.state.lock();
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

    /// Like `len`; `None` if the lock is taken.
    pub(crate) fn try_len(&self) -> Option<usize> {
        Some(self.state.try_lock()?.buffer.len())
    }

    /// Number of waiting senders and receivers.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let mut state = self.lock();
        (state.senders.len(), state.receivers.len())
    }

    /// Number of values that fit the allocated memory.
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

    /// Takes out the values that can no longer be received, to be dropped outside of the lock.
    #[must_use = "it is dropped outside of the lock"]
    pub(super) fn drain(&self) -> Option<Buffer<T>> {
        let mut state = self.lock();
        let buffer = &mut state.buffer;
        (!buffer.is_new()).then(|| std::mem::replace(buffer, Buffer::new()))
    }
}

/// Fast paths for the common case without waiters: a few instructions under the lock.
impl<T, W> ChannelCore<T, W> {
    /// Sends the value at an address if there is room and no receiver waits.
    ///
    /// # Errors
    ///
    /// The lock, for the slow path to continue with. Nothing has happened.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, owned by the caller. On success it has moved
    /// into the channel.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, value: NonNull<T>) -> Result<(), Locked<'_, T, W>> {
        let mut state = self.lock();
        let usual = state.closed.is_none() && state.receivers.is_empty();
        if usual && state.buffer.len() < self.capacity {
            // SAFETY: an initialised value, whose ownership moves.
            unsafe { state.buffer.push(value) };
            Ok(())
        } else {
            Err(Locked(state))
        }
    }

    /// Receives a value to an address if there is one and no sender waits.
    ///
    /// # Errors
    ///
    /// As for [`push`](ChannelCore::push).
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller. On success it is
    /// initialised.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, into: NonNull<T>) -> Result<(), Locked<'_, T, W>> {
        let mut state = self.lock();
        // SAFETY: the caller upholds the contract.
        if state.senders.is_empty() && unsafe { state.buffer.pop(into) } {
            Ok(())
        } else {
            Err(Locked(state))
        }
    }
}

/// A channel whose lock is held.
pub(crate) struct Locked<'c, T, W>(Guard<'c, ChannelState<T, W>>);

impl<W> ChannelCore<(), W> {
    /// Fills a new channel with `count` values of the unit type.
    pub(crate) fn fill(&self, count: usize) {
        self.lock().buffer.fill(count);
    }
}

/// A queue of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Senders,
    Receivers,
}

impl<T, W> ChannelState<T, W> {
    fn queue(&mut self, side: Side) -> &mut Queue<W, ValueAddress<T>> {
        match side {
            Side::Senders => &mut self.senders,
            Side::Receivers => &mut self.receivers,
        }
    }
}

impl<T, W: Wake> Locked<'_, T, W> {
    /// Hands the value at an address to the first receiver, if that is a task which `worker`, on
    /// whose thread the caller runs, may wake. Returns the task, which the caller wakes after
    /// releasing the lock.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, owned by the caller. On success it has moved.
    #[inline(always)]
    pub(crate) unsafe fn hand_to_receiver(
        &mut self,
        value: NonNull<T>,
        worker: &Worker,
    ) -> Option<TaskRef> {
        // By invariant 1 the channel is open and empty if there is a receiver.
        self.0.receivers.grant_first(Grant::Own, |into, waiter| {
            let (task, into) = (waiter.task_for(worker)?, into.0?);
            // SAFETY: an initialised value, and the memory of a queued receiver.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1) };
            Some(task)
        })
    }

    /// Whether a receiver that [`ChannelCore::pop`] refused has to wait: there is neither a value,
    /// nor a sender, nor a close.
    #[inline(always)]
    pub(crate) fn must_wait_to_recv(&self) -> bool {
        self.0.senders.is_empty() && self.0.closed.is_none() // so `pop` found no value
    }

    /// Queues a sender that found no room in [`ChannelCore::send_locked`], or a receiver that found
    /// no value in [`ChannelCore::recv_locked`].
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`]. The memory at the address belongs to the channel while the node is
    /// queued.
    pub(crate) unsafe fn join(self, side: Side, node: &ChannelNode<T, W>, waiter: W) {
        // SAFETY: the caller upholds the contract.
        self.join_by(side, |own| unsafe { own.push(node, waiter, None) });
    }

    /// As [`join`](Locked::join), with a node that is made at `place`.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push_new`]. The memory at the address belongs to the channel while the node
    /// is queued.
    #[inline(always)]
    pub(crate) unsafe fn join_new(
        self,
        side: Side,
        place: NonNull<ChannelNode<T, W>>,
        address: ValueAddress<T>,
        waiter: W,
    ) {
        // SAFETY: the caller upholds the contract.
        self.join_by(side, |own| unsafe { own.push_new(place, address, waiter) });
    }

    #[inline(always)]
    fn join_by(self, side: Side, push: impl FnOnce(&mut Queue<W, ValueAddress<T>>)) {
        let Locked(mut state) = self;
        let ChannelState { senders, receivers, .. } = &mut *state;
        let (own, other) = match side {
            Side::Senders => (senders, receivers),
            Side::Receivers => (receivers, senders),
        };
        push(own);
        if !other.is_empty() {
            let watchers = notify_all_watchers(other, None);
            drop(state);
            watchers.wake();
        }
    }
}

/// One side of a channel as a [`Waitable`].
pub(crate) struct Waiters<'c, T, W> {
    core: &'c ChannelCore<T, W>,
    side: Side,
}

impl<T, W> Waitable<W> for Waiters<'_, T, W> {
    type Key = ValueAddress<T>;

    unsafe fn withdraw(&self, node: &ChannelNode<T, W>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { self.core.lock().queue(self.side).remove(node) };
        removed.into_grant()
    }
}

impl<T, W: Wake> ChannelCore<T, W> {
    /// One side as a [`Waitable`].
    pub(crate) fn waiters(&self, side: Side) -> Waiters<'_, T, W> {
        Waiters { core: self, side }
    }

    // ----- sending ----------------------------------------------------------------------

    /// Sends the value at an address if that is possible at once.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, owned by the caller. [`Put`] says whether
    /// there still is one.
    #[inline]
    pub(crate) unsafe fn try_send(&self, value: NonNull<T>) -> Put<W> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.lock().put(value, self.capacity, self.overflow) }
    }

    /// Like [`try_send`](ChannelCore::try_send), under a lock that the caller holds.
    ///
    /// # Safety
    ///
    /// The lock is this channel's. The rest as for [`try_send`](ChannelCore::try_send).
    #[inline]
    pub(crate) unsafe fn send_locked(
        &self,
        value: NonNull<T>,
        Locked(state): &mut Locked<'_, T, W>,
    ) -> Put<W> {
        // SAFETY: the caller upholds the contract.
        unsafe { state.put(value, self.capacity, self.overflow) }
    }

    // ----- receiving --------------------------------------------------------------------

    /// Receives a value to an address if that is possible at once.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller. [`Took`] says whether
    /// it is initialised.
    #[inline]
    pub(crate) unsafe fn try_recv(&self, into: NonNull<T>) -> Took<W> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.lock().take(into) }
    }

    /// Like [`try_recv`](ChannelCore::try_recv), under a lock that the caller holds.
    ///
    /// # Safety
    ///
    /// As for [`try_recv`](ChannelCore::try_recv).
    #[inline]
    pub(crate) unsafe fn recv_locked(
        &self,
        into: NonNull<T>,
        Locked(state): &mut Locked<'_, T, W>,
    ) -> Took<W> {
        // SAFETY: the caller upholds the contract.
        unsafe { state.take(into) }
    }

    // ----- selecting ----------------------------------------------------------------------

    /// Queues the node of a select case, to send or receive by its address or to watch. Returns
    /// false if the case is possible: the select then unregisters all cases and tries again.
    ///
    /// # Safety
    ///
    /// As for [`Locked::join`]. The claim stays in place until the node is withdrawn.
    pub(crate) unsafe fn register(
        &self,
        side: Side,
        node: &ChannelNode<T, W>,
        address: ValueAddress<T>,
        waiter: W,
        (claim, case): (&Claim, usize),
    ) -> bool {
        let mut state = self.lock();
        let possible = match side {
            Side::Senders => state.can_send(self.capacity, self.overflow, Some(claim)),
            Side::Receivers => state.can_recv(Some(claim)),
        };
        if possible {
            return false;
        }
        let ChannelState { senders, receivers, .. } = &mut *state;
        let (own, other) = match side {
            Side::Senders => (senders, receivers),
            Side::Receivers => (receivers, senders),
        };
        // SAFETY: the caller upholds the contract: the node is idle.
        unsafe {
            node.set_key(address);
            own.push(node, waiter, Some(CaseClaim::new(claim, case)));
        }
        if address.is_some() {
            let watchers = notify_watchers(other, Some(claim));
            drop(state);
            watchers.wake();
        }
        true
    }

    /// Whether a send need not wait.
    pub(crate) fn can_send(&self) -> bool {
        self.lock().can_send(self.capacity, self.overflow, None)
    }

    /// Whether a receive need not wait.
    pub(crate) fn can_recv(&self) -> bool {
        self.lock().can_recv(None)
    }

    // ----- closing ------------------------------------------------------------------------

    /// Closes the channel. The values in the buffer remain. Only the first call has an effect.
    pub(crate) fn close(&self, error: Option<Error>) {
        let mut state = self.lock();
        if state.closed.is_none() {
            state.closed = Some(Closed(error));
            if !state.senders.is_empty() || !state.receivers.is_empty() {
                ChannelCore::end_waits(state);
            }
        }
    }

    /// Ends the waits of all at a channel that was closed.
    #[cold]
    fn end_waits(mut state: Guard<'_, ChannelState<T, W>>) {
        let mut woken = Vec::new();
        state.senders.grant_all(Grant::Closed, None, |_| true, &mut woken);
        state.receivers.grant_all(Grant::Closed, None, |_| true, &mut woken);
        drop(state);
        wake_all(woken);
    }
}
