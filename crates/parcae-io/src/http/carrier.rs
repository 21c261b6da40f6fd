//! The stream below HTTP: a socket, or TLS on a socket.

use crate::net::TcpStream;
use crate::source::Limit;
#[cfg(feature = "tls")]
use crate::tls::TlsStream;
use std::io::{self, Write};
use std::time::Duration;

/// A stream that carries requests and answers.
#[derive(Debug)]
pub(super) enum Carrier {
    Plain(TcpStream),
    /// Boxed: an idle connection is small.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Carrier {
    fn from(stream: TcpStream) -> Carrier {
        Carrier::Plain(stream)
    }
}

#[cfg(feature = "tls")]
impl From<TlsStream<TcpStream>> for Carrier {
    fn from(stream: TlsStream<TcpStream>) -> Carrier {
        Carrier::Tls(Box::new(stream))
    }
}

impl Carrier {
    /// The socket, whose timeouts count and whose directions can be ended.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Carrier::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => stream.get_ref(),
        }
    }

    /// Reads, for so long at most. By TLS the limit is one of all reads from the socket together,
    /// and no alarm is kept.
    pub(super) fn read_limited(&self, buffer: &mut [u8], limit: Limit<'_>) -> io::Result<usize> {
        match self {
            Carrier::Plain(stream) => stream.read_limited(buffer, limit),
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => stream.read_until(buffer, limit.at()),
        }
    }

    /// Ends a connection on which all has been said: by TLS that is said, too.
    pub(super) fn close(self, grace: Duration) -> io::Result<()> {
        self.socket().set_write_timeout(Some(grace))?;
        match self {
            Carrier::Plain(stream) => drop(stream),
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => stream.close()?,
        }
        Ok(())
    }

    /// Ends the output, then reads and drops the rest of the input for at most `grace`.
    pub(super) fn close_gracefully(self, grace: Duration) -> io::Result<()> {
        match self {
            Carrier::Plain(stream) => stream.close_gracefully(grace),
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => stream.close_gracefully(grace),
        }
    }
}

impl Write for &Carrier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Carrier::Plain(stream) => (&mut &*stream).write(bytes),
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => (&mut &**stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Carrier::Plain(stream) => (&mut &*stream).flush(),
            #[cfg(feature = "tls")]
            Carrier::Tls(stream) => (&mut &**stream).flush(),
        }
    }
}
