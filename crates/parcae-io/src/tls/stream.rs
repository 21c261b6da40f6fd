//! The loop between a connection of rustls and a stream.
//!
//! # Who holds what
//!
//! | lock | guards | held over a wait for the stream |
//! |---|---|---|
//! | `state` | the connection of rustls | never: it is a lock of std, for a few microseconds |
//! | `reading` | reads from the stream; bytes that rustls had no room for | yes: by the one reader |
//! | `writing` | writes to the stream; bytes that were not sent yet | yes: by the one writer |
//!
//! So a task may read while another one writes, and neither waits for the other's peer: rustls's
//! own `Stream` would refuse to read while it cannot write, and two peers that both write first
//! would wait for each other for ever.
//!
//! # Output that a read causes
//!
//! Reading may make output: alerts, answers to a key update. The reader puts it into the connection
//! under `state` and then *tries* to take `writing`. If that is taken, it goes on reading. The
//! writer that has it looks at the connection again after it has let go of `writing`: either the
//! reader's attempt came after that and succeeded, or the writer's look comes after the reader's
//! output.
//!
//! A reader that has `writing` sends as much as the peer takes, and never waits for the peer to
//! take more: the peer may be in the same situation, with a full socket of its own. The rest stays
//! in `writing`, in front of all later output. The next read waits for both directions at once, for
//! input or for room to send; a write, a flush and a close send the rest first.
//!
//! # Output that was cut short
//!
//! A write that is cancelled or times out leaves its rest in `writing`, too. The bytes of TLS are
//! never torn: the next call that sends goes on where it stopped. The plain bytes of that write
//! count as written.
//!
//! # The end
//!
//! `close_notify` in either direction ends that direction. A stream that ends without one is cut:
//! `UnexpectedEof`. A `TlsStream` that is dropped says nothing, because a destructor must not wait.

use super::transport::{self, Shown, Transport};
use super::{HANDSHAKE_COST, invalid};
use crate::compat::Async;
use crate::error;
use crate::net::PolledWait;
use crate::source::Charge;
use parcae::sync::Mutex;
use rustls::Connection;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Bytes that are read from the stream at once, to the stack of the reader.
pub(super) const READ: usize = 8 << 10;

/// A connection by TLS. A shared reference reads and writes, too, so two tasks can use both
/// directions. Reads of several tasks wait for each other, and so do writes.
pub struct TlsStream<S> {
    pub(super) io: S,
    state: std::sync::Mutex<Connection>,
    /// Bytes of the stream that rustls had no room for.
    pub(super) reading: Mutex<Vec<u8>>,
    /// Bytes for the stream that were not sent yet.
    pub(super) writing: Mutex<Vec<u8>>,
    /// Async code alone: the reader's wait for room to send.
    pub(super) room: std::sync::Mutex<PolledWait>,
}

/// Whether the stream below has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    More,
    Ended,
}

impl<S: Transport> TlsStream<S> {
    /// Makes the handshake, within the time.
    pub(super) fn establish(
        connection: Connection,
        io: S,
        time: Duration,
    ) -> io::Result<TlsStream<S>> {
        let stream = TlsStream::begin(connection, io)?;
        let before = stream.io.timeouts();
        let outcome = stream.handshake(parcae::io::after(time));
        stream.io.set_timeouts(before)?;
        outcome.map(|()| stream)
    }

    /// A stream whose handshake is paid for, and to be made.
    pub(super) fn begin(connection: Connection, io: S) -> io::Result<TlsStream<S>> {
        let charge = Charge::new(HANDSHAKE_COST)?;
        charge.keep();
        Ok(TlsStream {
            io,
            state: std::sync::Mutex::new(connection),
            reading: Mutex::new(Vec::new()),
            writing: Mutex::new(Vec::new()),
            room: std::sync::Mutex::default(),
        })
    }

    pub(super) fn too_slow(&self) -> io::Error {
        error::timed_out("in the handshake with", &Shown(&self.io))
    }

    /// The stream has ended: an error unless the handshake is complete.
    pub(super) fn check_handshake(&self) -> io::Result<()> {
        if self.with(|connection| connection.is_handshaking()) {
            let text = "the peer ended the stream in the handshake";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(())
    }

    fn handshake(&self, until: Option<Instant>) -> io::Result<()> {
        loop {
            if let Some(until) = until {
                let left = until.saturating_duration_since(parcae::time::now());
                if left.is_zero() {
                    return Err(self.too_slow());
                }
                self.io.set_timeouts([Some(left); 2])?;
            }
            if !self.with(|connection| connection.is_handshaking()) {
                return match self.with(|connection| matches!(connection, Connection::Client(_))) {
                    // The server reads: it waits for these last bytes of the handshake.
                    true => self.flush_output(),
                    // Tickets for later sessions. The client may write before it reads them.
                    false => self.send_now(),
                };
            }
            self.send_now()?;
            let mut rest = self.reading.lock().map_err(from_runtime)?;
            if self.fill(&mut rest)? == Filled::Ended {
                self.check_handshake()?;
            }
        }
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Connection) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives rustls what was left over, or else the next bytes of the stream. The caller holds
    /// `reading`. If what comes is refused, the peer is told why.
    fn fill(&self, rest: &mut Vec<u8>) -> io::Result<Filled> {
        let mut filled = Filled::More;
        if rest.is_empty() {
            let mut bytes = [0; READ];
            let taken = self.receive(&mut bytes)?;
            if taken == 0 {
                filled = Filled::Ended;
            }
            rest.extend_from_slice(&bytes[..taken]);
        }
        // Answers and alerts. Where a writer is at work, it sends them.
        match self.take_in(rest) {
            Ok(()) => self.send_now()?,
            Err(error) => {
                let _ = self.send_now(); // the first error counts
                return Err(error);
            }
        }
        Ok(filled)
    }

    /// Gives rustls as many of the bytes that were read as it has room for. The caller holds
    /// `reading`.
    pub(super) fn take_in(&self, rest: &mut Vec<u8>) -> io::Result<()> {
        let outcome = self.with(|connection| {
            loop {
                let mut left = &rest[..];
                let taken = match connection.read_tls(&mut left) {
                    Ok(taken) => taken,
                    // No room for more before the program has read: it is kept.
                    Err(error) if error.kind() == io::ErrorKind::Other => return Ok(()),
                    Err(error) => return Err(error),
                };
                rest.drain(..taken);
                let state = connection.process_new_packets().map_err(invalid)?;
                if rest.is_empty() || taken == 0 || state.peer_has_closed() {
                    return Ok(());
                }
            }
        });
        if rest.is_empty() {
            *rest = Vec::new(); // an idle connection has no buffer
        }
        outcome
    }

    /// Reads from the stream. While there is output that no other task sends, it is sent meanwhile.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut output) = self.writing.try_lock() {
            self.collect(&mut output)?;
            if output.is_empty() {
                break;
            }
            if let Some(taken) = transport::read_while_sending(&self.io, buffer, &mut output)? {
                return Ok(taken);
            }
        }
        self.io.read(buffer)
    }

    /// Sends all output of the connection.
    fn flush_output(&self) -> io::Result<()> {
        loop {
            let mut output = self.writing.lock().map_err(from_runtime)?;
            self.send_output(&mut output)?;
            drop(output);
            if !self.with(|connection| connection.wants_write()) {
                return Ok(()); // see the header
            }
        }
    }

    /// Sends as much output of the connection as the peer takes now, unless another task writes:
    /// then that one does.
    fn send_now(&self) -> io::Result<()> {
        while self.with(|connection| connection.wants_write()) {
            let Some(mut output) = self.writing.try_lock() else { return Ok(()) };
            self.collect(&mut output)?;
            transport::send_now(&self.io, &mut output)?;
            if !output.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the output of the connection. The caller holds `writing`.
    pub(super) fn collect(&self, output: &mut Vec<u8>) -> io::Result<()> {
        self.with(|connection| {
            while connection.wants_write() && connection.write_tls(output)? > 0 {}
            Ok(())
        })
    }

    /// Sends the output of the connection. The caller holds `writing`.
    fn send_output(&self, output: &mut Vec<u8>) -> io::Result<()> {
        loop {
            self.collect(output)?;
            let mut sent = 0;
            let outcome = loop {
                if sent == output.len() {
                    break Ok(());
                }
                match self.io.write(&output[sent..]) {
                    Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                    Ok(taken) => sent += taken,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                }
            };
            output.drain(..sent); // a failure leaves the rest
            outcome?;
            if output.is_empty() && !self.with(|connection| connection.wants_write()) {
                *output = Vec::new(); // an idle connection has no buffer
                return Ok(());
            }
        }
    }

    /// `until`: the end of all waits together, in place of the timeout of the stream below.
    fn read_plain(&self, buffer: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let taken = self.with(|connection| connection.reader().read(buffer));
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done, // 0: `close_notify`; `UnexpectedEof`: cut
            }
            let mut rest = self.reading.lock().map_err(from_runtime)?;
            // Another task may have read meanwhile.
            let taken = self.with(|connection| connection.reader().read(buffer));
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if let Some(until) = until {
                let left = until.saturating_duration_since(parcae::time::now());
                if left.is_zero() {
                    return Err(error::timed_out("reading from", &Shown(&self.io)));
                }
                let [_, write] = self.io.timeouts();
                self.io.set_timeouts([Some(left), write])?;
            }
            self.fill(&mut rest)?;
        }
    }

    /// Reads until a point in time, however many reads from the stream below that takes: a peer
    /// that sends a record byte by byte does not put it off. Sets the read timeout of that stream.
    pub(crate) fn read_until(
        &self,
        buffer: &mut [u8],
        until: Option<Instant>,
    ) -> io::Result<usize> {
        if until.is_none() {
            let [_, write] = self.io.timeouts();
            self.io.set_timeouts([None, write])?;
        }
        self.read_plain(buffer, until)
    }

    fn write_plain(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let taken = self.with(|connection| connection.writer().write(bytes))?;
            self.flush_output()?;
            if taken > 0 {
                return Ok(taken);
            }
        }
    }

    /// Says that there is no more output (`close_notify`), and ends the output of the stream. The
    /// peer reads to the end, and may still send.
    ///
    /// # Errors
    ///
    /// As for writing.
    pub fn close(&self) -> io::Result<()> {
        self.with(|connection| connection.send_close_notify());
        self.flush_output()?;
        self.io.end_output()
    }

    /// As [`close`](TlsStream::close), then reads and drops the peer's rest until its end, for at
    /// most `grace`. Dropping the stream with unread input instead makes the kernel reset the
    /// connection, and the peer may lose bytes that it has not read yet. A server of TLS 1.3 sends
    /// some after each handshake, so that a client which only writes should end in this way.
    ///
    /// # Errors
    ///
    /// As for writing. A peer that is gone or slow is no error.
    pub fn close_gracefully(self, grace: Duration) -> io::Result<()> {
        self.close()?;
        let until = parcae::io::after(grace);
        let mut rest = [0; 512];
        loop {
            match self.read_until(&mut rest, until) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if crate::is_cancelled(&error) => return Err(error),
                Err(_) => return Ok(()), // cut, reset, or too late
            }
        }
    }

    /// Changes the keys of both directions (TLS 1.3): for connections that live long or carry much.
    /// rustls does so by itself before a key has encrypted too many bytes.
    ///
    /// # Errors
    ///
    /// `InvalidData` in TLS 1.2, or during a handshake; otherwise as for writing.
    pub fn refresh_keys(&self) -> io::Result<()> {
        self.with(|connection| connection.refresh_traffic_keys()).map_err(invalid)?;
        self.flush_output()
    }

    /// The stream for async code: see [`Async`].
    pub fn into_async(self) -> Async<TlsStream<S>> {
        Async::new(self)
    }

    /// The stream below. Bytes that are read from it or written to it directly break the
    /// connection.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// The protocol that both sides have agreed on by ALPN, such as `h2`.
    pub fn alpn_protocol(&self) -> Option<Vec<u8>> {
        self.with(|connection| connection.alpn_protocol().map(<[u8]>::to_vec))
    }

    /// Looks at the connection of rustls: version, cipher suite, certificates, server name.
    pub fn with_connection<R>(&self, look: impl FnOnce(&Connection) -> R) -> R {
        self.with(|connection| look(connection))
    }
}

/// An error of a lock: the task is cancelled.
fn from_runtime(error: impl Into<parcae::Error>) -> io::Error {
    error::from_task(error.into())
}

impl<S: Transport> Read for &TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_plain(buffer, None)
    }
}

impl<S: Transport> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_plain(buffer, None)
    }
}

impl<S: Transport> Write for &TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_plain(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_output()
    }
}

impl<S: Transport> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_plain(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_output()
    }
}

impl<S: fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("io", &self.io).finish_non_exhaustive()
    }
}
