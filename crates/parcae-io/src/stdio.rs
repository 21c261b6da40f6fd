//! The standard streams of the process.
//!
//! ```no_run
//! use parcae::prelude::*;
//! use std::io::{BufRead, BufReader};
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|_| {
//!     for line in BufReader::new(parcae_io::stdio::stdin()?).lines() {
//!         println!("{}", line?.len());
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # No flag of a shared descriptor is changed
//!
//! A terminal or pipe was opened by another process, which would suffer from `O_NONBLOCK`. So a
//! description of our own is made:
//!
//! | the descriptor is | a task reads and writes |
//! |---|---|
//! | a pipe, a terminal, a device | a description of our own, opened again through `/proc/self/fd` and waited for by the poller |
//! | a socket | the socket, by calls with `MSG_DONTWAIT` |
//! | a file; or it cannot be opened again | the descriptor, on a thread of the pool for blocking calls, which is waited for |

use crate::error::not_replayable;
use crate::fs::File;
use crate::pipe::End;
use crate::source::Source;
use parcae::io::IoPlace;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;

/// A standard stream.
#[derive(Debug)]
enum Standard {
    Polled(End),
    Socket(crate::net::UnixStream),
    File(File),
}

/// The standard input: see [`stdin`].
#[derive(Debug)]
pub struct Stdin(Standard);

/// The standard output or the standard error output: see [`stdout`] and [`stderr`].
#[derive(Debug)]
pub struct Output(Standard);

/// The standard input. Not buffered, and apart from `std::io::stdin`, which may hold bytes.
///
/// # Errors
///
/// If the descriptor is closed; under the deterministic executor.
pub fn stdin() -> io::Result<Stdin> {
    Standard::of(std::io::stdin().as_fd(), "the standard input").map(Stdin)
}

/// The standard output. Not buffered.
///
/// # Errors
///
/// As for [`stdin`].
pub fn stdout() -> io::Result<Output> {
    Standard::of(std::io::stdout().as_fd(), "the standard output").map(Output)
}

/// The standard error output. Not buffered.
///
/// # Errors
///
/// As for [`stdin`].
pub fn stderr() -> io::Result<Output> {
    Standard::of(std::io::stderr().as_fd(), "the standard error output").map(Output)
}

impl Standard {
    fn of(fd: BorrowedFd<'_>, name: &str) -> io::Result<Standard> {
        if parcae::io::place() == IoPlace::Simulated {
            return Err(not_replayable("using", &name));
        }
        let own: OwnedFd = fd.try_clone_to_owned()?;
        let file = std::fs::File::from(own);
        let kind = file.metadata()?.file_type();
        if kind.is_socket() {
            // Of any family: the calls for streams are the same.
            let socket = UnixStream::from(OwnedFd::from(file));
            return crate::net::UnixStream::from_std(socket).map(Standard::Socket);
        }
        if kind.is_fifo() || kind.is_char_device() {
            let mode = access_mode(fd);
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let mut options = std::fs::OpenOptions::new();
            options.read(mode != libc::O_WRONLY).write(mode != libc::O_RDONLY);
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            if let Ok(again) = options.custom_flags(flags).open(path) {
                return Ok(Standard::Polled(End::Os(Source::new(again.into()))));
            }
        }
        File::from_std(file).map(Standard::File)
    }
}

/// Whether a descriptor reads, writes or both.
fn access_mode(fd: BorrowedFd<'_>) -> libc::c_int {
    // SAFETY: takes no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    flags & libc::O_ACCMODE
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Standard::Polled(end) => end.read(buffer),
            Standard::Socket(socket) => socket.read(buffer),
            Standard::File(file) => file.read(buffer),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Standard::Polled(end) => end.write(bytes),
            Standard::Socket(socket) => socket.write(bytes),
            Standard::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back here
    }
}
