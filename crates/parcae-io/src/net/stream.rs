//! A stream of bytes on either backend: a descriptor, or a stream of the simulated network.

use super::ops::{Receive, ReceiveVectored, Send, SendVectored, ShortRead};
use crate::cost;
use crate::error::not_replayable;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Attempt, Limit, Operation, Source};
use crate::sys;
use parcae::cap::SocketPermit;
use parcae::io::IoPlace;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The name of a socket or its peer, for observers and errors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Inet(std::net::SocketAddr),
    Unix(std::path::PathBuf),
    /// A Unix socket without a path.
    Unnamed,
}

impl Name {
    /// The name of a Unix socket.
    pub(crate) fn of_unix(address: io::Result<std::os::unix::net::SocketAddr>) -> Name {
        let path = address.ok().and_then(|address| address.as_pathname().map(Into::into));
        path.map_or(Name::Unnamed, Name::Unix)
    }

    pub(crate) fn inet(&self) -> io::Result<std::net::SocketAddr> {
        match self {
            Name::Inet(address) => Ok(*address),
            _ => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Inet(address) => address.fmt(f),
            Name::Unix(path) => path.display().fmt(f),
            Name::Unnamed => f.write_str("an unnamed socket"),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Refuses a real socket under the deterministic executor.
pub(super) fn refuse_simulated(name: &Name) -> io::Result<()> {
    match parcae::io::place() {
        IoPlace::Simulated => Err(not_replayable("from_std of", name)),
        IoPlace::Task | IoPlace::Thread => Ok(()),
    }
}

/// A timeout that can be changed while it is used.
#[derive(Debug, Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None, // Relaxed, also below: it stands alone
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// As in std: zero is refused.
    pub(crate) fn set(&self, time: Option<Duration>) -> io::Result<()> {
        if time == Some(Duration::ZERO) {
            let text = "a timeout of zero would always have passed: pass None for no timeout";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let nanos = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }
}

/// A connected stream.
#[derive(Debug)]
pub(crate) struct Stream<S: AsFd> {
    pub(crate) backend: Backend<S>,
    pub(crate) peer: Name,
    pub(crate) read_timeout: Timeout,
    pub(crate) write_timeout: Timeout,
    /// Returned behind the backend: the descriptor is closed first.
    permit: Option<SocketPermit>,
}

#[derive(Debug)]
pub(crate) enum Backend<S: AsFd> {
    Os(Source<S>),
    /// Boxed: a real stream is small.
    Sim(Box<sim::SimStream>),
}

/// An attempt that took so many bytes of so much room: that which was offered to the kernel.
pub(super) fn attempt(taken: usize, room: usize) -> Attempt<usize> {
    // Nothing: the end of the stream, which stays ready.
    let full = taken == 0 || taken >= room.min(sys::MOST);
    if full { Attempt::Full(taken) } else { Attempt::Short(taken) }
}

impl<S: AsFd> Stream<S> {
    pub(crate) fn real(io: S, peer: Name) -> Stream<S> {
        Stream::new(Backend::Os(Source::new(io)), peer)
    }

    pub(crate) fn of_source(source: Source<S>, peer: Name) -> Stream<S> {
        Stream::new(Backend::Os(source), peer)
    }

    pub(crate) fn simulated(stream: sim::SimStream) -> Stream<S> {
        let peer = stream.peer().clone();
        Stream::new(Backend::Sim(Box::new(stream)), peer)
    }

    fn new(backend: Backend<S>, peer: Name) -> Stream<S> {
        let (read_timeout, write_timeout) = (Timeout::default(), Timeout::default());
        Stream { backend, peer, read_timeout, write_timeout, permit: None }
    }

    /// Counted under a capability.
    pub(crate) fn counted(mut self, permit: Option<SocketPermit>) -> Stream<S> {
        self.permit = permit;
        self
    }

    /// The socket, registered nowhere.
    pub(crate) fn into_real(self) -> io::Result<S>
    where
        S: From<OwnedFd> + Into<OwnedFd>,
    {
        match self.backend {
            Backend::Os(source) => Ok(source.into_inner()),
            Backend::Sim(_) => Err(not_replayable("into_std of a connection to", &self.peer)),
        }
    }

    pub(super) fn reading(&self, bytes: usize) -> Operation<'_> {
        self.reading_limited(bytes, Limit::of(self.read_timeout.get()))
    }

    fn reading_limited<'o>(&'o self, bytes: usize, limit: Limit<'o>) -> Operation<'o> {
        Operation {
            direction: Direction::Read,
            cost: cost::of_bytes(bytes),
            limit,
            what: "reading from",
            object: &self.peer,
        }
    }

    pub(super) fn writing(&self, bytes: usize) -> Operation<'_> {
        Operation {
            direction: Direction::Write,
            cost: cost::of_bytes(bytes),
            limit: Limit::of(self.write_timeout.get()),
            what: "writing to",
            object: &self.peer,
        }
    }

    /// A Unix socket ends a read behind bytes that came with descriptors, whatever follows them.
    pub(super) fn short_read(&self) -> ShortRead {
        match self.peer {
            Name::Inet(_) => ShortRead::Drained,
            Name::Unix(_) | Name::Unnamed => ShortRead::SaysNothing,
        }
    }

    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_limited(buffer, Limit::of(self.read_timeout.get()))
    }

    pub(crate) fn read_limited(&self, buffer: &mut [u8], limit: Limit<'_>) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0); // not the end of the stream
        }
        let operation = self.reading_limited(buffer.len(), limit);
        match &self.backend {
            Backend::Os(source) => {
                let short = self.short_read();
                source.operate_socket(operation, Receive { buffer, flags: 0, short })
            }
            Backend::Sim(stream) => stream.read(operation, buffer, sim::Taking::Consume),
        }
    }

    pub(crate) fn read_vectored(&self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let room = sys::offered(buffers.iter().map(|buffer| buffer.len()));
        match &self.backend {
            Backend::Os(source) if room > 0 => {
                let op = ReceiveVectored::new(buffers, room, self.short_read());
                source.operate_socket(self.reading(room), op)
            }
            // The first buffer that has room. If there is none among those that one call takes, it
            // lies behind them.
            backend => match (buffers.iter_mut().find(|buffer| !buffer.is_empty()), backend) {
                // At the price of all.
                (Some(buffer), Backend::Sim(stream)) if room > 0 => {
                    stream.read(self.reading(room), buffer, sim::Taking::Consume)
                }
                (Some(buffer), _) => self.read(buffer),
                (None, _) => Ok(0),
            },
        }
    }

    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let operation = self.reading(buffer.len());
        match &self.backend {
            // The bytes stay: the stream is as ready as before.
            Backend::Os(source) => {
                let (flags, short) = (libc::MSG_PEEK, ShortRead::SaysNothing);
                source.operate_socket(operation, Receive { buffer, flags, short })
            }
            Backend::Sim(stream) => stream.read(operation, buffer, sim::Taking::Peek),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let operation = self.writing(bytes.len());
        match &self.backend {
            Backend::Os(source) => source.operate_socket(operation, Send { bytes }),
            Backend::Sim(stream) => stream.write(operation, bytes),
        }
    }

    pub(crate) fn write_vectored(&self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let given = sys::offered(bytes.iter().map(|bytes| bytes.len()));
        match &self.backend {
            Backend::Os(source) if given > 0 => {
                source.operate_socket(self.writing(given), SendVectored::new(bytes, given))
            }
            backend => match (bytes.iter().find(|bytes| !bytes.is_empty()), backend) {
                // As above.
                (Some(bytes), Backend::Sim(stream)) if given > 0 => {
                    stream.write(self.writing(given), bytes)
                }
                (Some(bytes), _) => self.write(bytes),
                (None, _) => Ok(0),
            },
        }
    }

    pub(crate) fn shutdown(
        &self,
        how: Shutdown,
        real: impl FnOnce(&S) -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.backend {
            Backend::Os(source) => match real(source.get()) {
                // The peer is gone already: there is nothing left to shut down.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                done => done,
            },
            Backend::Sim(stream) => {
                stream.shutdown(how);
                Ok(())
            }
        }
    }

    /// The descriptor, for options that only real sockets have.
    pub(crate) fn real_socket(&self) -> Option<&S> {
        match &self.backend {
            Backend::Os(source) => Some(source.get()),
            Backend::Sim(_) => None,
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        let Some(socket) = self.real_socket() else {
            panic!("a socket of the simulated network has no descriptor");
        };
        socket.as_fd()
    }

    /// Half-closes, then reads and drops the rest until the peer's end or the timeout: an answer
    /// that the peer has not read yet is not destroyed by a reset.
    pub(crate) fn close_gracefully(
        &self,
        grace: Duration,
        real: impl FnOnce(&S) -> io::Result<()>,
    ) -> io::Result<()> {
        self.shutdown(Shutdown::Write, real)?;
        let until = parcae::time::now().checked_add(grace);
        let mut rest = [0; 512];
        loop {
            let now = parcae::time::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            self.read_timeout.set(left)?;
            match self.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
