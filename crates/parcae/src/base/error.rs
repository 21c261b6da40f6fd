//! Errors: one type for everything that a task can fail with.
//!
//! Like a boxed error, [`Error`] is made from any [`std::error::Error`] by `?`. It also carries the
//! runtime's own verdict ([`ErrorKind`]) and, once it has left a task, the task's name and spawn
//! location ([`TaskInfo`]). It is cheap to clone: a nursery and a handle may both report the same
//! failure.

mod cap;
mod context;
mod deadlock;
mod info;
#[cfg(feature = "anyhow")]
mod interop;
mod island;
mod lease;
mod policy;
mod share;
mod show;

pub use cap::{CapError, CapLimit, NetUse};
pub use context::ContextRefused;
pub(crate) use deadlock::DeadlockInfo;
pub use deadlock::DeadlockReport;
pub use info::{TaskId, TaskInfo};
pub use island::IslandRefused;
pub use lease::{LeaseFact, LeaseRefused};
pub use policy::{PolicyRefused, RecordFault};
pub use share::ShareRefused;

use crate::base::reason::CancelReason;
use crate::stack::StackError;
use parcae_core::{Resource, Shortfall};
use show::AsStd;
use std::any::Any;
use std::error::Error as StdError;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The result of tasks.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a task, a nursery or a call.
///
/// ```
/// use parcae::prelude::*;
///
/// fn parse(text: &str) -> parcae::Result<u16> {
///     Ok(text.parse()?) // any error of the standard library, or yours
/// }
///
/// let error = parse("many").unwrap_err();
/// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// ```
///
/// [`context`](Error::context) adds the operation that failed. A task may have an error type of its
/// own; the task that joins it gets that error back.
///
/// ```
/// use parcae::prelude::*;
/// use std::fmt;
///
/// #[derive(Debug, PartialEq)]
/// enum Refused {
///     Late { minutes: u32 },
/// }
///
/// impl fmt::Display for Refused {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         let Refused::Late { minutes } = self;
///         write!(f, "{minutes} minutes late")
///     }
/// }
///
/// impl std::error::Error for Refused {}
///
/// fn order(minutes: u32) -> Result<&'static str, Refused> {
///     if minutes > 10 { Err(Refused::Late { minutes }) } else { Ok("served") }
/// }
///
/// let rt = Runtime::builder().build()?;
/// let error = rt.run(|cx| {
///     cx.nursery(|n| {
///         let guest = n.spawn(|_| Ok(order(25)?))?; // `?` takes it in
///         guest.join().map_err(|error| error.context("taking the order of table 3"))
///     })
/// }).unwrap_err();
/// assert_eq!(error.downcast_ref(), Some(&Refused::Late { minutes: 25 }));
/// assert!(error.to_string().starts_with("taking the order of table 3: 25 minutes late (task "));
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Because of that conversion `Error` does not implement [`std::error::Error`] itself; where
/// one is needed, use [`into_std`](Error::into_std), or `?` into a `Box<dyn Error + Send + Sync>`.
///
/// # With anyhow
///
/// With the feature `anyhow`, `?` turns an `Error` into an `anyhow::Error`, and an `anyhow::Error`
/// into an `Error`. A round trip through anyhow keeps kind, task and contexts, and adds those of
/// anyhow.
///
#[cfg_attr(feature = "anyhow", doc = "```")]
#[cfg_attr(not(feature = "anyhow"), doc = "```text")]
/// use anyhow::Context;
/// use parcae::prelude::*;
///
/// fn parse(text: &str) -> anyhow::Result<u32> {
///     text.parse().with_context(|| format!("`{text}` is no number"))
/// }
///
/// fn main() -> anyhow::Result<()> {
///     let rt = Runtime::builder().build()?;
///     let sum = rt.run(|cx| {
///         cx.nursery(|n| {
///             let two = n.spawn(|_| Ok(parse("2")?))?; // in a task: a `parcae::Error`
///             Ok(two.join()? + parse("3")?)
///         })
///     })?; // and back: an `anyhow::Error`
///     assert_eq!(sum, 5);
///     Ok(())
/// }
/// ```
///
/// Without the feature, `Error::from_boxed(error.into())` converts an `anyhow::Error` into an error
/// of the program's own.
#[derive(Clone)]
pub struct Error {
    inner: Arc<ErrorInner>,
}

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    /// The error of the program, for `Other`; the panic payload, for `Panicked`. The payload's
    /// allocation is made once per failure and identifies it.
    source: Option<Arc<dyn StdError + Send + Sync>>,
    payload: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
    task: Option<TaskInfo>,
    /// Number of other failures of the same nursery.
    others: usize,
    /// Contexts, the innermost first.
    contexts: Vec<Arc<str>>,
    /// The capability whose `task_budget` bounds the task.
    bounded_by: Option<u64>,
    /// Fate of an operation that the failure has interrupted.
    note: Option<Arc<str>>,
    /// How likely this failure is the cause of its nursery's failure.
    rank: Rank,
    /// Detail of a cancellation.
    detail: Option<Detail>,
    /// Whether the task that returned it ended by cancellation; see [`Error::ends_cancelled`].
    ends_cancelled: bool,
}

/// How likely a failure is a cause, and not the consequence of another one; `nursery::failures` has
/// the rule. A failure of higher rank replaces one of lower rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Came after its nursery, or its task alone, was cancelled.
    Late,
    /// Says itself that the cause is elsewhere: a closed channel or semaphore, a parent that was
    /// cancelled.
    Derived,
    /// Of a task whose peer was gone, and which may have failed because of that.
    Doubtful,
    /// Of the task that failed.
    Own,
}

/// Detail of a cancellation.
#[derive(Debug, Clone)]
pub(crate) enum Detail {
    /// A deadline was exceeded, after this time if it is known.
    After(Option<Duration>),
    /// Explicitly, at this place.
    At(&'static Location<'static>),
    /// The nursery above was cancelled, for this reason.
    Above { nursery: Option<Arc<str>>, reason: CancelReason, detail: Option<Box<Detail>> },
}

/// Kind of a failure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The task or nursery was cancelled.
    Cancelled(CancelReason),
    /// A budget is used up, and the nursery does not grant more.
    BudgetExceeded(Shortfall),
    /// There is no budget for another child.
    SpawnBudgetExhausted(Shortfall),
    /// There is no budget for this much memory.
    MemoryBudgetExhausted(Shortfall),
    /// The nursery does not take children any more: it is closing, or was cancelled.
    NurseryNotActive,
    /// The task has not enough stack left for the next call; or code that runs under
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow) has used up its own.
    StackOverflow {
        /// Bytes left on the stack.
        left: usize,
        /// Bytes that a call needs.
        needed: usize,
    },
    /// There is no stack for the task.
    NoStack(StackError),
    /// There is no memory for the task's record.
    OutOfMemory,
    /// The task panicked; this is the message, if it is a text.
    Panicked(Option<Arc<str>>),
    /// The runtime itself failed while it ran the task.
    WorkerPanic,
    /// A capability does not allow it.
    Capability(crate::base::error::CapError),
    /// A nursery cannot have the share of the processors that it asks for.
    ShareRefused(ShareRefused),
    /// A scheduling context was not admitted, or cannot be used.
    ContextRefused(ContextRefused),
    /// A worker was not leased, or a lease is not in force.
    LeaseRefused(LeaseRefused),
    /// A realtime island was not admitted or did not start, or a stage of it may not do this.
    IslandRefused(IslandRefused),
    /// All failures of a nursery that collects them.
    Several(Arc<[Error]>),
    /// The runtime is shutting down.
    ShuttingDown,
    /// A wait, a nursery, or a switch to another stack, in a destructor that runs because of a
    /// panic: a task cannot wait there.
    Unwinding,
    /// A checkpoint, a wait, or another operation of the runtime, in code that runs under
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow) and may be abandoned at any time. It
    /// was not begun.
    Contained,
    /// A channel is closed, and nothing is left in it.
    ChannelClosed,
    /// A [`Semaphore`](crate::sync::Semaphore::close) is closed, and gives out no permits.
    SemaphoreClosed,
    /// The operation would have to wait, and was asked not to.
    WouldWait,
    /// A deadline was exceeded: of a wait, or of [`Cx::timeout`](crate::Cx::timeout).
    TimedOut,
    /// The task was in a deadlock, and its wait was ended: see
    /// [`OnDeadlock::Fail`](crate::inspect::OnDeadlock::Fail).
    Deadlock(DeadlockReport),
    /// An error of the program's own.
    Other,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error::with_source(kind, None)
    }

    fn with_source(kind: ErrorKind, source: Option<Box<dyn StdError + Send + Sync>>) -> Error {
        let source = source.map(Arc::from);
        let inner = ErrorInner {
            kind,
            source,
            payload: Arc::default(),
            task: None,
            others: 0,
            contexts: Vec::new(),
            bounded_by: None,
            note: None,
            rank: Rank::Own,
            ends_cancelled: false,
            detail: None,
        };
        Error { inner: Arc::new(inner) }
    }

    /// An error with a message.
    ///
    /// ```
    /// let error = parcae::Error::msg("the plugin sent nonsense");
    /// assert_eq!(error.to_string(), "the plugin sent nonsense");
    /// ```
    pub fn msg(message: impl Into<String>) -> Error {
        let message: String = message.into();
        Error::with_source(ErrorKind::Other, Some(message.into()))
    }

    /// An error that is boxed already.
    ///
    /// ```
    /// let boxed: Box<dyn std::error::Error + Send + Sync> = "what a plugin returned".into();
    /// assert_eq!(parcae::Error::from_boxed(boxed).to_string(), "what a plugin returned");
    /// ```
    pub fn from_boxed(error: Box<dyn StdError + Send + Sync>) -> Error {
        match error.downcast::<AsStd>() {
            Ok(ours) => ours.error,
            Err(error) => Error::with_source(ErrorKind::Other, Some(error)),
        }
    }

    /// The conversion of an error by `?`. Errors of this library are unpacked.
    fn from_std(error: Box<dyn StdError + Send + Sync>) -> Error {
        let error = match error.downcast::<AsStd>() {
            Ok(ours) => return ours.error,
            Err(error) => error,
        };
        let error = match error.downcast::<std::io::Error>() {
            Ok(error) => match error.downcast::<AsStd>() {
                Ok(ours) => return ours.error, // came through a trait of the standard library
                Err(error) => Box::new(error),
            },
            Err(error) => error,
        };
        let error = match error.downcast::<Shortfall>() {
            Ok(short) => return Error::short(*short),
            Err(error) => error,
        };
        match error.downcast::<crate::base::error::CapError>() {
            Ok(refused) => Error::new(ErrorKind::Capability(*refused)),
            Err(error) => Error::with_source(ErrorKind::Other, Some(error)),
        }
    }

    /// Adds the operation that failed. Kind, task and the program's own error stay as they are.
    ///
    /// `{}` prints all contexts, the failure itself and the causes of an error of the program's
    /// own; [`Debug`](std::fmt::Debug), which `main` prints, has a line for each.
    ///
    /// ```
    /// let error = parcae::Error::msg("no such file")
    ///     .context("reading the price list")
    ///     .context("starting the shop");
    /// assert_eq!(error.to_string(), "starting the shop: reading the price list: no such file");
    /// assert_eq!(
    ///     format!("{error:?}"),
    ///     "starting the shop\n  caused by: reading the price list\n  caused by: no such file"
    /// );
    /// ```
    #[must_use]
    pub fn context(mut self, doing: impl Into<Arc<str>>) -> Error {
        Arc::make_mut(&mut self.inner).contexts.push(doing.into());
        self
    }

    /// Notes that a capability bounds the task.
    pub(crate) fn bounded_by(mut self, cap: Option<u64>) -> Error {
        if cap.is_some() {
            Arc::make_mut(&mut self.inner).bounded_by = cap;
        }
        self
    }

    /// Notes the fate of an operation that the failure has interrupted.
    pub(crate) fn noting(mut self, note: Option<Arc<str>>) -> Error {
        if note.is_some() {
            Arc::make_mut(&mut self.inner).note = note;
        }
        self
    }

    /// The note of [`noting`](Error::noting).
    pub(crate) fn note(&self) -> Option<Arc<str>> {
        self.inner.note.clone()
    }

    pub(crate) fn cancelled(reason: CancelReason) -> Error {
        Error::new(ErrorKind::Cancelled(reason))
    }

    pub(crate) fn short(shortfall: Shortfall) -> Error {
        Error::new(match shortfall.resource {
            Resource::SpawnCount => ErrorKind::SpawnBudgetExhausted(shortfall),
            Resource::Memory => ErrorKind::MemoryBudgetExhausted(shortfall),
            _ => ErrorKind::BudgetExceeded(shortfall),
        })
    }

    /// The error of a task that panicked, or that was stopped by unwinding.
    pub(crate) fn from_panic(payload: Box<dyn Any + Send>) -> Error {
        let payload = match payload.downcast::<Stop>() {
            Ok(stop) => return stop.0,
            Err(payload) => payload,
        };
        let text = (payload.downcast_ref::<&str>().copied())
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let error = Error::new(ErrorKind::Panicked(text.map(Arc::from)));
        *error.inner.payload.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        error
    }

    /// Notes the task that the error came from, unless an inner task was noted.
    pub(crate) fn in_task(mut self, task: impl FnOnce() -> TaskInfo) -> Error {
        if self.inner.task.is_none() {
            Arc::make_mut(&mut self.inner).task = Some(task());
        }
        self
    }

    /// Notes the number of other failures that this one stands for.
    pub(crate) fn with_others(mut self, others: usize) -> Error {
        if others > 0 {
            Arc::make_mut(&mut self.inner).others = others;
        }
        self
    }

    /// Notes how likely the failure is a cause.
    pub(crate) fn ranked(mut self, rank: Rank) -> Error {
        if self.inner.rank != rank {
            Arc::make_mut(&mut self.inner).rank = rank;
        }
        self
    }

    /// Notes whether the task that returns the error ends because it was cancelled. A task that
    /// passes on another task's cancellation does not.
    pub(crate) fn ending(mut self, cancelled: bool) -> Error {
        if self.inner.ends_cancelled != cancelled {
            Arc::make_mut(&mut self.inner).ends_cancelled = cancelled;
        }
        self
    }

    /// Whether the task that returned the error ended because it was cancelled.
    pub(crate) fn ends_cancelled(&self) -> bool {
        self.inner.ends_cancelled
    }

    /// How likely the failure is a cause, as far as the error itself shows.
    pub(crate) fn rank(&self) -> Rank {
        let by_kind = match self.inner.kind {
            ErrorKind::ChannelClosed
            | ErrorKind::SemaphoreClosed
            | ErrorKind::Unwinding
            | ErrorKind::Cancelled(CancelReason::Parent | CancelReason::Failure) => Rank::Derived,
            _ => Rank::Own,
        };
        by_kind.min(self.inner.rank)
    }

    /// Adds the detail of a cancellation.
    pub(crate) fn detailed(mut self, detail: Option<Detail>) -> Error {
        if detail.is_some() {
            Arc::make_mut(&mut self.inner).detail = detail;
        }
        self
    }

    /// Whether both are the same failure.
    pub(crate) fn is_same(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.inner.payload, &other.inner.payload)
    }

    /// Kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    /// The task that failed; `None` for an error that did not leave a task yet.
    pub fn task(&self) -> Option<&TaskInfo> {
        self.inner.task.as_ref()
    }

    /// Number of siblings that failed too, after this one.
    pub fn others(&self) -> usize {
        self.inner.others
    }

    /// Whether the task ended because it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Cancelled(_))
    }

    /// Whether the operation or nursery that returned the error has exceeded its own deadline: a
    /// call with a timeout, [`Cx::timeout`](crate::Cx::timeout),
    /// [`NurseryOpts::timeout`](crate::NurseryOpts::timeout).
    ///
    /// A task that is cancelled because a nursery around it has exceeded its deadline gets an error
    /// that [is cancelled](Error::is_cancelled) and not timed out: a retry is of no use there.
    pub fn is_timed_out(&self) -> bool {
        match self.inner.kind {
            ErrorKind::TimedOut => true,
            ErrorKind::Cancelled(CancelReason::Timeout) => self.inner.detail.is_some(),
            _ => false,
        }
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Panicked(_))
    }

    /// The payload of the panic. The first call returns it; later ones return `None`.
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.inner.payload.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The program's own error, if it has this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.inner.source.as_deref()?.downcast_ref()
    }

    /// The error that [`into_std`](Error::into_std) has made a standard one.
    #[cfg(feature = "io")]
    pub(crate) fn in_std<'e>(
        error: &'e (dyn StdError + Send + Sync + 'static),
    ) -> Option<&'e Error> {
        error.downcast_ref::<AsStd>().map(|ours| &ours.error)
    }

    /// This error as a standard error.
    pub fn into_std(self) -> Box<dyn StdError + Send + Sync> {
        Box::new(AsStd::new(self))
    }
}

/// Carries an error out of code that does not return one: thrown without a panic message,
/// caught at the base of the task.
pub(crate) struct Stop(Error);

/// Drops a value of the program where nothing may unwind. A panic payload of its destructor is
/// dropped in the same way; a payload of that drop is leaked.
pub(crate) fn discard<T>(value: T) {
    let contained = |value: &mut dyn FnMut()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(value)).err()
    };
    let mut value = Some(value);
    if let Some(payload) = contained(&mut || drop(value.take())) {
        let mut payload = Some(payload);
        if let Some(again) = contained(&mut || drop(payload.take())) {
            std::mem::forget(again);
        }
    }
}

impl Stop {
    /// The error, if the payload is one.
    pub(crate) fn error(payload: Box<dyn Any + Send>) -> Result<Error, Box<dyn Any + Send>> {
        payload.downcast::<Stop>().map(|stop| stop.0)
    }

    /// Unwinds the running task.
    pub(crate) fn unwind(error: Error) -> ! {
        std::panic::resume_unwind(Box::new(Stop(error)))
    }
}

/// With the feature `anyhow` its errors are converted too: see `interop`.
#[cfg(not(feature = "anyhow"))]
impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Error {
        Error::from_std(Box::new(error))
    }
}

impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Box<dyn StdError + Send + Sync> {
        error.into_std()
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Box<dyn StdError> {
        error.into_std()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
