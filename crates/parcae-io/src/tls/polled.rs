//! TLS in async code: the loop of the [stream](super::stream), where a wait ends the poll.
//!
//! The locks are taken for one poll, and never while a future waits. A stream in
//! [`Async`](crate::compat::Async) has one owner, so they are free.
//!
//! # Output
//!
//! A write gives its bytes to rustls only when all earlier output has gone to the stream below.
//! Their records are sent as far as the peer takes them; the rest goes with the next write, with a
//! flush, or with a read that waits. A read waits for room to send, too, with a place of its own
//! ([`PolledWait`]): two peers whose sockets are full both go on reading.

use super::stream::{Filled, READ, TlsStream};
use super::transport::{Transport, poll_send};
use crate::compat::{Async, Polled};
use crate::net::PolledWait;
use parcae::sync::{Mutex, MutexGuard};
use rustls::Connection;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Takes a lock that is free, unless the stream is also used by a call that waits.
fn free<T>(lock: &Mutex<T>) -> io::Result<MutexGuard<'_, T>> {
    lock.try_lock().ok_or_else(|| {
        let text = "a call waits for this TLS stream, which async code uses, too";
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    })
}

impl<S: Transport> TlsStream<S> {
    /// The handshake, within the time.
    pub(super) async fn establish_async(
        connection: Connection,
        io: S,
        time: Duration,
    ) -> io::Result<Async<TlsStream<S>>> {
        let stream = TlsStream::begin(connection, io)?;
        let mut timer = parcae::time::sleep_async(time);
        let mut waits = [PolledWait::default(), PolledWait::default()];
        poll_fn(|context| {
            if let Poll::Ready(done) = stream.poll_handshake(&mut waits, context) {
                return Poll::Ready(done);
            }
            let late = ready!(Pin::new(&mut timer).poll(context));
            Poll::Ready(late.map_err(crate::error::from_task).and(Err(stream.too_slow())))
        })
        .await?;
        drop(waits);
        Ok(Async::new(stream))
    }

    fn poll_handshake(
        &self,
        [reading, writing]: &mut [PolledWait; 2],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let sent = self.poll_output(writing, context)?;
            if !self.with(|connection| connection.is_handshaking()) {
                return match self.with(|connection| matches!(connection, Connection::Client(_))) {
                    true => sent.map(Ok), // the server waits for it
                    false => Poll::Ready(Ok(())),
                };
            }
            let filled = ready!(self.poll_fill(reading, context));
            if filled.is_err() {
                let _ = self.poll_output(writing, context); // the first error counts
            }
            if filled? == Filled::Ended {
                self.check_handshake()?;
            }
        }
    }

    /// Sends all output of the connection.
    fn poll_output(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, io::Error> {
        let mut output = free(&self.writing)?;
        self.collect(&mut output)?;
        match poll_send(&self.io, wait, context, &mut output) {
            Poll::Ready(sent) => {
                *output = Vec::new(); // an idle connection has no buffer
                sent.map(Poll::Ready)
            }
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Gives rustls the next bytes of the stream.
    fn poll_fill(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Filled>> {
        let mut rest = free(&self.reading)?;
        let mut filled = Filled::More;
        if rest.is_empty() {
            let mut bytes = [0; READ];
            let taken = ready!(self.io.poll_read(wait, context, &mut bytes))?;
            if taken == 0 {
                filled = Filled::Ended;
            }
            rest.extend_from_slice(&bytes[..taken]);
        }
        Poll::Ready(self.take_in(&mut rest).map(|()| filled))
    }

    fn poll_plain(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // The reader's wait for room to send: a stream is polled by one reader.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.with(|connection| connection.reader().read(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done), // 0: `close_notify`; `UnexpectedEof`: cut
            }
            // Answers and alerts, without waiting for them to go: the wait is for either.
            let _ = self.poll_output(&mut room, context)?;
            let filled = ready!(self.poll_fill(wait, context));
            let sent = self.poll_output(&mut room, context);
            filled?; // the first error counts
            let _ = sent?;
        }
    }
}

impl<S: Transport> Polled for TlsStream<S> {
    fn poll_read(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_plain(wait, context, buffer)
    }

    fn poll_write(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bytes.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        loop {
            ready!(self.poll_output(wait, context)?);
            let taken = self.with(|connection| connection.writer().write_vectored(bytes))?;
            if taken > 0 {
                // The bytes are taken, whatever becomes of this: the next call reports it.
                let _ = self.poll_output(wait, context);
                return Poll::Ready(Ok(taken));
            }
        }
    }

    fn poll_flush(&self, wait: &mut PolledWait, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_output(wait, context)?.map(Ok)
    }

    fn poll_end(&self, wait: &mut PolledWait, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|connection| connection.send_close_notify());
        ready!(self.poll_output(wait, context)?);
        self.io.poll_end(wait, context)
    }
}
