//! A file on either backend.

use super::{OpenOptions, call};
use crate::cost;
use crate::error::not_replayable;
use crate::poller::ring::{self, FileOp, Happened};
use crate::sim;
use crate::source::Charge;
use crate::sys;
use parcae::cap::FilePermit;
use parcae::io::IoPlace;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// An open file, as `std::fs::File`. A shared reference reads, writes and seeks, too.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::fs::File;
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// let path = std::env::temp_dir().join(format!("parcae-file-{}", std::process::id()));
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     let mut file = File::create(&path)?;
///     file.write_all(b"spin, measure, cut")?;
///     file.sync_all()?;
///     let mut file = File::open(&path)?;
///     file.seek(SeekFrom::Start(6))?;
///     let mut text = String::new();
///     file.read_to_string(&mut text)?;
///     assert_eq!(text, "measure, cut");
///     Ok(parcae_io::fs::remove_file(&path)?)
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct File {
    backend: Backend,
    /// Returned behind the backend: the descriptor is closed first.
    permit: Option<FilePermit>,
}

#[derive(Debug)]
enum Backend {
    Os(std::fs::File, PathBuf),
    Sim(sim::SimFile),
}

/// Whether an entry is a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A link, which was not followed.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

impl FileType {
    pub(super) fn of(real: std::fs::FileType) -> FileType {
        match real {
            _ if real.is_file() => FileType::File,
            _ if real.is_dir() => FileType::Dir,
            _ if real.is_symlink() => FileType::Symlink,
            _ => FileType::Other,
        }
    }
}

/// Facts about a file.
#[derive(Debug, Clone)]
pub struct Metadata {
    pub(crate) kind: FileType,
    pub(crate) len: u64,
    pub(crate) modified: Option<SystemTime>,
}

impl Metadata {
    pub(super) fn of(real: &std::fs::Metadata) -> Metadata {
        let kind = FileType::of(real.file_type());
        Metadata { kind, len: real.len(), modified: real.modified().ok() }
    }

    /// Its kind.
    pub fn file_type(&self) -> FileType {
        self.kind
    }

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "as in std")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Dir
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::File
    }

    /// The time of the last change of its bytes; none in the simulated world, which has no
    /// calendar.
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As for [`OpenOptions::open`].
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, and makes it empty or new.
    ///
    /// # Errors
    ///
    /// As for [`OpenOptions::open`].
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    pub(super) fn real(file: std::fs::File, path: &Path) -> File {
        File { backend: Backend::Os(file, path.into()), permit: None }
    }

    pub(super) fn simulated(file: sim::SimFile) -> File {
        File { backend: Backend::Sim(file), permit: None }
    }

    /// Counted under a capability.
    pub(super) fn counted(mut self, permit: Option<FilePermit>) -> File {
        self.permit = permit;
        self
    }

    /// Takes a file over from the standard library.
    ///
    /// # Errors
    ///
    /// Under the deterministic executor, whose runs real files would make unrepeatable.
    pub fn from_std(file: std::fs::File) -> io::Result<File> {
        if parcae::io::place() == IoPlace::Simulated {
            return Err(not_replayable("from_std of", &"a file"));
        }
        Ok(File::real(file, Path::new("a file")))
    }

    /// Gives the file to the standard library.
    ///
    /// # Errors
    ///
    /// For a simulated file.
    pub fn into_std(self) -> io::Result<std::fs::File> {
        match self.backend {
            Backend::Os(file, _) => Ok(file),
            Backend::Sim(_) => Err(not_replayable("into_std of", &"a simulated file")),
        }
    }

    /// A call that is made on the pool.
    fn on_pool<T: Send>(
        &self,
        cost: u64,
        simulated: impl FnOnce(&sim::SimFile, u64) -> io::Result<T>,
        real: impl FnOnce(&std::fs::File) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        match &self.backend {
            Backend::Sim(file) => simulated(file, cost),
            Backend::Os(file, path) => {
                let refused = |_| Err(not_replayable("using", &path.display()));
                call(cost, refused, || real(file))
            }
        }
    }

    /// A call that the ring may make, in a task; `None` if it has to go elsewhere.
    fn on_ring(&self, cost: u64, mut op: FileOp<'_>) -> Option<io::Result<usize>> {
        let Backend::Os(file, path) = &self.backend else { return None };
        if parcae::io::place() != IoPlace::Task {
            return None;
        }
        let charge = match Charge::new(cost) {
            Ok(charge) => charge,
            Err(error) => return Some(Err(error)),
        };
        if let FileOp::Read(buffer, offset) = &mut op
            && let Ok(count) = sys::read_cached(file.as_fd(), buffer, *offset)
        {
            charge.keep(); // any error: the call that may wait decides
            return Some(Ok(count));
        }
        let (outcome, happened) = ring::operate(file.as_fd(), &mut op, &path.display())?;
        if happened == Happened::Yes {
            charge.keep();
        }
        Some(outcome)
    }

    /// A read: on the worker if the bytes are in the page cache, otherwise by the ring or the pool.
    fn read_from(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
        let cost = cost::of_bytes(buffer.len());
        if !buffer.is_empty()
            && let Some(outcome) = self.on_ring(cost, FileOp::Read(buffer, offset))
        {
            return outcome;
        }
        match &self.backend {
            Backend::Sim(file) => file.read(cost, buffer, offset),
            Backend::Os(file, path) => {
                let refused = |_| Err(not_replayable("reading from", &path.display()));
                let mut file = file;
                call(cost, refused, || match offset {
                    Some(offset) => file.read_at(buffer, offset),
                    None => file.read(buffer),
                })
            }
        }
    }

    /// Reads at an offset; the cursor stays.
    ///
    /// # Errors
    ///
    /// Those of the disk; if the task is cancelled, nothing was read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, Some(offset))
    }

    /// Writes at an offset; the cursor stays.
    ///
    /// # Errors
    ///
    /// Those of the disk; if the task is cancelled, nothing was written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(bytes, Some(offset))
    }

    fn write_to(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<usize> {
        let cost = cost::of_bytes(bytes.len());
        if !bytes.is_empty()
            && let Some(outcome) = self.on_ring(cost, FileOp::Write(bytes, offset))
        {
            return outcome;
        }
        let simulated = |file: &sim::SimFile, cost| file.write(cost, bytes, offset);
        self.on_pool(cost, simulated, |mut file| match offset {
            Some(offset) => file.write_at(bytes, offset),
            None => file.write(bytes),
        })
    }

    /// Facts about the file.
    ///
    /// # Errors
    ///
    /// Those of the disk; if the task is cancelled.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let real = |file: &std::fs::File| file.metadata().map(|facts| Metadata::of(&facts));
        self.on_pool(cost::CALL, sim::SimFile::metadata, real)
    }

    /// Cuts the file, or extends it by zeros.
    ///
    /// # Errors
    ///
    /// Those of the disk; if the task is cancelled.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.on_pool(cost::CALL, |file, cost| file.set_len(cost, size), |file| file.set_len(size))
    }

    /// Waits until the file is on the disk: its bytes and its facts. Its name is in the directory,
    /// which has to be opened and synced as well if the file is new.
    ///
    /// # Errors
    ///
    /// Those of the disk, also of earlier writes; if the task is cancelled.
    pub fn sync_all(&self) -> io::Result<()> {
        match self.on_ring(cost::CALL, FileOp::SyncAll) {
            Some(outcome) => outcome.map(drop),
            None => self.on_pool(cost::CALL, sim::SimFile::sync, std::fs::File::sync_all),
        }
    }

    /// As [`sync_all`](File::sync_all), without the facts that are not needed to read it again.
    ///
    /// # Errors
    ///
    /// As for [`sync_all`](File::sync_all).
    pub fn sync_data(&self) -> io::Result<()> {
        match self.on_ring(cost::CALL, FileOp::SyncData) {
            Some(outcome) => outcome.map(drop),
            None => self.on_pool(cost::CALL, sim::SimFile::sync, std::fs::File::sync_data),
        }
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, None)
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_to(bytes, None)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back here
    }
}

impl Seek for &File {
    /// Moves the cursor. Waits only for a seek from the end, which asks for the size.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match (&self.backend, to) {
            (Backend::Os(file, _), SeekFrom::Start(_) | SeekFrom::Current(_)) => {
                Charge::new(cost::CALL)?.keep();
                let mut file = file;
                file.seek(to)
            }
            _ => {
                self.on_pool(cost::CALL, |file, cost| file.seek(cost, to), |mut file| file.seek(to))
            }
        }
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// The descriptor of a real file.
///
/// # Panics
///
/// A simulated file has none.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Os(file, _) => file.as_fd(),
            Backend::Sim(_) => panic!("a simulated file has no descriptor"),
        }
    }
}
