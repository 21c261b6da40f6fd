//! Signals: one waiter at a time, or a flag for all.
//!
//! [`RawNotify`] keeps at most one signal: a signal that finds no waiter is kept for the next one.
//! If the receiver of a signal gives up, the signal passes to the next waiter from the same end of
//! the queue, or is kept. A signal for all waiters need not be passed on.

use super::constructor;
use super::primitive::{Primitive, grant_all_before, wait_deadline, wait_forever, wait_timeout};
use crate::base::error::Result;
use crate::base::lock::{Guard, Lock};
use crate::sched::lab::OpKind;
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cap::LentContext;
use crate::wait::{Grant, Queue, Removed, WaitStanding, Waiter, Wake, Why};
use std::fmt;
use std::time::{Duration, Instant};

pub(super) struct RawNotify<W> {
    state: Lock<NotifyState<W>>,
}

pub(super) struct NotifyState<W> {
    /// State for waiters to come: a kept signal, or the flag of an event.
    signal: Signal,
    waiters: Queue<W>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    None,
    /// For the next waiter.
    One,
    /// For all waiters, until the event is reset.
    All,
}

impl<W> RawNotify<W> {
    constructor! {
        pub(super) fn new() -> RawNotify<W> {
            let state = NotifyState { signal: Signal::None, waiters: Queue::new() };
            RawNotify { state: Lock::new(state) }
        }
    }
}

impl<W> NotifyState<W> {
    /// Takes a kept signal, or sees that the flag is set.
    fn take(&mut self) -> bool {
        match self.signal {
            Signal::None => false,
            Signal::One => {
                self.signal = Signal::None;
                true
            }
            Signal::All => true,
        }
    }
}

impl<W: Wake> RawNotify<W> {
    pub(super) fn notify_one(&self) {
        self.notify(|waiters| waiters.grant(Grant::Own));
    }

    pub(super) fn notify_last(&self) {
        self.notify(|waiters| waiters.grant_last(Grant::OwnLast));
    }

    fn notify(&self, grant: impl FnOnce(&mut Queue<W>) -> Option<W>) {
        if let Some(waiter) = self.take(grant) {
            waiter.wake();
        }
    }

    /// Takes the first waiter out, to be woken; without one the signal is kept.
    fn take_one(&self) -> Option<W> {
        self.take(|waiters| waiters.grant(Grant::Own))
    }

    #[inline]
    fn take(&self, grant: impl FnOnce(&mut Queue<W>) -> Option<W>) -> Option<W> {
        let mut state = self.state.lock();
        let waiter = grant(&mut state.waiters);
        if waiter.is_none() {
            state.signal = Signal::One;
        }
        waiter
    }

    pub(super) fn notify_all(&self) {
        let arrivals = self.state.lock().waiters.arrivals();
        grant_all_before(self, arrivals, Grant::All);
    }

    pub(super) fn set(&self) {
        let mut state = self.state.lock();
        state.signal = Signal::All; // from now on no waiter joins the queue
        if !state.waiters.has_many() {
            let waiter = state.waiters.grant(Grant::All);
            drop(state);
            if let Some(waiter) = waiter {
                waiter.wake();
            }
            return;
        }
        let arrivals = state.waiters.arrivals();
        drop(state);
        grant_all_before(self, arrivals, Grant::All);
    }

    fn take_signal(&self) -> bool {
        self.state.lock().take()
    }
}

impl<W> Drop for RawNotify<W> {
    #[inline]
    fn drop(&mut self) {
        forget_address(self);
    }
}

impl<W: Wake> Primitive<W> for RawNotify<W> {
    type State = NotifyState<W>;
    type Key = ();

    fn lock(&self) -> Guard<'_, NotifyState<W>> {
        self.state.lock()
    }

    fn queue(state: &mut NotifyState<W>) -> &mut Queue<W> {
        &mut state.waiters
    }

    fn attempt<'p>(
        &'p self,
        mut state: Guard<'p, NotifyState<W>>,
        (): (),
    ) -> Result<Grant, Guard<'p, NotifyState<W>>> {
        if state.take() { Ok(Grant::Own) } else { Err(state) }
    }

    fn gave_up<'p>(
        &'p self,
        state: Guard<'p, NotifyState<W>>,
        (): (),
        removed: &Removed<W>,
    ) -> Option<Grant> {
        drop(state);
        match removed.standing {
            WaitStanding::Granted(Grant::Own) => self.notify_one(),
            WaitStanding::Granted(Grant::OwnLast) => self.notify_last(),
            _ => {}
        }
        None
    }
}

/// A signal for one waiter at a time.
///
/// A signal without a waiter is kept, at most one. So a task that checks its condition and then
/// waits cannot miss a signal in between.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::{Mutex, Notify};
///
/// let (mail, arrived) = (Mutex::new(None), Notify::new());
/// let rt = Runtime::builder().build()?;
/// let letter = rt.run(|cx| {
///     cx.nursery(|n| {
///         let reader = n.spawn(|_| {
///             loop {
///                 if let Some(letter) = mail.lock()?.take() {
///                     return Ok(letter);
///                 }
///                 arrived.wait()?;
///             }
///         })?;
///         *mail.lock()? = Some("a letter");
///         arrived.notify_one();
///         reader.join()
///     })
/// })?;
/// assert_eq!(letter, "a letter");
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Notify {
    raw: RawNotify<Waiter>,
}

impl Notify {
    constructor! {
        /// A `Notify` without a kept signal.
        pub fn new() -> Notify {
            Notify { raw: RawNotify::new() }
        }
    }

    /// Wakes the first waiter. Without a waiter the signal is kept, and the next wait returns at
    /// once. Not a checkpoint: a loop of such calls needs one of its own.
    #[track_caller]
    pub fn notify_one(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.notify_one();
    }

    /// Like [`notify_one`](Notify::notify_one), and lends the waiter a scheduling context, if it is
    /// a task that waits on the worker of the caller: see
    /// [`ContextOffer`](crate::policy::ContextOffer).
    #[track_caller]
    pub fn notify_one_lending(&self, loan: &LentContext) {
        point_at(OpKind::Notify, &self.raw);
        let waiter = self.raw.take_one();
        if let Some(waiter) = waiter {
            waiter.wake_lending(loan.loan());
        }
    }

    /// Like [`notify_one`](Notify::notify_one), but wakes the last waiter, whose data is the most
    /// likely to be cached. Earlier waiters may starve.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::sync::Notify;
    ///
    /// let idle = Notify::new();
    /// let rt = Runtime::builder().deterministic(1).workers(1).build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let first = n.spawn(|_| idle.wait())?;
    ///         cx.sleep(std::time::Duration::from_secs(1))?;
    ///         let last = n.spawn(|_| idle.wait())?;
    ///         cx.sleep(std::time::Duration::from_secs(1))?;
    ///         idle.notify_last();
    ///         last.join()?;
    ///         assert!(!first.is_finished());
    ///         idle.notify_one();
    ///         first.join()
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[track_caller]
    pub fn notify_last(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.notify_last();
    }

    /// Wakes all present waiters. Keeps no signal. Not a checkpoint: a loop of such calls needs one
    /// of its own.
    #[track_caller]
    pub fn notify_all(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.notify_all();
    }

    /// Waits for a signal. A cancel point if none is kept. A signal that arrives together with a
    /// cancellation passes to the next waiter.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_forever(&self.raw, (), Why::signal("notify", self))
    }

    /// Like [`wait`](Notify::wait), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires, the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_timeout(&self.raw, (), Why::signal("notify", self), time)
    }

    /// Like [`wait`](Notify::wait), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`wait`](Notify::wait).
    #[track_caller]
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_deadline(&self.raw, (), Why::signal("notify", self), at)
    }

    /// Takes a kept signal, if there is one. Not a checkpoint: a polling loop needs one of its own.
    #[track_caller]
    pub fn try_wait(&self) -> bool {
        point_at(OpKind::Wait, &self.raw);
        self.raw.take_signal()
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}

/// A flag to wait for.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::Event;
///
/// let ready = Event::new();
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         for _ in 0..3 {
///             n.spawn(|_| ready.wait())?;
///         }
///         ready.set(); // wakes all waiters; later callers do not wait
///         Ok(())
///     })
/// })?;
/// assert!(ready.is_set());
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Event {
    raw: RawNotify<Waiter>,
}

impl Event {
    constructor! {
        /// An event that is not set.
        pub fn new() -> Event {
            Event { raw: RawNotify::new() }
        }
    }

    /// Sets the flag and wakes all waiters. Not a checkpoint: a loop of such calls needs one of its
    /// own.
    #[track_caller]
    pub fn set(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.set();
    }

    /// Clears the flag: later callers wait again. Waiters that were woken by [`set`](Event::set)
    /// return nevertheless. Not a checkpoint: a loop of such calls needs one of its own.
    #[track_caller]
    pub fn reset(&self) {
        point_at(OpKind::Notify, &self.raw);
        self.raw.state.lock().signal = Signal::None;
    }

    /// Whether the flag is set at this moment. Not a checkpoint: a polling loop needs one of its
    /// own. Prefer [`wait`](Event::wait) to polling.
    #[track_caller]
    pub fn is_set(&self) -> bool {
        point_at(OpKind::Load, &self.raw);
        self.raw.take_signal()
    }

    /// Waits until the flag is set. A cancel point if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_forever(&self.raw, (), Why::signal("event", self))
    }

    /// Like [`wait`](Event::wait), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires, the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_timeout(&self.raw, (), Why::signal("event", self), time)
    }

    /// Like [`wait`](Event::wait), with a deadline on the clock of [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`wait`](Event::wait).
    #[track_caller]
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
        point_at(OpKind::Wait, &self.raw);
        wait_deadline(&self.raw, (), Why::signal("event", self), at)
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish()
    }
}
