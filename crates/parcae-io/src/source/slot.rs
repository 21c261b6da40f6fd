//! Slots: the state of registered descriptors that pollers and users share.
//!
//! # The slab
//!
//! Slots are never freed: a slot of a closed descriptor goes to a free list and is used again, with
//! another *generation*. An event carries the slot's place and generation ([`Key`]), so an event of
//! a descriptor that was closed meanwhile, whose number and slot may belong to another by now, is
//! recognised and dropped. The slab is one for the process: a stream may be used by tasks of
//! several runtimes. Its memory is that of the most descriptors that were registered at one time,
//! 192 bytes for each.
//!
//! # The readiness word
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
//! A user that finds its bit clear takes the slot's lock, looks again, and publishes its waiter
//! under the lock. The poller takes the lock, sets the bits and takes the waiters out under it. So
//! either the user sees the bit, or the poller sees the waiter. Before the descriptor is registered
//! there are no events to miss: registering one that is ready is an event.
//!
//! A waiter that gives up takes the lock and removes itself, or finds that the poller has taken it.
//! The thread that has taken a waiter makes it independent of its task under the lock
//! (`IoWaiter::taken`).
//!
//! # Home
//!
//! The home of a slot is the poller in which it is registered. A user that waits on another worker
//! moves the home there (remove, add: 0.8 µs; a wake across workers costs more, every time), unless
//! a task waits for the other direction at home and the user is not the reader: home follows the
//! reader. Adding reports a descriptor that is ready, so an event that the old home has not
//! delivered is not lost; if both deliver it, it is counted twice, which does no harm. It is added
//! before it is removed: if the kernel refuses, the tasks that wait at home are served as before.
//!
//! The worker of a home may end while a task of another runtime waits there: the writer stays where
//! the reader is, and the reader takes the home away from the writer. So a worker that ends leaves
//! all its slots without a home and wakes their waiters, which then register where they are
//! ([`leave_home`]). A waiter that is published before that, under the slot's lock, is woken; one
//! that comes later finds no home.

use crate::poller::epoll::Epoll;
use parcae::io::IoWaiter;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

const READ: u64 = 1;
const WRITE: u64 = 1 << 1;
const RDHUP: u64 = 1 << 2;
const HUP: u64 = 1 << 3;
const ERROR: u64 = 1 << 4;
const PRIORITY: u64 = 1 << 5;
/// One event, in the count.
const EVENT: u64 = 1 << 8;
/// With one of these, a short attempt says nothing about the next one: the end of the stream, an
/// error or urgent data is not announced a second time.
const SPECIAL: u64 = RDHUP | HUP | ERROR | PRIORITY;

/// A slot and its generation, as the data of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    fn new(index: u32, generation: u32) -> Key {
        Key(u64::from(index) << 32 | u64::from(generation))
    }

    fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn generation(self) -> u32 {
        self.0 as u32
    }
}

/// The shared state of a registered descriptor.
#[repr(align(64))]
pub(crate) struct Slot {
    ready: AtomicU64,
    index: u32,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    /// Counts the lives of the slot.
    generation: u32,
    /// The number of the next waiter.
    tickets: u64,
    readers: Waiters,
    writers: Waiters,
    /// Where it is registered.
    home: Option<Arc<Epoll>>,
}

/// The waiters for one direction: mostly none or one.
#[derive(Default)]
struct Waiters {
    first: Option<(u64, IoWaiter)>,
    others: Vec<(u64, IoWaiter)>,
}

impl Waiters {
    fn push(&mut self, ticket: u64, waiter: IoWaiter) {
        if self.first.is_none() {
            self.first = Some((ticket, waiter));
        } else {
            self.others.push((ticket, waiter));
        }
    }

    fn remove(&mut self, ticket: u64) -> Option<IoWaiter> {
        if self.first.as_ref().is_some_and(|(own, _)| *own == ticket) {
            return self.first.take().map(|(_, waiter)| waiter);
        }
        let place = self.others.iter().position(|(own, _)| *own == ticket)?;
        Some(self.others.remove(place).1)
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    /// Takes all out, ready to be woken.
    fn take(&mut self) -> Woken {
        Woken {
            first: self.first.take().map(|(_, waiter)| waiter.taken()),
            others: self.others.drain(..).map(|(_, waiter)| waiter.taken()).collect(),
        }
    }
}

/// Waiters that were taken out under the lock, to be woken after it is released.
struct Woken {
    first: Option<IoWaiter>,
    others: Vec<IoWaiter>,
}

impl Woken {
    fn wake(self) {
        if let Some(waiter) = self.first {
            waiter.wake_behind();
        }
        self.others.into_iter().for_each(IoWaiter::wake_behind);
    }
}

/// A waiter's place in a slot. It leaves when this is dropped.
pub(crate) struct Published {
    slot: &'static Slot,
    direction: Direction,
    ticket: u64,
}

impl Drop for Published {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        let removed = state.waiters(self.direction).remove(self.ticket);
        drop(state);
        drop(removed);
    }
}

impl SlotState {
    fn waiters(&mut self, direction: Direction) -> &mut Waiters {
        match direction {
            Direction::Read => &mut self.readers,
            Direction::Write => &mut self.writers,
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The readiness word, to be looked at and passed to [`drained`](Slot::drained).
    #[inline]
    pub(crate) fn readiness(&self) -> u64 {
        // Acquire: pairs with the Release in `deliver`. The attempt that follows asks the kernel.
        self.ready.load(Ordering::Acquire)
    }

    /// An attempt has shown that there is no more, by the readiness word `seen` before it.
    #[inline]
    pub(crate) fn drained(&self, direction: Direction, seen: u64) {
        let cleared = seen & !direction.bit();
        // Relaxed: if it fails, an event has come and the bit stays. The waiter looks again under
        // the lock.
        let _ = self.ready.compare_exchange(seen, cleared, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// As [`drained`](Slot::drained), after an attempt that took less than it could have.
    #[inline]
    pub(crate) fn came_short(&self, direction: Direction, seen: u64) {
        if seen & SPECIAL == 0 {
            self.drained(direction, seen);
        }
    }

    /// Publishes the running task as a waiter, and makes sure that its worker or the home delivers
    /// events. `None` if the direction is ready after all.
    pub(crate) fn publish(
        &'static self,
        fd: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<Option<Published>> {
        let mut state = self.lock();
        let here = parcae::io::events_here();
        if state.home.as_ref().is_none_or(|home| home.address() != here) {
            self.move_home(&mut state, fd, direction)?;
        }
        if self.ready.load(Ordering::Relaxed) & direction.bit() != 0 {
            return Ok(None); // Relaxed: ordered by the lock
        }
        let ticket = state.tickets;
        state.tickets += 1;
        // SAFETY: removed by the drop of `Published`, which the caller keeps until its wait is
        // over; or by `deliver`, which calls `taken`. Both under the lock.
        state.waiters(direction).push(ticket, unsafe { IoWaiter::here() });
        Ok(Some(Published { slot: self, direction, ticket }))
    }

    /// Registers the descriptor here, unless a task waits at home for the other direction and the
    /// caller is no reader.
    #[cold]
    fn move_home(
        &self,
        state: &mut SlotState,
        fd: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        let stays = match direction {
            Direction::Read => false,
            Direction::Write => state.home.is_some() && !state.readers.is_empty(),
        };
        if stays {
            return Ok(());
        }
        let here = parcae::io::events(Epoll::new)?;
        here.add(fd, Key::new(self.index, state.generation))?;
        if let Some(home) = state.home.replace(here) {
            home.remove(fd);
        }
        Ok(())
    }

    /// Takes the descriptor out of its poller and frees the slot. The descriptor is still open.
    pub(crate) fn close(&'static self, fd: BorrowedFd<'_>) {
        let mut state = self.lock();
        state.generation = state.generation.wrapping_add(1);
        let home = state.home.take();
        drop(state);
        if let Some(home) = home {
            home.remove(fd);
        }
        SLAB.free.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// An event of the kernel: sets the bits, and wakes the waiters for them.
pub(crate) fn deliver(key: Key, events: u32) {
    let Some(slot) = SLAB.get(key.index()) else { return };
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
    let mut state = slot.lock();
    if state.generation != key.generation() {
        return; // of a descriptor that was closed
    }
    let mut seen = slot.ready.load(Ordering::Relaxed); // the CAS decides
    // Release: pairs with the Acquire in `readiness`.
    while let Err(now) = slot.ready.compare_exchange_weak(
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

/// The worker of this poller has ended: the slots that it is the home of have none any more, and
/// their waiters look again.
#[cold]
pub(crate) fn leave_home(home: &Epoll) {
    for slot in (0..).map_while(|index| SLAB.get(index)) {
        let mut state = slot.lock();
        if state.home.take_if(|at| at.address() == home.address()).is_some() {
            let woken = [state.readers.take(), state.writers.take()];
            drop(state);
            woken.into_iter().for_each(Woken::wake);
        }
    }
}

/// Slots in the first chunk; each further one is twice as large.
const FIRST: u32 = 64;
const CHUNKS: usize = 26;

/// All slots of the process.
struct Slab {
    /// Chunk `k` has `FIRST << k` slots.
    chunks: [AtomicPtr<Slot>; CHUNKS],
    free: Mutex<Vec<&'static Slot>>,
    /// Number of chunks. The lock is held while one is added.
    made: Mutex<usize>,
}

static SLAB: Slab = Slab {
    chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
    free: Mutex::new(Vec::new()),
    made: Mutex::new(0),
};

impl Slab {
    fn get(&self, index: u32) -> Option<&'static Slot> {
        let chunk = (index / FIRST + 1).ilog2();
        let first = FIRST * ((1 << chunk) - 1);
        // Acquire: pairs with the Release in `grow`.
        let slots = self.chunks.get(chunk as usize)?.load(Ordering::Acquire);
        // SAFETY: chunks are never freed, and have that many slots.
        (!slots.is_null()).then(|| unsafe { &*slots.add((index - first) as usize) })
    }

    fn take(&self) -> io::Result<&'static Slot> {
        loop {
            if let Some(slot) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                return Ok(slot);
            }
            self.grow()?;
        }
    }

    #[cold]
    fn grow(&self) -> io::Result<()> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.free.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(()); // another thread was faster
        }
        let chunk = *made;
        let place = self.chunks.get(chunk).ok_or(io::ErrorKind::OutOfMemory)?;
        let first = FIRST * ((1_u32 << chunk) - 1);
        let slots: Box<[Slot]> = (0..FIRST << chunk)
            .map(|slot| Slot {
                ready: AtomicU64::new(0),
                index: first + slot,
                state: Mutex::default(),
            })
            .collect();
        let slots: &'static [Slot] = Box::leak(slots);
        place.store(slots.as_ptr().cast_mut(), Ordering::Release); // pairs with `get`'s Acquire
        *made += 1;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(slots.iter().rev());
        Ok(())
    }
}

/// A slot for a descriptor that is about to wait: not registered, and nothing is ready.
pub(crate) fn take() -> io::Result<&'static Slot> {
    let slot = SLAB.take()?;
    // Relaxed: the slot is ours until it is registered. A late event of its last life has another
    // generation.
    slot.ready.store(0, Ordering::Relaxed);
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::os::fd::AsFd;

    #[test]
    fn places_in_chunks_are_found_again() {
        let slots: Vec<_> = (0..500).map(|_| take().unwrap()).collect();
        for slot in &slots {
            assert!(std::ptr::eq(*slot, SLAB.get(slot.index).unwrap()));
        }
        let fd = sys::eventfd().unwrap();
        slots.into_iter().for_each(|slot| slot.close(fd.as_fd()));
        assert!(SLAB.get(u32::MAX).is_none());
    }

    #[test]
    fn an_event_of_an_earlier_life_is_dropped() {
        let slot = take().unwrap();
        let generation = slot.lock().generation;
        deliver(Key::new(slot.index, generation), libc::EPOLLIN as u32);
        assert_eq!(slot.readiness() & (READ | WRITE), READ);
        let fd = sys::eventfd().unwrap();
        slot.close(fd.as_fd());
        let before = slot.readiness();
        deliver(Key::new(slot.index, generation), libc::EPOLLOUT as u32);
        assert_eq!(slot.readiness(), before, "the slot may belong to another descriptor");
    }

    #[test]
    fn an_event_during_an_attempt_keeps_the_bit() {
        let slot = take().unwrap();
        let key = Key::new(slot.index, slot.lock().generation);
        deliver(key, libc::EPOLLIN as u32);
        let seen = slot.readiness();
        deliver(key, libc::EPOLLIN as u32); // after the attempt has found nothing
        slot.drained(Direction::Read, seen);
        assert_eq!(slot.readiness() & READ, READ);
        slot.drained(Direction::Read, slot.readiness());
        assert_eq!(slot.readiness() & READ, 0);
    }

    #[test]
    fn after_the_end_of_the_peers_output_a_short_read_keeps_the_bit() {
        let slot = take().unwrap();
        let key = Key::new(slot.index, slot.lock().generation);
        deliver(key, (libc::EPOLLIN | libc::EPOLLRDHUP) as u32);
        slot.came_short(Direction::Read, slot.readiness());
        assert_eq!(slot.readiness() & READ, READ, "the end is not announced again");
        // The end of input says nothing about output; an error concerns both.
        assert_eq!(slot.readiness() & WRITE, 0);
        deliver(key, libc::EPOLLERR as u32);
        assert_eq!(slot.readiness() & WRITE, WRITE);
    }
}
