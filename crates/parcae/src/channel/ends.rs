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
//! # Handles
//!
//! Both ends are counted beside the channel itself. Whoever brings a count to 0 closes the channel; a count that
//! is 0 stays 0, also for weak handles, so that happens once.

use super::error::{Reason, RecvError, SendError};
use super::places::{Outcome, Ticket};
use super::state::{Begun, Closed, Core, Put, Took, Wake};
use super::{ChannelPermit, Overflow};
use crate::cx::{self, Frame};
use crate::error::{Error, Result};
use crate::sched;
use crate::wait::{self, Channelled, Deadline, Ended, Told, Waiter, Why};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    if let Some(frame) = payer {
        frame.charge_channel_op();
    }
    if let Some(waiter) = wake {
        waiter.wake();
    }
}

/// Whether somebody who has to wait may: not a task that unwinds, for which nobody could be run.
#[inline]
pub(crate) fn may_wait() -> Result<()> {
    if std::thread::panicking() && cx::current().is_some() {
        return Err(Error::msg("a task cannot wait for a channel while it panics; use `try_send`"));
    }
    Ok(())
}

/// Step 3: waits until `poll` says what became of the place. Why it was given up, if it was.
fn wait_for<T>(
    ticket: Ticket,
    deadline: Deadline,
    why: Why<'_>,
    poll: impl Fn(Ticket) -> Result<Outcome<T>, Ticket>,
    withdraw: impl Fn(Ticket) -> Outcome<T>,
) -> (Outcome<T>, Reason) {
    let mut ticket = ticket;
    loop {
        match may_wait().and_then(|()| wait::wait(deadline, why)) {
            Ok(Ended::Woken) => match poll(ticket) {
                Ok(outcome) => return (outcome, Reason::WouldWait),
                Err(again) => ticket = again,
            },
            Ok(Ended::TimedOut) => return (withdraw(ticket), Reason::TimedOut),
            Err(error) => return (withdraw(ticket), Reason::Interrupted(error)),
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
        self.send_until(value, || Deadline::Never)
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
        self.send_until(value, || Deadline::after(time))
    }

    #[inline]
    fn send_until(
        &self,
        value: T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), SendError<T>> {
        let payer = match self.shared.prepare() {
            Ok(payer) => payer,
            Err(error) => return Err(SendError::new(value, Reason::Interrupted(error))),
        };
        // SAFETY: the place is given up before this returns, under the channel's lock.
        match self.shared.core.send(value, || unsafe { Waiter::lent() }) {
            Begun::Now(put) => sent(put, payer),
            Begun::Wait(ticket) => self.wait_to_send(ticket, deadline(), payer),
        }
    }

    #[cold]
    fn wait_to_send(
        &self,
        ticket: Ticket,
        deadline: Deadline,
        payer: Option<&Frame>,
    ) -> Result<(), SendError<T>> {
        let core = &self.shared.core;
        let poll = |ticket| core.poll_send(ticket);
        let why = Why::Channel("send", &*self.shared);
        match wait_for(ticket, deadline, why, poll, |ticket| core.withdraw_send(ticket)) {
            (Outcome::Closed(Some(value)), _) => Err(SendError::new(value, closed(core))),
            (Outcome::Withdrawn(Some(value)), reason) => Err(SendError::new(value, reason)),
            // Taken by a receiver.
            _ => {
                settle(payer, None);
                Ok(())
            }
        }
    }

    /// Sends a value if that is possible at once: there is room, or a receiver waits for it.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), or it would have had to wait.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        match self.shared.prepare() {
            Ok(payer) => sent(self.shared.core.try_send(value), payer),
            Err(error) => Err(SendError::new(value, Reason::Interrupted(error))),
        }
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

/// The outcome of a send that did not wait.
#[inline(always)]
pub(crate) fn sent<T>(put: Put<T, Waiter>, payer: Option<&Frame>) -> Result<(), SendError<T>> {
    match put {
        Put::Done(wake, dropped) => {
            settle(payer, wake);
            drop(dropped);
            Ok(())
        }
        Put::Refused(value) | Put::Full(value) => Err(SendError::new(value, Reason::WouldWait)),
        Put::Closed(value, Closed(error)) => Err(SendError::new(value, Reason::Closed(error))),
    }
}

pub(crate) fn closed<T>(core: &Core<T, Waiter>) -> Reason {
    Reason::Closed(core.closed().and_then(|Closed(error)| error))
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

    #[inline]
    fn recv_until(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvError> {
        let payer =
            self.shared.prepare().map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        self.recv_for(payer, deadline)
    }

    /// Steps 2 to 4, for whoever pays.
    #[inline]
    pub(super) fn recv_for(
        &self,
        payer: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<T, RecvError> {
        // SAFETY: as in `send_until`.
        match self.shared.core.recv(|| unsafe { Waiter::lent() }) {
            Begun::Now(took) => received(took, payer),
            Begun::Wait(ticket) => self.wait_to_recv(ticket, deadline(), payer),
        }
    }

    #[cold]
    fn wait_to_recv(
        &self,
        ticket: Ticket,
        deadline: Deadline,
        payer: Option<&Frame>,
    ) -> Result<T, RecvError> {
        let core = &self.shared.core;
        let poll = |ticket| core.poll_recv(ticket);
        let why = Why::Channel("receive", &*self.shared);
        match wait_for(ticket, deadline, why, poll, |ticket| core.withdraw_recv(ticket)) {
            (Outcome::Done(Some(value)), _) => {
                settle(payer, None);
                Ok(value)
            }
            (Outcome::Closed(_), _) => Err(RecvError::new(closed(core))),
            (_, reason) => Err(RecvError::new(reason)),
        }
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
        received(self.shared.core.try_recv(), payer)
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

/// The outcome of a receive that did not wait.
#[inline(always)]
pub(crate) fn received<T>(took: Took<T, Waiter>, payer: Option<&Frame>) -> Result<T, RecvError> {
    match took {
        Took::Done(value, wake) => {
            settle(payer, wake);
            Ok(value)
        }
        Took::Empty => Err(RecvError::new(Reason::WouldWait)),
        Took::Closed(Closed(error)) => Err(RecvError::new(Reason::Closed(error))),
    }
}

// ----- handles ------------------------------------------------------------------------------

/// What both ends have.
macro_rules! handle {
    ($End:ident, $Weak:ident, $count:ident, $name:literal) => {
        impl<T> $End<T> {
            /// How many values are in the channel. Others may be faster than whoever asks.
            pub fn len(&self) -> usize {
                self.shared.core.len()
            }

            /// Whether no value is in the channel.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
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
            drop_all(self.shared.core.drain());
        }
    }
}
