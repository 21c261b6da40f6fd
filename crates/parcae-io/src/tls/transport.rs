//! The stream below TLS, and the calls in which a reader sends without waiting for its turn to
//! write: it must go on reading while the peer takes nothing.

use crate::compat::Polled;
use crate::error;
use crate::net::{PolledWait, TcpStream, UnixStream};
use crate::sys;
use parcae::io::IoPlace;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// A stream below TLS: [`TcpStream`] or [`UnixStream`]. Sealed.
pub trait Transport: fmt::Debug + sealed::Sealed {}

impl Transport for TcpStream {}
impl Transport for UnixStream {}

pub(super) mod sealed {
    use super::*;

    /// The calls that TLS makes.
    pub trait Sealed: Polled + AsFd {
        fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
        fn write(&self, bytes: &[u8]) -> io::Result<usize>;
        fn end_output(&self) -> io::Result<()>;
        fn timeouts(&self) -> [Option<Duration>; 2];
        fn set_timeouts(&self, times: [Option<Duration>; 2]) -> io::Result<()>;
    }

    macro_rules! transport {
        ($stream:ty) => {
            impl Sealed for $stream {
                fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                    let mut this = self;
                    Read::read(&mut this, buffer)
                }

                fn write(&self, bytes: &[u8]) -> io::Result<usize> {
                    let mut this = self;
                    Write::write(&mut this, bytes)
                }

                fn end_output(&self) -> io::Result<()> {
                    self.shutdown(Shutdown::Write)
                }

                fn timeouts(&self) -> [Option<Duration>; 2] {
                    [self.read_timeout(), self.write_timeout()]
                }

                fn set_timeouts(&self, [read, write]: [Option<Duration>; 2]) -> io::Result<()> {
                    self.set_read_timeout(read)?;
                    self.set_write_timeout(write)
                }
            }
        };
    }
    transport!(TcpStream);
    transport!(UnixStream);
}

/// Sends from `output` until it is empty (`Ready`) or the peer takes no more.
pub(super) fn poll_send<S: Transport>(
    stream: &S,
    wait: &mut PolledWait,
    context: &mut Context<'_>,
    output: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    while !output.is_empty() {
        let sent = std::task::ready!(stream.poll_write(wait, context, &[IoSlice::new(output)]))?;
        if sent == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        output.drain(..sent);
    }
    Poll::Ready(Ok(()))
}

/// Sends from `output` as much as the peer takes now.
pub(super) fn send_now<S: Transport>(stream: &S, output: &mut Vec<u8>) -> io::Result<()> {
    if parcae::io::place() == IoPlace::Thread {
        return send_on_thread(stream, output);
    }
    let mut wait = PolledWait::default();
    let sent = parcae::block_on(poll_fn(|context| {
        Poll::Ready(match poll_send(stream, &mut wait, context, output) {
            Poll::Ready(done) => done,
            Poll::Pending => Ok(()),
        })
    }));
    sent.map_err(error::from_task)?
}

/// Reads, and meanwhile sends from `output` as much as the peer takes. `None` if all of it was sent
/// before anything came. On failure `output` has the part that was not sent.
pub(super) fn read_while_sending<S: Transport>(
    stream: &S,
    buffer: &mut [u8],
    output: &mut Vec<u8>,
) -> io::Result<Option<usize>> {
    if parcae::io::place() == IoPlace::Thread {
        return read_while_sending_on_thread(stream, buffer, output);
    }
    let [time, _] = stream.timeouts();
    let mut timer = time.map(parcae::time::sleep_async);
    let (mut reading, mut writing) = (PolledWait::default(), PolledWait::default());
    let step = poll_fn(|context: &mut Context<'_>| {
        if let Poll::Ready(read) = stream.poll_read(&mut reading, context, buffer) {
            return Poll::Ready(read.map(Some));
        }
        if let Poll::Ready(sent) = poll_send(stream, &mut writing, context, output) {
            return Poll::Ready(sent.map(|()| None));
        }
        match timer.as_mut().map(|timer| Pin::new(timer).poll(context)) {
            Some(Poll::Ready(_)) => {
                Poll::Ready(Err(error::timed_out("reading from", &Shown(stream))))
            }
            _ => Poll::Pending,
        }
    });
    parcae::block_on(pin!(step)).map_err(error::from_task)?
}

fn send_on_thread<S: Transport>(stream: &S, output: &mut Vec<u8>) -> io::Result<()> {
    while !output.is_empty() {
        match sys::send(stream.as_fd(), output) {
            Ok(sent) => drop(output.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_while_sending_on_thread<S: Transport>(
    stream: &S,
    buffer: &mut [u8],
    output: &mut Vec<u8>,
) -> io::Result<Option<usize>> {
    let until = stream.timeouts()[0].and_then(parcae::io::after);
    loop {
        match sys::recv(stream.as_fd(), buffer, 0) {
            Ok(taken) => return Ok(Some(taken)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        send_on_thread(stream, output)?;
        if output.is_empty() {
            return Ok(None);
        }
        if !sys::block(stream.as_fd(), libc::POLLIN | libc::POLLOUT, until)? {
            return Err(error::timed_out("reading from", &Shown(stream)));
        }
    }
}

/// A stream, in the text of an error.
pub(super) struct Shown<'s, S>(pub(super) &'s S);

impl<S: fmt::Debug> fmt::Display for Shown<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer of {:?}", self.0)
    }
}
