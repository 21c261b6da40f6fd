//! TLS, by rustls: streams that read and write as those below them.
//!
//! With the feature `tls`. Certificates, names and protocols are settled in the configurations of
//! rustls, which [`rustls`] re-exports; a connection is made from one and from a stream of
//! [`net`](crate::net), real or simulated:
//!
//! ```no_run
//! // Not run: it needs a certificate.
//! use parcae::prelude::*;
//! use parcae_io::net::{TcpListener, TcpStream};
//! use parcae_io::tls::{TlsAcceptor, TlsConnector, rustls};
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! # fn configs() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) { unimplemented!() }
//!
//! let (server, client) = configs();
//! let (acceptor, connector) = (TlsAcceptor::new(server), TlsConnector::new(client));
//! let rt = Runtime::builder().build()?;
//! rt.run(|cx| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     cx.nursery(|n| {
//!         n.spawn(|_| {
//!             let mut stream = acceptor.accept(listener.accept()?.0)?; // the handshake
//!             stream.write_all(b"hello")?;
//!             Ok(stream.close()?) // says that there is no more
//!         })?;
//!         let mut stream = connector.connect("localhost", TcpStream::connect(address)?)?;
//!         let mut text = String::new();
//!         stream.read_to_string(&mut text)?;
//!         assert_eq!(text, "hello");
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Errors
//!
//! Those of the stream below, cancellation among them. A violation of the protocol or a certificate
//! that is not accepted is `InvalidData` and carries the [`rustls::Error`]. A peer that ends the
//! stream without having said so (`close_notify`) is `UnexpectedEof`: an attacker may have cut it.
//!
//! # Limits
//!
//! The provider of algorithms is `ring`, which builds with a C compiler alone. Under the
//! deterministic executor the bytes of a connection differ from run to run, because its keys do.
//! Their *number*, on which the simulated network depends, does not if the certificate's key is
//! Ed25519 or RSA; signatures of ECDSA vary in length by a few bytes, and so may the run.

mod polled;
mod stream;
mod transport;

pub use rustls;
pub use stream::TlsStream;
pub use transport::Transport;

use crate::compat::Async;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The time for a handshake, unless the program sets another.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts connections by TLS: the server's side.
#[derive(Debug, Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    handshake: Duration,
}

impl TlsAcceptor {
    /// With this configuration, and a limit of [`HANDSHAKE`] for each handshake.
    pub fn new(config: Arc<ServerConfig>) -> TlsAcceptor {
        TlsAcceptor { config, handshake: HANDSHAKE }
    }

    /// The longest time that a handshake may take: a client that is slower, or says nothing, is
    /// given up.
    #[must_use]
    pub fn handshake_timeout(mut self, time: Duration) -> TlsAcceptor {
        self.handshake = time;
        self
    }

    /// Makes the handshake on a stream that was accepted. A cancel point.
    ///
    /// A handshake is work for the processor: it costs as much as [`HANDSHAKE_COST`] operations.
    ///
    /// # Errors
    ///
    /// `TimedOut`; otherwise see the [module](self).
    pub fn accept<S: Transport>(&self, stream: S) -> io::Result<TlsStream<S>> {
        TlsStream::establish(self.connection()?, stream, self.handshake)
    }

    /// As [`accept`](TlsAcceptor::accept), in async code: for a child that is a future, and for
    /// crates that take a stream of `futures-io`, `tokio::io` or hyper.
    ///
    /// # Errors
    ///
    /// As for [`accept`](TlsAcceptor::accept).
    pub async fn accept_async<S: Transport>(&self, stream: S) -> io::Result<Async<TlsStream<S>>> {
        TlsStream::establish_async(self.connection()?, stream, self.handshake).await
    }

    fn connection(&self) -> io::Result<Connection> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(invalid)?;
        Ok(Connection::Server(connection))
    }
}

/// Connects by TLS: the client's side.
#[derive(Debug, Clone)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    handshake: Duration,
}

impl TlsConnector {
    /// With this configuration, and a limit of [`HANDSHAKE`] for each handshake.
    pub fn new(config: Arc<ClientConfig>) -> TlsConnector {
        TlsConnector { config, handshake: HANDSHAKE }
    }

    /// As for [`TlsAcceptor::handshake_timeout`].
    #[must_use]
    pub fn handshake_timeout(mut self, time: Duration) -> TlsConnector {
        self.handshake = time;
        self
    }

    /// Makes the handshake on a stream that is connected to the server of this name, for which the
    /// server's certificate must hold. A cancel point.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is none; otherwise as for [`TlsAcceptor::accept`].
    pub fn connect<S: Transport>(&self, name: &str, stream: S) -> io::Result<TlsStream<S>> {
        TlsStream::establish(self.connection(name)?, stream, self.handshake)
    }

    /// As [`connect`](TlsConnector::connect), in async code: see
    /// [`accept_async`](TlsAcceptor::accept_async).
    ///
    /// # Errors
    ///
    /// As for [`connect`](TlsConnector::connect).
    pub async fn connect_async<S: Transport>(
        &self,
        name: &str,
        stream: S,
    ) -> io::Result<Async<TlsStream<S>>> {
        TlsStream::establish_async(self.connection(name)?, stream, self.handshake).await
    }

    fn connection(&self, name: &str) -> io::Result<Connection> {
        let server = ServerName::try_from(name.to_owned()).map_err(|error| {
            let text = format!("`{name}` is no name of a server: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let config = Arc::clone(&self.config);
        let connection = ClientConnection::new(config, server).map_err(invalid)?;
        Ok(Connection::Client(connection))
    }
}

/// Ops and syscalls that a handshake costs, beside those of its reads and writes. Measured against
/// an echo it is about a hundred of them; charged is a part, because sessions are resumed.
pub const HANDSHAKE_COST: u64 = 50;

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
