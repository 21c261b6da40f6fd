//! io_uring: operations on files that would have to wait, and by choice those on sockets.
//!
//! # Who owns what
//!
//! Each worker has a ring of its own, made by the first task there that needs it. The ring's
//! descriptor is in the worker's epoll, level-triggered, so the worker still has one place to
//! sleep. Only the worker submits and [reaps](Ring::reap), so the kernel knows one thread. (Several
//! may do so in the course of time: that of a temporary worker ends, and the next one has its
//! ring.) A task that may move can be cancelled on another worker: see below. Each side of the ring
//! is behind a lock, which is not contended.
//!
//! The kernel owns the buffer of an operation from the submission to the *operation's own*
//! completion. The buffer is borrowed by the task, which waits inside of the call until then: it
//! cannot return, be dropped or unwound before (`flight::Aboard`). That is why a plain `&mut [u8]`
//! is sound here, and why a cancelled task still waits. A future can be dropped at any time, so
//! async code has no ring.
//!
//! # Submitting
//!
//! An operation on a file is submitted at once, by a system call of its own: it is often done when
//! the call returns. One on a socket is put into the submission queue, and its task parks; the
//! worker submits the whole queue when it [polls](Ring::turn): every 61 picks, and before it
//! sleeps. So one call serves all tasks that ran since the last one. If the kernel does not take
//! all of them, for want of memory, the worker sleeps for a moment at most, and tries again.
//!
//! A datagram is sent by the ring only if there is room for it at once; otherwise by readiness. The
//! kernel would wait and try again with what its first attempt has left of the buffers: for a Unix
//! socket whose peer is full that is nothing, and an empty datagram arrives.
//!
//! # Cancelling
//!
//! | step | |
//! |---|---|
//! | 1. the wait returns, because the task is cancelled or its time is up | the buffer is still the kernel's |
//! | 2. the operation is put on the list of cancels; a worker that is not this one is woken | |
//! | 3. the worker submits a cancel entry for the operation's address when it polls | its own completion is ignored |
//! | 4. the task waits for the operation's completion, through further cancels | |
//! | 5a. it was cancelled (`ECANCELED`, `EINTR`) | the call has had no effect: the task's error |
//! | 5b. it has succeeded or failed | that is the result; the next cancel point reports the cancel |
//!
//! So no byte and no connection is lost when the cancel comes too late, and nothing is touched
//! after the call. An operation that the disk has begun cannot be cancelled: then 4 takes as long
//! as the disk does.
//!
//! A cancel cannot hit another operation that has got the address of an earlier one. The list holds
//! the operation; its address is written into an entry only if it has not landed; and the kernel
//! takes entries in order, so a cancel is taken before an operation that was made after it.
//!
//! # Why nothing overflows
//!
//! A ring has room for a number of operations on their way ([`Room`]), and for as many cancels, one
//! for each: together as many as the completion queue holds. One more operation goes to the pool of
//! threads, or waits by readiness. The submission queue is smaller: when it is full, the worker
//! submits it. A cancel for which it still has no place stays on the list.
//!
//! # When it is not used
//!
//! The kernel may not have it, and containers often forbid it: `choice` makes a ring and a real
//! operation by it before the first use. Without, files go to the pool and sockets wait by epoll.
//! So do other calls: open, rename and list go to the pool; a connect to several addresses at one
//! time and futures wait by epoll. The results are the same, and so are the charges.

mod choice;
mod flight;
mod op;
mod queue;

pub(crate) use choice::is_for_sockets;
pub use choice::{FileBackend, backend, set_backend};
pub(crate) use flight::{FileOp, Flown, Happened, Yields, operate, operate_socket};
pub(crate) use queue::Entry;

use op::RingOp;
use parcae::io::IoWaiter;
use queue::Queues;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An operation on its way.
pub(super) type Flying = RingOp<IoWaiter>;

/// The most entries of a submission queue.
const QUEUE: usize = 256;

/// The most operations of one ring on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Files alone.
    Files,
    /// Sockets, too: a connection that waits for input is on its way. 128 KiB of completions.
    Sockets,
}

impl Room {
    fn most(self) -> usize {
        match self {
            Room::Files => QUEUE,
            Room::Sockets => 4096,
        }
    }
}

/// The ring of one worker.
pub(crate) struct Ring {
    queues: queue::Shared,
    /// The most operations on their way.
    most: usize,
    /// Operations on their way: from their place in the queue to their completion.
    operations: AtomicUsize,
    /// The same, and cancels.
    flying: AtomicUsize,
    /// Operations to be cancelled, for which no entry was made yet.
    cancels: Mutex<Vec<Arc<Flying>>>,
}

impl Ring {
    pub(super) fn new(room: Room) -> io::Result<Ring> {
        let most = room.most();
        Ok(Ring {
            queues: Queues::new(QUEUE as u32, 2 * most as u32)?.into(),
            most,
            operations: AtomicUsize::new(0),
            flying: AtomicUsize::new(0),
            cancels: Mutex::default(),
        })
    }

    /// Submits all that waits for it, takes completions, and wakes their tasks. Returns their
    /// number. Called by the worker.
    pub(crate) fn turn(&self) -> usize {
        let mut submission = self.queues.submission();
        // A statement of its own: the loop adds to the list, whose lock is free by then.
        let listed = std::mem::take(&mut *self.cancels());
        for op in listed {
            if op.has_landed() {
                continue;
            }
            let entry = Entry::cancel(Arc::as_ptr(&op).addr() as u64);
            // SAFETY: the entry points to nothing.
            if unsafe { submission.push(&entry, 0) } {
                self.flying.fetch_add(1, Ordering::Relaxed); // as in `claim`
            } else {
                self.cancels().push(op); // for the next turn
            }
        }
        submission.submit();
        drop(submission);
        self.reap()
    }

    /// Whether something waits to be submitted. Called by the worker, after [`turn`](Ring::turn).
    pub(crate) fn is_behind(&self) -> bool {
        self.queues.submission().waiting() > 0 || !self.cancels().is_empty()
    }

    fn cancels(&self) -> MutexGuard<'_, Vec<Arc<Flying>>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes completions, and wakes their tasks. Returns their number. Called by the worker.
    pub(crate) fn reap(&self) -> usize {
        let (mut count, mut landed) = (0, 0);
        self.queues.completion().take(|data, result| {
            count += 1;
            if data == 0 {
                return; // of a cancel
            }
            landed += 1;
            // SAFETY: the address of an operation, from `claim`; its one completion.
            let op = unsafe {
                Arc::from_raw(std::ptr::with_exposed_provenance::<Flying>(data as usize))
            };
            op.land(result);
        });
        if count > 0 {
            self.flying.fetch_sub(count, Ordering::Relaxed); // as in `claim`
            self.operations.fetch_sub(landed, Ordering::Relaxed); // as in `claim`
        }
        landed
    }

    /// Completions that the worker has not taken. Called by any thread.
    pub(crate) fn completed(&self) -> usize {
        self.queues.completion().waiting() as usize
    }

    /// Operations on their way.
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed) // for observers
    }

    /// Whether operations or cancels are on their way.
    pub(crate) fn is_flying(&self) -> bool {
        self.flying.load(Ordering::Relaxed) > 0 // only the worker itself asks and submits
    }

    /// A place for an operation, and the data of its entry; `None` if the ring is full.
    fn claim(&self, op: &Arc<Flying>) -> Option<*const Flying> {
        // Relaxed: bounds that need no order. The worker alone changes them.
        if self.operations.load(Ordering::Relaxed) >= self.most {
            return None;
        }
        self.operations.fetch_add(1, Ordering::Relaxed); // as above
        self.flying.fetch_add(1, Ordering::Relaxed); // as above
        Some(Arc::into_raw(Arc::clone(op)))
    }

    /// Gives the place of an operation back that the kernel will never see.
    ///
    /// # Safety
    ///
    /// `data` is that of a [`claim`](Ring::claim), and in no queue.
    unsafe fn unclaim(&self, data: *const Flying) {
        self.operations.fetch_sub(1, Ordering::Relaxed); // as in `claim`
        self.flying.fetch_sub(1, Ordering::Relaxed); // as in `claim`
        // SAFETY: as the caller says: the count is that of `claim`.
        drop(unsafe { Arc::from_raw(data) });
    }

    /// Submits an operation at once.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to lives until the operation has landed.
    unsafe fn submit_now(&self, entry: &Entry, op: &Arc<Flying>) -> io::Result<()> {
        let data = self.claim(op).ok_or(io::ErrorKind::ResourceBusy)?;
        // SAFETY: as the caller says.
        let submitted =
            unsafe { self.queues.submission().submit_now(entry, data.expose_provenance() as u64) };
        // SAFETY: the kernel has not taken it.
        submitted.inspect_err(|_| unsafe { self.unclaim(data) })
    }

    /// Puts an operation into the queue, for the worker's next [`turn`](Ring::turn). False if there
    /// is no room: then it will not happen.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to lives until the operation has landed.
    unsafe fn enqueue(&self, entry: &Entry, op: &Arc<Flying>) -> bool {
        let Some(data) = self.claim(op) else { return false };
        // SAFETY: as the caller says.
        let queued =
            unsafe { self.queues.submission().push(entry, data.expose_provenance() as u64) };
        if !queued {
            // SAFETY: it has no place in the queue.
            unsafe { self.unclaim(data) };
        }
        queued
    }

    /// Puts an operation on the list of cancels, for the worker's next [`turn`](Ring::turn).
    pub(super) fn cancel(&self, op: &Arc<Flying>) {
        self.cancels().push(Arc::clone(op));
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queues.as_fd()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ring").field(&self.as_fd().as_raw_fd()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// The kernel takes no entries: the queue is full, and the other cancels stay on the list.
    #[test]
    fn cancels_without_a_place_stay_on_the_list() {
        let Ok(ring) = Ring::new(Room::Files) else {
            println!("skipped: the kernel grants no ring");
            return;
        };
        ring.queues.submission().refuse();
        for _ in 0..QUEUE + 10 {
            ring.cancel(&Arc::new(RingOp::new()));
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            ring.turn();
            let left = ring.cancels().len();
            let _ = sender.send((left, ring.is_behind(), ring.is_flying()));
        });
        let ended = receiver.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended.expect("the turn ends"), (10, true, true));
    }
}
