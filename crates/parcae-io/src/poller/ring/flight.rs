//! One operation of a task by the ring: from its submission to its own completion.

use super::op::RingOp;
use super::queue::{self, Entry};
use super::{FileBackend, Ring, choice};
use crate::error::from_task;
use crate::poller::epoll::Epoll;
use parcae::io::{IoWaiter, WaitEnd};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// The activity of the task, for observers.
#[derive(Clone, Copy)]
struct Activity<'a>(&'static str, &'a dyn fmt::Display);

/// The meaning of a result that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yields {
    /// A number of bytes.
    Bytes,
    /// A new descriptor: to be closed if no one takes it.
    Descriptor,
}

/// An operation that the kernel has. Its task waits for it before this is gone.
struct Aboard<'r> {
    events: &'r Epoll,
    op: Arc<RingOp<IoWaiter>>,
    activity: Activity<'r>,
    yields: Yields,
}

impl Aboard<'_> {
    /// The result, or the task becomes the waiter.
    fn look(&self) -> Option<i32> {
        // SAFETY: withdrawn after the wait, or taken by `land`, both under the lock.
        self.op.result_or_wait(|| unsafe { IoWaiter::here() })
    }

    /// Cancels the operation, and waits for its completion, whatever happens.
    fn disembark(&self) -> i32 {
        let mut told = false;
        loop {
            if let Some(result) = self.look() {
                return result;
            }
            if !std::mem::replace(&mut told, true) {
                self.events.cancel(&self.op);
            }
            parcae::io::wait_through(self.activity.0, self.activity.1);
            self.op.withdraw();
        }
    }
}

impl Drop for Aboard<'_> {
    /// The task unwinds: the buffer is still the kernel's.
    fn drop(&mut self) {
        if !self.op.has_landed() {
            let result = self.disembark();
            if self.yields == Yields::Descriptor && result >= 0 {
                // SAFETY: just opened for this operation, and no one else knows of it.
                drop(unsafe { OwnedFd::from_raw_fd(result) });
            }
        }
    }
}

/// The end of an operation.
#[derive(Debug)]
pub(crate) enum Flown {
    /// By its completion, with this result.
    Landed(i32),
    /// Without an effect: the task is cancelled.
    Cancelled(parcae::Error),
    /// Without an effect: the time is up.
    TimedOut,
}

/// Whether an operation was ended by its cancel, without an effect.
fn had_no_effect(result: i32) -> bool {
    matches!(-result, libc::ECANCELED | libc::EINTR)
}

/// Waits for an operation that was submitted.
fn wait_for(aboard: &Aboard<'_>, until: Option<Instant>) -> Flown {
    let Activity(what, object) = aboard.activity;
    loop {
        if let Some(result) = aboard.look() {
            return Flown::Landed(result);
        }
        let waited = parcae::io::wait(until, what, object);
        aboard.op.withdraw();
        match waited {
            Ok(WaitEnd::Woken) => {}
            Ok(WaitEnd::TimedOut) => {
                let result = aboard.disembark();
                let late = had_no_effect(result);
                return if late { Flown::TimedOut } else { Flown::Landed(result) };
            }
            Err(cancelled) => {
                let result = aboard.disembark();
                if had_no_effect(result) {
                    return Flown::Cancelled(cancelled);
                }
                parcae::io::untell(); // of the cancel: the next cancel point reports it
                return Flown::Landed(result);
            }
        }
    }
}

/// Whether the operation has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    Yes,
    No,
}

/// An operation on a file.
pub(crate) enum FileOp<'b> {
    /// At an offset, or at the cursor.
    Read(&'b mut [u8], Option<u64>),
    Write(&'b [u8], Option<u64>),
    SyncAll,
    SyncData,
}

/// Does an operation on a file by the ring of this worker; `None` if there is no ring, or it is
/// full: the pool is to do it. The caller has charged it.
pub(crate) fn operate(
    file: BorrowedFd<'_>,
    op: &mut FileOp<'_>,
    object: &dyn fmt::Display,
) -> Option<(io::Result<usize>, Happened)> {
    if choice::backend() != FileBackend::Ring {
        return None;
    }
    let events = parcae::io::events(Epoll::new).ok()?;
    let ring = events.ring()?;
    let (entry, what) = match op {
        FileOp::Read(buffer, at) => (Entry::read(file, buffer, *at), "reading (io_uring) from"),
        FileOp::Write(bytes, at) => (Entry::write(file, bytes, *at), "writing (io_uring) to"),
        FileOp::SyncAll => (Entry::sync(file, 0), "syncing (io_uring)"),
        FileOp::SyncData => (Entry::sync(file, queue::DATA_ONLY), "syncing (io_uring)"),
    };
    let (op, activity) = (Arc::new(RingOp::new()), Activity(what, object));
    // SAFETY: the buffer is borrowed until this returns, and `aboard` does not go before the
    // operation has landed.
    unsafe { ring.submit_now(&entry, &op) }.ok()?;
    let aboard = Aboard { events: &events, op, activity, yields: Yields::Bytes };
    ring.reap(); // done already, often: the kernel had all that it needed
    Some(match wait_for(&aboard, None) {
        Flown::Landed(result) => (outcome(result), Happened::Yes),
        Flown::Cancelled(cancelled) => (Err(from_task(cancelled)), Happened::No),
        Flown::TimedOut => unreachable!("there is no deadline"),
    })
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// Does an operation on a socket by the ring of this worker; `None` if there is no ring, or it is
/// full: then by readiness. It is submitted with others when the worker next polls.
///
/// # Safety
///
/// The memory that the entry points to, and the descriptor, stay as they are until this returns.
pub(crate) unsafe fn operate_socket(
    entry: &Entry,
    yields: Yields,
    until: Option<Instant>,
    what: &'static str,
    object: &dyn fmt::Display,
) -> Option<Flown> {
    let events = parcae::io::events(Epoll::new).ok()?;
    let ring: &Ring = events.ring_of_sockets()?;
    let op = Arc::new(RingOp::new());
    // SAFETY: as the caller says: `aboard` does not go before the operation has landed.
    if !unsafe { ring.enqueue(entry, &op) } {
        return None;
    }
    let aboard = Aboard { events: &events, op, activity: Activity(what, object), yields };
    Some(wait_for(&aboard, until))
}
