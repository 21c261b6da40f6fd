//! Which backend is in force: io_uring where the kernel allows it, probed by a real operation.

use super::queue::{Entry, Queues};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};

/// The way in which files are read, written and synced where the call would have to wait.
///
/// ```
/// use parcae_io::fs::{self, FileBackend};
///
/// match fs::backend() {
///     FileBackend::Ring => println!("by io_uring"),
///     other => println!("by {other:?}"), // the kernel or the container does not allow it
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileBackend {
    /// io_uring.
    Ring,
    /// Threads of the runtime's pool for blocking calls.
    Pool,
}

const UNKNOWN: u8 = 0;
const RING: u8 = 1;
const OTHER: u8 = 2;

/// The backend in force for files.
static FILES: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether io_uring does what sockets need.
static SOCKETS: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the ring is in force by this word, after a probe if that is not known.
fn is_ring(word: &AtomicU8, probe: impl FnOnce() -> io::Result<()>) -> bool {
    // Relaxed, all: it stands alone, and several threads may find out for themselves.
    match word.load(Ordering::Relaxed) {
        RING => true,
        OTHER => false,
        _ => {
            let found = match probe() {
                Ok(()) => RING,
                // No room now says nothing about later.
                Err(error) if is_passing(&error) => return false,
                Err(_) => OTHER,
            };
            // A choice that was made meanwhile stays.
            let _ = word.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed);
            found == RING
        }
    }
}

/// The backend in force for files, in all runtimes of the process. The first call tries io_uring by
/// a real operation.
pub fn backend() -> FileBackend {
    if is_ring(&FILES, probe_files) { FileBackend::Ring } else { FileBackend::Pool }
}

/// Chooses the backend for files, in all runtimes of the process. A sandbox that filters system
/// calls wants [`FileBackend::Pool`]: operations of a ring pass by such filters.
///
/// # Errors
///
/// If io_uring is chosen and the kernel does not allow it.
pub fn set_backend(backend: FileBackend) -> io::Result<()> {
    let chosen = match backend {
        FileBackend::Ring => probe_files().map(|()| RING)?,
        FileBackend::Pool => OTHER,
    };
    FILES.store(chosen, Ordering::Relaxed); // as in `is_ring`
    Ok(())
}

/// Whether sockets can be used by io_uring; tried by the first call.
pub(crate) fn is_for_sockets() -> bool {
    is_ring(&SOCKETS, probe_sockets)
}

/// Whether an error may not come again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::EINTR))
}

/// Makes operations by a ring of its own, one after the other.
fn one_by_one<const N: usize>(entries: [Entry; N]) -> io::Result<[i32; N]> {
    let mut queues = Queues::new(4, 8)?;
    let mut results = [0; N];
    for (entry, place) in entries.iter().zip(&mut results) {
        // SAFETY: the callers' buffers live until the completion, which is waited for below;
        // without one the ring is closed first.
        unsafe { queues.submission.submit_now(entry, 1) }?;
        queues.wait()?;
        queues.completion.take(|_, result| *place = result);
    }
    Ok(results)
}

fn probe_files() -> io::Result<()> {
    let (reader, mut writer) = io::pipe()?;
    io::Write::write_all(&mut writer, b"x")?;
    let mut byte = [0; 1];
    match (one_by_one([Entry::read(reader.as_fd(), &mut byte, None)])?, &byte) {
        ([1], b"x") => Ok(()),
        other => Err(io::Error::other(format!("io_uring has not read a byte: {other:?}"))),
    }
}

fn probe_sockets() -> io::Result<()> {
    let (left, right) = UnixStream::pair()?;
    let mut byte = [0; 1];
    let entries = [
        Entry::send(left.as_fd(), b"x"), //
        Entry::receive(right.as_fd(), &mut byte, 0),
    ];
    match (one_by_one(entries)?, &byte) {
        ([1, 1], b"x") => Ok(()),
        other => Err(io::Error::other(format!("io_uring has not sent a byte: {other:?}"))),
    }
}
