//! Listeners on either backend, their loop, and the errors that it survives.
//!
//! | error of `accept` | means | the loop |
//! |---|---|---|
//! | ECONNABORTED, EPERM, EPROTO, network errors of the new connection | that connection is gone | takes the next one |
//! | EMFILE, ENFILE, ENOBUFS, ENOMEM; the limit of a capability | no room for another descriptor | waits, from 5 ms to 1 s, and tries again |
//! | cancelled | the task is to end | returns the error, then ends |
//! | others | the listener is broken | returns the error |
//!
//! Waiting keeps a server that has run out of descriptors from using a whole core, and lets its
//! connections end. They stay in the kernel's queue meanwhile.

use super::ops::{Accept, Accepted};
use super::stream::{Name, Stream};
use crate::authority;
use crate::error::not_replayable;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Limit, Operation, Source};
use parcae::cap::SocketPermit;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The first pause of a listener that has run out of descriptors, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// A listener: a descriptor, or one of the simulated network.
#[derive(Debug)]
pub(super) struct Listening<L: AsFd> {
    backend: Backend<L>,
    name: Name,
    permit: Option<SocketPermit>,
}

#[derive(Debug)]
enum Backend<L: AsFd> {
    Os(Source<L>),
    Sim(sim::SimListener),
}

impl<L: AsFd> Listening<L> {
    pub(super) fn real(io: L, name: Name) -> Listening<L> {
        Listening { backend: Backend::Os(Source::new(io)), name, permit: None }
    }

    pub(super) fn simulated(listener: sim::SimListener) -> Listening<L> {
        let name = listener.local().clone();
        Listening { backend: Backend::Sim(listener), name, permit: None }
    }

    /// Counted under a capability, as its connections will be.
    pub(super) fn counted(mut self, permit: Option<SocketPermit>) -> Listening<L> {
        self.permit = permit;
        self
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// Waits for a connection.
    pub(super) fn accept<S: AsFd>(
        &self,
        real: impl FnOnce(Accepted) -> io::Result<Stream<S>>,
    ) -> io::Result<Stream<S>> {
        let operation = Operation {
            direction: Direction::Read,
            cost: 1,
            limit: Limit::Endless,
            what: "accepting at",
            object: &self.name,
        };
        // First: a connection without a place stays in the kernel's queue.
        let permit = authority::another(self.permit.as_ref())?;
        let stream = match &self.backend {
            Backend::Os(source) => source.operate_socket(operation, Accept::new()).and_then(real),
            Backend::Sim(listener) => listener.accept(operation).map(Stream::simulated),
        };
        Ok(stream?.counted(permit))
    }

    /// The socket, registered nowhere.
    pub(super) fn into_real(self) -> io::Result<L>
    where
        L: From<OwnedFd> + Into<OwnedFd>,
    {
        match self.backend {
            Backend::Os(source) => Ok(source.into_inner()),
            Backend::Sim(_) => Err(not_replayable("into_std of", &self.name)),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Os(source) => source.get().as_fd(),
            Backend::Sim(_) => panic!("a socket of the simulated network has no descriptor"),
        }
    }
}

/// The connections of a listener: see `incoming` of the listeners.
///
/// It survives errors of single connections, and waits when the process has no room for another
/// descriptor. It ends after an error that says that the task was cancelled.
#[derive(Debug)]
pub struct Incoming<'l, L> {
    listener: &'l L,
    ended: bool,
}

/// A listener, as the loop sees it. Not implemented by others.
pub trait Accepts {
    /// Its connections.
    type Stream;

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// Those of `accept`.
    fn accept_one(&self) -> io::Result<Self::Stream>;
}

impl<'l, L> Incoming<'l, L> {
    pub(super) fn new(listener: &'l L) -> Incoming<'l, L> {
        Incoming { listener, ended: false }
    }
}

/// The meaning of an error of `accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Of the connection that was about to be accepted.
    OfConnection,
    /// No room for another descriptor.
    Full,
    /// Of the listener, or of the task.
    Final,
}

fn trouble(error: &io::Error) -> Trouble {
    match error.raw_os_error() {
        Some(
            libc::ECONNABORTED
            | libc::EPERM
            | libc::EPROTO
            | libc::ENETDOWN
            | libc::ENOPROTOOPT
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EHOSTUNREACH
            | libc::EOPNOTSUPP
            | libc::ENETUNREACH
            | libc::ETIMEDOUT,
        ) => Trouble::OfConnection,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Trouble::Full,
        None if error.kind() == io::ErrorKind::QuotaExceeded => Trouble::Full,
        _ => Trouble::Final,
    }
}

impl<L: Accepts> Iterator for Incoming<'_, L> {
    type Item = io::Result<L::Stream>;

    fn next(&mut self) -> Option<io::Result<L::Stream>> {
        if self.ended {
            return None;
        }
        let mut pause = PAUSES.0;
        loop {
            let error = match self.listener.accept_one() {
                Ok(stream) => return Some(Ok(stream)),
                Err(error) => error,
            };
            match trouble(&error) {
                Trouble::OfConnection => {}
                Trouble::Full => {
                    if let Err(cancelled) = parcae::time::sleep(pause) {
                        self.ended = true;
                        return Some(Err(crate::error::from_task(cancelled)));
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
                Trouble::Final => {
                    self.ended = crate::is_cancelled(&error);
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Script(RefCell<Vec<io::Result<u32>>>);

    impl Accepts for Script {
        type Stream = u32;

        fn accept_one(&self) -> io::Result<u32> {
            self.0.borrow_mut().pop().unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))
        }
    }

    #[test]
    fn a_connection_that_is_gone_is_passed_over() {
        let gone = |code| Err(io::Error::from_raw_os_error(code));
        let script = vec![Ok(2), gone(libc::EMFILE), gone(libc::EPROTO), Ok(1)];
        let script = Script(RefCell::new(script));
        let mut incoming = Incoming::new(&script);
        assert_eq!(incoming.next().unwrap().unwrap(), 1);
        assert_eq!(incoming.next().unwrap().unwrap(), 2);
        assert!(incoming.next().unwrap().is_err(), "the listener is broken");
    }
}
