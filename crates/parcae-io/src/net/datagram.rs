//! Datagrams on either backend, and UDP.

use super::addr::{Addresses, ToSocketAddrs};
use super::messages::{ReceiveDatagram, SendDatagram};
use super::stream::{Name, Timeout, refuse_simulated};
use super::tcp::first_of;
use crate::authority::Authority;
use crate::cost;
use crate::error::{denied, not_replayable};
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Charge, Limit, Operation, Source};
use crate::sys::PeerAddress;
use parcae::cap::{CapNet, SocketPermit};
use parcae::io::IoPlace;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams<S: AsFd> {
    backend: Backend<S>,
    name: Name,
    timeout: Timeout,
    permit: Option<SocketPermit>,
}

#[derive(Debug)]
enum Backend<S: AsFd> {
    Os(Source<S>),
    Sim(sim::Mailbox),
}

impl<S: AsFd> Datagrams<S> {
    pub(super) fn real(io: S, name: Name) -> Datagrams<S> {
        Datagrams::new(Backend::Os(Source::new(io)), name)
    }

    pub(super) fn simulated(mailbox: sim::Mailbox) -> Datagrams<S> {
        let name = mailbox.name().clone();
        Datagrams::new(Backend::Sim(mailbox), name)
    }

    fn new(backend: Backend<S>, name: Name) -> Datagrams<S> {
        Datagrams { backend, name, timeout: Timeout::default(), permit: None }
    }

    /// Counted under a capability.
    pub(super) fn counted(mut self, permit: Option<SocketPermit>) -> Datagrams<S> {
        self.permit = permit;
        self
    }

    /// Takes a datagram: its length, and its sender if that has an address of the Internet.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
        let operation = Operation {
            direction: Direction::Read,
            cost: cost::of_bytes(buffer.len()),
            limit: Limit::of(self.timeout.get()),
            what: "receiving at",
            object: &self.name,
        };
        match &self.backend {
            Backend::Os(source) => source.operate_socket(operation, ReceiveDatagram::new(buffer)),
            Backend::Sim(mailbox) => {
                let (length, from) = mailbox.receive(operation, buffer)?;
                Ok((length, from.inet().ok()))
            }
        }
    }

    /// Sends a datagram. `real`: where the kernel is to send it, or nowhere if that is its only
    /// peer.
    pub(super) fn send_to(
        &self,
        bytes: &[u8],
        to: &Name,
        real: impl FnOnce() -> io::Result<Option<PeerAddress>>,
    ) -> io::Result<usize> {
        let operation = Operation {
            direction: Direction::Write,
            cost: cost::of_bytes(bytes.len()),
            limit: Limit::Endless,
            what: "sending to",
            object: to,
        };
        match &self.backend {
            Backend::Os(source) => {
                source.operate_socket(operation, SendDatagram::new(bytes, real()?))
            }
            Backend::Sim(mailbox) => mailbox.send(operation, bytes, to),
        }
    }
}

/// A UDP socket, as `std::net::UdpSocket`.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::UdpSocket;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     there.send_to(b"knock", here.local_addr()?)?;
///     let mut buffer = [0; 64];
///     let (length, from) = here.recv_from(&mut buffer)?;
///     assert_eq!((&buffer[..length], from), (&b"knock"[..], there.local_addr()?));
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    socket: Datagrams<net::UdpSocket>,
    /// The only peer, once it was chosen.
    peer: OnceLock<SocketAddr>,
}

impl UdpSocket {
    /// A socket at the first of the addresses that is free. Port 0 chooses one.
    ///
    /// # Errors
    ///
    /// That of the last address.
    pub fn bind<A: ToSocketAddrs>(to: A) -> io::Result<UdpSocket> {
        UdpSocket::bind_by(&Authority::implicit()?, to)
    }

    /// As [`bind`](UdpSocket::bind), under a capability, whose set `connect` has the addresses that
    /// the socket may send to.
    ///
    /// # Errors
    ///
    /// As for [`bind`](UdpSocket::bind), and the refusals of the capability.
    pub fn bind_under<A: ToSocketAddrs>(cap: &CapNet, to: A) -> io::Result<UdpSocket> {
        UdpSocket::bind_by(&Authority::shown(cap)?, to)
    }

    fn bind_by<A: ToSocketAddrs>(
        authority: &Authority<'_, CapNet>,
        to: A,
    ) -> io::Result<UdpSocket> {
        first_of(to.resolve_for(&|| authority.names())?, |to| {
            let permit = authority.bind(to)?;
            Charge::new(cost::SOCKET)?.keep();
            let socket = if parcae::io::place() == IoPlace::Simulated {
                Datagrams::simulated(sim::mailbox(Name::Inet(to))?)
            } else {
                UdpSocket::from_real(net::UdpSocket::bind(to)?)?.socket
            };
            Ok(UdpSocket { socket: socket.counted(permit), peer: OnceLock::new() })
        })
    }

    /// The addresses of an argument, if the socket may send to them.
    fn targets<A: ToSocketAddrs>(&self, to: A) -> io::Result<Addresses> {
        let permit = self.socket.permit.as_ref();
        let names = || permit.map_or(Ok(()), |permit| permit.check_names().map_err(denied));
        to.resolve_for(&names)
    }

    fn check_target(&self, to: SocketAddr) -> io::Result<()> {
        let permit = self.socket.permit.as_ref();
        permit.map_or(Ok(()), |permit| permit.check_connect(to).map_err(denied))
    }

    /// Takes a socket over from the standard library. It is made non-blocking, also for others that
    /// share it.
    ///
    /// # Errors
    ///
    /// Under the deterministic executor; or if the kernel refuses.
    pub fn from_std(socket: net::UdpSocket) -> io::Result<UdpSocket> {
        refuse_simulated(&socket.local_addr().map_or(Name::Unnamed, Name::Inet))?;
        UdpSocket::from_real(socket)
    }

    fn from_real(socket: net::UdpSocket) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        let name = Name::Inet(socket.local_addr()?);
        Ok(UdpSocket { socket: Datagrams::real(socket, name), peer: OnceLock::new() })
    }

    /// Gives the socket to the standard library, as a blocking one.
    ///
    /// # Errors
    ///
    /// For a simulated socket; or if the kernel refuses.
    pub fn into_std(self) -> io::Result<net::UdpSocket> {
        match self.socket.backend {
            Backend::Os(source) => {
                let socket = source.into_inner();
                socket.set_nonblocking(false)?;
                Ok(socket)
            }
            Backend::Sim(_) => Err(not_replayable("into_std of", &self.socket.name)),
        }
    }

    /// Chooses the only peer: [`send`](UdpSocket::send) goes there, and datagrams of others are
    /// dropped. Once per socket.
    ///
    /// # Errors
    ///
    /// If there is a peer already, or the kernel refuses.
    pub fn connect<A: ToSocketAddrs>(&self, to: A) -> io::Result<()> {
        first_of(self.targets(to)?, |to| {
            self.check_target(to)?;
            if let Backend::Os(source) = &self.socket.backend {
                source.get().connect(to)?;
            }
            self.peer.set(to).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))
        })
    }

    /// Sends a datagram. Waits while the kernel has no room for it.
    ///
    /// # Errors
    ///
    /// Those of the kernel; if the task is cancelled, it was not sent.
    pub fn send_to<A: ToSocketAddrs>(&self, bytes: &[u8], to: A) -> io::Result<usize> {
        first_of(self.targets(to)?, |to| {
            self.check_target(to)?;
            let real = || Ok(Some(PeerAddress::of_inet(to)));
            self.socket.send_to(bytes, &Name::Inet(to), real)
        })
    }

    /// Sends a datagram to the only peer.
    ///
    /// # Errors
    ///
    /// `NotConnected` without one; or as for [`send_to`](UdpSocket::send_to).
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let peer = *self.peer.get().ok_or(io::ErrorKind::NotConnected)?;
        self.socket.send_to(bytes, &Name::Inet(peer), || Ok(None))
    }

    /// Waits for a datagram; its rest beyond the buffer is lost. Returns its length and sender.
    ///
    /// # Errors
    ///
    /// If the task is cancelled or the timeout has passed: then none was taken.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            let (length, from) = self.socket.receive(buffer)?;
            let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
            if self.peer.get().is_none_or(|peer| *peer == from) {
                return Ok((length, from));
            }
        }
    }

    /// Waits for a datagram of the only peer, or of anyone without one.
    ///
    /// # Errors
    ///
    /// As for [`recv_from`](UdpSocket::recv_from).
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).map(|(length, _)| length)
    }

    /// The address of the socket.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.name.inet()
    }

    /// The longest time that a receive waits; `None`: any time.
    ///
    /// # Errors
    ///
    /// For a timeout of zero.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket.timeout.set(time)
    }
}

/// The descriptor of a real socket.
///
/// # Panics
///
/// A simulated socket has none.
impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket.backend {
            Backend::Os(source) => source.get().as_fd(),
            Backend::Sim(_) => panic!("a socket of the simulated network has no descriptor"),
        }
    }
}
