//! A channel for one value.

use super::error::{RecvError, SendError};
use super::sender::not_sent;
use super::{Receiver, Sender, channel};
use crate::scope::cx::parking::Deadline;
use crate::sync::select::RecvCase;
use std::time::{Duration, Instant};

/// A channel for one value. The send never waits, and consumes the sender.
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

/// The sender of a [`oneshot`]. Dropping it without a send closes the channel.
#[derive(Debug)]
pub struct OneSender<T>(Sender<T>);

/// The receiver of a [`oneshot`].
#[derive(Debug)]
pub struct OneReceiver<T>(Receiver<T>);

impl<T> OneSender<T> {
    /// Sends the value.
    ///
    /// # Errors
    ///
    /// If the receiver is gone, the task is cancelled, or its budget is exhausted. The value is in
    /// the error.
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.0.send_from(&mut value, || Deadline::Never);
        not_sent(&mut value, sent)
    }

    /// Whether the receiver is gone, so that a send would fail. Not a checkpoint.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> OneReceiver<T> {
    pub(super) fn receiver(&self) -> &Receiver<T> {
        &self.0
    }

    /// Waits for the value. The call can be repeated after a cancellation or timeout.
    ///
    /// # Errors
    ///
    /// If the sender was dropped without a send, the value was received before, the task is
    /// cancelled, or its budget is exhausted.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.recv()
    }

    /// Like [`recv`](OneReceiver::recv), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvError> {
        self.0.recv_timeout(time)
    }

    /// Like [`recv`](OneReceiver::recv), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_deadline(&self, at: Instant) -> Result<T, RecvError> {
        self.0.recv_deadline(at)
    }

    /// Receives the value if it has been sent.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the call would have to wait.
    pub fn try_recv(&self) -> Result<T, RecvError> {
        self.0.try_recv()
    }

    /// This receiver as a case of `select!`.
    #[doc(hidden)]
    pub fn __select(&self) -> RecvCase<'_, T> {
        RecvCase::new(&self.0)
    }

    /// Closes the channel: a send fails from now on.
    pub fn close(&self) {
        self.0.close();
    }

    /// The underlying receiver, for a [`Select`](crate::select::Select). `select!` takes a
    /// `OneReceiver` directly.
    pub fn as_receiver(&self) -> &Receiver<T> {
        &self.0
    }
}
