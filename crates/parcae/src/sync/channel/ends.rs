//! The two ends of a channel.
//!
//! What an operation does, in order:
//!
//! 1. *prepare*: a checkpoint, which also makes sure that the operation can be paid;
//! 2. *begin*: it happens, fails, or takes a place among those who wait;
//! 3. *wait*, if it has a place, until the place is served or given up;
//! 4. *settle*: if it happened, wake whom it concerns and charge the task, which cannot fail
//!    because nobody else spends from its account.
//!
//! An error comes from 1, before anything was done, or from 2 and 3, which say under the channel's lock
//! that nothing was done. Values are dropped after 4, where a panic of theirs finds the channel in
//! order.
//!
//! A task that is to end is told so before it is told that the channel is closed, because the one is mostly a consequence of the
//! other: whoever was cancelled drops its end. So wherever step 2 or 3 finds the channel closed, the task looks
//! once more whether it was cancelled. The cancel that made another task close the channel is seen then: it was marked before
//! that task saw it, which was before it closed the channel, under whose lock this task has found that.
//!
//! # Addresses
//!
//! Values travel by address (`value_box.rs`). A sender has its value in an `Option` on its stack, which is empty once it is sent; a
//! receiver has uninitialised memory there. While it waits that memory is the channel's. The place is
//! given up before the function returns or unwinds: see [`Placed`].
//!
//! # Handles
//!
//! Both ends are counted beside the channel itself. Whoever brings a count to 0 closes the channel; a count that
//! is 0 stays 0, also for weak handles, so that happens once.

use super::error::{Reason, RecvError, SendError};
use super::state::{Begun, Closed, Core, Locked, Put, Took};
use super::value_box::mark_empty;
use super::{ChannelPermit, Overflow};
use crate::base::error::{Error, Result};
use crate::sched;
use crate::scope::cx::{self, Frame};
use crate::sync::select::RecvCase;
use crate::wait::places::{PlaceEnd, Ticket};
use crate::wait::{self, Channelled, Deadline, Ended, Told, Waiter, Why};
use crate::wait::{Wake, Wakes};
use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

impl Wake for Waiter {
    #[inline]
    fn wake(&self) {
        Waiter::wake(self);
    }

    #[inline]
    fn keep(&mut self) {
        Waiter::keep(self);
    }
}

/// What all handles of a channel share.
pub(crate) struct Shared<T> {
    pub(crate) core: Core<T, Waiter>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// The task that made it, for whoever looks for deadlocks; 0 if it is not known who has its ends: a thread
    /// made it, or has used it.
    maker: AtomicU64,
    /// The scheduler of that task, by its address: numbers of tasks are unique only there.
    home: usize,
    /// The channel's place under a capability.
    _permit: Option<ChannelPermit>,
}

impl<T> Channelled for Shared<T> {
    fn tell(&self) -> Option<Told> {
        Some(Told {
            values: self.core.try_len()?,
            capacity: self.core.capacity().unwrap_or(usize::MAX),
            // Relaxed: figures for a report.
            senders: self.senders.load(Ordering::Relaxed),
            receivers: self.receivers.load(Ordering::Relaxed),
        })
    }

    fn maker(&self, shared: &sched::Shared) -> Option<u64> {
        let here = (&raw const *shared).addr() == self.home;
        Some(self.maker.load(Ordering::Relaxed)).filter(|&maker| here && maker != 0)
    }
}

pub(super) fn pair<T>(
    capacity: usize,
    overflow: Overflow,
    permit: Option<ChannelPermit>,
) -> (Sender<T>, Receiver<T>) {
    let maker = cx::current();
    let shared = Arc::new(Shared {
        core: Core::new(capacity, overflow),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        maker: AtomicU64::new(maker.map_or(0, |frame| frame.record().id())),
        home: maker.map_or(0, |frame| Arc::as_ptr(&frame.terms().shared).addr()),
        _permit: permit,
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

impl<T> Shared<T> {
    /// Step 1. The task that pays, if a task does.
    #[inline]
    pub(super) fn prepare(&self) -> Result<Option<&'static Frame>> {
        let payer = prepare()?;
        if payer.is_none() {
            self.maker.store(0, Ordering::Relaxed); // for reports, as above
        }
        Ok(payer)
    }

    fn close(&self, error: Option<Error>) {
        self.core.close(error).iter().for_each(Wake::wake);
    }
}

/// Counts one more handle, unless there are none.
fn count_up(count: &AtomicUsize) -> bool {
    // Relaxed: a handle is passed on by other means, which order what it is used for.
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n > 0).then_some(n + 1)).is_ok()
}

/// Counts one handle less; true if it was the last.
fn count_down(count: &AtomicUsize) -> bool {
    // AcqRel: pairs with itself. What was done by the other handles comes before the close.
    count.fetch_sub(1, Ordering::AcqRel) == 1
}

/// Drops values. A panic of one does not keep the others; the first goes on when all are gone.
pub(super) fn drop_all<T>(values: VecDeque<T>) {
    let mut first = None;
    for value in values {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}

/// Step 1. The task that pays, if a task does.
#[inline]
pub(crate) fn prepare() -> Result<Option<&'static Frame>> {
    let payer = cx::current();
    if let Some(frame) = payer {
        frame.prepare_channel_op()?;
    }
    Ok(payer)
}

/// Step 4.
#[inline]
pub(crate) fn settle(payer: Option<&Frame>, wake: Option<Waiter>) {
    settle_all(payer, wake.map_or(Wakes::Nobody, Wakes::One));
}

/// The same, for any number who are to be woken.
#[inline]
pub(crate) fn settle_all(payer: Option<&Frame>, wakes: Wakes<Waiter>) {
    charge(payer);
    wakes.wake();
}

/// The same, if nobody is to be woken.
#[inline(always)]
fn charge(payer: Option<&Frame>) {
    if let Some(frame) = payer {
        frame.charge_channel_op();
    }
}

/// Why an operation failed; if the channel is closed, and the task was cancelled, it is the latter.
#[cold]
pub(crate) fn closed_or_cancelled(reason: Reason) -> Reason {
    if let Reason::Closed(_) = reason
        && let Some(Err(cancelled)) = cx::current().map(Frame::check_cancelled)
    {
        return Reason::Interrupted(cancelled);
    }
    reason
}

/// Whether somebody who has to wait may: not a task that unwinds, for which nobody could be run.
#[inline]
pub(crate) fn may_wait() -> Result<()> {
    if std::thread::panicking() && cx::current().is_some() {
        return Err(Error::msg("a task cannot wait for a channel while it panics; use `try_send`"));
    }
    Ok(())
}

/// A place in a channel, with an address: it is given up with this, however that comes about.
struct Placed<F: Fn(Ticket) -> PlaceEnd> {
    ticket: Option<Ticket>,
    withdraw: F,
}

impl<F: Fn(Ticket) -> PlaceEnd> Placed<F> {
    fn withdraw(&mut self) -> PlaceEnd {
        self.ticket.take().map_or(PlaceEnd::Withdrawn, &self.withdraw)
    }
}

impl<F: Fn(Ticket) -> PlaceEnd> Drop for Placed<F> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Step 3: waits until `poll` says what became of the place.
///
/// # Errors
///
/// It did not happen; `closed` is why if the channel was closed.
fn wait_for(
    ticket: Ticket,
    deadline: Deadline,
    why: Why<'_>,
    poll: impl Fn(Ticket) -> Result<PlaceEnd, Ticket>,
    withdraw: impl Fn(Ticket) -> PlaceEnd,
    closed: impl Fn() -> Option<Closed>,
) -> Result<(), Reason> {
    let mut placed = Placed { ticket: Some(ticket), withdraw };
    let (gone, given_up) = loop {
        match may_wait().and_then(|()| wait::wait(deadline, why)) {
            Ok(Ended::Woken) => match placed.ticket.take().map(&poll) {
                Some(Err(again)) => placed.ticket = Some(again),
                Some(Ok(gone)) => break (gone, Reason::WouldWait),
                None => unreachable!("a place without a ticket"),
            },
            Ok(Ended::TimedOut) => break (placed.withdraw(), Reason::TimedOut),
            Err(error) => break (placed.withdraw(), Reason::Interrupted(error)),
        }
    };
    match (gone, given_up) {
        (PlaceEnd::Done, Reason::Interrupted(_)) => {
            cx::current().inspect(|frame| frame.untell());
            Ok(())
        }
        (PlaceEnd::Done, _) => Ok(()),
        // Told to end, and that nobody is left: the former is why.
        (PlaceEnd::Closed | PlaceEnd::Withdrawn, Reason::Interrupted(error)) => {
            Err(Reason::Interrupted(error))
        }
        (PlaceEnd::Withdrawn, reason) => Err(reason),
        (PlaceEnd::Closed, _) => {
            let Closed(error) = closed().unwrap_or_default();
            Err(closed_or_cancelled(Reason::Closed(error)))
        }
    }
}

// ----- sending ------------------------------------------------------------------------------

/// The sending end of a channel. Clones send into the same channel.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.shared
    }

    /// Sends a value; waits for room, or on a rendezvous channel for a receiver.
    ///
    /// # Errors
    ///
    /// The channel is closed, the task was cancelled or has no budget left. The value is in the error.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::Never);
        not_sent(&mut value, sent)
    }

    /// As [`send`](Sender::send), and waits no longer than `time`. Under the deterministic executor that is
    /// virtual time.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), or the time is up.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (tx, _rx) = parcae::channel::channel(0);
    /// let late = tx.send_timeout("hello", Duration::from_millis(1)).unwrap_err();
    /// assert!(late.is_timeout());
    /// assert_eq!(late.into_inner(), "hello");
    /// ```
    pub fn send_timeout(&self, value: T, time: Duration) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::after(time));
        not_sent(&mut value, sent)
    }

    /// As [`send`](Sender::send), and waits no longer than until a point in time, by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), or the time is up.
    ///
    /// ```
    /// use parcae::time;
    /// use std::time::Duration;
    ///
    /// let (tx, _rx) = parcae::channel::channel(1);
    /// let at = time::now() + Duration::from_millis(1);
    /// tx.send_deadline("first", at)?;
    /// assert!(tx.send_deadline("second", at).unwrap_err().is_timeout());
    /// assert!(time::now() >= at);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn send_deadline(&self, value: T, at: Instant) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::at(at));
        not_sent(&mut value, sent)
    }

    /// Sends the value of an `Option`, which is empty if it is a success.
    #[inline]
    pub(super) fn send_from(
        &self,
        value: &mut Option<T>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        let payer = self.shared.prepare().map_err(Reason::Interrupted)?;
        // SAFETY: a value, which is marked as gone once it is.
        unsafe {
            match self.shared.core.push(address) {
                Ok(()) => {
                    mark_empty(value);
                    charge(payer);
                    Ok(())
                }
                Err(locked) => self.send_to_others(value, address, locked, payer, deadline()),
            }
        }
    }

    /// The rest of a send for which the channel has no room, or a receiver waits.
    ///
    /// # Safety
    ///
    /// The address is that of the value, and the lock this channel's.
    #[inline(never)]
    unsafe fn send_to_others(
        &self,
        value: &mut Option<T>,
        address: NonNull<T>,
        locked: Locked<'_, T, Waiter>,
        payer: Option<&Frame>,
        deadline: Deadline,
    ) -> Result<(), Reason> {
        // SAFETY: a value that nobody looks at until it is known what became of it. The waiter and the address: the place
        // is given up before this returns, under the channel's lock.
        match unsafe { self.shared.core.send_locked(address, locked, || Waiter::lent()) } {
            Begun::Now(put) => sent(put, payer, value),
            Begun::Wait(ticket) => {
                self.wait_to_send(ticket, deadline, payer)?;
                // SAFETY: a receiver has moved it away.
                unsafe { mark_empty(value) };
                Ok(())
            }
        }
    }

    #[cold]
    fn wait_to_send(
        &self,
        ticket: Ticket,
        deadline: Deadline,
        payer: Option<&Frame>,
    ) -> Result<(), Reason> {
        let core = &self.shared.core;
        let why = Why::Channel("send", &*self.shared);
        let (poll, withdraw) = (|t| core.poll_send(t), |t| core.withdraw_send(t));
        wait_for(ticket, deadline, why, poll, withdraw, || core.closed())?;
        settle(payer, None);
        Ok(())
    }

    /// Sends a value if that is possible at once: there is room, or a receiver waits for it.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), or it would have had to wait.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.try_send_from(&mut value);
        not_sent(&mut value, sent)
    }

    /// As [`send_from`](Sender::send_from).
    #[inline]
    fn try_send_from(&self, value: &mut Option<T>) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        let payer = self.shared.prepare().map_err(Reason::Interrupted)?;
        // SAFETY: a value that nobody looks at until it is known what became of it.
        unsafe { sent(self.shared.core.try_send(address), payer, value) }
    }

    /// Sends one value after the other, as [`send`](Sender::send) does; returns how many.
    ///
    /// Values are taken from the iterator one at a time, and sent before the next is taken. So if it fails, all values before the one
    /// in the error were sent, and those behind it are still in the iterator: lend it to have them. Each value is charged, and
    /// is a cancel point of its own.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), of the first value that was not sent.
    ///
    /// ```
    /// let (tx, rx) = parcae::channel::channel(8);
    /// assert_eq!(tx.send_all("spin".chars())?, 4);
    /// rx.close();
    /// let mut rest = "cut".chars();
    /// assert_eq!(tx.send_all(&mut rest).unwrap_err().into_inner(), 'c');
    /// assert_eq!(rest.as_str(), "ut");
    /// assert_eq!(rx.len(), 4);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn send_all(&self, values: impl IntoIterator<Item = T>) -> Result<usize, SendError<T>> {
        let mut values = values.into_iter();
        for sent in 0.. {
            let mut value = values.next();
            if value.is_none() {
                return Ok(sent);
            }
            let outcome = self.send_from(&mut value, || Deadline::Never);
            not_sent(&mut value, outcome)?;
        }
        unreachable!("more values than can be counted")
    }

    /// Closes the channel, for all its handles. What is in it can still be received. Later calls do nothing.
    pub fn close(&self) {
        self.shared.close(None);
    }

    /// Closes the channel, and says why: receivers find the error when they have received all that is in
    /// it, senders at once. Has no effect on a channel that is closed already.
    ///
    /// ```
    /// let (tx, rx) = parcae::channel::channel(1);
    /// tx.send(1)?;
    /// tx.close_with(parcae::Error::msg("the disk is full"));
    /// assert_eq!(rx.recv()?, 1);
    /// let error: parcae::Error = rx.recv().unwrap_err().into();
    /// assert_eq!(error.to_string(), "the disk is full");
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn close_with(&self, error: impl Into<Error>) {
        self.shared.close(Some(error.into()));
    }

    /// A handle that does not keep the channel open.
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { shared: Arc::downgrade(&self.shared) }
    }
}

/// What came of a send that did not wait, of the value of an `Option`.
#[inline(always)]
fn sent<T>(put: Put<Waiter>, payer: Option<&Frame>, value: &mut Option<T>) -> Result<(), Reason> {
    match put {
        Put::Done(wakes) => {
            // SAFETY: it was moved into the channel.
            unsafe { mark_empty(value) };
            settle_all(payer, wakes);
            Ok(())
        }
        put => not_done(put, payer, value),
    }
}

#[cold]
fn not_done<T>(
    put: Put<Waiter>,
    payer: Option<&Frame>,
    value: &mut Option<T>,
) -> Result<(), Reason> {
    match put {
        Put::Done(_) => unreachable!("it is done"),
        Put::Displaced => {
            settle(payer, None);
            *value = None; // what had to go for it
            Ok(())
        }
        Put::Refused | Put::Full => Err(Reason::WouldWait),
        Put::Closed(Closed(error)) => Err(closed_or_cancelled(Reason::Closed(error))),
    }
}

/// The result of a send, for the caller, who gets the value back if it is still there.
#[inline(always)]
pub(super) fn not_sent<T>(
    value: &mut Option<T>,
    sent: Result<(), Reason>,
) -> Result<(), SendError<T>> {
    match sent {
        Ok(()) => Ok(()),
        Err(reason) => Err(give_back(value, reason)),
    }
}

#[cold]
fn give_back<T>(value: &mut Option<T>, reason: Reason) -> SendError<T> {
    let Some(address) = value.as_mut().map(NonNull::from) else {
        unreachable!("neither sent nor kept")
    };
    // SAFETY: a value, which is marked as gone at once.
    unsafe {
        let error = SendError::from_address(address, reason);
        mark_empty(value);
        error
    }
}

// ----- receiving ----------------------------------------------------------------------------

/// The receiving end of a channel. Clones receive from the same channel; each value goes to one of them.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.shared
    }

    /// As a case of `select!`, which finds it through any number of references.
    #[doc(hidden)]
    pub fn __select(&self) -> RecvCase<'_, T> {
        RecvCase::new(self)
    }

    /// Receives a value; waits for one.
    ///
    /// # Errors
    ///
    /// The channel is closed and nothing is left in it, or the task was cancelled or has no budget left.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::Never)
    }

    /// As [`recv`](Receiver::recv), and waits no longer than `time`. Under the deterministic executor that is
    /// virtual time.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), or the time is up.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::after(time))
    }

    /// As [`recv`](Receiver::recv), and waits no longer than until a point in time, by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), or the time is up.
    ///
    /// ```
    /// use parcae::time;
    /// use std::time::Duration;
    ///
    /// let (tx, rx) = parcae::channel::channel(2);
    /// tx.send(1)?;
    /// let at = time::now() + Duration::from_millis(1); // for both together
    /// assert_eq!(rx.recv_deadline(at)?, 1);
    /// assert!(rx.recv_deadline(at).unwrap_err().is_timeout());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn recv_deadline(&self, at: Instant) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::at(at))
    }

    #[inline]
    fn recv_until(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvError> {
        let payer =
            self.shared.prepare().map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        self.recv_for(payer, deadline)
    }

    /// Receives to an address, with a wait or without; there is a value if it is a success.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[inline]
    pub(super) unsafe fn next_to(&self, into: NonNull<T>, wait: Patience) -> Result<(), Reason> {
        let payer = self.shared.prepare().map_err(Reason::Interrupted)?;
        // SAFETY: as the caller says.
        unsafe {
            match wait {
                Patience::Endless => self.recv_to(into, payer, || Deadline::Never),
                Patience::None => self.try_recv_to(into, payer),
            }
        }
    }

    /// Steps 2 to 4, for whoever pays.
    #[inline]
    pub(super) fn recv_for(
        &self,
        payer: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: memory for a value, which lives until this returns.
        match unsafe { self.recv_to(NonNull::from(&mut value).cast(), payer, deadline) } {
            // SAFETY: the value was put there, and is moved away once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// Receives to an address; there is a value if it is a success.
    ///
    /// # Safety
    ///
    /// The address is that of a place for a value, without one, which belongs to the caller until this has returned.
    #[inline]
    unsafe fn recv_to(
        &self,
        into: NonNull<T>,
        payer: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        // SAFETY: as the caller says.
        unsafe {
            match self.shared.core.pop(into) {
                Ok(()) => {
                    charge(payer);
                    Ok(())
                }
                Err(locked) => self.recv_from_others(into, locked, payer, deadline()),
            }
        }
    }

    /// The rest of a receive for which the channel has no value, or a sender waits.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to); the lock is this channel's.
    #[inline(never)]
    unsafe fn recv_from_others(
        &self,
        into: NonNull<T>,
        locked: Locked<'_, T, Waiter>,
        payer: Option<&Frame>,
        deadline: Deadline,
    ) -> Result<(), Reason> {
        // SAFETY: as the caller says. The waiter and the address: as in `send_to_others`.
        match unsafe { self.shared.core.recv_locked(into, locked, || Waiter::lent()) } {
            Begun::Now(took) => received(took, payer),
            Begun::Wait(ticket) => self.wait_to_recv(ticket, deadline, payer),
        }
    }

    #[cold]
    fn wait_to_recv(
        &self,
        ticket: Ticket,
        deadline: Deadline,
        payer: Option<&Frame>,
    ) -> Result<(), Reason> {
        let core = &self.shared.core;
        let why = Why::Channel("receive", &*self.shared);
        let (poll, withdraw) = (|t| core.poll_recv(t), |t| core.withdraw_recv(t));
        wait_for(ticket, deadline, why, poll, withdraw, || core.closed())?;
        settle(payer, None);
        Ok(())
    }

    /// Receives a value if there is one, or a sender waits with one.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), or it would have had to wait.
    #[inline]
    pub fn try_recv(&self) -> Result<T, RecvError> {
        let payer =
            self.shared.prepare().map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        self.try_recv_for(payer)
    }

    /// The same after step 1, for whoever pays.
    #[inline]
    pub(super) fn try_recv_for(&self, payer: Option<&Frame>) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: memory for a value.
        match unsafe { self.try_recv_to(NonNull::from(&mut value).cast(), payer) } {
            // SAFETY: the value was put there, and is moved away once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// The same, to an address; there is a value if it is a success.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[inline]
    unsafe fn try_recv_to(&self, into: NonNull<T>, payer: Option<&Frame>) -> Result<(), Reason> {
        // SAFETY: as the caller says.
        unsafe { received(self.shared.core.try_recv(into), payer) }
    }

    /// Receives up to `max` values to the end of `into`; waits for the first and takes of the others what is there. Returns how many
    /// these are, at least one unless `max` is 0, which does nothing.
    ///
    /// Each value is charged, and is a cancel point of its own. If the task is cancelled or out of budget behind the
    /// first, what it has received so far is a success, and the next operation is told.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv): nothing was received.
    ///
    /// ```
    /// let (tx, rx) = parcae::channel::channel(8);
    /// tx.send_all(1..=5)?;
    /// let mut batch = Vec::new();
    /// assert_eq!(rx.recv_many(&mut batch, 3)?, 3);
    /// assert_eq!(rx.recv_many(&mut batch, 3)?, 2); // does not wait for a third
    /// assert_eq!(batch, [1, 2, 3, 4, 5]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn recv_many(&self, into: &mut Vec<T>, max: usize) -> Result<usize, RecvError> {
        for received in 0..max {
            into.reserve(1); // first: it may fail, and then nothing has happened
            let spare = NonNull::from(&mut into.spare_capacity_mut()[0]).cast();
            let wait = if received == 0 { Patience::Endless } else { Patience::None };
            // SAFETY: memory for a value, in a vector that is not touched until this has returned.
            let outcome = unsafe { self.next_to(spare, wait) };
            match outcome {
                // SAFETY: the value was put behind the last.
                Ok(()) => unsafe { into.set_len(into.len() + 1) },
                Err(reason) if received == 0 => return Err(RecvError::new(reason)),
                Err(_) => {
                    cx::current().inspect(|frame| frame.untell());
                    return Ok(received);
                }
            }
        }
        Ok(max)
    }

    /// Closes the channel, for all its handles: nothing more can be sent. What is in it can still be
    /// received. Later calls do nothing.
    pub fn close(&self) {
        self.shared.close(None);
    }

    /// As [`Sender::close_with`].
    pub fn close_with(&self, error: impl Into<Error>) {
        self.shared.close(Some(error.into()));
    }

    /// How many values were dropped to make room; see [`Overflow::DropOld`].
    pub fn dropped(&self) -> u64 {
        self.shared.core.dropped()
    }

    /// A handle that does not keep the channel open.
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver { shared: Arc::downgrade(&self.shared) }
    }
}

/// Whether a receive waits for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Endless,
    None,
}

/// What came of a receive that did not wait.
#[inline(always)]
fn received(took: Took<Waiter>, payer: Option<&Frame>) -> Result<(), Reason> {
    match took {
        Took::Done(wakes) => {
            settle_all(payer, wakes);
            Ok(())
        }
        Took::Empty => Err(Reason::WouldWait),
        Took::Closed(Closed(error)) => Err(closed_or_cancelled(Reason::Closed(error))),
    }
}

// ----- handles ------------------------------------------------------------------------------

/// What both ends have.
macro_rules! handle {
    ($End:ident, $Weak:ident, $count:ident, $name:literal) => {
        impl<T> $End<T> {
            /// How many values are in the channel. Others may be faster than whoever asks.
            ///
            /// Not a checkpoint, and neither are the other functions that only ask: a loop of nothing else lets nobody run, and
            /// is not cancelled.
            pub fn len(&self) -> usize {
                self.shared.core.len()
            }

            /// Whether no value is in the channel.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether it holds as many values as it may: a send would have to wait, unless a receiver waits for
            /// it. A rendezvous channel is both empty and full.
            pub fn is_full(&self) -> bool {
                self.shared.core.is_full()
            }

            /// How many values it holds; none if it has no bounds.
            pub fn capacity(&self) -> Option<usize> {
                self.shared.core.capacity()
            }

            /// Whether nothing more can be sent.
            pub fn is_closed(&self) -> bool {
                self.shared.core.closed().is_some()
            }

            /// Whether both are handles of one channel.
            pub fn same_channel(&self, other: &$End<T>) -> bool {
                Arc::ptr_eq(&self.shared, &other.shared)
            }
        }

        impl<T> Clone for $End<T> {
            fn clone(&self) -> $End<T> {
                let counted = count_up(&self.shared.$count);
                debug_assert!(counted, "a handle that is not counted");
                $End { shared: Arc::clone(&self.shared) }
            }
        }

        impl<T> fmt::Debug for $End<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .field("closed", &self.is_closed())
                    .finish()
            }
        }

        impl<T> $Weak<T> {
            /// A full handle; none if the last one is gone.
            pub fn upgrade(&self) -> Option<$End<T>> {
                let shared = self.shared.upgrade()?;
                count_up(&shared.$count).then_some($End { shared })
            }
        }

        impl<T> Clone for $Weak<T> {
            fn clone(&self) -> $Weak<T> {
                $Weak { shared: Weak::clone(&self.shared) }
            }
        }

        impl<T> fmt::Debug for $Weak<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!("Weak", $name))
            }
        }
    };
}

handle!(Sender, WeakSender, senders, "Sender");
handle!(Receiver, WeakReceiver, receivers, "Receiver");

/// A [`Sender`] that does not keep its channel open.
///
/// ```
/// let (tx, rx) = parcae::channel::channel::<u8>(1);
/// let weak = tx.downgrade();
/// weak.upgrade().unwrap().send(7)?;
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(rx.recv()?, 7);
/// assert!(rx.recv().unwrap_err().is_closed());
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct WeakSender<T> {
    shared: Weak<Shared<T>>,
}

/// A [`Receiver`] that does not keep its channel open.
pub struct WeakReceiver<T> {
    shared: Weak<Shared<T>>,
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if count_down(&self.shared.senders) {
            self.shared.close(None);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if count_down(&self.shared.receivers) {
            self.shared.close(None);
            drop(self.shared.core.drain());
        }
    }
}
