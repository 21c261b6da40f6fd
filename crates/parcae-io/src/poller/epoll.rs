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
//! # The bell
//!
//! The eventfd is registered edge-triggered and never read: each write is a new edge, which ends
//! the present wait or the next one. Its count would overflow after 2^64 writes.

use crate::source::slot::{self, Key};
use crate::sys::{self, Timeouts};
use parcae::io::KernelEvents;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most events that are taken at once.
const BATCH: usize = 256;
/// The data of the bell's events: the key of no slot.
const BELL: u64 = u64::MAX;

/// The poller of one worker.
pub(crate) struct Epoll {
    fd: OwnedFd,
    bell: OwnedFd,
    /// Number of registered descriptors.
    watched: AtomicUsize,
    /// Where the kernel writes events. Used by the worker alone.
    events: Mutex<Box<[libc::epoll_event]>>,
    timeouts: Timeouts,
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
        }))
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
        let taken = self.timeouts.epoll_wait(self.fd.as_fd(), &mut events, timeout);
        let mut found = 0;
        for event in &events[..taken] {
            let (bits, data) = (event.events, event.u64); // packed on x86_64: copied
            if data != BELL {
                found += 1;
                slot::deliver(Key(data), bits);
            }
        }
        found
    }

    fn ring(&self) {
        sys::eventfd_write(self.bell.as_fd());
    }

    fn is_watching(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0 // as in `add`
    }

    fn close(&self) {
        if self.is_watching() {
            slot::leave_home(self);
        }
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
