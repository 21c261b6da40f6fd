//! Reads, writes and accepts, in the forms of both backends.

use super::stream::attempt;
use crate::poller::ring::{Entry, Yields};
use crate::source::{Attempt, SocketOp};
use crate::sys::{self, PeerAddress};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// The meaning of a read that took less than the room, for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShortRead {
    /// There is no more at this moment.
    Drained,
    /// Nothing: a Unix socket ends a read behind bytes that came with descriptors, and a peek takes
    /// nothing away.
    SaysNothing,
}

impl ShortRead {
    pub(super) fn outcome(self, taken: usize, room: usize) -> Attempt<usize> {
        match self {
            ShortRead::Drained => attempt(taken, room),
            ShortRead::SaysNothing => Attempt::Full(taken),
        }
    }
}

pub(super) struct Receive<'b> {
    pub(super) buffer: &'b mut [u8],
    pub(super) flags: libc::c_int,
    pub(super) short: ShortRead,
}

// SAFETY: the entry points to the buffer, which is borrowed.
unsafe impl SocketOp for Receive<'_> {
    type Output = usize;

    #[inline]
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<usize>> {
        let room = self.buffer.len();
        sys::recv(fd, self.buffer, self.flags).map(|taken| self.short.outcome(taken, room))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        Entry::receive(fd, self.buffer, self.flags)
    }

    fn landed(&mut self, result: i32) -> usize {
        result as usize
    }
}

pub(super) struct Send<'b> {
    pub(super) bytes: &'b [u8],
}

// SAFETY: the entry points to the bytes, which are borrowed.
unsafe impl SocketOp for Send<'_> {
    type Output = usize;

    #[inline]
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<usize>> {
        sys::send(fd, self.bytes).map(|taken| attempt(taken, self.bytes.len()))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        Entry::send(fd, self.bytes)
    }

    fn landed(&mut self, result: i32) -> usize {
        result as usize
    }
}

pub(super) struct ReceiveVectored<'v, 'b> {
    pub(super) buffers: &'v mut [io::IoSliceMut<'b>],
    pub(super) room: usize,
    pub(super) short: ShortRead,
    /// Written by `entry`.
    message: libc::msghdr,
}

impl<'v, 'b> ReceiveVectored<'v, 'b> {
    pub(super) fn new(
        buffers: &'v mut [io::IoSliceMut<'b>],
        room: usize,
        short: ShortRead,
    ) -> ReceiveVectored<'v, 'b> {
        let message = sys::incoming(&mut []);
        ReceiveVectored { buffers, room, short, message }
    }
}

// SAFETY: the entry points to the message in this value, and that to the buffers, which are
// borrowed.
unsafe impl SocketOp for ReceiveVectored<'_, '_> {
    type Output = usize;

    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<usize>> {
        let taken = sys::recv_vectored(fd, self.buffers)?;
        Ok(self.short.outcome(taken, self.room))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        self.message = sys::incoming(self.buffers);
        Entry::receive_message(fd, &mut self.message)
    }

    fn landed(&mut self, result: i32) -> usize {
        result as usize
    }
}

pub(super) struct SendVectored<'v, 'b> {
    bytes: &'v [io::IoSlice<'b>],
    given: usize,
    message: libc::msghdr,
}

impl<'v, 'b> SendVectored<'v, 'b> {
    pub(super) fn new(bytes: &'v [io::IoSlice<'b>], given: usize) -> SendVectored<'v, 'b> {
        SendVectored { bytes, given, message: sys::outgoing(bytes) }
    }
}

// SAFETY: the entry points to the message in this value, and that to the bytes, which are borrowed.
unsafe impl SocketOp for SendVectored<'_, '_> {
    type Output = usize;

    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<usize>> {
        sys::send_vectored(fd, self.bytes).map(|taken| attempt(taken, self.given))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        Entry::send_message(fd, &self.message)
    }

    fn landed(&mut self, result: i32) -> usize {
        result as usize
    }
}

/// A connection that was accepted, and the address of its peer, if it has one.
pub(super) type Accepted = (OwnedFd, Option<SocketAddr>);

pub(super) struct Accept {
    peer: PeerAddress,
}

impl Accept {
    pub(super) fn new() -> Accept {
        Accept { peer: PeerAddress::new() }
    }
}

// SAFETY: the entry points to the address in this value.
unsafe impl SocketOp for Accept {
    type Output = Accepted;
    const YIELDS: Yields = Yields::Descriptor;

    /// Not short: there may be more connections until the kernel says otherwise.
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<Accepted>> {
        let accepted = sys::accept(fd, &mut self.peer)?;
        Ok(Attempt::Full((accepted, self.peer.inet())))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        Entry::accept(fd, &mut self.peer)
    }

    fn landed(&mut self, result: i32) -> Accepted {
        // SAFETY: just opened by this operation, and no one else has it.
        let accepted = unsafe { OwnedFd::from_raw_fd(result) };
        (accepted, self.peer.inet())
    }
}
