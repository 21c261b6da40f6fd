//! Readiness: the protocol between the poller and the users of one registered descriptor.
//!
//! # The word
//!
//! ```text
//!  63                    8 7     5      4      3     2     1      0
//! ┌───────────────────────┬───┬──────┬──────┬──────┬─────┬──────┬──────┐
//! │ events so far         │ – │ PRI  │ ERROR│ HUP  │RDHUP│ WRITE│ READ │
//! └───────────────────────┴───┴──────┴──────┴──────┴─────┴──────┴──────┘
//! ```
//!
//! READ and WRITE say that an attempt in that direction may succeed. The poller sets them, and
//! counts the event in the same read-modify-write. A user clears one after an attempt has shown
//! that there is no more: by a CAS from the word as it was *before the attempt*. If an event came
//! in between, its count makes the CAS fail, and the bit stays. The other bits are never cleared:
//! a connection does not open again.
//!
//! # Waiting, and why no event is lost
//!
//! A user that finds its bit clear takes the lock, looks again, and publishes its waiter under the
//! lock. The poller takes the lock, sets the bits and takes the waiters out under it. So either the
//! user sees the bit, or the poller sees the waiter. Before the descriptor is registered there are
//! no events to miss: registering one that is ready is an event.
//!
//! A user that sees a bit attempts the operation, and the kernel must not answer it from a time
//! before the event: the poller sets the bit by a release, and the user reads it by an acquire.
//!
//! A waiter that gives up takes the lock and removes itself, or finds that the poller has taken it.
//! The thread that has taken a waiter makes it independent of its task under the lock
//! ([`Wakes::taken`]); it wakes after the lock is released.
//!
//! # Lives
//!
//! The place of a closed descriptor is used again, with another *generation*. The poller compares
//! the generation of an event under the lock, before it touches the word.
//!
//! # Home
//!
//! The home is the poller in which the descriptor is registered; `slot` says where it moves. A home
//! that ends is taken away under the lock and all waiters are woken: they look for another one.
//!
//! The protocol is generic in waiter and home, so that loom can explore it (`models`).

#[cfg(all(test, loom))]
mod models;

use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use std::io;
use std::sync::PoisonError;

/// The direction of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// The bit of the readiness word.
    pub(crate) fn bit(self) -> u64 {
        match self {
            Direction::Read => READ,
            Direction::Write => WRITE,
        }
    }

    /// The events of `poll(2)`.
    pub(crate) fn poll_events(self) -> libc::c_short {
        match self {
            Direction::Read => libc::POLLIN | libc::POLLRDHUP,
            Direction::Write => libc::POLLOUT,
        }
    }
}

pub(crate) const READ: u64 = 1;
pub(crate) const WRITE: u64 = 1 << 1;
const RDHUP: u64 = 1 << 2;
const HUP: u64 = 1 << 3;
const ERROR: u64 = 1 << 4;
const PRIORITY: u64 = 1 << 5;
/// One event, in the count.
const EVENT: u64 = 1 << 8;
/// With one of these, a short attempt says nothing about the next one: the end of the stream, an
/// error or urgent data is not announced a second time.
const SPECIAL: u64 = RDHUP | HUP | ERROR | PRIORITY;

/// The bits of the word for events of epoll.
pub(crate) fn bits_of(events: u32) -> u64 {
    let mut bits = 0;
    for (event, bit) in [
        (libc::EPOLLIN, READ),
        (libc::EPOLLOUT, WRITE),
        (libc::EPOLLRDHUP, READ | RDHUP),
        (libc::EPOLLHUP, READ | WRITE | HUP),
        (libc::EPOLLERR, READ | WRITE | ERROR),
        (libc::EPOLLPRI, READ | PRIORITY),
    ] {
        if events & event as u32 != 0 {
            bits |= bit;
        }
    }
    bits
}

/// A waiter, as the poller sees it.
pub(crate) trait Wakes: Sized {
    /// Called under the lock by the thread that has taken it out and will wake it.
    fn taken(self) -> Self;

    /// Wakes it. Called without the lock.
    fn wake(self);
}

impl Wakes for parcae::io::IoWaiter {
    fn taken(self) -> Self {
        parcae::io::IoWaiter::taken(self)
    }

    fn wake(self) {
        self.wake_behind();
    }
}

/// The readiness of one descriptor, and its waiters.
pub(crate) struct Readiness<W, H> {
    word: AtomicU64,
    state: Mutex<State<W, H>>,
}

pub(crate) struct State<W, H> {
    /// Counts the lives of the place.
    pub(crate) generation: u32,
    /// The number of the next waiter.
    tickets: u64,
    readers: Waiters<W>,
    writers: Waiters<W>,
    /// Where it is registered.
    pub(crate) home: Option<H>,
}

/// The waiters for one direction: mostly none or one.
struct Waiters<W> {
    first: Option<(u64, W)>,
    others: Vec<(u64, W)>,
}

impl<W: Wakes> Waiters<W> {
    fn push(&mut self, ticket: u64, waiter: W) {
        if self.first.is_none() {
            self.first = Some((ticket, waiter));
        } else {
            self.others.push((ticket, waiter));
        }
    }

    fn remove(&mut self, ticket: u64) -> Option<W> {
        if self.first.as_ref().is_some_and(|(own, _)| *own == ticket) {
            return self.first.take().map(|(_, waiter)| waiter);
        }
        let place = self.others.iter().position(|(own, _)| *own == ticket)?;
        Some(self.others.remove(place).1)
    }

    /// Takes all out, ready to be woken.
    fn take(&mut self) -> Woken<W> {
        Woken {
            first: self.first.take().map(|(_, waiter)| waiter.taken()),
            others: self.others.drain(..).map(|(_, waiter)| waiter.taken()).collect(),
        }
    }
}

/// Waiters that were taken out under the lock, to be woken after it is released.
struct Woken<W> {
    first: Option<W>,
    others: Vec<W>,
}

impl<W: Wakes> Woken<W> {
    fn wake(self) {
        if let Some(waiter) = self.first {
            waiter.wake();
        }
        self.others.into_iter().for_each(W::wake);
    }
}

impl<W: Wakes, H> State<W, H> {
    fn waiters(&mut self, direction: Direction) -> &mut Waiters<W> {
        match direction {
            Direction::Read => &mut self.readers,
            Direction::Write => &mut self.writers,
        }
    }

    /// Whether a task waits for input.
    pub(crate) fn has_readers(&self) -> bool {
        self.readers.first.is_some() || !self.readers.others.is_empty()
    }
}

impl<W: Wakes, H> Readiness<W, H> {
    pub(crate) fn new() -> Readiness<W, H> {
        let none = || Waiters { first: None, others: Vec::new() };
        let (readers, writers) = (none(), none());
        Readiness {
            word: AtomicU64::new(0),
            state: Mutex::new(State { generation: 0, tickets: 0, readers, writers, home: None }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<W, H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new life begins: nothing is ready. The place is the caller's until it is registered.
    pub(crate) fn begin(&self) {
        // Relaxed: the caller owns it. A late event of the last life has another generation.
        self.word.store(0, Ordering::Relaxed);
    }

    /// The word, to be looked at and passed to [`drained`](Readiness::drained).
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        // Acquire: pairs with the Release in `deliver`. The attempt that follows asks the kernel.
        self.word.load(Ordering::Acquire)
    }

    /// An attempt has shown that there is no more, by the word `seen` before it.
    #[inline]
    pub(crate) fn drained(&self, direction: Direction, seen: u64) {
        let cleared = seen & !direction.bit();
        // Relaxed: if it fails, an event has come and the bit stays. The waiter looks again under
        // the lock.
        let _ = self.word.compare_exchange(seen, cleared, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// As [`drained`](Readiness::drained), after an attempt that took less than it could have.
    #[inline]
    pub(crate) fn came_short(&self, direction: Direction, seen: u64) {
        if seen & SPECIAL == 0 {
            self.drained(direction, seen);
        }
    }

    /// Publishes a waiter, and returns its ticket; `None` if the direction is ready after all.
    /// `settle` ensures under the lock that events are delivered.
    pub(crate) fn publish(
        &self,
        direction: Direction,
        settle: impl FnOnce(&mut State<W, H>) -> io::Result<()>,
        waiter: impl FnOnce() -> W,
    ) -> io::Result<Option<u64>> {
        let mut state = self.lock();
        settle(&mut state)?;
        if self.word.load(Ordering::Relaxed) & direction.bit() != 0 {
            return Ok(None); // Relaxed: ordered by the lock
        }
        let ticket = state.tickets;
        state.tickets += 1;
        state.waiters(direction).push(ticket, waiter());
        Ok(Some(ticket))
    }

    /// Removes a waiter, unless another thread has taken it out.
    pub(crate) fn withdraw(&self, direction: Direction, ticket: u64) {
        let removed = self.lock().waiters(direction).remove(ticket);
        drop(removed);
    }

    /// An event: sets the bits, and wakes the waiters for them.
    pub(crate) fn deliver(&self, generation: u32, bits: u64) {
        let mut state = self.lock();
        if state.generation != generation {
            return; // of a descriptor that was closed
        }
        let mut seen = self.word.load(Ordering::Relaxed); // the CAS decides
        // Release: pairs with the Acquire in `word`.
        while let Err(now) = self.word.compare_exchange_weak(
            seen,
            (seen | bits).wrapping_add(EVENT),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            seen = now;
        }
        let readers = (bits & READ != 0).then(|| state.readers.take());
        let writers = (bits & WRITE != 0).then(|| state.writers.take());
        drop(state);
        readers.into_iter().chain(writers).for_each(Woken::wake);
    }

    /// The descriptor is about to be closed. Returns its home.
    pub(crate) fn end(&self) -> Option<H> {
        let mut state = self.lock();
        state.generation = state.generation.wrapping_add(1);
        state.home.take()
    }

    /// Takes the home away if it is the one that ends, and wakes all waiters.
    pub(crate) fn leave_home(&self, ends: impl FnOnce(&H) -> bool) {
        let mut state = self.lock();
        if state.home.take_if(|home| ends(home)).is_some() {
            let woken = [state.readers.take(), state.writers.take()];
            drop(state);
            woken.into_iter().for_each(Woken::wake);
        }
    }
}
