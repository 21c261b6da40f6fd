//! Datagrams and connecting, in the forms of both backends.

use super::connect;
use crate::poller::ring::Entry;
use crate::source::{Attempt, SocketOp};
use crate::sys::{self, Connecting, PeerAddress};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A buffer in a message. No buffer yet.
const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Takes a datagram: its length, and the address of its sender if that is one of the Internet.
pub(super) struct ReceiveDatagram<'b> {
    buffer: &'b mut [u8],
    from: PeerAddress,
    /// Written by `entry`, as the next.
    part: libc::iovec,
    message: libc::msghdr,
}

impl<'b> ReceiveDatagram<'b> {
    pub(super) fn new(buffer: &'b mut [u8]) -> ReceiveDatagram<'b> {
        let message = sys::message_of(&mut { NOTHING });
        ReceiveDatagram { buffer, from: PeerAddress::new(), part: NOTHING, message }
    }
}

// SAFETY: the entry points to the message in this value, that to the address and the part in this
// value, and the part to the buffer, which is borrowed.
unsafe impl SocketOp for ReceiveDatagram<'_> {
    type Output = (usize, Option<SocketAddr>);

    /// Never short: a datagram that is smaller than the buffer says nothing about the next one.
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<Self::Output>> {
        let taken = sys::recv_from(fd, self.buffer, &mut self.from)?;
        Ok(Attempt::Full((taken, self.from.inet())))
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        let (base, length) = (self.buffer.as_mut_ptr(), self.buffer.len().min(sys::MOST));
        self.part = libc::iovec { iov_base: base.cast(), iov_len: length };
        self.message = sys::message_of(&mut self.part);
        self.from.receive(&mut self.message);
        Entry::receive_message(fd, &mut self.message)
    }

    fn landed(&mut self, result: i32) -> Self::Output {
        (result as usize, self.from.inet())
    }
}

/// Sends a datagram, to this address or to the only peer.
pub(super) struct SendDatagram<'b> {
    bytes: &'b [u8],
    to: Option<PeerAddress>,
    part: libc::iovec,
    message: libc::msghdr,
}

impl<'b> SendDatagram<'b> {
    pub(super) fn new(bytes: &'b [u8], to: Option<PeerAddress>) -> SendDatagram<'b> {
        let message = sys::message_of(&mut { NOTHING });
        SendDatagram { bytes, to, part: NOTHING, message }
    }
}

// SAFETY: as for `ReceiveDatagram`; the kernel only reads.
unsafe impl SocketOp for SendDatagram<'_> {
    type Output = usize;

    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<usize>> {
        sys::send_to(fd, self.bytes, self.to.as_ref()).map(Attempt::Full)
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        let (base, length) = (self.bytes.as_ptr().cast_mut(), self.bytes.len().min(sys::MOST));
        self.part = libc::iovec { iov_base: base.cast(), iov_len: length };
        self.message = sys::message_of(&mut self.part);
        if let Some(to) = &self.to {
            to.address(&mut self.message);
        }
        Entry::send_datagram(fd, &self.message)
    }

    fn landed(&mut self, result: i32) -> usize {
        result as usize
    }
}

/// Connects a stream.
pub(super) struct Connect {
    to: PeerAddress,
    /// The kernel was asked to: now it decides.
    begun: bool,
}

impl Connect {
    pub(super) fn new(to: SocketAddr) -> Connect {
        Connect { to: PeerAddress::of_inet(to), begun: false }
    }
}

// SAFETY: the entry points to the address in this value.
unsafe impl SocketOp for Connect {
    type Output = ();

    /// A socket that is connecting becomes writable when it is decided.
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<()>> {
        if !std::mem::replace(&mut self.begun, true) {
            return match sys::connect(fd, &self.to)? {
                Connecting::Done => Ok(Attempt::Full(())),
                Connecting::Pending => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        connect::connected(fd).map(Attempt::Full)
    }

    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry {
        Entry::connect(fd, &self.to)
    }

    fn landed(&mut self, _: i32) {}
}
