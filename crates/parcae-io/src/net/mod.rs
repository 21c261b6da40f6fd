//! TCP, UDP and Unix sockets, as in `std::net` and `std::os::unix::net`.
//!
//! | file | idea |
//! |---|---|
//! | `ops`, `messages` | reads, writes and accepts; datagrams and connects: for epoll and io_uring |
//! | `stream` | reading and writing a stream, on both backends |
//! | `tcp`, `unix` | streams and listeners |
//! | `datagram` | UDP and Unix datagrams |
//! | `addr` | arguments that name sockets; names are resolved by `dns` |
//! | `connect` | attempts at several addresses that overlap |
//! | `accept` | the loop of a listener, and the errors that it survives |

mod accept;
mod addr;
mod connect;
mod datagram;
mod halves;
mod messages;
mod ops;
mod polled;
mod stream;
mod tcp;
mod unix;

pub use crate::dns::{lookup_host, lookup_host_under};
pub use accept::Incoming;
pub use addr::{Addresses, ToSocketAddrs};
pub use datagram::UdpSocket;
pub(crate) use polled::PolledWait;
pub(crate) use stream::Name;
pub use tcp::{
    OwnedTcpReadHalf, OwnedTcpWriteHalf, TcpListener, TcpReadHalf, TcpStream, TcpWriteHalf,
};
pub use unix::{
    OwnedUnixReadHalf, OwnedUnixWriteHalf, UnixDatagram, UnixListener, UnixReadHalf, UnixStream,
    UnixWriteHalf,
};

use crate::poller::ring;
use parcae::io::IoPlace;
use parcae::runtime::SocketBackend;

/// The backend in force for sockets, in the runtime of the running task: [`SocketBackend::Ring`] if
/// it was [chosen](parcae::runtime::Builder::sockets) and the kernel allows it, which the first
/// call tries by a real operation. A connect to one of several addresses, and streams in async
/// code, are always by epoll.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::runtime::SocketBackend;
///
/// let rt = Runtime::builder().sockets(SocketBackend::Ring).build()?;
/// let backend = rt.run(|_| Ok(parcae_io::net::backend()))?;
/// println!("sockets by {backend:?}"); // Epoll, if a container forbids io_uring
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn backend() -> SocketBackend {
    match parcae::io::socket_place() {
        (IoPlace::Task, SocketBackend::Ring) if ring::is_for_sockets() => SocketBackend::Ring,
        _ => SocketBackend::Epoll,
    }
}
