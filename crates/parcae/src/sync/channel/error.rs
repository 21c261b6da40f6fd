//! Errors of channel operations.

use super::value_box::ValueBox;
use crate::base::error::{Error, ErrorKind};
use crate::scope::cx;
use std::error::Error as StdError;
use std::fmt;
use std::ptr::NonNull;

/// Why a channel operation failed. [`Closed`](Reason::Closed) is a property of the channel, and
/// final. The others concern the caller, and say nothing about the channel.
#[derive(Clone)]
#[non_exhaustive]
pub enum Reason {
    /// The channel is closed, and no value is left in it. Contains the error that it was [closed
    /// with](super::Sender::close_with).
    Closed(Option<Error>),
    /// The operation would have to wait: there is no room, no value, or no partner at the other
    /// end.
    WouldWait,
    /// The time is up.
    TimedOut,
    /// The task is cancelled, or its budget is exhausted.
    Interrupted(Error),
    /// This many values of a [`broadcast`](super::broadcast()) were overwritten before they were
    /// received.
    Lagged(u64),
}

/// A failed send. [`into_inner`](SendError::into_inner) returns the value.
///
/// ```
/// use parcae::channel::{Reason, channel};
///
/// let (tx, rx) = channel(1);
/// tx.try_send("one").unwrap();
/// let full = tx.try_send("two").unwrap_err();
/// assert!(matches!(full.reason(), Reason::WouldWait));
/// drop(rx);
/// let closed = tx.send(full.into_inner()).unwrap_err();
/// assert!(closed.is_closed());
/// assert_eq!(closed.into_inner(), "two");
/// ```
///
/// `?` converts it to an [`Error`], and drops the value.
///
/// Its size does not depend on that of the value: a value of more than four words is kept on the
/// heap.
pub struct SendError<T> {
    value: ValueBox<T, 4>,
    reason: Reason,
}

/// A failed receive.
///
/// `?` converts it to an [`Error`].
#[derive(Clone)]
pub struct RecvError {
    reason: Reason,
}

impl Reason {
    /// Converts the reason to an error of the runtime.
    fn into_error(self) -> Error {
        match self {
            Reason::Closed(Some(error)) | Reason::Interrupted(error) => error,
            Reason::Closed(None) => Error::new(ErrorKind::ChannelClosed),
            Reason::WouldWait => Error::new(ErrorKind::WouldWait),
            Reason::TimedOut => Error::new(ErrorKind::TimedOut),
            Reason::Lagged(_) => Error::msg(self.to_string()),
        }
    }

    fn is_cancelled(&self) -> bool {
        matches!(self, Reason::Interrupted(error) if error.is_cancelled())
    }

    /// Notes on the running task that the other end is gone: a later error of the task may follow
    /// from it (`nursery::failures`).
    pub(super) fn note(&self) {
        if let Reason::Closed(_) = self
            && let Some(frame) = cx::Here::new().frame()
        {
            frame.sees_peer_gone();
        }
    }
}

impl<T> SendError<T> {
    pub(crate) fn new(value: T, reason: Reason) -> SendError<T> {
        reason.note();
        SendError { value: ValueBox::new(value), reason }
    }

    /// An error with the value at an address, which is moved out.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, which is not used there afterwards.
    #[inline]
    pub(crate) unsafe fn from_address(value: NonNull<T>, reason: Reason) -> SendError<T> {
        reason.note();
        // SAFETY: the caller upholds the contract.
        SendError { value: unsafe { ValueBox::from_address(value) }, reason }
    }

    /// The value that was not sent.
    pub fn into_inner(mut self) -> T {
        self.value.take()
    }

    /// The value, and the reason of the failure.
    pub fn into_parts(mut self) -> (T, Reason) {
        (self.value.take(), self.reason)
    }

    /// The reason of the failure.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.reason, Reason::Closed(_))
    }

    /// Whether the operation timed out.
    pub fn is_timeout(&self) -> bool {
        matches!(self.reason, Reason::TimedOut)
    }

    /// Whether the task is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reason.is_cancelled()
    }
}

impl RecvError {
    pub(crate) fn new(reason: Reason) -> RecvError {
        reason.note();
        RecvError { reason }
    }

    pub(super) fn into_reason(self) -> Reason {
        self.reason
    }

    /// The reason of the failure.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Whether the channel is closed and empty.
    pub fn is_closed(&self) -> bool {
        matches!(self.reason, Reason::Closed(_))
    }

    /// Number of missed values of a [`broadcast`](super::broadcast()), if that is the reason.
    pub fn missed(&self) -> Option<u64> {
        if let Reason::Lagged(missed) = self.reason { Some(missed) } else { None }
    }

    /// Whether the operation timed out.
    pub fn is_timeout(&self) -> bool {
        matches!(self.reason, Reason::TimedOut)
    }

    /// Whether the task is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reason.is_cancelled()
    }
}

// Like `Error`, these two do not implement `std::error::Error`, so that `?` can use their own
// conversion, which keeps the reason.

impl<T> From<SendError<T>> for Error {
    fn from(error: SendError<T>) -> Error {
        error.reason.into_error()
    }
}

impl From<RecvError> for Error {
    fn from(error: RecvError) -> Error {
        error.reason.into_error()
    }
}

impl<T> From<SendError<T>> for Box<dyn StdError + Send + Sync> {
    fn from(error: SendError<T>) -> Box<dyn StdError + Send + Sync> {
        Error::from(error).into_std()
    }
}

impl From<RecvError> for Box<dyn StdError + Send + Sync> {
    fn from(error: RecvError) -> Box<dyn StdError + Send + Sync> {
        Error::from(error).into_std()
    }
}

impl<T> From<SendError<T>> for Box<dyn StdError> {
    fn from(error: SendError<T>) -> Box<dyn StdError> {
        Error::from(error).into_std()
    }
}

impl From<RecvError> for Box<dyn StdError> {
    fn from(error: RecvError) -> Box<dyn StdError> {
        Error::from(error).into_std()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Closed(Some(error)) => write!(f, "the channel is closed: {error}"),
            Reason::Closed(None) => f.write_str("the channel is closed"),
            Reason::WouldWait => f.write_str("the operation would have to wait"),
            Reason::TimedOut => f.write_str("deadline exceeded"),
            Reason::Interrupted(error) => write!(f, "{error}"),
            Reason::Lagged(missed) => {
                write!(
                    f,
                    "{missed} values were overwritten before this subscriber received them; \
                     receive faster, or broadcast with a larger buffer"
                )
            }
        }
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::WouldWait => f.write_str("not sent: the channel is full, or no receiver waits"),
            ref reason => write!(f, "not sent: {reason}"),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::WouldWait => f.write_str("not received: the channel is empty"),
            ref reason => write!(f, "not received: {reason}"),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
