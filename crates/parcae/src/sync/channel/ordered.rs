//! A channel of tasks, whose results are received in the order in which the tasks were sent.
//!
//! The values of the channel are [`TaskHandle`]s, which the receiver joins one after the other. So
//! the tasks run concurrently and end in any order, and their results are received in order. A slow
//! task delays only the results behind it. The capacity bounds how far the tasks run ahead of the
//! receiver.
//!
//! # Nothing is left behind
//!
//! A task that could not be sent is joined, and its result is in the error. The receiver first
//! takes a handle out of the channel and then waits for its task. If that wait is given up, the
//! handle stays in the receiver for the next call. So a failed receive has no effect, as in any
//! other channel. There is one receiver, because two would have no common order.
//!
//! Tasks in the channel are children of a nursery, which waits for them even if the channel is
//! dropped.

use super::error::{Reason, RecvError, SendError};
use super::{Receiver, Sender, channel, charge};
use crate::base::error::{Error, Result};
use crate::sched::lab::OpKind;
use crate::scope::cx::parking::{Deadline, Ended};
use crate::scope::cx::{Cx, Frame, Here};
use crate::scope::join::Joinable as _;
use crate::scope::nursery::{Nursery, SpawnOpts, TaskHandle};
use crate::scope::profile::SpawnsFreely;
use std::fmt;
use std::time::Duration;

/// A channel of up to `capacity` tasks, whose results are received in the order in which the tasks
/// were sent.
///
/// A parallel map that keeps the order, with a bounded number of results in flight:
///
/// ```
/// use parcae::channel::ordered;
/// use parcae::prelude::*;
///
/// let text = "spin measure cut";
/// let rt = Runtime::builder().workers(2).build()?;
/// let shouted = rt.run(|cx| {
///     cx.nursery(|n| {
///         let (tasks, results) = ordered(4);
///         let writer = n.spawn(move |_| results.into_iter().collect::<parcae::Result<Vec<_>>>())?;
///         for word in text.split(' ') {
///             tasks.send_task(n, move |_| Ok(word.to_uppercase()))?; // waits while it is full
///         }
///         drop(tasks);
///         writer.join()
///     })
/// })?;
/// assert_eq!(shouted, ["SPIN", "MEASURE", "CUT"]);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// With capacity 0 a send waits until the receiver takes the task.
pub fn ordered<'scope, T>(
    capacity: usize,
) -> (OrderedSender<'scope, T>, OrderedReceiver<'scope, T>) {
    let (sender, receiver) = channel(capacity);
    (OrderedSender { sender }, OrderedReceiver { receiver, first: None })
}

fn interrupted(error: Error) -> RecvError {
    RecvError::new(Reason::Interrupted(error))
}

/// Sends tasks; see [`ordered`]. Clones send into the same channel. Only the owner of a nursery
/// spawns, but any holder of a handle can [send](OrderedSender::send) it.
pub struct OrderedSender<'scope, T> {
    sender: Sender<TaskHandle<'scope, T>>,
}

impl<'scope, T: Send + 'scope> OrderedSender<'scope, T> {
    /// Spawns a child of the nursery and sends its handle. Waits for room.
    ///
    /// # Errors
    ///
    /// If the child could not be spawned, or not be sent. In the latter case it was joined, and its
    /// result is in the error. The child is cancelled first if the send failed because the caller
    /// was cancelled; otherwise it runs to its end.
    #[track_caller]
    pub fn send_task<'env, P: SpawnsFreely>(
        &self,
        nursery: &'scope Nursery<'scope, 'env, P>,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    ) -> Result<(), SendTaskError<T>> {
        let handle = nursery.spawn(task).map_err(SendTaskError::refused)?;
        self.sender.send(handle).map_err(SendTaskError::joined)
    }

    /// Like [`send_task`](OrderedSender::send_task), with options for the child.
    ///
    /// # Errors
    ///
    /// As for [`send_task`](OrderedSender::send_task).
    #[track_caller]
    pub fn send_task_with<'env, P: SpawnsFreely>(
        &self,
        nursery: &'scope Nursery<'scope, 'env, P>,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    ) -> Result<(), SendTaskError<T>> {
        let handle = nursery.spawn_with(opts, task).map_err(SendTaskError::refused)?;
        self.sender.send(handle).map_err(SendTaskError::joined)
    }

    /// Like [`send_task`](OrderedSender::send_task), with a timeout for the wait for room. Joining
    /// a task that could not be sent is not limited.
    ///
    /// # Errors
    ///
    /// As for [`send_task`](OrderedSender::send_task), or the time is up.
    #[track_caller]
    pub fn send_task_timeout<'env, P: SpawnsFreely>(
        &self,
        nursery: &'scope Nursery<'scope, 'env, P>,
        time: Duration,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    ) -> Result<(), SendTaskError<T>> {
        let handle = nursery.spawn(task).map_err(SendTaskError::refused)?;
        self.sender.send_timeout(handle, time).map_err(SendTaskError::joined)
    }
}

impl<'scope, T> OrderedSender<'scope, T> {
    /// Sends the handle of a task that was spawned before. Waits for room.
    ///
    /// # Errors
    ///
    /// As for [`Sender::send`]. The handle is in the error, and its task continues.
    #[track_caller]
    pub fn send(
        &self,
        task: TaskHandle<'scope, T>,
    ) -> Result<(), SendError<TaskHandle<'scope, T>>> {
        self.sender.send(task)
    }

    /// Like [`send`](OrderedSender::send), without waiting.
    ///
    /// # Errors
    ///
    /// As for [`send`](OrderedSender::send), or the call would have to wait.
    #[track_caller]
    pub fn try_send(
        &self,
        task: TaskHandle<'scope, T>,
    ) -> Result<(), SendError<TaskHandle<'scope, T>>> {
        self.sender.try_send(task)
    }

    /// The underlying sender, for [`select!`](crate::select!).
    pub fn as_sender(&self) -> &Sender<TaskHandle<'scope, T>> {
        &self.sender
    }

    /// Closes the channel. The results of its tasks can still be received.
    #[track_caller]
    pub fn close(&self) {
        self.sender.close();
    }

    /// Closes the channel with an error, which the receiver gets after the last result.
    #[track_caller]
    pub fn close_with(&self, error: impl Into<Error>) {
        self.sender.close_with(error);
    }
}

/// Receives the results of tasks in the order in which the tasks were sent; see [`ordered`].
///
/// Dropping it closes the channel. Its tasks continue, and their nursery waits for them.
pub struct OrderedReceiver<'scope, T> {
    receiver: Receiver<TaskHandle<'scope, T>>,
    /// Taken out of the channel, and not joined yet.
    first: Option<TaskHandle<'scope, T>>,
}

impl<'scope, T> OrderedReceiver<'scope, T> {
    /// Receives the result of the next task. Waits for the task to be sent and to end.
    ///
    /// The outer result is the channel's, the inner one the task's. A failed task has a result like
    /// any other, and the next call continues with the next task. (Under
    /// [`FailFast`](crate::OnFailure::FailFast) the failure cancels the nursery, and the receiver
    /// with it.)
    ///
    /// # Errors
    ///
    /// If the channel is closed and empty, the caller is cancelled, or its budget is exhausted.
    #[track_caller]
    pub fn recv(&mut self) -> Result<Result<T>, RecvError> {
        self.recv_until(Deadline::Never)
    }

    /// Like [`recv`](OrderedReceiver::recv), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OrderedReceiver::recv), or the time is up.
    #[track_caller]
    pub fn recv_timeout(&mut self, time: Duration) -> Result<Result<T>, RecvError> {
        self.recv_until(Deadline::after(time))
    }

    #[track_caller]
    fn recv_until(&mut self, until: Deadline) -> Result<Result<T>, RecvError> {
        let here = Here::new();
        let payer =
            self.receiver.shared().prepare(OpKind::ChannelReceive, &here).map_err(interrupted)?;
        // Charged when the result is received, which may be in a later call.
        let first = match self.first.take() {
            Some(task) => task,
            None => self.receiver.recv_uncharged(payer, || until)?,
        };
        match self.first.insert(first).wait_until(until) {
            Ok(Ended::Woken) => self.take_first(payer),
            Ok(Ended::TimedOut) => Err(RecvError::new(Reason::TimedOut)),
            Err(error) => Err(interrupted(error)),
        }
    }

    /// Receives the result of the next task if it has ended.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OrderedReceiver::recv), or the call would have to wait.
    #[track_caller]
    pub fn try_recv(&mut self) -> Result<Result<T>, RecvError> {
        let here = Here::new();
        let payer =
            self.receiver.shared().prepare(OpKind::ChannelReceive, &here).map_err(interrupted)?;
        if self.first.is_none() {
            self.first = Some(self.receiver.try_recv_uncharged()?);
        }
        self.take_first(payer)
    }

    /// The result of the first task if it has ended.
    fn take_first(&mut self, payer: Option<&Frame>) -> Result<Result<T>, RecvError> {
        match self.first.take().map(TaskHandle::try_join) {
            Some(Ok(result)) => {
                charge(payer);
                Ok(result)
            }
            waits => {
                self.first = waits.and_then(Result::err);
                Err(RecvError::new(Reason::WouldWait))
            }
        }
    }

    /// Number of tasks that were sent and not received.
    pub fn len(&self) -> usize {
        self.receiver.len() + usize::from(self.first.is_some())
    }

    /// Whether there is no task to receive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the channel: sends fail from now on. The remaining results can still be received.
    #[track_caller]
    pub fn close(&self) {
        self.receiver.close();
    }
}

/// Iterates until the channel is closed and empty. The failure of a task is an item, and so is the
/// cancellation of the caller.
impl<T> Iterator for OrderedReceiver<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.recv() {
            Ok(result) => Some(result),
            Err(error) if matches!(error.reason(), Reason::Closed(None)) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// A task that was not sent. If it was spawned, it has been joined.
///
/// ```
/// use parcae::channel::ordered;
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         let (tasks, results) = ordered(1);
///         drop(results);
///         let error = tasks.send_task(n, |_| Ok(6 * 7)).unwrap_err();
///         assert!(error.is_closed());
///         assert_eq!(error.into_result().unwrap()?, 42); // it has run nevertheless
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct SendTaskError<T> {
    reason: Reason,
    result: Option<Result<T>>,
}

impl<T> SendTaskError<T> {
    fn refused(error: Error) -> SendTaskError<T> {
        SendTaskError { reason: Reason::Interrupted(error), result: None }
    }

    /// Joins the task, even if the caller is cancelled.
    fn joined(error: SendError<TaskHandle<'_, T>>) -> SendTaskError<T> {
        let (task, reason) = error.into_parts();
        if let Reason::Interrupted(_) = reason {
            task.cancel();
        }
        let result = match Here::new().frame() {
            Some(frame) => frame.shielded(None, || task.join()),
            None => task.join(),
        };
        SendTaskError { reason, result: Some(result) }
    }

    /// The reason of the failure.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The task's result. `None` if it could not be spawned.
    pub fn into_result(self) -> Option<Result<T>> {
        self.result
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.reason, Reason::Closed(_))
    }

    /// Whether the operation timed out.
    pub fn is_timeout(&self) -> bool {
        matches!(self.reason, Reason::TimedOut)
    }

    /// Whether the caller is cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(&self.reason, Reason::Interrupted(error) if error.is_cancelled())
    }
}

// Like the other errors of channels, it does not implement `std::error::Error`, so that `?` can use
// its own conversion.

impl<T> From<SendTaskError<T>> for Error {
    fn from(error: SendTaskError<T>) -> Error {
        RecvError::new(error.reason).into()
    }
}

impl<T> fmt::Display for SendTaskError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task was not sent: {}", self.reason)
    }
}

impl<T> fmt::Debug for SendTaskError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<T> Clone for OrderedSender<'_, T> {
    fn clone(&self) -> Self {
        OrderedSender { sender: self.sender.clone() }
    }
}

impl<T> fmt::Debug for OrderedSender<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OrderedSender").field(&self.sender).finish()
    }
}

impl<T> fmt::Debug for OrderedReceiver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OrderedReceiver").field(&self.receiver).field(&self.first).finish()
    }
}
