//! Async crates on the tasks of Parcae.
//!
//! Straight-line code needs nothing of this. It is for crates that are written with `async`: their
//! futures run as children of a nursery ([`spawn_future`](parcae::Nursery::spawn_future)), without
//! a stack, and use streams that are wrapped in [`Async`].
//!
//! | feature | what it adds |
//! |---|---|
//! | `futures-io` | `AsyncRead` and `AsyncWrite` of the crate `futures-io` for [`Async`] |
//! | `tokio-io` | those of `tokio::io` for [`Async`]; tokio's traits alone, not its runtime |
//! | `hyper` | `hyper::rt`: `Read` and `Write` for [`Async`], an executor and a timer |
//! | `tokio` | a helper runtime for crates that need tokio's reactor |
//!
//! All are off by default. On the simulated network they work as well, so a program that uses hyper
//! can be replayed from a seed.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::net::{TcpListener, TcpStream};
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|cx| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let client = TcpStream::connect(listener.local_addr()?)?;
//!     let (server, _) = listener.accept()?;
//!     cx.nursery(|n| {
//!         let mut server = server.into_async();
//!         n.spawn_future(async move {
//!             let mut word = [0; 5];
//!             let length = server.read(&mut word).await?;
//!             Ok(server.write_all(&word[..length]).await?)
//!         })?;
//!         let mut client = client.into_async();
//!         n.spawn_future(async move {
//!             client.write_all(b"hello").await?;
//!             let mut word = [0; 5];
//!             let length = client.read(&mut word).await?;
//!             assert_eq!(&word[..length], &b"hello"[..length]);
//!             Ok(())
//!         })?;
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```

#[cfg(feature = "futures-io")]
mod futures_io;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tokio-io")]
mod tokio_io;

use crate::net::PolledWait;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// A stream that can be polled: one of [`net`](crate::net), or TLS on it. Sealed.
pub trait PolledStream: Polled {}

impl<S: Polled> PolledStream for S {}

pub(crate) use sealed::Polled;

mod sealed {
    use crate::net::PolledWait;
    use std::io::{self, IoSlice};
    use std::task::{Context, Poll};

    /// The operations of a stream in async code.
    pub trait Polled {
        /// Reads, or registers the waker.
        fn poll_read(
            &self,
            wait: &mut PolledWait,
            context: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>>;

        /// Writes, or registers the waker.
        fn poll_write(
            &self,
            wait: &mut PolledWait,
            context: &mut Context<'_>,
            bytes: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>>;

        /// Sends the rest of earlier writes.
        fn poll_flush(
            &self,
            wait: &mut PolledWait,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>>;

        /// The same, and ends the output.
        fn poll_end(
            &self,
            wait: &mut PolledWait,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>>;
    }
}

/// A stream for async code, with its waits: [`TcpStream`](crate::net::TcpStream),
/// [`UnixStream`](crate::net::UnixStream), or a `TlsStream` on either.
///
/// By TLS a write may hold bytes back until the next one, a flush, or a read that waits, as other
/// async streams of TLS do; [`write_all`](Async::write_all) flushes.
///
/// A poll of an operation is a cancel point and is charged, as the call of the stream itself. It
/// has to be made on a task. Timeouts of the stream (`set_read_timeout`) do not count here: put the
/// operation beside a [sleep](parcae::time::sleep_async), or the child under a deadline.
pub struct Async<S> {
    stream: S,
    reading: PolledWait,
    writing: PolledWait,
}

impl<S> Async<S> {
    /// The stream, for async code.
    pub fn new(stream: S) -> Async<S> {
        Async { stream, reading: PolledWait::default(), writing: PolledWait::default() }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream, for code that waits in calls.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: PolledStream> Async<S> {
    /// Reads; 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// As for reading from the stream.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_input(context, buffer)).await
    }

    /// Writes all bytes, and holds none back.
    ///
    /// # Errors
    ///
    /// As for writing to the stream. Some bytes may have been written.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let taken = poll_fn(|context| self.poll_output(context, &[IoSlice::new(left)])).await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = &left[taken..];
        }
        poll_fn(|context| self.poll_sent(context)).await
    }

    /// Ends the output: the peer reads to the end. By TLS it is told so.
    ///
    /// # Errors
    ///
    /// As for writing.
    pub async fn close(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_end(context)).await
    }

    fn poll_input(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_read(&mut self.reading, context, buffer)
    }

    fn poll_output(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write(&mut self.writing, context, bytes)
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(&mut self.writing, context)
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_end(&mut self.writing, context)
    }
}

impl<S> From<S> for Async<S> {
    fn from(stream: S) -> Async<S> {
        Async::new(stream)
    }
}

impl<S: fmt::Debug> fmt::Debug for Async<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(&self.stream).finish()
    }
}
