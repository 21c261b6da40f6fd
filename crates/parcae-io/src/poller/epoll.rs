//! The poller of a worker: an epoll instance, and an eventfd as its bell.
//!
//! The worker makes it when one of its tasks first waits for a descriptor, and sleeps in it from
//! then on. Only the worker asks it for events; any thread registers descriptors and rings the
//! bell. The runtime's side, and why no wake is lost, is in `parcae` (`sched::idle`).
//!
//! # Events
//!
//! A descriptor is registered once, edge-triggered, for input, urgent input, output and the end of
//! the peer's output. The data of its events is the [`Key`] of its slot: its place in the slab and
//! the slot's generation. An event of a descriptor that was closed while the event was on its way
//! finds another generation, and is dropped.
//!
//! # The ring
//!
//! The descriptor of the worker's ring (`ring`) is registered as well: completions end the sleep.
//! Before the worker waits it submits the ring's queue and takes completions that are there, and it
//! looks at them again after the wait: the kernel may have posted some at the end of that call.
//!
//! # The bell
//!
//! The eventfd is registered edge-triggered and never read: each write is a new edge, which ends
//! the present wait or the next one. Its count would overflow after 2^64 writes.

use super::ring::{self, Flying, Ring, Room};
use crate::source::slot::{self, Key};
use crate::sys::{self, Timeouts};
use parcae::io::KernelEvents;
use parcae::runtime::SocketBackend;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The most events that are taken at once.
const BATCH: usize = 256;
/// The data of the bell's events: the key of no slot.
const BELL: u64 = u64::MAX;
/// The data of the ring's events: the key of no slot, either.
const RING: u64 = u64::MAX - 1;
/// The longest sleep while the kernel has not taken all entries of the ring: it is out of memory.
const SOON: Duration = Duration::from_millis(1);

/// How sockets of the worker are used, in `Epoll::sockets`.
const BY_READINESS: u8 = 0;
const BY_RING: u8 = 1;
/// The ring was chosen, and the kernel refuses it.
const REFUSED: u8 = 2;

/// The poller of one worker.
pub(crate) struct Epoll {
    fd: OwnedFd,
    bell: OwnedFd,
    /// Number of registered descriptors.
    watched: AtomicUsize,
    /// Where the kernel writes events. Used by the worker alone.
    events: Mutex<Box<[libc::epoll_event]>>,
    timeouts: Timeouts,
    /// The ring of the worker, made by its first operation; none if the kernel refuses.
    ring: OnceLock<Option<Ring>>,
    /// How sockets are used, for observers.
    sockets: AtomicU8,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Arc<Epoll>> {
        let (fd, bell) = (sys::epoll_create()?, sys::eventfd()?);
        sys::epoll_add(fd.as_fd(), bell.as_fd(), libc::EPOLLIN | libc::EPOLLET, BELL)?;
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Ok(Arc::new(Epoll {
            fd,
            bell,
            watched: AtomicUsize::new(0),
            events: Mutex::new(vec![empty; BATCH].into()),
            timeouts: Timeouts::new(),
            ring: OnceLock::new(),
            sockets: AtomicU8::new(BY_READINESS),
        }))
    }

    /// The ring of this worker, whose completions its poller reaps. Called by the worker.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        let make = || {
            let room = match parcae::io::socket_place() {
                (_, SocketBackend::Ring) => Room::Sockets,
                _ => Room::Files,
            };
            let ring = Ring::new(room).ok()?;
            // Level-triggered: an event lasts until all completions are reaped.
            sys::epoll_add(self.fd.as_fd(), ring.as_fd(), libc::EPOLLIN, RING).ok()?;
            Some(ring)
        };
        self.ring.get_or_init(make).as_ref()
    }

    /// The same, for sockets; `None` if the kernel does not do them.
    pub(crate) fn ring_of_sockets(&self) -> Option<&Ring> {
        let ring = ring::is_for_sockets().then(|| self.ring()).flatten();
        let now = if ring.is_some() { BY_RING } else { REFUSED };
        // Relaxed, both: for observers.
        if self.sockets.load(Ordering::Relaxed) != now {
            self.sockets.store(now, Ordering::Relaxed);
        }
        ring
    }

    fn made_ring(&self) -> Option<&Ring> {
        self.ring.get().and_then(Option::as_ref)
    }

    /// Cancels an operation of the ring. Called by any thread: the worker submits the cancel.
    pub(super) fn cancel(&self, op: &Arc<Flying>) {
        if let Some(ring) = self.made_ring() {
            ring.cancel(op);
        }
        if parcae::io::events_here() != self.address() {
            sys::eventfd_write(self.bell.as_fd()); // its worker may sleep
        }
    }

    /// Registers a descriptor for good. If it is ready already, that is the first event.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        let input = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDHUP;
        let events = input | libc::EPOLLOUT | libc::EPOLLET;
        sys::epoll_add(self.fd.as_fd(), fd, events, key.0)?;
        self.watched.fetch_add(1, Ordering::Relaxed); // a hint for the worker
        Ok(())
    }

    /// Removes a descriptor. Events that were taken before may still be on their way.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // It was registered, and is open: there is nothing to report.
        let _ = sys::epoll_delete(self.fd.as_fd(), fd);
        self.watched.fetch_sub(1, Ordering::Relaxed); // as in `add`
    }

    /// The address by which the runtime knows it.
    pub(crate) fn address(&self) -> usize {
        (&raw const *self).addr()
    }
}

impl KernelEvents for Epoll {
    fn poll(&self, timeout: Option<Duration>) -> usize {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = self.made_ring();
        let mut found = 0;
        let mut timeout = timeout;
        if let Some(ring) = ring {
            found = ring.turn();
            if found > 0 {
                timeout = Some(Duration::ZERO);
            } else if ring.is_behind() {
                timeout = Some(timeout.map_or(SOON, |timeout| timeout.min(SOON)));
            }
        }
        let taken = self.timeouts.epoll_wait(self.fd.as_fd(), &mut events, timeout);
        for event in &events[..taken] {
            let (bits, data) = (event.events, event.u64); // packed on x86_64: copied
            match data {
                BELL | RING => {}
                data => {
                    found += 1;
                    slot::deliver(Key(data), bits);
                }
            }
        }
        found + ring.map_or(0, Ring::reap)
    }

    fn ring(&self) {
        sys::eventfd_write(self.bell.as_fd());
    }

    fn is_watching(&self) -> bool {
        // Relaxed: as in `add`.
        self.watched.load(Ordering::Relaxed) > 0 || self.made_ring().is_some_and(Ring::is_flying)
    }

    fn close(&self) {
        if self.watched.load(Ordering::Relaxed) > 0 {
            slot::leave_home(self); // Relaxed: as in `add`
        }
    }

    fn describe(&self) -> String {
        // Relaxed, both: for observers.
        let sockets = match self.sockets.load(Ordering::Relaxed) {
            BY_RING => "sockets by io_uring",
            REFUSED => "sockets by epoll: the kernel refuses io_uring",
            _ => "sockets by epoll",
        };
        let watched = self.watched.load(Ordering::Relaxed);
        let mut text = format!("{sockets}; {watched} descriptors in epoll");
        if let Some(ring) = self.made_ring() {
            // Into a String: cannot fail.
            let _ = write!(text, ", {} operations in io_uring", ring.operations());
        }
        text
    }

    fn neglected(&self) -> usize {
        slot::with_input(self) + self.made_ring().map_or(0, Ring::completed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::source::slot;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// A child process has a duplicate of a registered descriptor, which we close: the kernel would
    /// report its events for as long as the child has it.
    #[test]
    fn a_descriptor_that_a_child_holds_is_heard_of_no_more() {
        let epoll = Epoll::new().unwrap();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let slot = slot::take().unwrap();
        slot.settle_in(&epoll, ours.as_fd()).unwrap();
        let inherited: OwnedFd = ours.as_fd().try_clone_to_owned().unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::from(inherited))
            .spawn()
            .expect("sleep is installed");
        let registered = epoll.poll(Some(Duration::ZERO));
        slot.close(ours.as_fd());
        drop(ours);
        peer.write_all(b"a ghost?").unwrap(); // into the buffer of the child's descriptor
        let ghosts = epoll.poll(Some(Duration::ZERO));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((registered, ghosts), (1, 0), "it was writable; then there is no news");
        assert!(!epoll.is_watching());
    }
}
