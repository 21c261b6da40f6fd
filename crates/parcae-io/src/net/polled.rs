//! Streams in async code, on either backend.

use super::stream::{Backend, Stream};
use crate::sim::SimWait;
use crate::source::slot::Published;
use crate::sys;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

/// The wait of one direction of a stream, from one poll to the next.
#[derive(Debug, Default)]
#[allow(unreachable_pub, reason = "named by a trait that is public and sealed")]
pub struct PolledWait {
    real: Option<Published>,
    /// Boxed: a real stream does without.
    simulated: Option<Box<SimWait>>,
}

impl<S: AsFd> Stream<S> {
    pub(crate) fn poll_read(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0)); // not the end of the stream
        }
        let operation = self.reading(buffer.len());
        match &self.backend {
            Backend::Os(source) => source.poll_operate(operation, &mut wait.real, context, |io| {
                let room = buffer.len();
                let short = self.short_read();
                sys::recv(io.as_fd(), buffer, 0).map(|taken| short.outcome(taken, room))
            }),
            Backend::Sim(stream) => {
                stream.poll_read(operation, &mut wait.simulated, context, buffer)
            }
        }
    }

    pub(crate) fn poll_write(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let operation = self.writing(bytes.len());
        match &self.backend {
            Backend::Os(source) => source.poll_operate(operation, &mut wait.real, context, |io| {
                sys::send(io.as_fd(), bytes).map(|taken| super::stream::attempt(taken, bytes.len()))
            }),
            Backend::Sim(stream) => {
                stream.poll_write(operation, &mut wait.simulated, context, bytes)
            }
        }
    }

    pub(crate) fn poll_write_vectored(
        &self,
        wait: &mut PolledWait,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let given = sys::offered(bytes.iter().map(|bytes| bytes.len()));
        match &self.backend {
            Backend::Os(source) if given > 0 => {
                let operation = self.writing(given);
                source.poll_operate(operation, &mut wait.real, context, |io| {
                    let sent = sys::send_vectored(io.as_fd(), bytes);
                    sent.map(|taken| super::stream::attempt(taken, given))
                })
            }
            _ => match bytes.iter().find(|bytes| !bytes.is_empty()) {
                Some(bytes) => self.poll_write(wait, context, bytes),
                None => Poll::Ready(Ok(0)),
            },
        }
    }
}
