//! How a file is opened.

use super::{File, call};
use crate::sim;
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
        let path = path.as_ref();
        let real = || {
            let mut options = std::fs::OpenOptions::new();
            options.read(self.read).write(self.write).append(self.append);
            options.truncate(self.truncate).create(self.create).create_new(self.create_new);
            if let Some(mode) = self.mode {
                options.mode(mode);
            }
            options.open(path).map(|file| File::real(file, path))
        };
        call(2, |cost| sim::open_file(cost, path, self).map(File::simulated), real)
    }
}
