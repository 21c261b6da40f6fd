//! Answers whose bodies are read as they come.

use super::body::Left;
use super::carrier::Carrier;
use super::client::Client;
use super::head::ResponseHead;
use super::wire::Wire;
use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

/// An answer whose body is read from it: see [`Client::open`].
///
/// A body that is read to its end leaves the connection to the client, for further requests. If the
/// reply is dropped before, the connection ends.
pub struct Reply<'c> {
    client: &'c Client,
    /// The server, as the client keeps connections to it.
    origin: Box<str>,
    head: ResponseHead,
    body: ReplyBody,
    left: Left,
    /// The bytes that the body may have.
    room: u64,
    /// Whether the connection can be used again.
    keeps: bool,
    /// The time for each read, if there is none for all.
    pace: Option<Duration>,
}

/// The connection that a body comes from.
enum ReplyBody {
    Open(Box<Wire<Box<Carrier>>>),
    /// All was read.
    Ended,
    /// Its rest cannot be told from other bytes.
    Broken,
}

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.head.status).finish_non_exhaustive()
    }
}

impl<'c> Reply<'c> {
    pub(super) fn new(
        client: &'c Client,
        origin: &str,
        head: ResponseHead,
        (wire, left, keeps): (Wire<Box<Carrier>>, Left, bool),
    ) -> Reply<'c> {
        let body = ReplyBody::Open(Box::new(wire));
        let origin = origin.into();
        let mut reply =
            Reply { client, origin, head, body, left, room: u64::MAX, keeps, pace: None };
        reply.end_if_read();
        reply
    }

    /// The body may have so many bytes.
    pub(super) fn bounded(mut self, room: u64) -> Reply<'c> {
        self.room = room;
        self
    }

    /// Each read has so much time, from now on.
    pub(super) fn paced(mut self, time: Duration) -> Reply<'c> {
        self.pace = Some(time);
        self
    }

    pub(super) fn into_head(self) -> ResponseHead {
        self.head
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The first value of a header field, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.fields.all(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All header fields, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.head.fields.iter()
    }

    /// Gives the connection back if the body was read to its end.
    fn end_if_read(&mut self) {
        if self.left != Left::NONE {
            return;
        }
        if let ReplyBody::Open(wire) = std::mem::replace(&mut self.body, ReplyBody::Ended) {
            // Bytes behind the answer are of no request: such a connection is not used again.
            if self.keeps && wire.bytes().is_empty() {
                self.client.keep(&self.origin, *wire.into_stream());
            }
        }
    }
}

/// A cancelled read and one that is too late have had no effect: the next one goes on.
fn may_go_on(error: &io::Error) -> bool {
    crate::is_cancelled(error)
        || matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Read for Reply<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wire = match &mut self.body {
            ReplyBody::Open(wire) => wire,
            ReplyBody::Ended => return Ok(0),
            ReplyBody::Broken => {
                let text = "an earlier read of this body has failed";
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, text));
            }
        };
        if self.pace.is_some() {
            wire.limit(self.pace);
        }
        let read = self.left.read(wire, &mut self.room, buffer);
        match &read {
            Ok(_) => self.end_if_read(),
            Err(error) if may_go_on(error) => {}
            Err(_) => self.body = ReplyBody::Broken,
        }
        read
    }
}
