//! The socket's file: binding and removal.
//!
//! The path comes from the caller, and any file may be there already. Two rules keep other files
//! safe:
//!
//! 1. *Binding* removes a file only if it is a socket of this user on which no program listens: a
//!    program that was killed has left it. The kernel refuses a connection to a regular file in
//!    the same way (`ECONNREFUSED`), so the type of the file is asked for first, and symbolic
//!    links are not followed. Everything else is an error, and stays.
//! 2. *Dropping* removes the file only if it still is the one that was bound, by device and inode.
//!    The kernel keeps the inode while the socket is open, so its number cannot come to another
//!    file before the listener is closed, which happens after the comparison.
//!
//! Between the check and the removal another program may put its own file there. The window is two
//! system calls long, and cannot be closed: POSIX has no "unlink if it is this file".

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A listener and the file that it was bound to, which is removed with it.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    identity: (u64, u64),
    listener: UnixListener,
}

impl Bound {
    /// Listens on a path, where a program that is gone may have left its socket.
    pub(super) fn at(path: PathBuf) -> io::Result<Bound> {
        let listener = UnixListener::bind(&path).or_else(|error| {
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(error);
            }
            remove_dead(&path)?;
            UnixListener::bind(&path)
        })?;
        let identity = identity(&fs::symlink_metadata(&path)?);
        let bound = Bound { path, identity, listener };
        fs::set_permissions(&bound.path, Permissions::from_mode(0o600))?;
        // Not blocking: the listener waits in `poll`, where it can be told to end.
        bound.listener.set_nonblocking(true)?;
        Ok(bound)
    }

    /// Path of the socket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The same listener, for the thread that serves it.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The listener is still open: see rule 2.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            let _ = fs::remove_file(&self.path); // another program may have been faster
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Removes a socket of this user on which no program listens.
///
/// # Errors
///
/// If the path is another file, or a program listens on it. The file stays then.
pub(super) fn remove_dead(path: &Path) -> io::Result<()> {
    let refuse = |kind, text: &str| {
        Err(io::Error::new(kind, format!("{} {text}; choose another path", path.display())))
    };
    let found = fs::symlink_metadata(path)?;
    if !found.file_type().is_socket() {
        return refuse(io::ErrorKind::AlreadyExists, "exists and is not a socket");
    }
    // SAFETY: has no preconditions.
    if found.uid() != unsafe { libc::geteuid() } {
        return refuse(io::ErrorKind::PermissionDenied, "is a socket of another user");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // Not a stream, no permission, or a full backlog: the socket is in use.
        Ok(_) | Err(_) => {
            return refuse(io::ErrorKind::AddrInUse, "is in use by another program");
        }
    }
    if identity(&fs::symlink_metadata(path)?) != identity(&found) {
        return refuse(io::ErrorKind::AddrInUse, "was just taken by another program");
    }
    fs::remove_file(path)
}
