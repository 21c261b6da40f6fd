//! Signals: one waiter at a time, or a flag for all.
//!
//! [`RawNotify`] keeps one signal at most: a signal that finds no waiter is kept for the next one.
//! A signal for one waiter that gives up is passed on to the next, from the end of the queue that
//! it was meant for, or is kept. A signal for all need not be passed on.

use super::constructor;
use super::primitive::{Primitive, grant_all_before, wait_deadline, wait_forever, wait_timeout};
use crate::base::error::Result;
use crate::base::lock::{Guard, Lock};
use crate::wait::{Grant, Queue, Removed, Standing, Waiter, Wake, Why};
use std::fmt;
use std::time::{Duration, Instant};

pub(super) struct RawNotify<W> {
    state: Lock<NotifyState<W>>,
}

pub(super) struct NotifyState<W> {
    /// What a waiter that comes finds: a signal that was kept, or the flag of an event.
    signal: Signal,
    waiters: Queue<W>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    None,
    /// For the next waiter.
    One,
    /// For all waiters, until it is taken back.
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
    /// Takes a signal that was kept, or sees that the flag is set.
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
        let mut state = self.state.lock();
        let waiter = grant(&mut state.waiters);
        if waiter.is_none() {
            state.signal = Signal::One;
        }
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    pub(super) fn notify_all(&self) {
        let arrivals = self.state.lock().waiters.arrivals();
        grant_all_before(self, arrivals, Grant::All);
    }

    pub(super) fn set(&self) {
        let mut state = self.state.lock();
        state.signal = Signal::All; // from now on no waiter joins the queue
        let arrivals = state.waiters.arrivals();
        drop(state);
        grant_all_before(self, arrivals, Grant::All);
    }

    fn take(&self) -> bool {
        self.state.lock().take()
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
            Standing::Granted(Grant::Own) => self.notify_one(),
            Standing::Granted(Grant::OwnLast) => self.notify_last(),
            _ => {}
        }
        None
    }
}

/// Wakes one who waits, or the next who will.
///
/// A signal that finds nobody waiting is kept, one at most; so a task that looks at what it waits
/// for, and waits if it is not there, misses nothing.
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
        /// Nothing was signalled.
        pub fn new() -> Notify {
            Notify { raw: RawNotify::new() }
        }
    }

    /// Wakes the first who waits. If nobody does, the next one does not wait. Not a checkpoint: a
    /// loop around it needs one.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// As [`notify_one`](Notify::notify_one), but wakes the last who came: its data is the
    /// likeliest to be in a cache still. Those who came before it may wait for ever if nothing else
    /// wakes them.
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
    pub fn notify_last(&self) {
        self.raw.notify_last();
    }

    /// Wakes all who wait now. Nothing is kept for later. Not a checkpoint: a loop around it needs
    /// one.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }

    /// Waits for a signal. A cancel point if there is none; a signal that comes in the moment of
    /// the cancellation goes to the next who waits.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait(&self) -> Result<()> {
        wait_forever(&self.raw, (), Why::signal("notify", self))
    }

    /// As [`wait`](Notify::wait), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited, or has no budget left for
    /// the wait.
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        wait_timeout(&self.raw, (), Why::signal("notify", self), time)
    }

    /// As [`wait`](Notify::wait), until a point in time by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`wait`](Notify::wait).
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
        wait_deadline(&self.raw, (), Why::signal("notify", self), at)
    }

    /// Takes a signal that was kept. Not a checkpoint: a loop around it needs one.
    pub fn try_wait(&self) -> bool {
        self.raw.take()
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

/// A flag that can be waited for.
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
///         ready.set(); // all go on, and whoever comes later
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
        /// Not set.
        pub fn new() -> Event {
            Event { raw: RawNotify::new() }
        }
    }

    /// Sets it, and wakes all who wait. Not a checkpoint: a loop around it needs one.
    pub fn set(&self) {
        self.raw.set();
    }

    /// Takes it back: from now on it is waited for again. Who was waiting when it was set goes on
    /// all the same. Not a checkpoint: a loop around it needs one.
    pub fn reset(&self) {
        self.raw.state.lock().signal = Signal::None;
    }

    /// Whether it is set, at this moment. Not a checkpoint: a loop around it needs one; better is
    /// [`wait`](Event::wait).
    pub fn is_set(&self) -> bool {
        self.raw.take()
    }

    /// Waits until it is set. A cancel point if it is not.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait(&self) -> Result<()> {
        wait_forever(&self.raw, (), Why::signal("event", self))
    }

    /// As [`wait`](Event::wait), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited, or has no budget left for
    /// the wait.
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        wait_timeout(&self.raw, (), Why::signal("event", self), time)
    }

    /// As [`wait`](Event::wait), until a point in time by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`wait`](Event::wait).
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
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
