//! Bodies that are read: by length, in chunks, or to the end of the connection.

use super::carrier::Carrier;
use super::wire::Wire;
use std::io::{self, Read};
use std::ops::Deref;

/// The longest line between chunks, extensions included.
const LINE: usize = 256;
/// The most lines behind the last chunk.
const TRAILERS: usize = 64;

/// The rest of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Bytes(u64),
    /// Bytes of the present chunk; before the first chunk `None`.
    Chunks(Option<u64>),
    ToTheEnd,
}

impl Left {
    pub(super) const NONE: Left = Left::Bytes(0);
}

/// A body that is read from a connection.
#[derive(Debug)]
pub struct Body<'r, 's> {
    pub(super) wire: &'r mut Wire<&'s Carrier>,
    pub(super) left: &'r mut Left,
    /// The bytes that it may have.
    pub(super) room: &'r mut u64,
}

/// The error of a body that is larger than the limit.
fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the body is larger than the limit allows")
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Read for Body<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left.read(self.wire, self.room, buffer)
    }
}

impl Left {
    /// Reads bytes of the body, of which there may be `room` more.
    pub(super) fn read<C: Deref<Target = Carrier>>(
        &mut self,
        wire: &mut Wire<C>,
        room: &mut u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let most = match *self {
                Left::Bytes(0) => return Ok(0),
                Left::Bytes(left) | Left::Chunks(Some(left)) if left > 0 => left,
                Left::ToTheEnd => u64::MAX,
                Left::Chunks(before) => {
                    self.next_chunk(wire, before.is_some())?;
                    continue;
                }
                Left::Bytes(_) => return Ok(0),
            };
            if *room == 0 {
                return Err(too_large());
            }
            let most = most.min(*room).min(buffer.len() as u64) as usize;
            let count = wire.read(&mut buffer[..most])?;
            match self {
                Left::Bytes(left) | Left::Chunks(Some(left)) => {
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left -= count as u64;
                }
                _ if count == 0 => *self = Left::NONE,
                _ => {}
            }
            *room -= count as u64;
            return Ok(count);
        }
    }

    /// Reads the line of the next chunk, behind the end of the one before.
    fn next_chunk<C: Deref<Target = Carrier>>(
        &mut self,
        wire: &mut Wire<C>,
        has_one_before: bool,
    ) -> io::Result<()> {
        if has_one_before && !wire.line(2)?.is_empty() {
            return Err(bad("a chunk is longer than its line says"));
        }
        let line = wire.line(LINE)?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(bad("a chunk without a size"));
        }
        let text = std::str::from_utf8(digits).unwrap_or_default();
        let size = u64::from_str_radix(text, 16).map_err(|_| bad("a chunk without a size"))?;
        *self = Left::Chunks(Some(size));
        if size == 0 {
            for _ in 0..TRAILERS {
                if wire.line(8 << 10)?.is_empty() {
                    *self = Left::NONE;
                    return Ok(());
                }
            }
            return Err(bad("too many lines behind the last chunk"));
        }
        Ok(())
    }
}
