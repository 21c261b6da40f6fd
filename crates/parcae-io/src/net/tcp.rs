//! TCP streams and listeners.

use super::accept::{Accepts, Incoming, Listening};
use super::addr::{Addresses, ToSocketAddrs};
use super::connect;
use super::halves::{stream_halves, stream_methods};
use super::messages::Connect;
use super::ops::Accepted;
use super::stream::{Backend, Name, Stream, refuse_simulated};
use crate::authority::Authority;
use crate::cost;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Charge, Limit, Operation, Source};
use crate::sys;
use parcae::cap::CapNet;
use parcae::io::IoPlace;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A TCP connection, as `std::net::TcpStream`.
///
/// A shared reference reads and writes, too, so two tasks can use both directions:
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let client = TcpStream::connect(listener.local_addr()?)?;
///     let (server, _) = listener.accept()?;
///     cx.nursery(|n| {
///         n.spawn(|_| Ok((&server).write_all(b"ping")?))?;
///         n.spawn(|_| Ok((&client).write_all(b"pong")?))?;
///         let mut word = [0; 4];
///         (&client).read_exact(&mut word)?;
///         assert_eq!(&word, b"ping");
///         (&server).read_exact(&mut word)?;
///         assert_eq!(&word, b"pong");
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// `TCP_NODELAY` is set: small messages leave at once.
#[derive(Debug)]
pub struct TcpStream {
    stream: Stream<net::TcpStream>,
}

impl TcpStream {
    /// Connects to one of the addresses. If there are several, each one has 250 ms before the next
    /// is tried as well, and the first connection wins (RFC 8305); outside of tasks one is tried
    /// after the other. A cancel point: a cancelled attempt is given up, and its socket closed.
    ///
    /// # Errors
    ///
    /// That of the last attempt; if there is no address, `InvalidInput`; if the name is not known;
    /// if the task is cancelled, see [`is_cancelled`](crate::is_cancelled).
    pub fn connect<A: ToSocketAddrs>(to: A) -> io::Result<TcpStream> {
        TcpStream::connect_by(&Authority::implicit()?, to)
    }

    /// As [`connect`](TcpStream::connect), under a capability: the form of the sovereign profile.
    ///
    /// ```
    /// use parcae::cap::{AddressSet, Delegation, NetLimits};
    /// use parcae::prelude::*;
    /// use parcae::profile::Sovereign;
    /// use parcae_io::net::TcpStream;
    /// use std::io::ErrorKind;
    ///
    /// let rt = Runtime::builder().profile::<Sovereign>().build()?;
    /// let connect = "127.0.0.1:5432, 127.0.0.1:1".parse()?;
    /// let limits = NetLimits { bind: AddressSet::NONE, connect, max_sockets: 16 };
    /// let net = rt.cap_net(limits, Delegation::Forbidden);
    /// rt.run(|_| {
    ///     // Allowed; no one listens there.
    ///     let error = TcpStream::connect_under(&net, "127.0.0.1:1").unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    ///     // Not in the set.
    ///     let error = TcpStream::connect_under(&net, "127.0.0.1:2").unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    ///     // No capability is shown.
    ///     let error = TcpStream::connect("127.0.0.1:1").unwrap_err();
    ///     assert!(error.to_string().contains("pass a `&CapNet`"), "{error}");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`connect`](TcpStream::connect); `PermissionDenied` if the capability allows none of
    /// the addresses, `QuotaExceeded` if it has no place for another socket.
    pub fn connect_under<A: ToSocketAddrs>(cap: &CapNet, to: A) -> io::Result<TcpStream> {
        TcpStream::connect_by(&Authority::shown(cap)?, to)
    }

    fn connect_by<A: ToSocketAddrs>(
        authority: &Authority<'_, CapNet>,
        to: A,
    ) -> io::Result<TcpStream> {
        let addresses = to.resolve_for(&|| authority.names())?;
        if addresses.len() > 1 && parcae::io::place() != IoPlace::Thread {
            let addresses: Vec<_> = addresses.collect();
            return Ok(TcpStream { stream: connect::race(&addresses, authority)? });
        }
        first_of(addresses, |to| TcpStream::connect_to(authority, to, None))
    }

    /// As [`connect`](TcpStream::connect), to one address and with a timeout.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or as for [`connect`](TcpStream::connect).
    pub fn connect_timeout(to: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_to(&Authority::implicit()?, *to, Some(timeout))
    }

    /// As [`connect_timeout`](TcpStream::connect_timeout), under a capability: see
    /// [`connect_under`](TcpStream::connect_under).
    ///
    /// # Errors
    ///
    /// `TimedOut`, or as for [`connect_under`](TcpStream::connect_under).
    pub fn connect_timeout_under(
        cap: &CapNet,
        to: &SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        TcpStream::connect_to(&Authority::shown(cap)?, *to, Some(timeout))
    }

    fn connect_to(
        authority: &Authority<'_, CapNet>,
        to: SocketAddr,
        timeout: Option<Duration>,
    ) -> io::Result<TcpStream> {
        let permit = authority.connect(to)?;
        let peer = Name::Inet(to);
        let operation = Operation {
            direction: Direction::Write,
            cost: cost::CONNECT,
            limit: Limit::of(timeout),
            what: "connecting to",
            object: &peer,
        };
        if parcae::io::place() == IoPlace::Simulated {
            let stream = sim::connect(operation, peer.clone())?;
            return Ok(TcpStream { stream: Stream::simulated(stream).counted(permit) });
        }
        let socket = sys::tcp_socket(to);
        if socket.is_err() {
            Charge::new(operation.cost)?.keep(); // it has happened, and failed
        }
        let socket = Source::new(net::TcpStream::from(socket?));
        socket.operate_socket(operation, Connect::new(to))?;
        Ok(TcpStream { stream: connect::finish(socket, to)?.counted(permit) })
    }

    /// As a read, with a limit in place of the timeout.
    pub(crate) fn read_limited(&self, buffer: &mut [u8], limit: Limit<'_>) -> io::Result<usize> {
        self.stream.read_limited(buffer, limit)
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// If the socket has none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer.inet()
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// If the socket has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.stream.backend {
            Backend::Os(source) => source.get().local_addr(),
            Backend::Sim(stream) => stream.local().inet(),
        }
    }

    /// Whether small messages leave at once. No effect on a simulated connection, where all do.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.stream.real_socket().map_or(Ok(()), |io| io.set_nodelay(on))
    }

    /// Whether small messages leave at once.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.stream.real_socket().map_or(Ok(true), net::TcpStream::nodelay)
    }
}

stream_methods!(TcpStream, net::TcpStream, |io| io.peer_addr().map_or(Name::Unnamed, Name::Inet));
stream_halves!(TcpStream, TcpReadHalf, TcpWriteHalf, OwnedTcpReadHalf, OwnedTcpWriteHalf);

/// The first success with one of the addresses.
pub(super) fn first_of<T>(
    addresses: Addresses,
    mut with: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses {
        match with(address) {
            Err(error) if !crate::is_cancelled(&error) => last = Some(error),
            done => return done,
        }
    }
    Err(last.unwrap_or_else(connect::no_address))
}

/// A TCP listener, as `std::net::TcpListener`.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// let rt = Runtime::builder().build()?;
/// let answer = rt.run(|cx| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let stop = CancelToken::new();
///     cx.nursery(|n| {
///         let serving = NurseryOpts::new().token(&stop);
///         n.spawn(move |cx| {
///             let served = cx.nursery_with(serving, |n| {
///                 for stream in listener.incoming() {
///                     let mut stream = stream?; // an error when the server is stopped
///                     n.spawn(move |_| Ok(stream.write_all(b"hello")?))?;
///                 }
///                 Ok(())
///             });
///             served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
///         })?;
///         let mut answer = String::new();
///         TcpStream::connect(address)?.read_to_string(&mut answer)?;
///         stop.cancel();
///         Ok(answer)
///     })
/// })?;
/// assert_eq!(answer, "hello");
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpListener {
    listening: Listening<net::TcpListener>,
}

impl TcpListener {
    /// Listens on the first of the addresses that is free. Port 0 chooses one. As many connections
    /// may wait to be accepted as the kernel allows (`net.core.somaxconn`, 4096 unless changed).
    ///
    /// # Errors
    ///
    /// That of the last address.
    pub fn bind<A: ToSocketAddrs>(to: A) -> io::Result<TcpListener> {
        TcpListener::bind_by(&Authority::implicit()?, to)
    }

    /// As [`bind`](TcpListener::bind), under a capability, which its connections count against,
    /// too: see [`TcpStream::connect_under`].
    ///
    /// # Errors
    ///
    /// As for [`bind`](TcpListener::bind) and [`TcpStream::connect_under`].
    pub fn bind_under<A: ToSocketAddrs>(cap: &CapNet, to: A) -> io::Result<TcpListener> {
        TcpListener::bind_by(&Authority::shown(cap)?, to)
    }

    fn bind_by<A: ToSocketAddrs>(
        authority: &Authority<'_, CapNet>,
        to: A,
    ) -> io::Result<TcpListener> {
        first_of(to.resolve_for(&|| authority.names())?, |to| {
            let permit = authority.bind(to)?;
            Charge::new(cost::SOCKET)?.keep();
            let listening = if parcae::io::place() == IoPlace::Simulated {
                Listening::simulated(sim::listen_alone(Name::Inet(to))?)
            } else {
                let listener = net::TcpListener::bind(to)?;
                sys::lengthen_backlog(listener.as_fd())?;
                TcpListener::from_real(listener)?.listening
            };
            Ok(TcpListener { listening: listening.counted(permit) })
        })
    }

    /// Several listeners at one address (`SO_REUSEPORT`), with a queue of connections each: the
    /// kernel chooses one for each connection, by a hash of the addresses. For a server that
    /// accepts more connections than one task can: each listener has an accept loop of its own, in
    /// a task with [`Placement::Spread`](parcae::task::Placement::Spread).
    ///
    /// A single listener is better otherwise. Its queue is one for all: connections wait for the
    /// next task that is free, and not for the one that the hash has chosen. And when one of
    /// several listeners is closed, the connections in its queue are reset.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::task::Placement;
    /// use parcae_io::net::{TcpListener, TcpStream};
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// rt.run(|cx| {
    ///     let listeners = TcpListener::bind_shards("127.0.0.1:0", 2)?;
    ///     let address = listeners[0].local_addr()?;
    ///     assert_eq!(listeners[1].local_addr()?, address);
    ///     let (accepted, counted) = parcae::channel::channel(8);
    ///     let stop = CancelToken::new();
    ///     let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
    ///         for listener in &listeners {
    ///             let accepted = accepted.clone();
    ///             n.spawn_with(SpawnOpts::new().placement(Placement::Spread), move |_| {
    ///                 for stream in listener.incoming() {
    ///                     accepted.send(stream?.peer_addr()?)?;
    ///                 }
    ///                 Ok(())
    ///             })?;
    ///         }
    ///         for _ in 0..8 {
    ///             TcpStream::connect(address)?;
    ///             counted.recv()?; // each is accepted once
    ///         }
    ///         stop.cancel();
    ///         Ok(())
    ///     });
    ///     assert!(served.unwrap_err().is_cancelled());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no listeners; otherwise that of the last address. Other processes of the
    /// same user may share the address, too.
    pub fn bind_shards<A: ToSocketAddrs>(to: A, shards: usize) -> io::Result<Vec<TcpListener>> {
        TcpListener::shards_by(&Authority::implicit()?, to, shards)
    }

    /// As [`bind_shards`](TcpListener::bind_shards), under a capability: see
    /// [`bind_under`](TcpListener::bind_under). Each listener counts.
    ///
    /// # Errors
    ///
    /// As for [`bind_shards`](TcpListener::bind_shards), and the refusals of the capability.
    pub fn bind_shards_under<A: ToSocketAddrs>(
        cap: &CapNet,
        to: A,
        shards: usize,
    ) -> io::Result<Vec<TcpListener>> {
        TcpListener::shards_by(&Authority::shown(cap)?, to, shards)
    }

    fn shards_by<A: ToSocketAddrs>(
        authority: &Authority<'_, CapNet>,
        to: A,
        shards: usize,
    ) -> io::Result<Vec<TcpListener>> {
        if shards == 0 {
            let text = "no listeners were asked for: pass 1 or more";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        first_of(to.resolve_for(&|| authority.names())?, |to| {
            let permits = (0..shards).map(|_| authority.bind(to));
            let permits = permits.collect::<io::Result<Vec<_>>>()?;
            Charge::new(cost::SOCKET * shards as u64)?.keep();
            let listening: Vec<_> = if parcae::io::place() == IoPlace::Simulated {
                let listeners = sim::listen(Name::Inet(to), shards)?;
                listeners.into_iter().map(Listening::simulated).collect()
            } else {
                let first = net::TcpListener::from(sys::listen_shared(to)?);
                let at = first.local_addr()?; // with the port that the kernel has chosen
                let others = (1..shards).map(|_| sys::listen_shared(at).map(Into::into));
                let real =
                    |listener: io::Result<_>| Ok(TcpListener::from_real(listener?)?.listening);
                std::iter::once(Ok(first)).chain(others).map(real).collect::<io::Result<_>>()?
            };
            let counted = listening.into_iter().zip(permits).map(|(listening, permit)| {
                TcpListener { listening: listening.counted(permit) } //
            });
            Ok(counted.collect())
        })
    }

    /// Takes a listener over from the standard library. It is made non-blocking, also for others
    /// that share it.
    ///
    /// # Errors
    ///
    /// Under the deterministic executor; or if the kernel refuses.
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        refuse_simulated(&listener.local_addr().map_or(Name::Unnamed, Name::Inet))?;
        TcpListener::from_real(listener)
    }

    fn from_real(listener: net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        sys::set_nodelay(listener.as_fd())?; // its connections inherit it
        let name = Name::Inet(listener.local_addr()?);
        Ok(TcpListener { listening: Listening::real(listener, name) })
    }

    /// Gives the listener to the standard library, as a blocking one.
    ///
    /// # Errors
    ///
    /// For a simulated listener; or if the kernel refuses.
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        let listener = self.listening.into_real()?;
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    /// Waits for a connection. A cancel point: a cancelled call has taken none.
    ///
    /// # Errors
    ///
    /// Those of the kernel, also passing ones; [`incoming`](TcpListener::incoming) survives them.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let real = |(socket, peer): Accepted| {
            let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?;
            Ok(Stream::real(socket.into(), Name::Inet(peer)))
        };
        let stream = self.listening.accept(real)?;
        let peer = stream.peer.inet()?;
        Ok((TcpStream { stream }, peer))
    }

    /// Connections, for a loop that goes on: errors of single connections are passed over, and
    /// when the process has no room for another descriptor it waits, up to a second, and tries
    /// again. Ends after the error of a cancelled task.
    pub fn incoming(&self) -> Incoming<'_, TcpListener> {
        Incoming::new(self)
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// If the socket has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listening.name().inet()
    }
}

impl Accepts for TcpListener {
    type Stream = TcpStream;

    fn accept_one(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

/// The descriptor of a real listener.
///
/// # Panics
///
/// A simulated listener has none.
impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listening.as_fd()
    }
}
