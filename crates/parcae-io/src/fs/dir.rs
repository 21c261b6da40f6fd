//! Directories, and calls on whole files.

use super::{File, FileType, Metadata, call};
use crate::sim;
use crate::source::Operation;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The bytes of a file.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    // One byte more than it has: the read at its end needs no larger buffer.
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize + 1);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
///
/// As for [`read`]; `InvalidData` if it is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file, in place of the one that there may be. Not atomic: write another one, sync and
/// [`rename`] it for that.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, a part may have been written.
pub fn write<P: AsRef<Path>, B: AsRef<[u8]>>(path: P, bytes: B) -> io::Result<()> {
    File::create(path)?.write_all(bytes.as_ref())
}

/// Copies the bytes of a file, in place of those that there may be at the destination. Returns
/// their number.
///
/// # Errors
///
/// As for [`read`] and [`write()`].
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let simulated = |_| {
        let bytes = read(from)?;
        write(to, &bytes)?;
        Ok(bytes.len() as u64)
    };
    call(Operation::cost_of(0) + 1, simulated, || std::fs::copy(from, to))
}

/// Makes a directory.
///
/// # Errors
///
/// If it exists, or its parent does not; if the task is cancelled.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    call(1, |cost| sim::create_dir(cost, path), || std::fs::create_dir(path))
}

/// Makes a directory and all parents that do not exist. An existing one is no error.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, some parents may have been made.
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    call(1, |cost| sim::create_dir_all(cost, path), || std::fs::create_dir_all(path))
}

/// Removes a file.
///
/// # Errors
///
/// If there is none; those of the disk; if the task is cancelled.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    call(1, |cost| sim::remove(cost, path, sim::Removed::File), || std::fs::remove_file(path))
}

/// Removes an empty directory.
///
/// # Errors
///
/// If there is none, or it is not empty; if the task is cancelled.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    call(1, |cost| sim::remove(cost, path, sim::Removed::Dir), || std::fs::remove_dir(path))
}

/// Removes a directory and everything in it. Links are removed and not followed.
///
/// # Errors
///
/// If there is none; those of the disk; if the task is cancelled, a part may be gone.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    call(1, |cost| sim::remove(cost, path, sim::Removed::Tree), || std::fs::remove_dir_all(path))
}

/// Gives a file or directory another name, in place of the file that there may be. Atomic for
/// observers; after a crash it may have either name until its directory was synced.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, nothing was renamed.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    call(1, |cost| sim::rename(cost, from, to), || std::fs::rename(from, to))
}

/// Facts about a file or directory.
///
/// # Errors
///
/// If there is none; if the task is cancelled.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    let path = path.as_ref();
    let real = || std::fs::metadata(path).map(|facts| Metadata::of(&facts));
    call(1, |cost| sim::metadata(cost, path), real)
}

/// Whether there is a file or directory.
///
/// # Errors
///
/// If that cannot be said; if the task is cancelled.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The entries of a directory, in no particular order. All names are read by this call.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     let names: Vec<_> = parcae_io::fs::read_dir("/proc/self")?.map(|e| e.file_name()).collect();
///     assert!(names.iter().any(|name| name == "status"));
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If it is no directory; if the task is cancelled.
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let real = || {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            // One that was removed meanwhile is not there.
            if let Ok(kind) = entry.file_type() {
                entries.push(DirEntry { path: entry.path(), kind: FileType::of(kind) });
            }
        }
        Ok(entries)
    };
    let simulated = |cost| {
        let entry = |(path, kind)| DirEntry { path, kind };
        sim::read_dir(cost, path).map(|found| found.into_iter().map(entry).collect())
    };
    Ok(ReadDir { entries: call(1, simulated, real)?.into_iter() })
}

/// The entries of a directory: see [`read_dir`].
#[derive(Debug)]
pub struct ReadDir {
    entries: std::vec::IntoIter<DirEntry>,
}

impl Iterator for ReadDir {
    type Item = DirEntry;

    fn next(&mut self) -> Option<DirEntry> {
        self.entries.next()
    }
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub struct DirEntry {
    path: PathBuf,
    kind: FileType,
}

impl DirEntry {
    /// The path: that of the directory, and the name.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The name in the directory.
    pub fn file_name(&self) -> OsString {
        self.path.file_name().map_or_else(OsString::new, Into::into)
    }

    /// Its kind.
    pub fn file_type(&self) -> FileType {
        self.kind
    }
}
