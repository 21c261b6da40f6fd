//! TCP, UDP and Unix sockets, as in `std::net` and `std::os::unix::net`.
//!
//! | file | idea |
//! |---|---|
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
mod stream;
mod tcp;
mod unix;

pub use crate::dns::lookup_host;
pub use accept::Incoming;
pub use addr::{Addresses, ToSocketAddrs};
pub use datagram::UdpSocket;
pub(crate) use stream::Name;
pub use tcp::{
    OwnedTcpReadHalf, OwnedTcpWriteHalf, TcpListener, TcpReadHalf, TcpStream, TcpWriteHalf,
};
pub use unix::{
    OwnedUnixReadHalf, OwnedUnixWriteHalf, UnixDatagram, UnixListener, UnixReadHalf, UnixStream,
    UnixWriteHalf,
};
