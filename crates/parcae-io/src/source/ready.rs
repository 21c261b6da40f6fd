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
//! ([`Wakes::taken`]); it wakes after the lock is released. A waiter that was woken sees by a
//! number beside the word that it was taken, and does without the lock: the number is stored by a
//! release after the waiters are independent, and read by an acquire.
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
    /// For each direction: waiters with a smaller ticket were taken out, or have left. Written
    /// under the lock.
    served: [AtomicU64; 2],
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
    /// Made by the first second waiter.
    others: Option<Box<Others<W>>>,
}

/// Waiters behind the first one, with their tickets.
struct Others<W>(Vec<(u64, W)>);

impl<W: Wakes> Waiters<W> {
    fn push(&mut self, ticket: u64, waiter: W) {
        if self.first.is_none() {
            self.first = Some((ticket, waiter));
        } else {
            let others = self.others.get_or_insert_with(|| Box::new(Others(Vec::new())));
            others.0.push((ticket, waiter));
        }
    }

    fn remove(&mut self, ticket: u64) -> Option<W> {
        if self.first.as_ref().is_some_and(|(own, _)| *own == ticket) {
            return self.first.take().map(|(_, waiter)| waiter);
        }
        let others = &mut self.others.as_mut()?.0;
        let place = others.iter().position(|(own, _)| *own == ticket)?;
        Some(others.remove(place).1)
    }

    /// Takes all out, ready to be woken.
    #[inline]
    fn take(&mut self) -> Woken<W> {
        let first = self.first.take().map(|(_, waiter)| waiter.taken());
        let others = self.others.as_mut().map(|others| others.take());
        Woken { first, others }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.as_ref().is_none_or(|others| others.0.is_empty())
    }
}

impl<W: Wakes> Others<W> {
    #[cold]
    fn take(&mut self) -> Vec<W> {
        self.0.drain(..).map(|(_, waiter)| waiter.taken()).collect()
    }
}

/// Waiters that were taken out under the lock, to be woken after it is released.
struct Woken<W> {
    first: Option<W>,
    others: Option<Vec<W>>,
}

impl<W: Wakes> Woken<W> {
    fn none() -> Woken<W> {
        Woken { first: None, others: None }
    }

    #[inline]
    fn wake(self) {
        if let Some(waiter) = self.first {
            waiter.wake();
        }
        if let Some(others) = self.others {
            others.into_iter().for_each(W::wake);
        }
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
        !self.readers.is_empty()
    }
}

impl<W: Wakes, H> Readiness<W, H> {
    pub(crate) fn new() -> Readiness<W, H> {
        let none = || Waiters { first: None, others: None };
        let (readers, writers) = (none(), none());
        Readiness {
            word: AtomicU64::new(0),
            served: [AtomicU64::new(0), AtomicU64::new(0)],
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

    /// Takes the waiters for a direction out, to be woken after the lock is released.
    #[inline]
    fn take(&self, state: &mut State<W, H>, direction: Direction) -> Woken<W> {
        let woken = state.waiters(direction).take();
        // Release: pairs with the Acquire in `withdraw`: they are independent of their tasks.
        self.served[direction as usize].store(state.tickets, Ordering::Release);
        woken
    }

    /// Removes a waiter, unless another thread has taken it out.
    #[inline]
    pub(crate) fn withdraw(&self, direction: Direction, ticket: u64) {
        // Acquire: pairs with the Release in `take`: this waiter is not in the list any more.
        if self.served[direction as usize].load(Ordering::Acquire) > ticket {
            return;
        }
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
        let readers =
            if bits & READ != 0 { self.take(&mut state, Direction::Read) } else { Woken::none() };
        let writers =
            if bits & WRITE != 0 { self.take(&mut state, Direction::Write) } else { Woken::none() };
        drop(state);
        readers.wake();
        writers.wake();
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
            let woken = [Direction::Read, Direction::Write].map(|way| self.take(&mut state, way));
            drop(state);
            woken.into_iter().for_each(Woken::wake);
        }
    }
}
