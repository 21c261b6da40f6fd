//! The state of a oneshot, and all operations that change it.
//!
//! One lock guards the state. As in `state`, no thread waits, wakes, drops a value or runs user
//! code under it, and a waiter is anything that can be woken, so that the models check these
//! functions.
//!
//! # States
//!
//! ```text
//!            send, no receiver waits           receive
//!   Open ─────────────────────────────► Full ──────────► Spent
//!     │                                   │                ▲
//!     ├── send, a receiver waits ─────────┼────────────────┤
//!     ├── sender or receiver goes, close ─┼────────────────┘
//!     └── as_receiver ────────────────────┴──► Bridged
//! ```
//!
//! | state | value | sender | a receive |
//! |---|---|---|---|
//! | Open | none yet | there | waits |
//! | Full | in the slot | gone | takes it |
//! | Spent | received, or there will be none | any | fails |
//! | Bridged | wherever the channel has it | any | is one of the channel |
//!
//! Invariant: a receiver waits ⇒ Open, or Bridged. Trying and joining the queue happen in one
//! critical section, as in `state`, so there is nothing to re-check.
//!
//! # Handles
//!
//! There are two, and their number is part of the state: a send stores or hands over the value and
//! gives up its handle in the same critical section. The thread that brings the number to 0 frees
//! the memory, after it has released the lock. Every other thread touches nothing after it has
//! released the lock: the value of a waiting receiver is at the receiver's own address, and its
//! waiter was moved out of the queue.
//!
//! A receiver that waits has a handle, so the memory is there when it withdraws its node: after a
//! cancellation, after the deadline, or while it unwinds. Under the lock its node is either still
//! queued, and then the value stays here or will come; or it was granted, and the receiver has the
//! value. A receiver that goes without it marks the state Spent under the lock: a send before that
//! leaves the value in the slot, which is dropped with the memory; a send after it fails.
//!
//! # Bridges
//!
//! A select, a future and `as_receiver` need a receiver of a channel. The first of them makes a
//! channel of capacity 1 and *bridges* the oneshot: under the lock, a value in the slot moves into
//! the channel and closes it, as does the state Spent; afterwards the sender uses the channel. A
//! receiver that waits here at that moment stays in its queue, and is served before the channel.
//!
//! # Rejected
//!
//! A channel of capacity 1: 380 instructions of the 1200 for a request and its reply were its
//! making, two closes and counts, and its memory. The reply on the stack of the caller: a handle
//! may outlive the caller's wait (cancelled, out of time) or be forgotten, so that the two sides
//! need memory that neither frees alone; blocks that workers keep (`worker::blocks`) cost as
//! little.

use super::state::{ChannelNode, ValueAddress};
use crate::sched::task::TaskRef;
use crate::sched::worker::Worker;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock};
use crate::wait::{Grant, Queue, Waitable, Wake, Wakes};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// A oneshot, shared by both ends.
pub(crate) struct OneCore<T, W> {
    state: Lock<OneState<T, W>>,
    /// Initialised if the state is Full. Used under the lock, and not part of the state: a value
    /// may be large, and is moved by address only (`value_box`).
    slot: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the slot is used under the lock, and by the last end; it moves a value between threads if
// that is `Send`.
unsafe impl<T: Send, W: Send> Sync for OneCore<T, W> {}

pub(crate) struct OneState<T, W> {
    receivers: Queue<W, ValueAddress<T>>,
    standing: OneStanding,
    /// The number of ends that are there: those that may still use the memory.
    handles: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OneStanding {
    Open,
    Full,
    Spent,
    Bridged,
}

/// Outcome of an attempt to send the value at an address.
pub(crate) enum OnePut<W> {
    /// The value was moved, and the handle of the sender is gone.
    Done(Wakes<W>),
    /// It was moved to a task that the caller's worker wakes, and the handle is gone.
    Handed(TaskRef),
    /// It was moved to a receiver that waited beside a bridge. The sender has its handle, and goes
    /// as without a send: that closes the bridge.
    Beside(Wakes<W>),
    Closed,
    Bridged,
}

/// Outcome of an attempt to receive a value to an address.
pub(crate) enum OneTook<'c, T, W> {
    /// The value is at the address.
    Done,
    /// There is none yet: the lock, to join the queue.
    Empty(OneLocked<'c, T, W>),
    /// There will be none.
    Closed,
    Bridged,
}

/// A oneshot whose lock is held.
pub(crate) struct OneLocked<'c, T, W>(Guard<'c, OneState<T, W>>);

/// Whether an end that goes was the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the last one frees the memory"]
pub(crate) enum Gone {
    Last,
    First,
}

impl<T, W> OneCore<T, W> {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> OneCore<T, W> {
        OneCore { state: OneState::new(), slot: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Makes a oneshot in place: its slot stays as it is.
    ///
    /// # Safety
    ///
    /// `place` is memory for it.
    #[inline(always)]
    pub(crate) unsafe fn init(place: NonNull<OneCore<T, W>>) {
        // SAFETY: a field of the memory. The slot needs no content.
        unsafe { (&raw mut (*place.as_ptr()).state).write(OneState::new()) };
    }

    #[inline(always)]
    fn slot(&self) -> NonNull<T> {
        // SAFETY: the address of a field.
        unsafe { NonNull::new_unchecked(self.slot.get()).cast() }
    }

    pub(crate) fn standing(&self) -> OneStanding {
        self.state.lock().standing
    }

    /// The state, and the number of handles; `None` if the lock is taken.
    pub(crate) fn look(&self) -> Option<(OneStanding, u8)> {
        let state = self.state.try_lock()?;
        Some((state.standing, state.handles))
    }

    /// The value that was not received, for the last end to drop in place; it is not in the state
    /// any more.
    #[cold]
    pub(crate) fn take_value(&self) -> Option<NonNull<T>> {
        let mut state = self.state.lock();
        if state.standing != OneStanding::Full {
            return None;
        }
        state.standing = OneStanding::Spent;
        Some(self.slot())
    }
}

impl<T, W: Wake> OneCore<T, W> {
    /// Sends the value at an address, and gives up the sender's handle. `worker` is that of the
    /// caller, if it is on one.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, owned by the caller; [`OnePut`] says whether
    /// it has moved. The caller does not use the oneshot after `Done` or `Handed`.
    #[inline(always)]
    pub(crate) unsafe fn send(&self, value: NonNull<T>, worker: Option<&Worker>) -> OnePut<W> {
        let mut state = self.state.lock();
        if state.standing == OneStanding::Open {
            if state.receivers.is_empty() {
                // SAFETY: an initialised value, and the slot, which is empty.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), self.slot().as_ptr(), 1) };
                state.standing = OneStanding::Full;
                state.handles -= 1;
                return OnePut::Done(Wakes::Nobody);
            }
            let hand_over = |into: &ValueAddress<T>, waiter: &W| {
                let (task, into) = (waiter.task_for(worker?)?, into.get()?);
                // SAFETY: an initialised value, and the memory of a queued receiver.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1) };
                Some(task)
            };
            if !state.receivers.has_many()
                && let Some(task) = state.receivers.grant_first(Grant::Own, hand_over)
            {
                state.standing = OneStanding::Spent;
                state.handles -= 1;
                return OnePut::Handed(task);
            }
        }
        // SAFETY: the caller upholds the contract.
        unsafe { Self::send_slowly(state, value) }
    }

    /// A send to a receiver that is woken otherwise, or to none.
    ///
    /// # Safety
    ///
    /// As for [`send`](OneCore::send).
    #[cold]
    #[inline(never)]
    unsafe fn send_slowly(mut state: Guard<'_, OneState<T, W>>, value: NonNull<T>) -> OnePut<W> {
        let hand_over = |into: &ValueAddress<T>| {
            if let Some(into) = into.get() {
                // SAFETY: as in `send`.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), into.as_ptr(), 1) };
            }
        };
        let Some(waiter) = state.receivers.grant_where(Grant::Own, |_| true, hand_over) else {
            return match state.standing {
                OneStanding::Bridged => OnePut::Bridged,
                _ => OnePut::Closed,
            };
        };
        let mut woken = vec![waiter];
        let is_bridged = state.standing == OneStanding::Bridged;
        state.end_waits(&mut woken); // there is no value for the others
        if is_bridged {
            return OnePut::Beside(Wakes::Many(woken));
        }
        state.handles -= 1;
        OnePut::Done(Wakes::Many(woken))
    }

    /// Receives the value to an address, if it is there.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller.
    #[inline(always)]
    pub(crate) unsafe fn recv(&self, into: NonNull<T>) -> OneTook<'_, T, W> {
        let mut state = self.state.lock();
        match state.standing {
            OneStanding::Open => OneTook::Empty(OneLocked(state)),
            OneStanding::Full => {
                // SAFETY: the slot is initialised, and is not after this.
                unsafe { ptr::copy_nonoverlapping(self.slot().as_ptr(), into.as_ptr(), 1) };
                state.standing = OneStanding::Spent;
                OneTook::Done
            }
            OneStanding::Spent => OneTook::Closed,
            OneStanding::Bridged => OneTook::Bridged,
        }
    }

    /// No value is sent any more. One in the slot stays.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if state.standing == OneStanding::Open {
            let mut woken = Vec::new();
            state.end_waits(&mut woken);
            drop(state);
            woken.iter().for_each(Wake::wake);
        }
    }

    /// An end goes after the other: returns the last state, and the caller frees the memory. `None`
    /// if the other end is there; then nothing has happened.
    #[inline(always)]
    pub(crate) fn leave_last(&self) -> Option<OneStanding> {
        let mut state = self.state.lock();
        if state.handles != 1 {
            return None;
        }
        state.handles = 0;
        Some(state.standing)
    }

    /// The sender goes. `None` if there is a bridge, which the caller closes before it
    /// [leaves](OneCore::leave); then nothing has happened. The lock orders this after the bridge
    /// was made.
    pub(crate) fn leave_open(&self) -> Option<Gone> {
        let state = self.state.lock();
        let is_bridged = state.standing == OneStanding::Bridged;
        (!is_bridged).then(|| Self::leave_locked(state))
    }

    /// An end goes, first or last. The state is Spent afterwards, unless there is a value or a
    /// bridge.
    pub(crate) fn leave(&self) -> Gone {
        Self::leave_locked(self.state.lock())
    }

    fn leave_locked(mut state: Guard<'_, OneState<T, W>>) -> Gone {
        state.handles -= 1;
        if state.handles == 0 {
            return Gone::Last;
        }
        let mut woken = Vec::new();
        if state.standing == OneStanding::Open || !state.receivers.is_empty() {
            state.end_waits(&mut woken);
        }
        drop(state);
        woken.iter().for_each(Wake::wake);
        Gone::First
    }

    /// Bridges the oneshot: `push` moves a value into the channel, and `close` closes it; both
    /// under the lock. Only the first call has an effect.
    pub(crate) fn bridge(&self, push: impl FnOnce(NonNull<T>), close: impl FnOnce()) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.standing, OneStanding::Bridged) {
            OneStanding::Open | OneStanding::Bridged => return,
            OneStanding::Full => push(self.slot()),
            OneStanding::Spent => {}
        }
        close();
    }
}

impl<T, W> OneState<T, W> {
    #[inline(always)]
    fn new() -> Lock<OneState<T, W>> {
        let (receivers, standing) = (Queue::new(), OneStanding::Open);
        Lock::new(OneState { receivers, standing, handles: 2 })
    }
}

impl<T, W: Wake> OneState<T, W> {
    /// Ends the wait of all receivers without a value: there will be none.
    #[cold]
    fn end_waits(&mut self, woken: &mut Vec<W>) {
        if self.standing == OneStanding::Open {
            self.standing = OneStanding::Spent;
        }
        self.receivers.grant_all(Grant::Closed, None, |_| true, woken);
    }
}

impl<T, W> OneLocked<'_, T, W> {
    /// Queues a receiver, with a node that is made at `place`.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push_new`]. The memory at the address belongs to the oneshot while the node
    /// is queued.
    #[inline(always)]
    pub(crate) unsafe fn join(
        mut self,
        place: NonNull<ChannelNode<T, W>>,
        into: NonNull<T>,
        waiter: W,
    ) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.receivers.push_new(place, ValueAddress::of(into), waiter) };
    }
}

impl<T, W> Waitable<W> for OneCore<T, W> {
    type Key = ValueAddress<T>;

    unsafe fn withdraw(&self, node: &ChannelNode<T, W>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { self.state.lock().receivers.remove(node) };
        removed.into_grant()
    }
}
