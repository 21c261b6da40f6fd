//! Errors: those of the kernel, and those of the runtime as `io::Error`.
//!
//! A cancelled or unaffordable operation returns an `io::Error` of kind `Other` that carries the
//! [`parcae::Error`]; `?` in a function that returns [`parcae::Result`] takes it out again.

use parcae::ErrorKind;
use parcae::cap::CapError;
use std::fmt;
use std::io;

/// An error of the runtime, for functions that return `io::Result`.
pub(crate) fn from_task(error: parcae::Error) -> io::Error {
    io::Error::other(error.into_std())
}

/// A refusal of a capability. A limit that is reached is `QuotaExceeded`: it may pass.
#[cold]
pub(crate) fn denied(refused: CapError) -> io::Error {
    let kind = match refused {
        CapError::SocketLimitExceeded { .. }
        | CapError::FileLimitExceeded { .. }
        | CapError::ChildLimitExceeded { .. } => io::ErrorKind::QuotaExceeded,
        _ => io::ErrorKind::PermissionDenied,
    };
    io::Error::new(kind, parcae::Error::from(refused).into_std())
}

/// As [`from_task`], of an error that may be a refusal.
pub(crate) fn from_authority(error: parcae::Error) -> io::Error {
    match error.kind() {
        ErrorKind::Capability(refused) => denied(*refused),
        _ => from_task(error),
    }
}

/// The deadline of an operation has passed.
#[cold]
pub(crate) fn timed_out(what: &str, object: &dyn fmt::Display) -> io::Error {
    let text = format!("timed out {what} {object}");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// A real descriptor in a run that must be repeatable.
#[cold]
pub(crate) fn not_replayable(what: &str, object: &dyn fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{what} {object}: a real descriptor under the deterministic executor, whose run could \
             not be replayed; open it inside of a task, where bind and connect use the simulated \
             network, or run on threads"
        ),
    )
}

/// A simulated socket where there is no simulated network.
#[cold]
pub(crate) fn not_simulated(what: &str, object: &dyn fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{what} {object}: a socket of the simulated network outside of its runtime; use it in \
             the tasks of the runtime in which it was opened"
        ),
    )
}

/// Whether this error says that the task was cancelled: by its nursery, a token, a deadline of a
/// scope or a shutdown.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::TcpListener;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let accepted = cx.timeout(std::time::Duration::from_millis(1), || {
///         let error = listener.accept().unwrap_err();
///         assert!(parcae_io::is_cancelled(&error));
///         Ok(())
///     });
///     drop(accepted);
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn is_cancelled(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(parcae::io::error_of);
    inner.is_some_and(parcae::Error::is_cancelled)
}
