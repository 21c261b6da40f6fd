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
//! The word, the waiters and why no event is lost: `ready`.
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

use super::ready::{Direction, Readiness, State, bits_of};
use crate::poller::epoll::Epoll;
use crate::sys;
use parcae::io::IoWaiter;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Where a descriptor is registered.
pub(crate) struct Home {
    epoll: Arc<Epoll>,
    /// Open for as long as the slot has this home: it is taken away before it is closed.
    fd: RawFd,
}

/// The shared state of a registered descriptor.
#[repr(align(64))]
pub(crate) struct Slot {
    pub(super) ready: Readiness<IoWaiter, Home>,
    index: u32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() <= 192); // the header says so

/// A waiter's place in a slot. It leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Published {
    slot: &'static Slot,
    direction: Direction,
    ticket: u64,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.slot.ready.withdraw(self.direction, self.ticket);
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Slot {
    /// Publishes the running task as a waiter, and makes sure that its worker or the home delivers
    /// events. `None` if the direction is ready after all.
    pub(crate) fn publish(
        &'static self,
        fd: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<Option<Published>> {
        let settle = |state: &mut State<IoWaiter, Home>| {
            let here = parcae::io::events_here();
            if state.home.as_ref().is_none_or(|home| home.epoll.address() != here) {
                return self.move_home(state, fd, direction);
            }
            Ok(())
        };
        // SAFETY: removed by the drop of `Published`, which the caller keeps until its wait is
        // over; or by `deliver` or `leave_home`, which call `taken`. All under the lock.
        let waiter = || unsafe { IoWaiter::here() };
        let ticket = self.ready.publish(direction, settle, waiter)?;
        Ok(ticket.map(|ticket| Published { slot: self, direction, ticket }))
    }

    /// Publishes a waker as a waiter. A descriptor that is not registered yet is registered here:
    /// the caller runs on a worker. `None` if the direction is ready after all.
    pub(crate) fn publish_waker(
        &'static self,
        fd: BorrowedFd<'_>,
        direction: Direction,
        waker: &std::task::Waker,
    ) -> io::Result<Option<Published>> {
        let waiter = IoWaiter::of(waker); // user code, before the lock is taken
        let settle = |state: &mut State<IoWaiter, Home>| match state.home {
            None => self.move_home(state, fd, direction),
            Some(_) => Ok(()), // futures move about; the descriptor does not follow them
        };
        let ticket = self.ready.publish(direction, settle, || waiter)?;
        Ok(ticket.map(|ticket| Published { slot: self, direction, ticket }))
    }

    /// Registers the descriptor here, unless a task waits at home for the other direction and the
    /// caller is no reader.
    #[cold]
    fn move_home(
        &self,
        state: &mut State<IoWaiter, Home>,
        fd: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        let stays = match direction {
            Direction::Read => false,
            Direction::Write => state.home.is_some() && state.has_readers(),
        };
        if stays {
            return Ok(());
        }
        let epoll = parcae::io::events(Epoll::new)?;
        epoll.add(fd, Key::new(self.index, state.generation))?;
        if let Some(home) = state.home.replace(Home { epoll, fd: fd.as_raw_fd() }) {
            home.epoll.remove(fd);
        }
        Ok(())
    }

    /// Registers the descriptor in this poller, for a test without a worker.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn settle_in(&self, home: &Arc<Epoll>, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut state = self.ready.lock();
        home.add(fd, Key::new(self.index, state.generation))?;
        state.home = Some(Home { epoll: Arc::clone(home), fd: fd.as_raw_fd() });
        Ok(())
    }

    /// Takes the descriptor out of its poller and frees the slot. The descriptor is still open.
    pub(crate) fn close(&'static self, fd: BorrowedFd<'_>) {
        if let Some(home) = self.ready.end() {
            home.epoll.remove(fd); // before it is closed
        }
        SLAB.free.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// An event of the kernel: sets the bits, and wakes the waiters for them.
pub(crate) fn deliver(key: Key, events: u32) {
    if let Some(slot) = SLAB.get(key.index()) {
        slot.ready.deliver(key.generation(), bits_of(events));
    }
}

/// The worker of this poller has ended: the slots that it is the home of have none any more, and
/// their waiters look again.
#[cold]
pub(crate) fn leave_home(home: &Epoll) {
    for slot in (0..).map_while(|index| SLAB.get(index)) {
        slot.ready.leave_home(|at| at.epoll.address() == home.address());
    }
}

/// The number of descriptors at this home that have input, and for which a task waits. No event is
/// taken.
#[cold]
pub(crate) fn with_input(home: &Epoll) -> usize {
    let has_input = |slot: &&Slot| {
        let state = slot.ready.lock();
        let at = state.home.as_ref().filter(|at| at.epoll.address() == home.address());
        // SAFETY: open while the slot is locked: see `Home`.
        at.is_some_and(|at| state.has_readers() && unsafe { sys::has_input(at.fd) })
    };
    (0..).map_while(|index| SLAB.get(index)).filter(has_input).count()
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
            .map(|slot| Slot { ready: Readiness::new(), index: first + slot })
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
    slot.ready.begin();
    Ok(slot)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::ready::{READ, WRITE};
    use super::*;
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
        let generation = slot.ready.lock().generation;
        deliver(Key::new(slot.index, generation), libc::EPOLLIN as u32);
        assert_eq!(slot.ready.word() & (READ | WRITE), READ);
        let fd = sys::eventfd().unwrap();
        slot.close(fd.as_fd());
        let before = slot.ready.word();
        deliver(Key::new(slot.index, generation), libc::EPOLLOUT as u32);
        assert_eq!(slot.ready.word(), before, "the slot may belong to another descriptor");
    }

    #[test]
    fn an_event_during_an_attempt_keeps_the_bit() {
        let slot = take().unwrap();
        let key = Key::new(slot.index, slot.ready.lock().generation);
        deliver(key, libc::EPOLLIN as u32);
        let seen = slot.ready.word();
        deliver(key, libc::EPOLLIN as u32); // after the attempt has found nothing
        slot.ready.drained(Direction::Read, seen);
        assert_eq!(slot.ready.word() & READ, READ);
        slot.ready.drained(Direction::Read, slot.ready.word());
        assert_eq!(slot.ready.word() & READ, 0);
    }

    #[test]
    fn after_the_end_of_the_peers_output_a_short_read_keeps_the_bit() {
        let slot = take().unwrap();
        let key = Key::new(slot.index, slot.ready.lock().generation);
        deliver(key, (libc::EPOLLIN | libc::EPOLLRDHUP) as u32);
        slot.ready.came_short(Direction::Read, slot.ready.word());
        assert_eq!(slot.ready.word() & READ, READ, "the end is not announced again");
        // The end of input says nothing about output; an error concerns both.
        assert_eq!(slot.ready.word() & WRITE, 0);
        deliver(key, libc::EPOLLERR as u32);
        assert_eq!(slot.ready.word() & WRITE, WRITE);
    }
}
