//! Unix sockets: streams, listeners and datagrams.

use super::accept::{Accepts, Incoming, Listening};
use super::datagram::Datagrams;
use super::halves::{stream_halves, stream_methods};
use super::ops::Accepted;
use super::stream::{Name, Stream, refuse_simulated};
use crate::authority::Authority;
use crate::cost;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Charge, Limit, Operation};
use crate::sys::{self, PeerAddress};
use parcae::cap::{CapNet, NetUse};
use parcae::io::IoPlace;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net;
use std::path::Path;
use std::time::Duration;

/// The pause of a connect to a listener whose queue is full.
const PAUSE: Duration = Duration::from_millis(1);

/// A connection between two Unix sockets, as `std::os::unix::net::UnixStream`.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::UnixStream;
/// use std::io::{Read, Write};
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let (mut left, mut right) = UnixStream::pair()?;
///     cx.nursery(|n| {
///         n.spawn(move |_| Ok(left.write_all(b"over here")?))?;
///         let mut text = String::new();
///         right.read_to_string(&mut text)?;
///         assert_eq!(text, "over here");
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct UnixStream {
    stream: Stream<net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at this path. A cancel point if the listener's queue is full.
    ///
    /// # Errors
    ///
    /// If no one listens there, or the task is cancelled.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_by(&Authority::implicit()?, path.as_ref())
    }

    /// As [`connect`](UnixStream::connect), under a capability whose set `connect` is
    /// [`AddressSet::ANY`](parcae::cap::AddressSet::ANY): sets name addresses, not paths.
    ///
    /// # Errors
    ///
    /// As for [`connect`](UnixStream::connect), and the refusals of the capability.
    pub fn connect_under<P: AsRef<Path>>(cap: &CapNet, path: P) -> io::Result<UnixStream> {
        UnixStream::connect_by(&Authority::shown(cap)?, path.as_ref())
    }

    fn connect_by(authority: &Authority<'_, CapNet>, path: &Path) -> io::Result<UnixStream> {
        let permit = authority.path(NetUse::Connect)?;
        let peer = Name::Unix(path.into());
        if parcae::io::place() == IoPlace::Simulated {
            let operation = Operation {
                direction: Direction::Write,
                cost: cost::CONNECT,
                limit: Limit::Endless,
                what: "connecting to",
                object: &peer,
            };
            let stream = sim::connect(operation, peer.clone())?;
            return Ok(UnixStream { stream: Stream::simulated(stream).counted(permit) });
        }
        let charge = Charge::new(cost::CONNECT)?;
        loop {
            match sys::connect_unix(path) {
                Ok(socket) => {
                    charge.keep();
                    let stream = Stream::real(socket.into(), peer).counted(permit);
                    return Ok(UnixStream { stream });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    parcae::time::sleep(PAUSE).map_err(crate::error::from_task)?;
                }
                Err(error) => {
                    charge.keep(); // it has happened, and failed
                    return Err(error);
                }
            }
        }
    }

    /// Two connected sockets without a name.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        UnixStream::pair_by(&Authority::implicit()?)
    }

    /// As [`pair`](UnixStream::pair), under a capability, which both count against.
    ///
    /// # Errors
    ///
    /// As for [`pair`](UnixStream::pair); `QuotaExceeded` if it has no place for both.
    pub fn pair_under(cap: &CapNet) -> io::Result<(UnixStream, UnixStream)> {
        UnixStream::pair_by(&Authority::shown(cap)?)
    }

    fn pair_by(authority: &Authority<'_, CapNet>) -> io::Result<(UnixStream, UnixStream)> {
        let permits = (authority.admit(CapNet::admit)?, authority.admit(CapNet::admit)?);
        Charge::new(cost::SOCKET)?.keep();
        if parcae::io::place() == IoPlace::Simulated {
            let (left, right) = sim::pair()?;
            let stream =
                |end, permit| UnixStream { stream: Stream::simulated(end).counted(permit) };
            return Ok((stream(left, permits.0), stream(right, permits.1)));
        }
        let (left, right) = net::UnixStream::pair()?;
        let stream =
            |end, permit| UnixStream { stream: Stream::real(end, Name::Unnamed).counted(permit) };
        Ok((stream(left, permits.0), stream(right, permits.1)))
    }
}

stream_methods!(UnixStream, net::UnixStream, |io| Name::of_unix(io.peer_addr()));
stream_halves!(UnixStream, UnixReadHalf, UnixWriteHalf, OwnedUnixReadHalf, OwnedUnixWriteHalf);

/// A Unix listener, as `std::os::unix::net::UnixListener`. The file stays when it is dropped.
#[derive(Debug)]
pub struct UnixListener {
    listening: Listening<net::UnixListener>,
}

impl UnixListener {
    /// Listens at a path that no file has.
    ///
    /// # Errors
    ///
    /// If there is a file already, or the kernel refuses.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_by(&Authority::implicit()?, path.as_ref())
    }

    /// As [`bind`](UnixListener::bind), under a capability: see [`UnixStream::connect_under`].
    ///
    /// # Errors
    ///
    /// As for [`bind`](UnixListener::bind), and the refusals of the capability.
    pub fn bind_under<P: AsRef<Path>>(cap: &CapNet, path: P) -> io::Result<UnixListener> {
        UnixListener::bind_by(&Authority::shown(cap)?, path.as_ref())
    }

    fn bind_by(authority: &Authority<'_, CapNet>, path: &Path) -> io::Result<UnixListener> {
        let permit = authority.path(NetUse::Bind)?;
        let name = Name::Unix(path.into());
        Charge::new(cost::SOCKET)?.keep();
        let listening = if parcae::io::place() == IoPlace::Simulated {
            Listening::simulated(sim::listen_alone(name)?)
        } else {
            let listener = net::UnixListener::bind(path)?;
            sys::lengthen_backlog(listener.as_fd())?;
            listener.set_nonblocking(true)?;
            Listening::real(listener, name)
        };
        Ok(UnixListener { listening: listening.counted(permit) })
    }

    /// Takes a listener over from the standard library. It is made non-blocking, also for others
    /// that share it.
    ///
    /// # Errors
    ///
    /// Under the deterministic executor; or if the kernel refuses.
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        let name = Name::of_unix(listener.local_addr());
        refuse_simulated(&name)?;
        listener.set_nonblocking(true)?;
        Ok(UnixListener { listening: Listening::real(listener, name) })
    }

    /// Gives the listener to the standard library, as a blocking one.
    ///
    /// # Errors
    ///
    /// For a simulated listener; or if the kernel refuses.
    pub fn into_std(self) -> io::Result<net::UnixListener> {
        let listener = self.listening.into_real()?;
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    /// Waits for a connection. A cancel point: a cancelled call has taken none.
    ///
    /// # Errors
    ///
    /// Those of the kernel, also passing ones; [`incoming`](UnixListener::incoming) survives them.
    pub fn accept(&self) -> io::Result<UnixStream> {
        let real = |(socket, _): Accepted| Ok(Stream::real(socket.into(), Name::Unnamed));
        Ok(UnixStream { stream: self.listening.accept(real)? })
    }

    /// Connections, for a loop that goes on: see
    /// [`TcpListener::incoming`](super::TcpListener::incoming).
    pub fn incoming(&self) -> Incoming<'_, UnixListener> {
        Incoming::new(self)
    }
}

impl Accepts for UnixListener {
    type Stream = UnixStream;

    fn accept_one(&self) -> io::Result<UnixStream> {
        self.accept()
    }
}

/// The descriptor of a real listener.
///
/// # Panics
///
/// A simulated listener has none.
impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listening.as_fd()
    }
}

/// A Unix socket for datagrams, as `std::os::unix::net::UnixDatagram`.
#[derive(Debug)]
pub struct UnixDatagram {
    socket: Datagrams<net::UnixDatagram>,
}

impl UnixDatagram {
    /// A socket at a path that no file has.
    ///
    /// # Errors
    ///
    /// If there is a file already, or the kernel refuses.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_by(&Authority::implicit()?, path.as_ref())
    }

    /// As [`bind`](UnixDatagram::bind), under a capability: see [`UnixStream::connect_under`].
    ///
    /// # Errors
    ///
    /// As for [`bind`](UnixDatagram::bind), and the refusals of the capability.
    pub fn bind_under<P: AsRef<Path>>(cap: &CapNet, path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_by(&Authority::shown(cap)?, path.as_ref())
    }

    fn bind_by(authority: &Authority<'_, CapNet>, path: &Path) -> io::Result<UnixDatagram> {
        let permit = authority.path(NetUse::Bind)?;
        let name = Name::Unix(path.into());
        Charge::new(cost::SOCKET)?.keep();
        let socket = if parcae::io::place() == IoPlace::Simulated {
            Datagrams::simulated(sim::mailbox(name)?)
        } else {
            UnixDatagram::real(net::UnixDatagram::bind(path)?, name)?.socket
        };
        Ok(UnixDatagram { socket: socket.counted(permit) })
    }

    /// A socket without a name, which can send.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::unbound_by(&Authority::implicit()?)
    }

    /// As [`unbound`](UnixDatagram::unbound), under a capability: see
    /// [`UnixStream::connect_under`].
    ///
    /// # Errors
    ///
    /// As for [`unbound`](UnixDatagram::unbound), and the refusals of the capability.
    pub fn unbound_under(cap: &CapNet) -> io::Result<UnixDatagram> {
        UnixDatagram::unbound_by(&Authority::shown(cap)?)
    }

    fn unbound_by(authority: &Authority<'_, CapNet>) -> io::Result<UnixDatagram> {
        // It sends to paths.
        let permit = authority.path(NetUse::Connect)?;
        Charge::new(cost::SOCKET)?.keep();
        let socket = if parcae::io::place() == IoPlace::Simulated {
            Datagrams::simulated(sim::mailbox(Name::Unnamed)?)
        } else {
            UnixDatagram::real(net::UnixDatagram::unbound()?, Name::Unnamed)?.socket
        };
        Ok(UnixDatagram { socket: socket.counted(permit) })
    }

    fn real(socket: net::UnixDatagram, name: Name) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        Ok(UnixDatagram { socket: Datagrams::real(socket, name) })
    }

    /// Sends a datagram to the socket at this path. Waits while its queue is full.
    ///
    /// # Errors
    ///
    /// If there is none, or the task is cancelled.
    pub fn send_to<P: AsRef<Path>>(&self, bytes: &[u8], path: P) -> io::Result<usize> {
        let path = path.as_ref();
        let real = || PeerAddress::of_unix(path).map(Some);
        self.socket.send_to(bytes, &Name::Unix(path.into()), real)
    }

    /// Waits for a datagram; its rest beyond the buffer is lost. Returns its length.
    ///
    /// # Errors
    ///
    /// If the task is cancelled: then none was taken.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer).map(|(length, _)| length)
    }
}
