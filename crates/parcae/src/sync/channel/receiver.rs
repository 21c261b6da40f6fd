//! The receiving end of a channel. `operation` has the steps.
//!
//! Values travel by address (`value_box`). A receiver has uninitialised memory for its value on its
//! stack. While the receiver waits, that memory belongs to the channel.

use super::error::{Reason, RecvError};
use super::handles::{ChannelShared, WeakReceiver};
use super::operation::{charge, closed_or_cancelled, wait_queued};
use super::state::{Closed, Locked, Side, Took};
use crate::base::error::{Error, Result};
use crate::sched::lab::OpKind;
use crate::sched::worker::tag_here;
use crate::scope::cx::parking::Deadline;
use crate::scope::cx::{Frame, Here};
use crate::sync::select::RecvCase;
use crate::wait::{Waiter, WhyLink};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The receiving end of a channel. Clones receive from the same channel; each value goes to one of
/// them.
pub struct Receiver<T> {
    pub(super) shared: Arc<ChannelShared<T>>,
}

impl<T> Receiver<T> {
    pub(crate) fn shared(&self) -> &ChannelShared<T> {
        &self.shared
    }

    /// This receiver as a case of `select!`. Auto-dereferencing finds it through any number of
    /// references.
    #[doc(hidden)]
    pub fn __select(&self) -> RecvCase<'_, T> {
        RecvCase::new(self)
    }

    /// Receives a value. Waits for one.
    ///
    /// # Errors
    ///
    /// If the channel is closed and empty, the task is cancelled, or its budget is exhausted.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::Never)
    }

    /// Like [`recv`](Receiver::recv), with a timeout. Under the deterministic executor time is
    /// virtual.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), or the time is up.
    #[track_caller]
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::after(time))
    }

    /// Like [`recv`](Receiver::recv), with a deadline on the clock of
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
    /// let at = time::now() + Duration::from_millis(1); // one deadline for both
    /// assert_eq!(rx.recv_deadline(at)?, 1);
    /// assert!(rx.recv_deadline(at).unwrap_err().is_timeout());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[track_caller]
    pub fn recv_deadline(&self, at: Instant) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::at(at))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    fn recv_until(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        let into = NonNull::from(&mut value).cast();
        // SAFETY: uninitialised memory for a value, which outlives the call.
        let received = unsafe {
            let here = Here::new();
            match here.place() {
                Some((worker, frame)) if frame.begins_free_channel_op() => {
                    self.recv_to(into, worker.tag(), Some(frame), deadline)
                }
                _ => self.recv_counted(into, deadline),
            }
        };
        match received {
            // SAFETY: initialised by the call, and moved out once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// A receive to an address where step 1 has more to do: on a thread, in the lab, at the end of
    /// a turn, if operations are counted. Charges the task.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[inline(never)]
    #[track_caller]
    unsafe fn recv_counted(
        &self,
        into: NonNull<T>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let here = Here::new();
        let payer =
            self.shared.prepare(OpKind::ChannelReceive, &here).map_err(Reason::Interrupted)?;
        // SAFETY: the caller upholds the contract.
        unsafe { self.recv_to(into, tag_here(), payer, deadline)? };
        charge(payer);
        Ok(())
    }

    /// Receives to an address, with or without waiting. The address is initialised on success.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(super) unsafe fn next_to(&self, into: NonNull<T>, wait: Patience) -> Result<(), Reason> {
        let here = Here::new();
        // SAFETY: the caller upholds the contract.
        unsafe {
            match (here.place(), wait) {
                (Some((worker, frame)), Patience::Endless) if frame.begins_free_channel_op() => {
                    self.recv_to(into, worker.tag(), Some(frame), || Deadline::Never)
                }
                (_, Patience::Endless) => self.recv_counted(into, || Deadline::Never),
                (_, Patience::None) => self.try_recv_counted(into),
            }
        }
    }

    /// Receives to an address without waiting. Charges the task.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[track_caller]
    unsafe fn try_recv_counted(&self, into: NonNull<T>) -> Result<(), Reason> {
        let here = Here::new();
        let payer =
            self.shared.prepare(OpKind::ChannelReceive, &here).map_err(Reason::Interrupted)?;
        // SAFETY: the caller upholds the contract.
        unsafe { self.try_recv_to(into)? };
        charge(payer);
        Ok(())
    }

    /// Steps 2 and 3. The caller, whose frame this is, charges the task.
    #[inline]
    pub(super) fn recv_uncharged(
        &self,
        frame: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: uninitialised memory for a value, which outlives the call.
        match unsafe { self.recv_to(NonNull::from(&mut value).cast(), tag_here(), frame, deadline) }
        {
            // SAFETY: initialised by the call, and moved out once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// Receives to an address, which is initialised on success. `tag` is that of the caller's
    /// worker.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller until this returns.
    #[inline]
    pub(super) unsafe fn recv_to(
        &self,
        into: NonNull<T>,
        tag: u32,
        frame: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match self.shared.core.pop(into, tag) {
                Ok(()) => Ok(()),
                Err(locked) if locked.must_wait_to_recv() => {
                    self.recv_waiting(into, locked, frame, deadline)
                }
                Err(locked) => self.recv_contended(into, locked, frame, deadline),
            }
        }
    }

    /// A receive that has to wait: the channel is empty and open.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to); the lock is this channel's.
    #[inline(always)]
    unsafe fn recv_waiting(
        &self,
        into: NonNull<T>,
        locked: Locked<'_, T, Waiter>,
        frame: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let why = WhyLink::receive(&*self.shared);
        let core = &self.shared.core;
        // SAFETY: the caller upholds the contract. While the node is queued, the memory belongs to
        // the channel.
        unsafe { wait_queued(core, locked, Side::Receivers, into, frame, deadline(), why) }
    }

    /// Slow path of a receive: a sender waits, or the channel is closed.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to); the lock is this channel's.
    #[inline(never)]
    unsafe fn recv_contended(
        &self,
        into: NonNull<T>,
        mut locked: Locked<'_, T, Waiter>,
        frame: Option<&Frame>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        // SAFETY: the caller upholds the contract.
        match unsafe { self.shared.core.recv_locked(into, &mut locked) } {
            // Only decided selects and watchers wait at the other end.
            // SAFETY: as above.
            Took::Empty => unsafe { self.recv_waiting(into, locked, frame, deadline) },
            took => {
                drop(locked);
                received(took)
            }
        }
    }

    /// Receives a value if that is possible at once: there is one, or a sender waits.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), or the call would have to wait.
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, RecvError> {
        let here = Here::new();
        if here.frame().is_some_and(Frame::begins_free_channel_op) {
            return self.try_recv_uncharged();
        }
        let payer = self
            .shared
            .prepare(OpKind::ChannelReceive, &here)
            .map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        let received = self.try_recv_uncharged();
        if received.is_ok() {
            charge(payer);
        }
        received
    }

    /// Step 2. The caller charges the task.
    #[inline]
    pub(super) fn try_recv_uncharged(&self) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: uninitialised memory for a value.
        match unsafe { self.try_recv_to(NonNull::from(&mut value).cast()) } {
            // SAFETY: initialised by the call, and moved out once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// Like [`recv_to`](Receiver::recv_to), without waiting.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](Receiver::recv_to).
    #[inline]
    unsafe fn try_recv_to(&self, into: NonNull<T>) -> Result<(), Reason> {
        // SAFETY: the caller upholds the contract.
        unsafe { received(self.shared.core.try_recv(into)) }
    }

    /// Appends up to `max` values to `into`. Waits for the first, then takes those that can be
    /// received at once. Returns their number, which is at least one unless `max` is 0.
    ///
    /// Each value is charged, and is a cancel point of its own. If the task is cancelled or out of
    /// budget after the first value, the call succeeds with the values received so far, and the
    /// next operation fails.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv). No value was received.
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
    #[track_caller]
    pub fn recv_many(&self, into: &mut Vec<T>, max: usize) -> Result<usize, RecvError> {
        for received in 0..max {
            into.reserve(1); // first, because it may panic
            let spare = NonNull::from(&mut into.spare_capacity_mut()[0]).cast();
            let wait = if received == 0 { Patience::Endless } else { Patience::None };
            // SAFETY: uninitialised memory for a value, in a vector that is not touched until this
            // returns.
            let outcome = unsafe { self.next_to(spare, wait) };
            match outcome {
                // SAFETY: the element after the last was initialised.
                Ok(()) => unsafe { into.set_len(into.len() + 1) },
                Err(reason) if received == 0 => return Err(RecvError::new(reason)),
                Err(_) => {
                    Here::new().frame().inspect(|frame| frame.untell());
                    return Ok(received);
                }
            }
        }
        Ok(max)
    }

    /// Closes the channel for all its handles: sends fail from now on. The remaining values can
    /// still be received. Later calls have no effect.
    #[track_caller]
    pub fn close(&self) {
        self.shared.close(None);
    }

    /// Like [`Sender::close_with`](super::Sender::close_with).
    #[track_caller]
    pub fn close_with(&self, error: impl Into<Error>) {
        self.shared.close(Some(error.into()));
    }

    /// Number of values dropped to make room; see [`Overflow::DropOld`](super::Overflow::DropOld).
    pub fn dropped(&self) -> u64 {
        self.shared.core.dropped()
    }

    /// A handle that does not keep the channel open.
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver { shared: Arc::downgrade(&self.shared) }
    }
}

/// Whether a receive may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Endless,
    None,
}

/// The result of a receive that did not wait.
#[inline(always)]
fn received(took: Took<Waiter>) -> Result<(), Reason> {
    match took {
        Took::Done(wakes) => {
            wakes.wake();
            Ok(())
        }
        Took::Empty => Err(Reason::WouldWait),
        Took::Closed(Closed(error)) => Err(closed_or_cancelled(Reason::Closed(error))),
    }
}
