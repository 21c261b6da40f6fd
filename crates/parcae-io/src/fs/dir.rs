//! Directories, and calls on whole files.

use super::beneath::Beneath;
use super::{File, FileType, Metadata, OpenOptions, call};
use crate::authority::Authority;
use crate::cost;
use crate::error::denied;
use crate::sim;
use parcae::cap::{CapFs, FilePermit, FsAccess};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The directory of a [`CapFs`], and the calls on it: the form of the sovereign profile. Each
/// method is the function of the same name, on paths beneath the directory.
///
/// ```
/// use parcae::cap::{Delegation, FsAccess, FsLimits};
/// use parcae::prelude::*;
/// use parcae::profile::Sovereign;
/// use parcae_io::fs::{self, Dir};
/// use std::io::ErrorKind;
///
/// let folder = std::env::temp_dir().join(format!("parcae-dir-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let rt = Runtime::builder().profile::<Sovereign>().build()?;
/// let limits = FsLimits { access: FsAccess::Write, max_files: 8 };
/// let cap = rt.cap_fs(&folder, limits, Delegation::Forbidden)?;
/// rt.run(|_| {
///     let dir = Dir::under(&cap)?;
///     dir.write("note", "buy bread")?;
///     assert_eq!(dir.read_to_string("note")?, "buy bread");
///     // No way out, and no call without a capability.
///     let error = dir.read("../../etc/passwd").unwrap_err();
///     assert_eq!(error.kind(), ErrorKind::PermissionDenied);
///     assert!(fs::read("/etc/passwd").unwrap_err().to_string().contains("pass a `&CapFs`"));
///     Ok(())
/// })?;
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct Dir<'c>(Authority<'c, CapFs>);

/// A path as a call takes it.
pub(super) enum Target<'a> {
    Path(PathBuf),
    Beneath(Beneath<'a>, PathBuf),
}

impl Target<'_> {
    /// The path on a simulated disk.
    pub(super) fn path(&self) -> &Path {
        match self {
            Target::Path(path) | Target::Beneath(_, path) => path,
        }
    }
}

/// A call with one path: by name, beneath a directory of the system, or simulated.
macro_rules! on {
    ($dir:expr, $cost:expr, $access:ident, $path:expr,
     $sim:expr, |$by_path:ident| $real:expr, |$beneath:ident, $below:ident| $under:expr) => {{
        let target = $dir.target($path, FsAccess::$access)?;
        let real = || match &target {
            Target::Path($by_path) => $real,
            Target::Beneath($beneath, $below) => $under,
        };
        call($cost, |cost| $sim(cost, target.path()), real)
    }};
}

impl<'c> Dir<'c> {
    /// The directory of a capability.
    ///
    /// # Errors
    ///
    /// If another runtime has minted it.
    pub fn under(cap: &'c CapFs) -> io::Result<Dir<'c>> {
        Ok(Dir(Authority::shown(cap)?))
    }

    /// That of the nursery; without one, all paths.
    pub(super) fn implicit() -> io::Result<Dir<'c>> {
        Ok(Dir(Authority::implicit()?))
    }

    pub(super) fn admit(&self, access: FsAccess) -> io::Result<Option<FilePermit>> {
        self.0.admit(|cap| cap.admit(access))
    }

    /// A path, if it may be used in this way.
    pub(super) fn target(&self, path: &Path, access: FsAccess) -> io::Result<Target<'_>> {
        let Some(cap) = self.0.cap() else { return Ok(Target::Path(path.into())) };
        cap.check(access).map_err(denied)?;
        let below = cap.relative(path).map_err(denied)?;
        Ok(match cap.directory() {
            Some(dir) => Target::Beneath(Beneath { cap, dir }, below),
            None => Target::Path(cap.path().join(below)),
        })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As for [`OpenOptions::open`], and the refusals of the capability: this holds for all
    /// methods.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        self.open_with(OpenOptions::new().read(true), path)
    }

    /// Opens a file for writing, and makes it empty or new.
    ///
    /// # Errors
    ///
    /// As for [`open`](Dir::open).
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        self.open_with(OpenOptions::new().write(true).create(true).truncate(true), path)
    }

    /// Opens a file with options.
    ///
    /// # Errors
    ///
    /// As for [`open`](Dir::open).
    pub fn open_with<P: AsRef<Path>>(&self, options: &OpenOptions, path: P) -> io::Result<File> {
        options.open_by(self, path.as_ref())
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// As for [`read`].
    pub fn read<P: AsRef<Path>>(&self, path: P) -> io::Result<Vec<u8>> {
        let mut file = self.open(path)?;
        // One byte more than it has: the read at its end needs no larger buffer.
        let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize + 1);
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// As for [`read_to_string`].
    pub fn read_to_string<P: AsRef<Path>>(&self, path: P) -> io::Result<String> {
        String::from_utf8(self.read(path)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes a file, in place of the one that there may be.
    ///
    /// # Errors
    ///
    /// As for [`write()`].
    pub fn write<P: AsRef<Path>, B: AsRef<[u8]>>(&self, path: P, bytes: B) -> io::Result<()> {
        self.create(path)?.write_all(bytes.as_ref())
    }

    /// Copies the bytes of a file.
    ///
    /// # Errors
    ///
    /// As for [`copy`].
    pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(&self, from: P, to: Q) -> io::Result<u64> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let from = self.target(from, FsAccess::Read)?;
        let to = self.target(to, FsAccess::Write)?;
        let real = || match (&from, &to) {
            (Target::Beneath(beneath, from), to) => beneath.copy(from, to.path()),
            (from, to) => std::fs::copy(from.path(), to.path()),
        };
        call(cost::COPY, |cost| sim::copy(cost, from.path(), to.path()), real)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As for [`create_dir`].
    pub fn create_dir<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        on!(
            self,
            cost::CALL,
            Write,
            path.as_ref(),
            sim::create_dir,
            |path| std::fs::create_dir(path),
            |beneath, path| beneath.create_dir(path)
        )
    }

    /// Makes a directory and all parents that do not exist.
    ///
    /// # Errors
    ///
    /// As for [`create_dir_all`].
    pub fn create_dir_all<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        on!(
            self,
            cost::CALL,
            Write,
            path.as_ref(),
            sim::create_dir_all,
            |path| std::fs::create_dir_all(path),
            |beneath, path| beneath.create_dir_all(path)
        )
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As for [`remove_file`].
    pub fn remove_file<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let simulated = |cost, path: &Path| sim::remove(cost, path, sim::Removed::File);
        on!(
            self,
            cost::CALL,
            Write,
            path.as_ref(),
            simulated,
            |path| std::fs::remove_file(path),
            |beneath, path| beneath.remove(path, 0)
        )
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As for [`remove_dir`].
    pub fn remove_dir<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let simulated = |cost, path: &Path| sim::remove(cost, path, sim::Removed::Dir);
        on!(
            self,
            cost::CALL,
            Write,
            path.as_ref(),
            simulated,
            |path| std::fs::remove_dir(path),
            |beneath, path| beneath.remove(path, libc::AT_REMOVEDIR)
        )
    }

    /// Removes a directory and everything in it.
    ///
    /// # Errors
    ///
    /// As for [`remove_dir_all`].
    pub fn remove_dir_all<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let simulated = |cost, path: &Path| sim::remove(cost, path, sim::Removed::Tree);
        on!(
            self,
            cost::CALL,
            Write,
            path.as_ref(),
            simulated,
            |path| std::fs::remove_dir_all(path),
            |beneath, path| beneath.remove_dir_all(path)
        )
    }

    /// Gives a file or directory another name.
    ///
    /// # Errors
    ///
    /// As for [`rename`].
    pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(&self, from: P, to: Q) -> io::Result<()> {
        let from = self.target(from.as_ref(), FsAccess::Write)?;
        let to = self.target(to.as_ref(), FsAccess::Write)?;
        let real = || match (&from, &to) {
            (Target::Beneath(beneath, from), to) => beneath.rename(from, to.path()),
            (from, to) => std::fs::rename(from.path(), to.path()),
        };
        call(cost::CALL, |cost| sim::rename(cost, from.path(), to.path()), real)
    }

    /// Facts about a file or directory.
    ///
    /// # Errors
    ///
    /// As for [`metadata`].
    pub fn metadata<P: AsRef<Path>>(&self, path: P) -> io::Result<Metadata> {
        on!(
            self,
            cost::CALL,
            Read,
            path.as_ref(),
            sim::metadata,
            |path| std::fs::metadata(path).map(|facts| Metadata::of(&facts)),
            |beneath, path| beneath.metadata(path)
        )
    }

    /// Whether there is a file or directory.
    ///
    /// # Errors
    ///
    /// As for [`exists`].
    pub fn exists<P: AsRef<Path>>(&self, path: P) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The entries of a directory.
    ///
    /// # Errors
    ///
    /// As for [`read_dir`].
    pub fn read_dir<P: AsRef<Path>>(&self, path: P) -> io::Result<ReadDir> {
        let asked = path.as_ref();
        let target = self.target(asked, FsAccess::Read)?;
        let real = || match &target {
            Target::Path(path) => entries_of(path),
            Target::Beneath(beneath, below) => beneath.read_dir(below, asked),
        };
        let simulated = |cost| {
            let entry = |(path, kind): (PathBuf, _)| DirEntry {
                path: asked.join(path.file_name().unwrap_or_default()),
                kind,
            };
            let found = sim::read_dir(cost, target.path())?;
            Ok(found.into_iter().map(entry).collect())
        };
        Ok(ReadDir { entries: call(cost::CALL, simulated, real)?.into_iter() })
    }
}

fn entries_of(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // One that was removed meanwhile is not there.
        if let Ok(kind) = entry.file_type() {
            entries.push(DirEntry { path: entry.path(), kind: FileType::of(kind) });
        }
    }
    Ok(entries)
}

/// The bytes of a file.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    Dir::implicit()?.read(path)
}

/// The text of a file.
///
/// # Errors
///
/// As for [`read`]; `InvalidData` if it is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    Dir::implicit()?.read_to_string(path)
}

/// Writes a file, in place of the one that there may be. Not atomic: write another one, sync and
/// [`rename`] it for that.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, a part may have been written.
pub fn write<P: AsRef<Path>, B: AsRef<[u8]>>(path: P, bytes: B) -> io::Result<()> {
    Dir::implicit()?.write(path, bytes)
}

/// Copies the bytes of a file, in place of those that there may be at the destination. Returns
/// their number.
///
/// # Errors
///
/// As for [`read`] and [`write()`].
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    Dir::implicit()?.copy(from, to)
}

/// Makes a directory.
///
/// # Errors
///
/// If it exists, or its parent does not; if the task is cancelled.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    Dir::implicit()?.create_dir(path)
}

/// Makes a directory and all parents that do not exist. An existing one is no error.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, some parents may have been made.
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    Dir::implicit()?.create_dir_all(path)
}

/// Removes a file.
///
/// # Errors
///
/// If there is none; those of the disk; if the task is cancelled.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    Dir::implicit()?.remove_file(path)
}

/// Removes an empty directory.
///
/// # Errors
///
/// If there is none, or it is not empty; if the task is cancelled.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    Dir::implicit()?.remove_dir(path)
}

/// Removes a directory and everything in it. Links are removed and not followed.
///
/// # Errors
///
/// If there is none; those of the disk; if the task is cancelled, a part may be gone.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    Dir::implicit()?.remove_dir_all(path)
}

/// Gives a file or directory another name, in place of the file that there may be. Atomic for
/// observers; after a crash it may have either name until its directory was synced.
///
/// # Errors
///
/// Those of the disk; if the task is cancelled, nothing was renamed.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    Dir::implicit()?.rename(from, to)
}

/// Facts about a file or directory.
///
/// # Errors
///
/// If there is none; if the task is cancelled.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    Dir::implicit()?.metadata(path)
}

/// Whether there is a file or directory.
///
/// # Errors
///
/// If that cannot be said; if the task is cancelled.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    Dir::implicit()?.exists(path)
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
    Dir::implicit()?.read_dir(path)
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
    pub(super) path: PathBuf,
    pub(super) kind: FileType,
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
