//! A channel for one value.

use super::error::{RecvError, SendError};
use super::sender::not_sent;
use super::{Receiver, Sender, channel};
use crate::scope::cx::parking::Deadline;
use crate::sync::select::RecvCase;
use std::time::{Duration, Instant};

/// A channel for one value: the send never waits, and takes its end with it.
///
/// ```
/// use parcae::channel::oneshot;
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let (answer, answered) = oneshot();
///     cx.nursery(|n| {
///         n.spawn(move |_| Ok(answer.send(42)?))?;
///         assert_eq!(answered.recv()?, 42);
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn oneshot<T>() -> (OneSender<T>, OneReceiver<T>) {
    let (sender, receiver) = channel(1);
    (OneSender(sender), OneReceiver(receiver))
}

/// Sends the value of a [`oneshot`]. Dropping it tells the receiver that there will be none.
#[derive(Debug)]
pub struct OneSender<T>(Sender<T>);

/// Receives the value of a [`oneshot`].
#[derive(Debug)]
pub struct OneReceiver<T>(Receiver<T>);

impl<T> OneSender<T> {
    /// Sends the value.
    ///
    /// # Errors
    ///
    /// The receiver is gone, or the task was cancelled or has no budget left. The value is in the
    /// error.
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.0.send_from(&mut value, || Deadline::Never);
        not_sent(&mut value, sent)
    }

    /// Whether the receiver is gone: nobody will see the value. Not a checkpoint.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> OneReceiver<T> {
    /// Waits for the value. One that failed because of the caller, such as by a cancel, can be
    /// repeated.
    ///
    /// # Errors
    ///
    /// The sender is gone without sending, or its value was received; or the task was cancelled or
    /// has no budget left.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.recv()
    }

    /// As [`recv`](OneReceiver::recv), and waits no longer than `time`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvError> {
        self.0.recv_timeout(time)
    }

    /// As [`recv`](OneReceiver::recv), and waits no longer than until a point in time, by the clock
    /// of [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_deadline(&self, at: Instant) -> Result<T, RecvError> {
        self.0.recv_deadline(at)
    }

    /// The value, if it has been sent.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or it would have had to wait.
    pub fn try_recv(&self) -> Result<T, RecvError> {
        self.0.try_recv()
    }

    /// As a case of `select!`.
    #[doc(hidden)]
    pub fn __select(&self) -> RecvCase<'_, T> {
        RecvCase::new(&self.0)
    }

    /// Tells the sender that nobody will see the value.
    pub fn close(&self) {
        self.0.close();
    }

    /// As an ordinary receiver: for a [`Select`](crate::select::Select). `select!` takes it as it
    /// is.
    pub fn as_receiver(&self) -> &Receiver<T> {
        &self.0
    }
}
