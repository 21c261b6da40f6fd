//! The input of a connection: bytes that were read and not used, and the deadline of the next read.

use crate::net::TcpStream;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Bytes that one read asks for.
const READ: usize = 8 << 10;

/// The input of a connection.
#[derive(Debug)]
pub(super) struct Wire<'s> {
    stream: &'s TcpStream,
    bytes: Vec<u8>,
    used: usize,
    until: Option<Instant>,
}

impl<'s> Wire<'s> {
    pub(super) fn new(stream: &'s TcpStream) -> Wire<'s> {
        Wire { stream, bytes: Vec::new(), used: 0, until: None }
    }

    /// The bytes that were not used.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.used += count;
        if self.used == self.bytes.len() {
            self.bytes.clear();
            self.used = 0;
        }
    }

    /// Reads from now on fail with `TimedOut` after so long.
    pub(super) fn limit(&mut self, time: Option<Duration>) {
        self.until = time.and_then(|time| parcae::time::now().checked_add(time));
    }

    fn arm(&self) -> io::Result<()> {
        let left = self.until.map(|until| until.saturating_duration_since(parcae::time::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)
    }

    /// Reads more bytes; how many, 0 at the end of the input.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        self.arm()?;
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        let before = self.bytes.len();
        self.bytes.resize(before + READ, 0);
        let mut stream = self.stream;
        let read = stream.read(&mut self.bytes[before..]);
        self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Reads the bytes of a body: those that are there, or more.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes().is_empty() {
            self.arm()?;
            let mut stream = self.stream;
            return stream.read(buffer);
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
