//! Signals: one waiter at a time, or a flag for all.
//!
//! [`RawNotify`] keeps one permit at most: a signal that finds nobody in line is kept for the next who comes. A
//! signal for one that was granted to a waiter who gives up goes to the next in line, from the end that it was
//! meant for, or is kept; what all have got need not be passed on.

use super::line::{Grant, Line, Node, Standing, Wake, grant_all};
use super::{Waited, attend_for, attend_forever, attend_until, constructor};
use crate::base::error::Result;
use crate::base::lock::{Guard, Lock};
use crate::wait::{Waiter, Why};
use std::fmt;
use std::time::{Duration, Instant};

pub(super) struct RawNotify<W> {
    state: Lock<State<W>>,
}

struct State<W> {
    /// What a waiter finds: a signal for one that nobody has got yet, or the flag of an event.
    signal: Signal,
    line: Line<W>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    None,
    /// For the first who comes.
    One,
    /// For all who come, until it is taken back.
    All,
}

impl<W> RawNotify<W> {
    constructor! {
        pub(super) fn new() -> RawNotify<W> {
            RawNotify { state: Lock::new(State { signal: Signal::None, line: Line::new() }) }
        }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        self.state.lock()
    }
}

impl<W: Wake> RawNotify<W> {
    pub(super) fn notify_one(&self) {
        self.notify(|line| line.grant(Grant::Own));
    }

    pub(super) fn notify_last(&self) {
        self.notify(|line| line.grant_last(Grant::OwnLast));
    }

    fn notify(&self, grant: impl FnOnce(&mut Line<W>) -> Option<W>) {
        let waker = {
            let mut state = self.lock();
            let waker = grant(&mut state.line);
            if waker.is_none() {
                state.signal = Signal::One;
            }
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn notify_all(&self) {
        let until = self.lock().line.next_ticket();
        grant_all(until, |grant| grant(&mut self.lock().line));
    }

    pub(super) fn set(&self) {
        let until = {
            let mut state = self.lock();
            state.signal = Signal::All; // who comes from now on does not join the line
            state.line.next_ticket()
        };
        grant_all(until, |grant| grant(&mut self.lock().line));
    }

    fn take(&self) -> bool {
        let mut state = self.lock();
        match state.signal {
            Signal::None => false,
            Signal::One => {
                state.signal = Signal::None;
                true
            }
            Signal::All => true,
        }
    }
}

impl<W: Wake> Waited<W> for RawNotify<W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says, here and below.
        match unsafe { state.line.standing(node) } {
            Standing::Granted(_) => {
                // SAFETY: as above.
                unsafe { state.line.remove(node) };
                true
            }
            Standing::Idle => {
                let there = state.signal != Signal::None;
                if state.signal == Signal::One {
                    state.signal = Signal::None;
                }
                if !there {
                    // SAFETY: as above.
                    unsafe { state.line.push(node, waiter()) };
                }
                there
            }
            Standing::Waiting | Standing::Called { .. } => false,
        }
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        // SAFETY: as the caller says.
        let (standing, unused) = unsafe { self.lock().line.remove(node) };
        drop(unused);
        match standing {
            Standing::Granted(Grant::Own) => self.notify_one(),
            Standing::Granted(Grant::OwnLast) => self.notify_last(),
            _ => {}
        }
        false
    }
}

/// Wakes one who waits, or the next who will.
///
/// A signal that finds nobody waiting is kept, one at most; so a task that looks at what it waits for, and waits
/// if it is not there, misses nothing.
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

    /// Wakes the first who waits. If nobody does, the next one does not wait. Not a checkpoint: a loop around it needs
    /// one.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// As [`notify_one`](Notify::notify_one), but wakes the last who came: its data is the likeliest to be in a cache still.
    /// Those who came before it may wait for ever if nothing else wakes them.
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

    /// Wakes all who wait now. Nothing is kept for later. Not a checkpoint: a loop around it needs one.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }

    /// Waits for a signal. A cancel point if there is none; a signal that comes in the moment of the cancellation
    /// goes to the next who waits.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait(&self) -> Result<()> {
        attend_forever(&self.raw, 0, Why::signal("notify", self))
    }

    /// As [`wait`](Notify::wait), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        attend_for(&self.raw, 0, Why::signal("notify", self), time)
    }

    /// As [`wait`](Notify::wait), until a point in time by the clock of [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`wait`](Notify::wait).
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
        attend_until(&self.raw, 0, Why::signal("notify", self), at)
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

    /// Takes it back: from now on it is waited for again. Who was waiting when it was set goes on all the same.
    /// Not a checkpoint: a loop around it needs one.
    pub fn reset(&self) {
        self.raw.lock().signal = Signal::None;
    }

    /// Whether it is set, at this moment. Not a checkpoint: a loop around it needs one; better is [`wait`](Event::wait).
    pub fn is_set(&self) -> bool {
        self.raw.take()
    }

    /// Waits until it is set. A cancel point if it is not.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait(&self) -> Result<()> {
        attend_forever(&self.raw, 0, Why::signal("event", self))
    }

    /// As [`wait`](Event::wait), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited, or has no budget left for the wait.
    pub fn wait_timeout(&self, time: Duration) -> Result<()> {
        attend_for(&self.raw, 0, Why::signal("event", self), time)
    }

    /// As [`wait`](Event::wait), until a point in time by the clock of [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`wait`](Event::wait).
    pub fn wait_deadline(&self, at: Instant) -> Result<()> {
        attend_until(&self.raw, 0, Why::signal("event", self), at)
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
