//! TCP streams and listeners.

use super::accept::{Accepts, Incoming};
use super::halves::stream_halves;
use super::stream::{Backend, Name, Stream};
use crate::error::not_replayable;
use crate::sim;
use crate::source::slot::Direction;
use crate::source::{Attempt, Charge, Operation, Source};
use crate::sys::{self, Connecting};
use parcae::io::IoPlace;
use std::io;
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The cost of a connect.
const CONNECT: u64 = 2;

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
    /// Connects to the first of the addresses that accepts. A cancel point: a cancelled attempt is
    /// given up, and its socket closed.
    ///
    /// # Errors
    ///
    /// That of the last address; if there is none, `InvalidInput`; if the task is cancelled, see
    /// [`is_cancelled`](crate::is_cancelled).
    pub fn connect<A: ToSocketAddrs>(to: A) -> io::Result<TcpStream> {
        first_of(to, |to| TcpStream::connect_to(to, None))
    }

    /// As [`connect`](TcpStream::connect), to one address and with a timeout.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or as for [`connect`](TcpStream::connect).
    pub fn connect_timeout(to: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_to(*to, Some(timeout))
    }

    fn connect_to(to: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
        let peer = Name::Inet(to);
        let operation = Operation {
            direction: Direction::Write,
            cost: CONNECT,
            timeout,
            what: "connecting to",
            object: &peer,
        };
        if parcae::io::place() == IoPlace::Simulated {
            let stream = sim::connect(operation, peer.clone())?;
            return Ok(TcpStream { stream: Stream::simulated(stream) });
        }
        // First: a connect that cannot be paid for sends nothing.
        let charge = Charge::new(CONNECT)?;
        let operation = Operation { cost: 0, ..operation };
        let (socket, state) = sys::connect_tcp(to)?;
        let socket = Source::new(net::TcpStream::from(socket));
        let mut asked = state == Connecting::Done;
        socket.operate(operation, |socket| {
            // Not connected: the socket becomes writable when it is decided.
            if !asked {
                asked = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match socket.take_error()? {
                Some(error) => Err(error),
                None if is_pending(socket)? => Err(io::ErrorKind::WouldBlock.into()),
                None => Ok(Attempt::Full(())),
            }
        })?;
        charge.keep();
        let io = socket.get();
        if io.local_addr()? == to {
            // The kernel has given the socket its own peer's port: it talks to itself.
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        io.set_nodelay(true)?;
        Ok(TcpStream { stream: Stream::of_source(socket, peer) })
    }

    /// Takes a connection over from the standard library. Its flags stay as they are.
    ///
    /// # Errors
    ///
    /// Under the deterministic executor, whose runs real sockets would make unrepeatable.
    pub fn from_std(stream: net::TcpStream) -> io::Result<TcpStream> {
        let peer = stream.peer_addr().map_or(Name::Unnamed, Name::Inet);
        refuse_simulated(&peer)?;
        Ok(TcpStream { stream: Stream::real(stream, peer) })
    }

    /// Gives the connection to the standard library, as a blocking one.
    ///
    /// # Errors
    ///
    /// For a simulated connection; or if the kernel refuses.
    pub fn into_std(self) -> io::Result<net::TcpStream> {
        let peer = self.stream.peer.clone();
        match self.stream.backend {
            Backend::Os(source) => {
                let stream = source.into_inner();
                stream.set_nonblocking(false)?;
                Ok(stream)
            }
            Backend::Sim(_) => Err(not_replayable("into_std of a connection to", &peer)),
        }
    }

    /// Reads without taking the bytes out: the next read returns them again.
    ///
    /// # Errors
    ///
    /// As for reading.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.peek(buffer)
    }

    /// Ends reading, writing or both. The peer reads to the end of what was written. Ending what
    /// has ended already is no error.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how, |io| io.shutdown(how))
    }

    /// Ends the output, then reads and drops the peer's rest until its end, for at most `grace`.
    /// Closing at once instead, with unread input, would make the kernel reset the connection, and
    /// the peer might lose what it has not read yet.
    ///
    /// # Errors
    ///
    /// If the task is cancelled meanwhile. A peer that is gone or slow is no error.
    pub fn close_gracefully(self, grace: Duration) -> io::Result<()> {
        self.stream.close_gracefully(grace, |io| io.shutdown(Shutdown::Write))
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

    /// The longest time that a read waits; `None`: any time. An error `TimedOut` says that it has
    /// passed, and no byte was taken.
    ///
    /// # Errors
    ///
    /// For a timeout of zero.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.stream.read_timeout.set(time)
    }

    /// As [`set_read_timeout`](TcpStream::set_read_timeout), for writes.
    ///
    /// # Errors
    ///
    /// For a timeout of zero.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.stream.write_timeout.set(time)
    }

    /// The timeout of reads.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.stream.read_timeout.get()
    }

    /// The timeout of writes.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.stream.write_timeout.get()
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

stream_halves!(TcpStream, TcpReadHalf, TcpWriteHalf, OwnedTcpReadHalf, OwnedTcpWriteHalf);

/// The descriptor of a real connection.
///
/// # Panics
///
/// A simulated connection has none.
impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whether a socket is still connecting: it has neither a peer nor an error.
fn is_pending(socket: &net::TcpStream) -> io::Result<bool> {
    match socket.peer_addr() {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(true),
        Err(error) => Err(error),
    }
}

/// Refuses a real socket under the deterministic executor.
pub(super) fn refuse_simulated(name: &Name) -> io::Result<()> {
    match parcae::io::place() {
        IoPlace::Simulated => Err(not_replayable("from_std of", name)),
        IoPlace::Task | IoPlace::Thread => Ok(()),
    }
}

/// The first success with one of the addresses.
pub(super) fn first_of<A: ToSocketAddrs, T>(
    addresses: A,
    mut with: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match with(address) {
            Err(error) if !crate::is_cancelled(&error) => last = Some(error),
            done => return done,
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
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
    listener: Listener,
    name: Name,
}

#[derive(Debug)]
enum Listener {
    Os(Source<net::TcpListener>),
    Sim(sim::SimListener),
}

impl TcpListener {
    /// Listens on the first of the addresses that is free. Port 0 chooses one.
    ///
    /// # Errors
    ///
    /// That of the last address.
    pub fn bind<A: ToSocketAddrs>(to: A) -> io::Result<TcpListener> {
        first_of(to, |to| {
            if parcae::io::place() == IoPlace::Simulated {
                let listener = sim::listen(Name::Inet(to))?;
                let name = listener.local().clone();
                return Ok(TcpListener { listener: Listener::Sim(listener), name });
            }
            TcpListener::from_real(net::TcpListener::bind(to)?)
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
        Ok(TcpListener { listener: Listener::Os(Source::new(listener)), name })
    }

    /// Gives the listener to the standard library, as a blocking one.
    ///
    /// # Errors
    ///
    /// For a simulated listener; or if the kernel refuses.
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        match self.listener {
            Listener::Os(source) => {
                let listener = source.into_inner();
                listener.set_nonblocking(false)?;
                Ok(listener)
            }
            Listener::Sim(_) => Err(not_replayable("into_std of", &self.name)),
        }
    }

    /// Waits for a connection. A cancel point: a cancelled call has taken none.
    ///
    /// # Errors
    ///
    /// Those of the kernel, also passing ones; [`incoming`](TcpListener::incoming) survives them.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let operation = Operation {
            direction: Direction::Read,
            cost: 1,
            timeout: None,
            what: "accepting at",
            object: &self.name,
        };
        match &self.listener {
            Listener::Os(source) => {
                // Not short: there may be more connections until the kernel says otherwise.
                let accepted = source.operate(operation, |io| io.accept().map(Attempt::Full));
                let (stream, peer) = accepted?;
                Ok((TcpStream { stream: Stream::real(stream, Name::Inet(peer)) }, peer))
            }
            Listener::Sim(listener) => {
                let stream = listener.accept(operation)?;
                let peer = stream.peer().inet()?;
                Ok((TcpStream { stream: Stream::simulated(stream) }, peer))
            }
        }
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
        self.name.inet()
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
        match &self.listener {
            Listener::Os(source) => source.get().as_fd(),
            Listener::Sim(_) => panic!("a socket of the simulated network has no descriptor"),
        }
    }
}
