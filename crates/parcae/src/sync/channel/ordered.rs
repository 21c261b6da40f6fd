//! A channel of tasks, whose results come out in the order in which the tasks went in.
//!
//! What goes through the channel is the [`TaskHandle`]; the receiver joins one after the other. So
//! the tasks run side by side and end as they like, and their results are received in order; a slow
//! one holds up those behind it, and only them. The capacity bounds how far the work runs ahead of
//! whoever receives.
//!
//! # Nothing is left behind
//!
//! A task that could not be sent is waited for, and its result is in the error. A receiver takes a
//! handle out of the channel and waits for its task as the second step; a wait that is given up
//! leaves the handle in the receiver, as the first for the next call. So a receive that fails has
//! had no effect, as in any other channel. There is one receiver, because two would not have an
//! order.
//!
//! Tasks in the channel are children of a nursery, which waits for them whatever becomes of the
//! channel.

use super::error::{Reason, RecvError, SendError};
use super::{Receiver, Sender, channel, charge};
use crate::base::error::{Error, Result};
use crate::scope::cx::parking::{Deadline, Ended};
use crate::scope::cx::{self, Cx, Frame};
use crate::scope::nursery::{Nursery, SpawnOpts, TaskHandle};
use crate::scope::profile::SpawnsFreely;
use std::fmt;
use std::time::Duration;

/// A channel of up to `capacity` tasks, whose results come out in the order in which the tasks went
/// in.
///
/// A parallel map that keeps the order, and never has more than a few results waiting:
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
/// With capacity 0 a send waits until the receiver has come to the task.
pub fn ordered<'scope, T>(
    capacity: usize,
) -> (OrderedSender<'scope, T>, OrderedReceiver<'scope, T>) {
    let (sender, receiver) = channel(capacity);
    (OrderedSender { sender }, OrderedReceiver { receiver, first: None })
}

fn interrupted(error: Error) -> RecvError {
    RecvError::new(Reason::Interrupted(error))
}

/// Sends tasks. See [`ordered`]. Clones send into the same channel; only the owner of a nursery
/// spawns, but [handles](OrderedSender::send) can be sent by anybody who has one.
pub struct OrderedSender<'scope, T> {
    sender: Sender<TaskHandle<'scope, T>>,
}

impl<'scope, T: Send + 'scope> OrderedSender<'scope, T> {
    /// Spawns a child of the nursery and sends it; waits for room.
    ///
    /// # Errors
    ///
    /// The child could not be spawned, or not be sent: then it was waited for, and its result is in
    /// the error. If that is because the caller is to end, the child is asked to end too; otherwise
    /// it is let finish.
    #[track_caller]
    pub fn send_task<'env, P: SpawnsFreely>(
        &self,
        nursery: &'scope Nursery<'scope, 'env, P>,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    ) -> Result<(), SendTaskError<T>> {
        let handle = nursery.spawn(task).map_err(SendTaskError::refused)?;
        self.sender.send(handle).map_err(SendTaskError::joined)
    }

    /// As [`send_task`](OrderedSender::send_task), with options of the child.
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

    /// As [`send_task`](OrderedSender::send_task), and waits for room no longer than `time`. The
    /// wait for a task that could not be sent has no such limit.
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
    /// Sends a task that was spawned before, in whatever way; waits for room.
    ///
    /// # Errors
    ///
    /// As for [`Sender::send`]: the handle is in the error, and its task goes on.
    pub fn send(
        &self,
        task: TaskHandle<'scope, T>,
    ) -> Result<(), SendError<TaskHandle<'scope, T>>> {
        self.sender.send(task)
    }

    /// As [`send`](OrderedSender::send), if that is possible at once.
    ///
    /// # Errors
    ///
    /// As for [`send`](OrderedSender::send), or it would have had to wait.
    pub fn try_send(
        &self,
        task: TaskHandle<'scope, T>,
    ) -> Result<(), SendError<TaskHandle<'scope, T>>> {
        self.sender.try_send(task)
    }

    /// As an ordinary sender: for [`select!`](crate::select!).
    pub fn as_sender(&self) -> &Sender<TaskHandle<'scope, T>> {
        &self.sender
    }

    /// Closes the channel. The results of tasks in it can still be received.
    pub fn close(&self) {
        self.sender.close();
    }

    /// The same, with what the receiver is told after the last result.
    pub fn close_with(&self, error: impl Into<Error>) {
        self.sender.close_with(error);
    }
}

/// Receives the results of tasks, in the order in which the tasks were sent. See [`ordered`].
///
/// Dropping it closes the channel; tasks that are in it run on, and their nursery waits for them.
pub struct OrderedReceiver<'scope, T> {
    receiver: Receiver<TaskHandle<'scope, T>>,
    /// Taken out of the channel, and not received yet.
    first: Option<TaskHandle<'scope, T>>,
}

impl<'scope, T> OrderedReceiver<'scope, T> {
    /// The result of the next task; waits for the task to be sent, and to end.
    ///
    /// There are two results: the outer one is the channel's, the inner one the task's. A task that
    /// has failed is one that has a result, and the next call goes on to the next task. (Unless its
    /// nursery is [one](crate::OnFailure::FailFast) that is cancelled by the failure, and the
    /// receiver with it.)
    ///
    /// # Errors
    ///
    /// The channel is closed and nothing is left in it, or the caller was cancelled or has no
    /// budget left.
    pub fn recv(&mut self) -> Result<Result<T>, RecvError> {
        self.recv_until(Deadline::Never)
    }

    /// As [`recv`](OrderedReceiver::recv), and waits no longer than `time`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OrderedReceiver::recv), or the time is up.
    pub fn recv_timeout(&mut self, time: Duration) -> Result<Result<T>, RecvError> {
        self.recv_until(Deadline::after(time))
    }

    fn recv_until(&mut self, until: Deadline) -> Result<Result<T>, RecvError> {
        let payer = self.receiver.shared().prepare().map_err(interrupted)?;
        // Paid for when the result is there, which may be a later call.
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

    /// The result of the next task, if it has ended.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OrderedReceiver::recv), or it would have had to wait.
    pub fn try_recv(&mut self) -> Result<Result<T>, RecvError> {
        let payer = self.receiver.shared().prepare().map_err(interrupted)?;
        if self.first.is_none() {
            self.first = Some(self.receiver.try_recv_uncharged()?);
        }
        self.take_first(payer)
    }

    /// The result of the first task, if it has ended.
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

    /// How many tasks have been sent and not been received.
    pub fn len(&self) -> usize {
        self.receiver.len() + usize::from(self.first.is_some())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the channel: nothing more can be sent. What is in it can still be received.
    pub fn close(&self) {
        self.receiver.close();
    }
}

/// Until the channel is closed and empty. A task's failure is an item, and so is that the caller
/// was interrupted.
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

/// A task that was not sent. If it was spawned it has been waited for: none is left behind.
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
///         assert_eq!(error.into_result().unwrap()?, 42); // it has run all the same
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

    /// Waits for the task, whatever the caller has been asked.
    fn joined(error: SendError<TaskHandle<'_, T>>) -> SendTaskError<T> {
        let (task, reason) = error.into_parts();
        if let Reason::Interrupted(_) = reason {
            task.cancel();
        }
        let result = match cx::current() {
            Some(frame) => frame.shielded(None, || task.join()),
            None => task.join(),
        };
        SendTaskError { reason, result: Some(result) }
    }

    /// Why it was not sent.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What the task came to; none if it could not be spawned.
    pub fn into_result(self) -> Option<Result<T>> {
        self.result
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.reason, Reason::Closed(_))
    }

    /// Whether the time was up.
    pub fn is_timeout(&self) -> bool {
        matches!(self.reason, Reason::TimedOut)
    }

    /// Whether the caller was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(&self.reason, Reason::Interrupted(error) if error.is_cancelled())
    }
}

// As for the other errors of channels: `?` finds out what it says.

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
