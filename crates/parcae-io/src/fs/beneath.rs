//! Calls on the tree beneath the directory of a capability.
//!
//! Each path is resolved by the kernel, from the directory's descriptor and never out of it
//! (`RESOLVE_BENEATH`). Calls that name an entry of a directory resolve the directory in this way
//! and then pass its descriptor and the last name, which such calls do not follow. So there is no
//! moment between a check and a use in which another process could put a link in the way.

use super::{DirEntry, FileType, Metadata, OpenOptions};
use crate::error::denied;
use parcae::cap::CapFs;
use parcae::io::open_beneath;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory of a capability on a disk of the system.
#[derive(Clone, Copy)]
pub(super) struct Beneath<'c> {
    pub(super) cap: &'c CapFs,
    pub(super) dir: BorrowedFd<'c>,
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Beneath<'_> {
    fn open_at(&self, path: &Path, flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
        open_beneath(self.dir, path, flags | libc::O_CLOEXEC, mode).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EXDEV) => denied(self.cap.outside()),
                _ => error,
            }
        })
    }

    pub(super) fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<File> {
        let flags = options.flags()?;
        // The call refuses a mode where nothing is made.
        let mode = if flags & libc::O_CREAT != 0 { options.mode_of_new() } else { 0 };
        Ok(self.open_at(path, flags, mode)?.into())
    }

    pub(super) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let file = File::from(self.open_at(path, libc::O_PATH, 0)?);
        file.metadata().map(|facts| Metadata::of(&facts))
    }

    /// The directory of an entry, and its name there.
    fn entry(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let dir = self.open_at(parent, libc::O_PATH | libc::O_DIRECTORY, 0)?;
        Ok((dir, c_name(name)?))
    }

    pub(super) fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.entry(path)?;
        // SAFETY: a text of ours that ends with a zero.
        check(unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), 0o777) })
    }

    pub(super) fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        for part in ancestors.into_iter().rev() {
            if part.file_name().is_none() {
                continue; // the directory itself, or a step up
            }
            match self.create_dir(part) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !self.metadata(part)?.is_dir() {
                        return Err(error);
                    }
                }
                done => done?,
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, path: &Path, flags: libc::c_int) -> io::Result<()> {
        let (dir, name) = self.entry(path)?;
        // SAFETY: a text of ours that ends with a zero.
        check(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), flags) })
    }

    /// Removes a tree. The standard library follows no links on the way down.
    pub(super) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.entry(path)?;
        let tree = of_descriptor(&dir).join(OsStr::from_bytes(name.as_bytes()));
        std::fs::remove_dir_all(tree)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.entry(from)?, self.entry(to)?);
        let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
        // SAFETY: two texts of ours that end with zeros.
        check(unsafe { libc::renameat(from, old.as_ptr(), to, new.as_ptr()) })
    }

    /// The entries of a directory, under the path that the caller has named it by.
    pub(super) fn read_dir(&self, path: &Path, asked: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self.open_at(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(of_descriptor(&dir))? {
            let entry = entry?;
            // One that was removed meanwhile is not there.
            if let Ok(kind) = entry.file_type() {
                let path = asked.join(entry.file_name());
                entries.push(DirEntry { path, kind: FileType::of(kind) });
            }
        }
        Ok(entries)
    }

    pub(super) fn copy(&self, from: &Path, to: &Path) -> io::Result<u64> {
        let mut from = self.open(from, OpenOptions::new().read(true))?;
        let facts = from.metadata()?;
        if !facts.is_file() {
            return Err(io::ErrorKind::InvalidInput.into()); // as std says
        }
        let mut to = self.open(to, OpenOptions::new().write(true).create(true).truncate(true))?;
        to.set_permissions(facts.permissions())?;
        io::copy(&mut from, &mut to)
    }
}

fn c_name(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// A path that leads to an open directory.
fn of_descriptor(dir: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}
