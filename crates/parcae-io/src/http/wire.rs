//! The input of a connection: bytes that were read and not used, and the deadline of the next read.

use super::carrier::Carrier;
use crate::source::Limit;
use std::io;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Bytes that one read asks for.
const READ: usize = 8 << 10;

/// The input of a connection, which is borrowed or owned.
#[derive(Debug)]
pub(super) struct Wire<C> {
    stream: C,
    /// Memory for bytes. Those from `used` to `filled` were read and not used.
    memory: Vec<u8>,
    used: usize,
    filled: usize,
    until: Option<Instant>,
    /// The deadline was set since the last read: it has not passed.
    fresh: bool,
}

impl<C: Deref<Target = Carrier>> Wire<C> {
    pub(super) fn new(stream: C) -> Wire<C> {
        Wire { stream, memory: Vec::new(), used: 0, filled: 0, until: None, fresh: true }
    }

    /// The stream. Bytes that were not used are lost.
    pub(super) fn into_stream(self) -> C {
        self.stream
    }

    /// The bytes that were not used.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.used..self.filled]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.used += count;
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        }
    }

    /// Reads from now on fail with `TimedOut` after so long.
    pub(super) fn limit(&mut self, time: Option<Duration>) {
        self.until = time.and_then(parcae::io::after);
        self.fresh = true;
    }

    /// Ensures that the deadline has not passed: a peer that sends single bytes never lets a read
    /// wait for it.
    fn check(&mut self) -> io::Result<()> {
        let late = |until: Instant| until <= parcae::time::now();
        if !std::mem::take(&mut self.fresh) && self.until.is_some_and(late) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Reads more bytes; how many, 0 at the end of the input.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        self.check()?;
        self.fill_limited(Limit::until(self.until))
    }

    /// As [`fill`](Wire::fill), with a limit in place of the deadline.
    pub(super) fn fill_limited(&mut self, limit: Limit<'_>) -> io::Result<usize> {
        if self.memory.len() - self.filled < READ {
            self.memory.copy_within(self.used..self.filled, 0);
            (self.used, self.filled) = (0, self.filled - self.used);
            // Memory that is there already is not written again.
            self.memory.resize(self.memory.len().max(self.filled + READ), 0);
        }
        let room = &mut self.memory[self.filled..self.filled + READ];
        let count = self.stream.read_limited(room, limit)?;
        self.filled += count;
        Ok(count)
    }

    /// Reads the bytes of a body: those that are there, or more.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes().is_empty() {
            self.check()?;
            return self.stream.read_limited(buffer, Limit::until(self.until));
        }
        let count = self.bytes().len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.bytes()[..count]);
        self.consume(count);
        Ok(count)
    }

    /// The next line without its end, of at most so many bytes.
    pub(super) fn line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.bytes().windows(2).position(|two| two == b"\r\n") {
                let line = self.bytes()[..end].to_vec();
                self.consume(end + 2);
                return Ok(line);
            }
            if self.bytes().len() > most {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
