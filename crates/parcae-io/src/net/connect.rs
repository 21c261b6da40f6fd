//! Connecting to one of several addresses (RFC 8305, *happy eyeballs*): attempts overlap.
//!
//! The first address is tried at once, each further one [`DELAY`] after the one before, or as soon
//! as an attempt has failed. The first connection wins; the other attempts are given up, and their
//! sockets closed.
//!
//! The task waits for all attempts at the same time: it is a waiter of each descriptor, and leaves
//! all of them before it looks at any. There are no other tasks, so a cancel ends all attempts.

use super::stream::{Name, Stream};
use crate::authority::Authority;
use crate::cost;
use crate::error::from_task;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::slot::Published;
use crate::source::{Charge, Source};
use crate::sys;
use parcae::cap::{CapNet, SocketPermit};
use parcae::io::IoPlace;
use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The time that an attempt has before the next one begins: the recommendation of the RFC.
const DELAY: Duration = Duration::from_millis(250);

/// An attempt that has begun.
enum Begun {
    Os(Source<net::TcpStream>, SocketAddr),
    Sim(Box<sim::SimConnecting>),
}

/// The same, with its place under a capability.
struct Attempting {
    begun: Begun,
    permit: Option<SocketPermit>,
}

/// A waiter's place at an attempt.
enum Place {
    Os(#[expect(dead_code, reason = "leaves when it is dropped")] Published),
    Sim(#[expect(dead_code, reason = "as above")] Option<sim::InLine>),
}

/// An attempt as it stands.
enum Look {
    Done(Stream<net::TcpStream>),
    /// Not decided. It is to be looked at again when the waiter is woken, or then.
    Pending(Place, Option<Instant>),
}

impl Begun {
    fn start(to: SocketAddr) -> io::Result<Begun> {
        if parcae::io::place() == IoPlace::Simulated {
            return Ok(Begun::Sim(Box::new(sim::SimConnecting::begin(Name::Inet(to))?)));
        }
        Ok(Begun::Os(Source::new(sys::connect_tcp(to)?.into()), to))
    }

    /// Looks at the attempt; if it is not decided, the running task becomes a waiter.
    fn look(&mut self) -> io::Result<Option<Look>> {
        match self {
            Begun::Os(source, _) => {
                let connected = |io: &net::TcpStream| connected(io.as_fd());
                match source.try_or_publish(Direction::Write, connected)? {
                    Some(place) => Ok(Some(Look::Pending(Place::Os(place), None))),
                    None => Ok(None),
                }
            }
            Begun::Sim(connecting) => match connecting.try_or_join()? {
                Ok(stream) => Ok(Some(Look::Done(Stream::simulated(stream)))),
                Err((place, due)) => Ok(Some(Look::Pending(Place::Sim(place), due))),
            },
        }
    }

    /// The stream of a descriptor that is connected.
    fn finish(self) -> io::Result<Stream<net::TcpStream>> {
        match self {
            Begun::Os(source, to) => finish(source, to),
            Begun::Sim(_) => unreachable!("a simulated attempt has its stream when it is decided"),
        }
    }
}

/// Whether a socket is connected: else `WouldBlock`, or its error.
pub(super) fn connected(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::take_error(socket)?;
    match sys::has_peer(socket) {
        // Neither a peer nor an error.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        other => other,
    }
}

/// The stream of a socket that is connected.
pub(super) fn finish(
    socket: Source<net::TcpStream>,
    to: SocketAddr,
) -> io::Result<Stream<net::TcpStream>> {
    let io = socket.get();
    if io.local_addr()? == to {
        // The kernel has given the socket its own peer's port: it talks to itself.
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    io.set_nodelay(true)?;
    Ok(Stream::of_source(socket, Name::Inet(to)))
}

/// The addresses of a race, for observers.
struct Racing<'a>(&'a [SocketAddr]);

impl fmt::Display for Racing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, address) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { " or " };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

/// Connects to one of several addresses, in a task. The charge is that of one connect.
pub(super) fn race(
    addresses: &[SocketAddr],
    authority: &Authority<'_, CapNet>,
) -> io::Result<Stream<net::TcpStream>> {
    let charge = Charge::new(cost::CONNECT)?;
    let mut waiting = addresses.iter();
    let mut begun: Vec<Attempting> = Vec::new();
    let mut due = parcae::time::now();
    let mut last = None;
    loop {
        let now = parcae::time::now();
        if (begun.is_empty() || due <= now)
            && let Some(address) = waiting.next()
        {
            due = now.checked_add(DELAY).unwrap_or(now);
            let started = authority
                .connect(*address)
                .and_then(|permit| Ok(Attempting { begun: Begun::start(*address)?, permit }));
            match started {
                Ok(attempt) => begun.push(attempt),
                Err(error) => {
                    last = Some(error);
                    due = now; // the next one begins at once
                }
            }
        }
        let (mut places, mut wake) = (Vec::new(), (waiting.len() > 0).then_some(due));
        let mut at = 0;
        while at < begun.len() {
            let looked = match begun[at].begun.look() {
                Ok(None) => {
                    let Attempting { begun, permit } = begun.swap_remove(at);
                    begun.finish().map(|stream| Look::Done(stream.counted(permit)))
                }
                Ok(Some(Look::Done(stream))) => {
                    Ok(Look::Done(stream.counted(begun.swap_remove(at).permit)))
                }
                Ok(Some(look)) => Ok(look),
                Err(error) => {
                    begun.swap_remove(at);
                    Err(error)
                }
            };
            match looked {
                Ok(Look::Done(stream)) => {
                    charge.keep();
                    return Ok(stream);
                }
                Ok(Look::Pending(place, then)) => {
                    places.push(place);
                    wake = [wake, then].into_iter().flatten().min();
                    at += 1;
                }
                Err(error) => {
                    last = Some(error);
                    due = now; // the next one begins at once
                }
            }
        }
        if begun.is_empty() && waiting.len() == 0 {
            charge.keep();
            return Err(last.unwrap_or_else(no_address));
        }
        if waiting.len() > 0 && due <= now {
            continue;
        }
        parcae::io::wait(wake, "connecting to", &Racing(addresses)).map_err(from_task)?;
    }
}

/// The error of a list without addresses.
pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "there is no address to try")
}
