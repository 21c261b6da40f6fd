//! The deadlock that an error carries. Its tasks and their waits are the business of
//! `view::inspect`; here it is a text.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A deadlock with a text.
pub(crate) trait DeadlockInfo: Any + fmt::Debug + fmt::Display + Send + Sync {}

/// The deadlock that has ended a wait, in
/// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock). Dereferences to
/// [`Deadlock`](crate::inspect::Deadlock), which lists the tasks.
#[derive(Clone)]
pub struct DeadlockReport(Arc<dyn DeadlockInfo>);

impl DeadlockReport {
    pub(crate) fn new(info: impl DeadlockInfo) -> DeadlockReport {
        DeadlockReport(Arc::new(info))
    }

    /// The deadlock, if it has this type.
    pub(crate) fn info<T: DeadlockInfo>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for DeadlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DeadlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
