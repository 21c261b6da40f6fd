//! The capability to use files beneath a directory.

use super::super::permits::{CapPermit, NodeRef, Refusal};
use super::super::{Attenuate, CapError, CapLimit, Delegation, Identity, Limits, Usage, not_wider};
use super::common_methods;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Whether files may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FsAccess {
    /// Files are read, directories listed.
    Read,
    /// Files and directories are made, written, renamed and removed, too.
    Write,
}

/// The limits of a [`CapFs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FsLimits {
    /// Whether files may be changed.
    pub access: FsAccess,
    /// Largest number of files open at once.
    pub max_files: u32,
}

/// The limits and the directory.
#[derive(Clone)]
pub(in crate::scope::cap) struct FsGrant {
    limits: FsLimits,
    root: Arc<FsRoot>,
}

/// A directory, held open: renaming it or replacing it by a link changes nothing.
struct FsRoot {
    path: PathBuf,
    /// None in the simulated world, where paths are all there is.
    dir: Option<OwnedFd>,
}

impl fmt::Debug for FsGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FsGrant").field(&self.root.path).field(&self.limits).finish()
    }
}

impl Attenuate for FsGrant {
    fn within(&self, parent: &FsGrant) -> Result<(), CapError> {
        if self.limits.access > parent.limits.access {
            return Err(CapError::WiderSet { limit: CapLimit::Access });
        }
        let (own, parent) = (self.limits.max_files, parent.limits.max_files);
        not_wider(CapLimit::MaxFiles, own.into(), parent.into())
    }
}

impl From<FsGrant> for Limits {
    fn from(grant: FsGrant) -> Limits {
        Limits::Fs(grant.limits)
    }
}

pub(in crate::scope::cap) type FsNode = NodeRef<FsGrant>;

/// The capability to use the files beneath a directory, and no others: neither `..` nor a link
/// leads out of it, whatever other processes do to the tree meanwhile (`openat2` with
/// `RESOLVE_BENEATH`).
///
/// ```no_run
/// use parcae::cap::{CapError, CapFs, FsAccess, FsLimits};
///
/// fn for_a_plugin(cap: &CapFs) -> parcae::Result<CapFs> {
///     cap.beneath("plugins/7", FsLimits { access: FsAccess::Read, max_files: 8 })
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<parcae::cap::CapFs>();
/// ```
pub struct CapFs {
    node: FsNode,
}

/// The place of one open file under a [`CapFs`] and all its ancestors. Dropping it returns the
/// place, even after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the file's place back"]
pub struct FilePermit(CapPermit<FsGrant>);

common_methods!(CapFs, FsLimits, Fs, "Files");

impl CapFs {
    pub(in crate::scope::cap) fn root(id: Identity, grant: FsGrant) -> CapFs {
        CapFs { node: NodeRef::root(id, grant.limits.max_files, grant) }
    }

    /// Derives a weaker capability for the same directory, which cannot be delegated further. Files
    /// under it count against this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own.
    pub fn attenuate(&self, limits: FsLimits) -> Result<CapFs, CapError> {
        self.derive(limits, Arc::clone(&self.node.limits.root), Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapFs::attenuate).
    pub fn attenuate_delegable(&self, limits: FsLimits) -> Result<CapFs, CapError> {
        self.derive(limits, Arc::clone(&self.node.limits.root), Delegation::Allowed)
    }

    /// Derives a capability for a directory beneath its own.
    ///
    /// # Errors
    ///
    /// As for [`attenuate`](CapFs::attenuate); if there is no such directory there.
    pub fn beneath<P: AsRef<Path>>(&self, path: P, limits: FsLimits) -> crate::Result<CapFs> {
        let (path, root) = (path.as_ref(), &self.node.limits.root);
        let below = lexical(path).ok_or_else(outside)?;
        let dir = match &root.dir {
            Some(dir) => {
                let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
                Some(open_beneath(dir.as_fd(), path, flags, 0)?)
            }
            None => None,
        };
        let root = Arc::new(FsRoot { path: root.path.join(below), dir });
        Ok(self.derive(limits, root, Delegation::Forbidden)?)
    }

    fn derive(
        &self,
        limits: FsLimits,
        root: Arc<FsRoot>,
        delegation: Delegation,
    ) -> Result<CapFs, CapError> {
        let node = self.node.derive(limits.max_files, FsGrant { limits, root }, delegation)?;
        Ok(CapFs { node })
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> FsLimits {
        self.node.limits.limits
    }

    /// The path of its directory, as it was when the capability was made.
    pub fn path(&self) -> &Path {
        &self.node.limits.root.path
    }

    /// The part of a path beneath its directory. A relative path is relative to the directory; an
    /// absolute one has to begin with the directory's.
    ///
    /// # Errors
    ///
    /// If the path leads out of the directory.
    pub fn relative(&self, path: &Path) -> Result<PathBuf, CapError> {
        let below =
            if path.is_absolute() { path.strip_prefix(self.path()).ok() } else { Some(path) };
        below.and_then(lexical).ok_or_else(|| self.outside())
    }

    /// A denial, for the log: a path has led out of the directory.
    pub fn outside(&self) -> CapError {
        self.node.id.denied(CapError::PathOutside { cap: self.node.id.serial })
    }

    /// The descriptor of the directory; none in the simulated world.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.node.limits.root.dir.as_ref().map(AsFd::as_fd)
    }

    /// Whether files may be used in this way. Takes no place.
    ///
    /// # Errors
    ///
    /// If it allows less, or this one or an ancestor is revoked.
    pub fn check(&self, access: FsAccess) -> Result<(), CapError> {
        let denied = match self.node.revoked() {
            Some(cap) => CapError::Revoked { cap },
            None if access > self.limits().access => {
                CapError::WriteDenied { cap: self.node.id.serial }
            }
            None => return Ok(()),
        };
        Err(self.node.id.denied(denied))
    }

    /// Takes a place for an open file.
    ///
    /// # Errors
    ///
    /// As for [`check`](CapFs::check); if this one or an ancestor has no place left.
    pub fn admit(&self, access: FsAccess) -> Result<FilePermit, CapError> {
        self.check(access)?;
        let id = &self.node.id;
        match self.node.enter() {
            Ok((place, live)) => {
                id.used(Usage::File { live });
                Ok(FilePermit(place))
            }
            Err(refusal) => Err(id.denied(match refusal {
                Refusal::Revoked { cap } => CapError::Revoked { cap },
                Refusal::Full { cap, limit } => {
                    CapError::FileLimitExceeded { cap, limit, live: limit }
                }
            })),
        }
    }
}

/// The grant for a directory of the system, or of the simulated world.
pub(in crate::scope::cap) fn grant(
    path: &Path,
    limits: FsLimits,
    simulated: bool,
) -> io::Result<FsGrant> {
    if simulated {
        let below = lexical(path.strip_prefix("/").unwrap_or(path)).ok_or_else(outside)?;
        let root = Arc::new(FsRoot { path: Path::new("/").join(below), dir: None });
        return Ok(FsGrant { limits, root });
    }
    let path = path.canonicalize()?;
    let name = c_path(&path)?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a text of ours that ends with a zero.
    let fd = unsafe { libc::open(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no one else has it.
    let dir = Some(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(FsGrant { limits, root: Arc::new(FsRoot { path, dir }) })
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the path leads out of the directory")
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// A relative path without `.` and with no `..` above its beginning; `None` if it leads out.
fn lexical(path: &Path) -> Option<PathBuf> {
    let (mut depth, mut clean) = (0_usize, PathBuf::new());
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                depth += 1;
                clean.push(name);
            }
            Component::CurDir => {}
            // Kept: behind a link it is another directory than the text says.
            Component::ParentDir => {
                depth = depth.checked_sub(1)?;
                clean.push("..");
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// The argument of `openat2`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// No way out of the directory: neither `..` nor links, and no links of `/proc` to descriptors.
const RESOLVE_BENEATH: u64 = 0x08;
const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
/// Attempts while other processes rename directories on the way.
const ATTEMPTS: u32 = 128;

/// Opens a path beneath a directory.
///
/// # Errors
///
/// `EXDEV` if the path leads out of it; `ENOSYS` before Linux 5.6; otherwise as `open`.
pub(crate) fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: libc::c_int,
    mode: u32,
) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let name = c_path(path)?;
    let resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    let how = OpenHow { flags: flags as u64, mode: mode.into(), resolve };
    let mut attempt = 0;
    loop {
        attempt += 1;
        // SAFETY: a text that ends with a zero and a structure of that size, both of ours.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                dir.as_raw_fd(),
                name.as_ptr(),
                &raw const how,
                size_of::<OpenHow>(),
            )
        };
        if fd >= 0 {
            // SAFETY: just opened, and no one else has it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // A directory on the way was renamed meanwhile.
            Some(libc::EAGAIN) if attempt < ATTEMPTS => {}
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

impl fmt::Debug for FilePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePermit").field("cap", &self.0.node().id.serial).finish_non_exhaustive()
    }
}
