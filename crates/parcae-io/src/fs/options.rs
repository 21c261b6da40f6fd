//! How a file is opened.

use super::dir::{Dir, Target};
use super::{File, call};
use crate::cost;
use crate::sim;
use parcae::cap::FsAccess;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Options for opening a file, as `std::fs::OpenOptions`.
///
/// ```
/// use parcae_io::fs::OpenOptions;
/// use std::io::Write;
///
/// let path = std::env::temp_dir().join(format!("parcae-log-{}", std::process::id()));
/// let mut log = OpenOptions::new().append(true).create(true).open(&path)?;
/// writeln!(log, "started")?;
/// # std::fs::remove_file(path)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    mode: Option<u32>,
}

impl OpenOptions {
    /// Options of which none is set.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// For reading.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// For writing.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// For writing at the end, whatever the cursor.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self
    }

    /// Makes an existing file empty. Needs `write`.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Makes a file that does not exist.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Makes a file, and fails if there is one already.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// The permissions of a file that is made; without effect in the simulated world.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = Some(mode);
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As `std::fs::OpenOptions::open`; if the task is cancelled.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        self.open_by(&Dir::implicit()?, path.as_ref())
    }

    pub(super) fn open_by(&self, dir: &Dir<'_>, path: &Path) -> io::Result<File> {
        let access = if self.changes() { FsAccess::Write } else { FsAccess::Read };
        let permit = dir.admit(access)?;
        let target = dir.target(path, access)?;
        let real = || {
            let file = match &target {
                Target::Path(path) => self.open_path(path)?,
                Target::Beneath(beneath, below) => beneath.open(below, self)?,
            };
            Ok(File::real(file, path))
        };
        let simulated = |cost| sim::open_file(cost, target.path(), self).map(File::simulated);
        Ok(call(cost::OPEN, simulated, real)?.counted(permit))
    }

    fn open_path(&self, path: &Path) -> io::Result<std::fs::File> {
        let mut options = std::fs::OpenOptions::new();
        options.read(self.read).write(self.write).append(self.append);
        options.truncate(self.truncate).create(self.create).create_new(self.create_new);
        options.mode(self.mode_of_new());
        options.open(path)
    }

    fn changes(&self) -> bool {
        self.write || self.append || self.truncate || self.create || self.create_new
    }

    pub(super) fn mode_of_new(&self) -> u32 {
        self.mode.unwrap_or(0o666)
    }

    /// The flags of `open`, with the refusals of the standard library.
    pub(super) fn flags(&self) -> io::Result<libc::c_int> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let makes = self.create || self.create_new;
        let refused = match (self.write, self.append) {
            (true, false) => false,
            (false, false) => self.truncate || makes,
            (_, true) => self.truncate && !self.create_new,
        };
        if refused {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let makes = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => libc::O_CREAT,
            (false, true, false) => libc::O_TRUNC,
            (true, true, false) => libc::O_CREAT | libc::O_TRUNC,
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
        };
        Ok(access | makes)
    }
}
