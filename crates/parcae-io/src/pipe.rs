//! Pipes: one end reads, the other writes.
//!
//! ```
//! use parcae::prelude::*;
//! use std::io::{Read, Write};
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|cx| {
//!     let (mut reader, mut writer) = parcae_io::pipe::pipe()?;
//!     cx.nursery(|n| {
//!         n.spawn(move |_| Ok(writer.write_all(b"through")?))?;
//!         let mut text = String::new();
//!         reader.read_to_string(&mut text)?; // to the end: the writer is dropped
//!         assert_eq!(text, "through");
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Flags
//!
//! `O_NONBLOCK` belongs to the open file description, which other processes may share. It is set
//! only on descriptions of our own: the two ends of a new pipe, and our end of a pipe to a child.

use crate::cost;
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Attempt, Charge, Limit, Operation, Source};
use crate::sys;
use parcae::io::IoPlace;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The reading end of a pipe.
#[derive(Debug)]
pub struct PipeReader(pub(crate) End);

/// The writing end of a pipe. Dropping it ends the input of the reader.
#[derive(Debug)]
pub struct PipeWriter(pub(crate) End);

/// One end of a pipe.
#[derive(Debug)]
pub(crate) enum End {
    Os(Source<OwnedFd>),
    Sim(sim::SimStream),
    /// An end of a scripted child of the simulated world.
    Script(sim::ScriptEnd),
}

/// A new pipe.
///
/// # Errors
///
/// If the process has no room for two descriptors.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    Charge::new(cost::SOCKET)?.keep();
    if parcae::io::place() == IoPlace::Simulated {
        let (one, two) = sim::pair()?;
        return Ok((PipeReader(End::Sim(one)), PipeWriter(End::Sim(two))));
    }
    let (reader, writer) = std::io::pipe()?;
    Ok((PipeReader(End::own(reader.into())?), PipeWriter(End::own(writer.into())?)))
}

impl End {
    /// An end whose description is ours alone.
    pub(crate) fn own(fd: OwnedFd) -> io::Result<End> {
        sys::set_nonblocking(fd.as_fd())?;
        Ok(End::Os(Source::new(fd)))
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let operation = Operation {
            direction: Direction::Read,
            cost: cost::of_bytes(buffer.len()),
            limit: Limit::Endless,
            what: "reading from",
            object: &"a pipe",
        };
        match self {
            // Not short: a terminal or a pipe of packets may have more.
            End::Os(source) => {
                source.operate(operation, |io| sys::read(io.as_fd(), buffer).map(Attempt::Full))
            }
            End::Sim(stream) => stream.read(operation, buffer, sim::Taking::Consume),
            End::Script(end) => end.read(operation, buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let operation = Operation {
            direction: Direction::Write,
            cost: cost::of_bytes(bytes.len()),
            limit: Limit::Endless,
            what: "writing to",
            object: &"a pipe",
        };
        match self {
            End::Os(source) => {
                source.operate(operation, |io| sys::write(io.as_fd(), bytes).map(Attempt::Full))
            }
            End::Sim(stream) => stream.write(operation, bytes),
            End::Script(end) => end.write(operation, bytes),
        }
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Read for &PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back here
    }
}

impl Write for &PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
