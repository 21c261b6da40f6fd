//! Display of errors, and their chain of causes.

use super::{Detail, Error, ErrorInner, ErrorKind};
use crate::base::reason::CancelReason;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

impl ErrorInner {
    /// The failure itself, without its contexts.
    fn fmt_failure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, &self.kind, &self.detail) {
            (Some(source), ..) => write!(f, "{source}")?,
            (None, ErrorKind::Cancelled(_) | ErrorKind::TimedOut, Some(detail)) => {
                write!(f, "{detail}")?;
            }
            (None, kind, _) => write!(f, "{kind}")?,
        }
        if let Some(cap) = self.bounded_by {
            write!(
                f,
                "; it runs under spawn capability #{cap}, whose `task_budget` is its whole budget:\
                  spawn it under a capability with more"
            )?;
        }
        self.note.as_ref().map_or(Ok(()), |note| write!(f, "; {note}"))
    }

    /// The causes of an error of the program's own. A text that names its cause already is not
    /// followed by it: many errors do that.
    fn fmt_causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(source) = &self.source else { return Ok(()) };
        let (mut next, mut said) = (source.source(), source.to_string());
        while let Some(cause) = next {
            let text = cause.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            next = cause.source();
        }
        Ok(())
    }

    /// The task that failed, and the number of other failures.
    fn fmt_task(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(task) = &self.task {
            write!(f, " ({task})")?;
        }
        match self.others {
            0 => Ok(()),
            1 => write!(f, "; another task of the nursery failed too"),
            n => write!(f, "; {n} other tasks of the nursery failed too"),
        }
    }
}

/// Every [context](Error::context), the outermost first, then the failure and its causes, then the
/// task.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        for context in inner.contexts.iter().rev() {
            write!(f, "{context}: ")?;
        }
        inner.fmt_failure(f)?;
        inner.fmt_causes(f)?;
        inner.fmt_task(f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Cancelled(reason @ CancelReason::Explicit) => write!(f, "{reason}"),
            ErrorKind::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            ErrorKind::BudgetExceeded(short) => write!(
                f,
                "out of budget ({0}): {1} needed, {2} left; give its nursery or task more {0}, \
                 recharge it, or let each child draw less at a time (`slice`)",
                short.resource, short.needed, short.left
            ),
            ErrorKind::SpawnBudgetExhausted(short) => write!(
                f,
                "no budget for another child (spawn_count): {} needed, {} left; give the nursery \
                 a larger spawn_count, or recharge it; a child has none unless `slice` or \
                 `SpawnOpts::budget` gives it some",
                short.needed, short.left
            ),
            ErrorKind::MemoryBudgetExhausted(short) => write!(
                f,
                "out of memory budget: {} bytes needed, {} left; give its nursery or task more \
                 memory, or recharge it",
                short.needed, short.left
            ),
            ErrorKind::NurseryNotActive => f.write_str(
                "the nursery takes no more children: it is closing or was cancelled; spawn while \
                 its body runs",
            ),
            ErrorKind::StackOverflow { left, needed } => write!(
                f,
                "the stack is used up: {left} bytes left, {needed} needed for a call; recurse less \
                 deeply, or spawn with a larger `SpawnOpts::stack_size`"
            ),
            ErrorKind::NoStack(error) => write!(f, "no stack for the task: {error}"),
            ErrorKind::OutOfMemory => f.write_str(
                "no heap memory for the record of another task: let tasks end before you spawn \
                 more",
            ),
            ErrorKind::Panicked(Some(text)) => write!(f, "panicked: {text}"),
            ErrorKind::Panicked(None) => f.write_str("panicked"),
            ErrorKind::WorkerPanic => f.write_str(
                "the runtime itself panicked while it ran the task; please report this defect",
            ),
            ErrorKind::Capability(refused) => write!(f, "{refused}"),
            ErrorKind::ShareRefused(refused) => write!(f, "{refused}"),
            ErrorKind::ContextRefused(refused) => write!(f, "{refused}"),
            ErrorKind::LeaseRefused(refused) => write!(f, "{refused}"),
            ErrorKind::IslandRefused(refused) => write!(f, "{refused}"),
            ErrorKind::Several(errors) => {
                write!(f, "{} tasks failed", errors.len())?;
                for error in errors.iter() {
                    write!(f, "\n- {error}")?;
                }
                Ok(())
            }
            ErrorKind::ShuttingDown => {
                f.write_str("the runtime is shutting down and starts no more tasks")
            }
            ErrorKind::Unwinding => f.write_str(
                "a task cannot wait in a destructor that runs because of a panic, nor open a \
                 nursery, which would wait for its children, nor switch to another stack",
            ),
            ErrorKind::Contained => f.write_str(
                "code under `Cx::contain_overflow` cannot use the runtime, since it may be \
                 abandoned in the middle: compute there, and wait, lock or send before or after it",
            ),
            ErrorKind::ChannelClosed => f.write_str("the channel is closed"),
            ErrorKind::SemaphoreClosed => {
                f.write_str("the semaphore is closed: it gives out no more permits")
            }
            ErrorKind::WouldWait => f.write_str("the operation would have to wait"),
            ErrorKind::TimedOut => f.write_str("deadline exceeded"),
            ErrorKind::Deadlock(deadlock) => write!(f, "{deadlock}"),
            ErrorKind::Other => f.write_str("failed"),
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::After(None) => write!(f, "{}", CancelReason::Timeout),
            Detail::After(Some(time)) => {
                write!(f, "{} after ", CancelReason::Timeout)?;
                write_time(f, *time)
            }
            Detail::At(at) => write!(f, "{} at {at}", CancelReason::Explicit),
            Detail::Above { nursery, reason, detail } => {
                match nursery {
                    Some(name) => write!(f, "the parent nursery `{name}` was cancelled: ")?,
                    None => write!(f, "{}: ", CancelReason::Parent)?,
                }
                match detail {
                    Some(detail) => write!(f, "{detail}"),
                    None => write!(f, "{reason}"),
                }
            }
        }
    }
}

/// Writes a time in the largest unit that leaves no remainder.
fn write_time(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let nanos = time.as_nanos();
    match nanos {
        _ if nanos.is_multiple_of(1_000_000_000) => write!(f, "{} s", time.as_secs()),
        _ if nanos.is_multiple_of(1_000_000) => write!(f, "{} ms", time.as_millis()),
        _ if nanos.is_multiple_of(1_000) => write!(f, "{} µs", time.as_micros()),
        _ => write!(f, "{nanos} ns"),
    }
}

/// As [`Display`](fmt::Display), with a line for each context and cause: what `main` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = AsStd::new(self.clone());
        write!(f, "{top}")?;
        let mut next = match self.inner.contexts.is_empty() {
            // Without a context the source itself was printed.
            true => self.inner.source.as_deref().and_then(StdError::source),
            false => top.source(),
        };
        while let Some(cause) = next {
            write!(f, "\n  caused by: {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

/// An [`Error`] that implements the standard trait. Its source is the error without the outermost
/// context, and so on down to the failure itself.
pub(super) struct AsStd {
    pub(super) error: Error,
    /// Number of contexts that are left at this level.
    contexts: usize,
    below: Option<Box<AsStd>>,
}

impl AsStd {
    pub(super) fn new(error: Error) -> AsStd {
        let contexts = error.inner.contexts.len();
        // An error of the program's own is the lowest level.
        let lowest = usize::from(error.inner.source.is_some());
        let below = (lowest..contexts).fold(None, |below, contexts| {
            Some(Box::new(AsStd { error: error.clone(), contexts, below }))
        });
        AsStd { error, contexts, below }
    }
}

impl fmt::Debug for AsStd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for AsStd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.error.inner;
        // One level each: reports follow the sources by themselves.
        match self.contexts {
            0 => inner.fmt_failure(f)?,
            some => f.write_str(&inner.contexts[some - 1])?,
        }
        if self.contexts == inner.contexts.len() { inner.fmt_task(f) } else { Ok(()) }
    }
}

impl StdError for AsStd {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.below {
            Some(below) => Some(below.as_ref()),
            None => self.error.inner.source.as_deref().map(|own| own as &(dyn StdError + 'static)),
        }
    }
}
