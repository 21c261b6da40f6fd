//! Files and directories, as in `std::fs`.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::fs;
//!
//! let rt = Runtime::builder().build()?;
//! let folder = std::env::temp_dir().join(format!("parcae-fs-{}", std::process::id()));
//! rt.run(|_| {
//!     fs::create_dir_all(&folder)?;
//!     fs::write(folder.join("note"), "buy bread")?;
//!     assert_eq!(fs::read_to_string(folder.join("note"))?, "buy bread");
//!     Ok(fs::remove_dir_all(&folder)?)
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # How a call waits
//!
//! | call | in a task |
//! |---|---|
//! | a read of bytes that are in the page cache | a system call on the worker (`RWF_NOWAIT`), which does not wait |
//! | other reads, writes, syncs | io_uring, if the kernel allows it ([`backend`]); the task is parked |
//! | all others | a system call on a thread of the runtime's pool; the task is parked |
//! | any, outside of tasks | a system call on the thread, as in std |
//!
//! A call is a cancel point before it begins. One that has begun is waited for, and returns its
//! result unless it could be cancelled without effect: a disk cannot be interrupted, and no byte
//! that was read is lost. The cancellation is then
//! reported by the next call. Opening costs two ops and syscalls, copying four, reading and writing
//! one and one more for each full 64 KiB, the others one.
//!
//! # Under the deterministic executor
//!
//! Each host of the simulated network has a disk of its own, see
//! [`Host::power_cut`](crate::sim::Host::power_cut): a cut loses what was not synced.

mod beneath;
mod dir;
mod file;
mod options;

pub use crate::poller::ring::{FileBackend, backend, set_backend};
pub use dir::{
    Dir, DirEntry, ReadDir, copy, create_dir, create_dir_all, exists, metadata, read, read_dir,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, write,
};
pub use file::{File, FileType, Metadata};
pub use options::OpenOptions;

use crate::error::from_task;
use crate::source::Charge;
use parcae::io::IoPlace;
use std::io;

/// A call on the file system: simulated, on the pool, or on this thread.
fn call<T: Send>(
    cost: u64,
    simulated: impl FnOnce(u64) -> io::Result<T>,
    real: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    match parcae::io::place() {
        IoPlace::Simulated => simulated(cost),
        IoPlace::Thread => real(),
        IoPlace::Task => {
            let charge = Charge::new(cost)?;
            let outcome = parcae::io::blocking(real).map_err(from_task)?;
            charge.keep(); // also if it has failed: it was made
            outcome
        }
    }
}
