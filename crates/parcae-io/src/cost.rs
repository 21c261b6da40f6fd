//! The price list: what a logical operation is charged, in ops and in as many syscalls.
//!
//! | operation | cost |
//! |---|---|
//! | read, write, send, receive, peek, of any kind | 1, and 1 for each full 64 KiB of the buffers |
//! | accept; wait for a child | 1 |
//! | bind, listen, a pair of sockets, a pipe | 1 |
//! | connect, to one of any number of addresses | 2 |
//! | open a file | 2 |
//! | seek, size, facts, sync, rename, remove, list, make a directory | 1 |
//! | copy a file | 4: two opens |
//! | ask for a name | 10; a literal address 0 |
//! | start a process | 50 |
//! | wait until something is ready; shut down, close, options, addresses | 0 |
//!
//! An operation is charged before it is attempted, so that one that cannot be paid for does
//! nothing. An operation that failed *has happened*: the disk or the peer was asked. An operation
//! that was cancelled or timed out while it waited has not, and its charge is taken back.
//!
//! The price does not depend on the calls of the kernel that an operation took: a second attempt
//! after a wait, a ring, a thread of the pool and the simulated world cost the same. Otherwise a
//! script would exhaust its budget at another place in a replay.

/// Bytes that cost as much as an operation.
const CHARGED_BYTES: usize = 64 << 10;

/// A call without bytes: a seek, a rename, a sync.
pub(crate) const CALL: u64 = 1;
/// A new socket that connects to no one.
pub(crate) const SOCKET: u64 = 1;
pub(crate) const CONNECT: u64 = 2;
pub(crate) const OPEN: u64 = 2;
pub(crate) const COPY: u64 = 2 * OPEN;
/// A question for a name: it takes several messages.
pub(crate) const NAME: u64 = 10;
pub(crate) const PROCESS: u64 = 50;

/// An operation on so many bytes: one, and one for each full 64 KiB.
pub(crate) fn of_bytes(bytes: usize) -> u64 {
    CALL + (bytes / CHARGED_BYTES) as u64
}
