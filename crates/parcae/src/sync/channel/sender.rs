//! The sending end of a channel. `operation` has the steps.
//!
//! Values travel by address (`value_box`). A sender keeps its value in an `Option` on its stack,
//! which is set to `None` once the value is sent. While the sender waits, that memory belongs to
//! the channel.

use super::error::{Reason, SendError};
use super::handles::{ChannelShared, WeakSender};
use super::operation::{charge, charge_and_wake, closed_or_cancelled, wait_queued};
use super::state::{Closed, Locked, Put, Side};
use super::value_box::mark_empty;
use crate::base::error::{Error, Result};
use crate::sched::lab::OpKind;
use crate::sched::worker::tag_here;
use crate::scope::cx::parking::Deadline;
use crate::scope::cx::{Frame, Here};
use crate::wait::{Waiter, WhyLink};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The sending end of a channel. Clones send into the same channel.
pub struct Sender<T> {
    pub(super) shared: Arc<ChannelShared<T>>,
}

impl<T> Sender<T> {
    pub(crate) fn shared(&self) -> &ChannelShared<T> {
        &self.shared
    }

    /// Sends a value. Waits for room, or on a rendezvous channel for a receiver.
    ///
    /// # Errors
    ///
    /// If the channel is closed, the task is cancelled, or its budget is exhausted. The value is in
    /// the error.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::Never);
        not_sent(&mut value, sent)
    }

    /// Like [`send`](Sender::send), with a timeout. Under the deterministic executor time is
    /// virtual.
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
    #[track_caller]
    pub fn send_timeout(&self, value: T, time: Duration) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::after(time));
        not_sent(&mut value, sent)
    }

    /// Like [`send`](Sender::send), with a deadline on the clock of
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
    #[track_caller]
    pub fn send_deadline(&self, value: T, at: Instant) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value, || Deadline::at(at));
        not_sent(&mut value, sent)
    }

    /// Sends the value of an `Option`, which is `None` after a success.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(super) fn send_from(
        &self,
        value: &mut Option<T>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        let here = Here::new();
        let core = &self.shared.core;
        // SAFETY: an initialised value, which is marked as moved once it is. The worker is used
        // before anything that may switch.
        unsafe {
            if let Some((worker, frame)) = here.place()
                && frame.begins_free_channel_op()
            {
                let mut locked = match core.push(address, worker.tag()) {
                    Ok(()) => {
                        mark_empty(value);
                        return Ok(());
                    }
                    Err(locked) => locked,
                };
                if let Some(task) = locked.hand_to_receiver(address, worker) {
                    drop(locked);
                    mark_empty(value);
                    worker.unpark(task);
                    return Ok(());
                }
                return self.send_contended(value, address, locked, Some(frame), deadline);
            }
            self.send_counted(value, address, deadline)
        }
    }

    /// As [`send_from`](Sender::send_from), where step 1 has more to do: on a thread, in the lab,
    /// at the end of a turn, if operations are counted.
    ///
    /// # Safety
    ///
    /// The address is that of the value.
    #[inline(never)]
    #[track_caller]
    unsafe fn send_counted(
        &self,
        value: &mut Option<T>,
        address: NonNull<T>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let here = Here::new();
        let payer = self.shared.prepare(OpKind::ChannelSend, &here).map_err(Reason::Interrupted)?;
        // SAFETY: an initialised value, which is marked as moved once it is.
        unsafe {
            match self.shared.core.push(address, tag_here()) {
                Ok(()) => {
                    mark_empty(value);
                    charge(payer);
                    Ok(())
                }
                Err(locked) => self.send_contended(value, address, locked, payer, deadline),
            }
        }
    }

    /// Slow path of a send: the channel is full, or a receiver waits that is woken otherwise.
    ///
    /// # Safety
    ///
    /// The address is that of the value, and the lock is this channel's.
    #[inline(never)]
    unsafe fn send_contended(
        &self,
        value: &mut Option<T>,
        address: NonNull<T>,
        mut locked: Locked<'_, T, Waiter>,
        payer: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let core = &self.shared.core;
        // SAFETY: an initialised value that is not touched until the outcome is known. While its
        // node is queued it belongs to the channel.
        unsafe {
            match core.send_locked(address, &mut locked) {
                Put::Full => {
                    let why = WhyLink::send(&*self.shared);
                    wait_queued(core, locked, Side::Senders, address, payer, deadline(), why)?;
                    mark_empty(value); // moved away by a receiver
                    charge(payer);
                    Ok(())
                }
                put => {
                    drop(locked);
                    sent(put, payer, value)
                }
            }
        }
    }

    /// Sends the only value of a channel, which has room for it, after step 1; charges the task.
    pub(super) fn send_last(
        &self,
        payer: Option<&Frame>,
        value: &mut Option<T>,
    ) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        // SAFETY: an initialised value that is not touched until the outcome is known.
        unsafe { sent(self.shared.core.try_send(address), payer, value) }
    }

    /// Sends a value if that is possible at once: there is room, or a receiver waits.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), or the call would have to wait.
    #[inline]
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.try_send_from(&mut value);
        not_sent(&mut value, sent)
    }

    /// Like [`send_from`](Sender::send_from), without waiting.
    #[inline]
    #[track_caller]
    fn try_send_from(&self, value: &mut Option<T>) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        let here = Here::new();
        let payer = match here.frame() {
            Some(frame) if frame.begins_free_channel_op() => None,
            _ => self.shared.prepare(OpKind::ChannelSend, &here).map_err(Reason::Interrupted)?,
        };
        // SAFETY: an initialised value that is not touched until the outcome is known.
        unsafe { sent(self.shared.core.try_send(address), payer, value) }
    }

    /// Sends all values of an iterator, each like [`send`](Sender::send). Returns their number.
    ///
    /// A value is taken from the iterator when the one before it was sent. So after a failure all
    /// values before the one in the error were sent, and the later ones are still in the iterator:
    /// pass it by reference to keep them. Each value is charged, and is a cancel point of its own.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), for the first value that was not sent.
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
    #[track_caller]
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

    /// Closes the channel for all its handles. The remaining values can still be received. Later
    /// calls have no effect.
    #[track_caller]
    pub fn close(&self) {
        self.shared.close(None);
    }

    /// Closes the channel with an error: senders get it at once, receivers when no value is left.
    /// Has no effect on a closed channel.
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
    #[track_caller]
    pub fn close_with(&self, error: impl Into<Error>) {
        self.shared.close(Some(error.into()));
    }

    /// A handle that does not keep the channel open.
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { shared: Arc::downgrade(&self.shared) }
    }
}

/// The result of a send that did not wait, for a value in an `Option`.
#[inline(always)]
fn sent<T>(put: Put<Waiter>, payer: Option<&Frame>, value: &mut Option<T>) -> Result<(), Reason> {
    match put {
        Put::Done(wakes) => {
            // SAFETY: the value was moved into the channel.
            unsafe { mark_empty(value) };
            charge_and_wake(payer, wakes);
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
            charge(payer);
            *value = None; // the value that made room
            Ok(())
        }
        Put::Refused | Put::Full => Err(Reason::WouldWait),
        Put::Closed(Closed(error)) => Err(closed_or_cancelled(Reason::Closed(error))),
    }
}

/// The result of a send for the caller, with the value if it was not sent.
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
    // SAFETY: an initialised value, which is marked as moved.
    unsafe {
        let error = SendError::from_address(address, reason);
        mark_empty(value);
        error
    }
}
