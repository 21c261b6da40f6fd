//! Async ends of a channel: a receive and a send as futures, for any executor.
//!
//! # Why a dropped future loses no value
//!
//! A future may be dropped at any time, also between the wake-up and the next poll. So:
//!
//! - A **receive** is a *watcher* (`state`): it has no address for a value, and is woken when a
//!   receive is possible. The value stays in the channel until a poll takes it, and a poll returns
//!   what it has taken. A future that is dropped leaves the queue and takes nothing with it. Each
//!   event wakes all watchers, so a wake-up that is lost with its future is not missed by another.
//! - A **send** is a sender like any other: its value lies in a box, at an address that the channel
//!   moves it from. A future that is dropped withdraws its node under the lock. Either the value
//!   was received, or it never will be and is dropped with the future.
//!
//! Both cannot be watchers: on a rendezvous channel a watcher for a value and a watcher for a
//! receiver would wait for each other.
//!
//! # Why no wake-up is lost
//!
//! A poll that finds the operation impossible registers in the critical section of that look (a
//! send), or looks again in the critical section in which it registers (a receive). A poll that
//! finds its node queued with the same waker changes nothing: the operation has not become possible
//! since, or the node would have been granted. With another waker, the node leaves the queue and
//! joins it again, at the end.
//!
//! # Rejected
//!
//! A receive by address: a value that was handed to a future which is then dropped would have to go
//! back to the front of the buffer, where there may be no room. Replacing the waker of a queued
//! node in place: executors poll with the same waker, except when a future moves between tasks.

use super::error::{Reason, RecvError, SendError};
use super::oneshot::OneReceiver;
use super::operation::{charge, closed_or_cancelled};
use super::receiver::Receiver;
use super::sender::{Sender, not_sent};
use super::state::{ChannelCore, ChannelNode, Closed, Put, Side, Took, ValueAddress};
use super::value_box::mark_empty;
use crate::sched::lab::OpKind;
use crate::sched::worker::tag_here;
use crate::scope::cx::Here;
use crate::wait::{Claim, Grant, WaitNode, WaitStanding, Waitable, Waiter, Wake};
use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// Whether a node that waits goes on waiting with its present waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It is polled with the same waker.
    Same,
    /// It is polled with another one.
    Other,
}

// ----- receiving ----------------------------------------------------------------------------

/// A receive that waits, as a watcher.
pub(super) struct Watching<T, W> {
    claim: Claim,
    node: ChannelNode<T, W>,
}

impl<T, W: Wake> Watching<T, W> {
    /// Receives to an address, or registers. The address is initialised if the result is `Done`;
    /// after `Empty` the waiter is queued.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller. `waiting` is used with
    /// this channel only, and is [withdrawn](Watching::withdraw) before it is dropped.
    pub(super) unsafe fn poll(
        waiting: &mut Option<Box<Watching<T, W>>>,
        core: &ChannelCore<T, W>,
        into: NonNull<T>,
        again: Again,
        waiter: impl Fn() -> W,
    ) -> Took<W> {
        if let Some(waits) = waiting
            && waits.node.standing() == WaitStanding::Queued
        {
            if again == Again::Same {
                return Took::Empty;
            }
            waits.withdraw(core);
        }
        loop {
            // SAFETY: the caller upholds the contract.
            match unsafe { core.try_recv(into) } {
                Took::Empty => {}
                took => {
                    if let Some(waits) = waiting {
                        waits.withdraw(core);
                    }
                    return took;
                }
            }
            let waits = waiting.get_or_insert_with(|| {
                let (claim, node) = (Claim::new(), WaitNode::new(ValueAddress::WATCHER));
                Box::new(Watching { claim, node })
            });
            waits.withdraw(core);
            waits.claim = Claim::new(); // no node refers to the old one
            let case = (&waits.claim, 0);
            let watcher = ValueAddress::WATCHER;
            // SAFETY: the node is idle. Node and claim are boxed, and the caller withdraws them.
            if unsafe { core.register(Side::Receivers, &waits.node, watcher, waiter(), case) } {
                return Took::Empty;
            }
        }
    }

    /// Leaves the queue, if it is there.
    pub(super) fn withdraw(&mut self, core: &ChannelCore<T, W>) {
        if self.node.standing() != WaitStanding::Idle {
            // SAFETY: the node is used with this channel only.
            unsafe { core.waiters(Side::Receivers).withdraw(&self.node) };
        }
    }
}

/// The future of [`Receiver::recv_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'c, T> {
    receiver: &'c Receiver<T>,
    waiting: Option<Box<Watching<T, Waiter>>>,
    /// The waker with which it waits.
    waker: Option<Waker>,
}

impl<T> Receiver<T> {
    /// Receives a value in async code, on any executor. Blocks no thread.
    ///
    /// Dropping the future before it is ready is safe: no value is lost. Each value that arrives
    /// wakes all futures that wait for one; tasks and threads that wait in
    /// [`recv`](Receiver::recv) are served first. Polled on a task, it is a checkpoint and is
    /// charged like `recv`.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let (tx, rx) = parcae::channel::channel(1);
    /// let rt = Runtime::builder().build()?;
    /// let task = rt.spawn(move |_| Ok(tx.send(42)?))?; // parks the task if it has to wait
    /// // In an `async fn` on tokio, smol …: `rx.recv_async().await`.
    /// let answer = parcae::block_on(async { rx.recv_async().await })??;
    /// assert_eq!(answer, 42);
    /// task.join()?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the channel is closed and empty. Polled on a task, as for [`recv`](Receiver::recv).
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture { receiver: self, waiting: None, waker: None }
    }
}

impl<T> OneReceiver<T> {
    /// Waits for the value in async code; see [`Receiver::recv_async`].
    ///
    /// ```
    /// let (answer, answered) = parcae::channel::oneshot();
    /// answer.send("yes")?;
    /// assert_eq!(parcae::block_on(answered.recv_async())??, "yes");
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the sender is gone without a send. Polled on a task, as for [`recv`](OneReceiver::recv).
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        self.as_receiver().recv_async()
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (shared, here) = (this.receiver.shared(), Here::new());
        let payer = match shared.prepare(OpKind::ChannelReceive, &here) {
            Ok(payer) => payer,
            Err(error) => return Poll::Ready(Err(RecvError::new(Reason::Interrupted(error)))),
        };
        let again = polled_by(&mut this.waker, context);
        let waiter = || Waiter::Future(context.waker().clone());
        let mut value = MaybeUninit::<T>::uninit();
        let into = NonNull::from(&mut value).cast();
        // SAFETY: memory for a value. The node is used with this channel, and withdrawn in `drop`.
        match unsafe { Watching::poll(&mut this.waiting, &shared.core, into, again, waiter) } {
            Took::Empty => Poll::Pending,
            Took::Done(wakes) => {
                charge(payer);
                wakes.wake();
                // SAFETY: initialised by the poll, and moved out once.
                Poll::Ready(Ok(unsafe { value.assume_init() }))
            }
            Took::Closed(Closed(error)) => {
                Poll::Ready(Err(RecvError::new(closed_or_cancelled(Reason::Closed(error)))))
            }
        }
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.withdraw(&self.receiver.shared().core);
        }
    }
}

// ----- sending ------------------------------------------------------------------------------

/// A send that waits, with its value.
pub(super) struct Offering<T, W> {
    /// Belongs to the channel while the node is queued.
    value: Option<T>,
    node: ChannelNode<T, W>,
}

/// The state of a send after a poll.
pub(super) enum Offered<W> {
    Waits,
    /// The value was received, or is in the buffer. Its receiver is to be woken.
    Sent(Put<W>),
    /// The value was received while the send waited.
    Taken,
    /// The channel is closed, and the value is still there.
    Closed(Closed),
}

impl<T, W: Wake> Offering<T, W> {
    /// Sends the value of a new send, or joins the queue.
    ///
    /// # Safety
    ///
    /// `value` is used with this channel only, and is [withdrawn](Offering::withdraw) before it is
    /// dropped.
    pub(super) unsafe fn poll(
        &mut self,
        core: &ChannelCore<T, W>,
        again: Again,
        waiter: impl FnOnce() -> W,
    ) -> Offered<W> {
        match self.node.standing() {
            WaitStanding::Queued if again == Again::Same => return Offered::Waits,
            WaitStanding::Idle => {}
            _ => match self.withdraw(core) {
                Some(Grant::Closed) => return Offered::Closed(core.closed().unwrap_or_default()),
                Some(_) => return Offered::Taken,
                None => {}
            },
        }
        let Some(address) = self.value.as_mut().map(NonNull::from) else {
            unreachable!("polled after it was sent")
        };
        let waiter = waiter(); // user code, before the lock is taken
        // SAFETY: an initialised value, which is not touched until the outcome is known. While its
        // node is queued it belongs to the channel; both are boxed.
        unsafe {
            let put = match core.push(address, tag_here()) {
                Ok(()) => {
                    mark_empty(&mut self.value);
                    return Offered::Taken; // no receiver waited
                }
                Err(mut locked) => match core.send_locked(address, &mut locked) {
                    Put::Full => {
                        self.node.set_key(ValueAddress::of(address));
                        locked.join(Side::Senders, &self.node, waiter);
                        return Offered::Waits;
                    }
                    put => put,
                },
            };
            match put {
                Put::Closed(closed) => Offered::Closed(closed),
                Put::Done(_) => {
                    mark_empty(&mut self.value);
                    Offered::Sent(put)
                }
                put => Offered::Sent(put), // the value that made room is dropped with this
            }
        }
    }

    /// Leaves the queue, if it is there. Returns the grant, if it got one; unless that is `Closed`,
    /// the value was received.
    pub(super) fn withdraw(&mut self, core: &ChannelCore<T, W>) -> Option<Grant> {
        if self.node.standing() == WaitStanding::Idle {
            return None;
        }
        // SAFETY: the node is used with this channel only.
        let grant = unsafe { core.waiters(Side::Senders).withdraw(&self.node) };
        if grant.is_some_and(|grant| grant != Grant::Closed) {
            // SAFETY: the value was moved away by a receiver.
            unsafe { mark_empty(&mut self.value) };
        }
        grant
    }
}

/// The future of [`Sender::send_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'c, T> {
    sender: &'c Sender<T>,
    /// None once it was ready.
    offer: Option<Box<Offering<T, Waiter>>>,
    /// The waker with which it waits.
    waker: Option<Waker>,
}

impl<T> Sender<T> {
    /// Sends a value in async code, on any executor. Blocks no thread.
    ///
    /// Dropping the future before it is ready gives up the send, and drops the value, unless it was
    /// received already. Polled on a task, it is a checkpoint and is charged like
    /// [`send`](Sender::send).
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let (tx, rx) = parcae::channel::channel(0);
    /// let rt = Runtime::builder().build()?;
    /// let task = rt.spawn(move |_| Ok(rx.recv()?))?;
    /// // In an `async fn` on tokio, smol …: `tx.send_async(42).await`.
    /// parcae::block_on(async { tx.send_async(42).await })??;
    /// assert_eq!(task.join()?, 42);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the channel is closed, or refuses the value because it is full. Polled on a task, as for
    /// [`send`](Sender::send). The value is in the error.
    pub fn send_async(&self, value: T) -> SendFuture<'_, T> {
        let node = WaitNode::new(ValueAddress::WATCHER);
        let offer = Some(Box::new(Offering { value: Some(value), node }));
        SendFuture { sender: self, offer, waker: None }
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (shared, here) = (this.sender.shared(), Here::new());
        let offer = this.offer.as_mut().expect("polled after it was ready");
        let prepared = shared.prepare(OpKind::ChannelSend, &here);
        let sent = match prepared {
            Err(error) => match offer.withdraw(&shared.core) {
                Some(Grant::Own) => Ok(()), // sent before the cancellation was seen
                _ => Err(Reason::Interrupted(error)),
            },
            Ok(payer) => {
                let again = polled_by(&mut this.waker, context);
                let waiter = || Waiter::Future(context.waker().clone());
                // SAFETY: the node is used with this channel, and withdrawn in `drop`.
                match unsafe { offer.poll(&shared.core, again, waiter) } {
                    Offered::Waits => return Poll::Pending,
                    Offered::Taken => {
                        charge(payer);
                        Ok(())
                    }
                    Offered::Sent(Put::Refused | Put::Full) => Err(Reason::WouldWait),
                    Offered::Sent(put) => {
                        charge(payer);
                        if let Put::Done(wakes) = put {
                            wakes.wake();
                        }
                        offer.value = None; // one that made room for it
                        Ok(())
                    }
                    Offered::Closed(Closed(error)) => {
                        Err(closed_or_cancelled(Reason::Closed(error)))
                    }
                }
            }
        };
        let sent = not_sent(&mut offer.value, sent);
        this.offer = None;
        Poll::Ready(sent)
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(offer) = &mut self.offer {
            offer.withdraw(&self.sender.shared().core);
        }
    }
}

/// Keeps the waker of this poll, and says whether it is that of the poll before.
fn polled_by(kept: &mut Option<Waker>, context: &Context<'_>) -> Again {
    if kept.as_ref().is_some_and(|kept| kept.will_wake(context.waker())) {
        return Again::Same;
    }
    *kept = Some(context.waker().clone());
    Again::Other
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecvFuture")
    }
}

impl<T> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendFuture")
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Futures that are polled, woken and dropped against the other end. Run: `.ci/run loom`.

    use super::*;
    use crate::base::shim::explore;
    use crate::sync::channel::Overflow;
    use loom::thread::{self, Thread};
    use std::sync::Arc;

    type Channel = Arc<ChannelCore<u32, Thread>>;

    fn channel(capacity: usize) -> Channel {
        Arc::new(ChannelCore::new(capacity, Overflow::Block))
    }

    /// One poll of a receive; the value, if there was one.
    fn poll(core: &Channel, waiting: &mut Option<Box<Watching<u32, Thread>>>) -> Option<u32> {
        let mut value = MaybeUninit::<u32>::uninit();
        let into = NonNull::from(&mut value).cast();
        // SAFETY: memory for a value; withdrawn by the callers.
        match unsafe { Watching::poll(waiting, core, into, Again::Same, thread::current) } {
            Took::Done(wakes) => {
                wakes.wake();
                // SAFETY: initialised.
                Some(unsafe { value.assume_init() })
            }
            _ => None,
        }
    }

    fn send(core: &Channel, value: u32) -> Offered<Thread> {
        let node = WaitNode::new(ValueAddress::WATCHER);
        let mut offer = Box::new(Offering { value: Some(value), node });
        loop {
            // SAFETY: waited for until it is not queued any more.
            match unsafe { offer.poll(core, Again::Same, thread::current) } {
                Offered::Waits => thread::park(),
                Offered::Sent(Put::Done(wakes)) => {
                    wakes.wake();
                    return Offered::Taken;
                }
                offered => return offered,
            }
        }
    }

    fn receive(core: &Channel) -> u32 {
        let mut waiting = None;
        loop {
            match poll(core, &mut waiting) {
                Some(value) => return value,
                None => thread::park(),
            }
        }
    }

    /// Both ends are futures, with and without a buffer: they meet, and no wake-up is lost.
    #[test]
    fn two_futures_meet() {
        for capacity in [0, 1] {
            explore("futures: both ends", None, move || {
                let core = channel(capacity);
                let sender = {
                    let core = Arc::clone(&core);
                    thread::spawn(move || assert!(matches!(send(&core, 7), Offered::Taken)))
                };
                assert_eq!(receive(&core), 7);
                sender.join().unwrap();
            });
        }
    }

    /// A receive is dropped after its first poll: the value is there for another.
    #[test]
    fn a_receive_that_is_dropped_loses_no_value() {
        explore("futures: a receive is dropped", None, || {
            let core = channel(1);
            let sender = {
                let core = Arc::clone(&core);
                thread::spawn(move || assert!(matches!(send(&core, 7), Offered::Taken)))
            };
            let mut waiting = None;
            let first = poll(&core, &mut waiting);
            if let Some(waiting) = &mut waiting {
                waiting.withdraw(&core); // dropped, perhaps after its wake-up
            }
            sender.join().unwrap();
            let mut second = None;
            assert_eq!(first.or_else(|| poll(&core, &mut second)), Some(7));
        });
    }

    /// A send is dropped while a receiver comes: the value is received, or is still in the future.
    #[test]
    fn a_send_that_is_dropped_has_sent_its_value_or_keeps_it() {
        explore("futures: a send is dropped", None, || {
            let core = channel(0);
            let receiver = {
                let core = Arc::clone(&core);
                thread::spawn(move || {
                    let mut waiting = None;
                    let value = poll(&core, &mut waiting);
                    if let Some(waiting) = &mut waiting {
                        waiting.withdraw(&core);
                    }
                    value
                })
            };
            let node = WaitNode::new(ValueAddress::WATCHER);
            let mut offer = Box::new(Offering { value: Some(7), node });
            // SAFETY: withdrawn below.
            let polled = unsafe { offer.poll(&core, Again::Same, thread::current) };
            assert!(matches!(polled, Offered::Waits), "there is no buffer");
            let sent = offer.withdraw(&core).is_some();
            assert_eq!(sent, offer.value.is_none());
            assert_eq!(receiver.join().unwrap().is_some(), sent, "lost, or sent twice");
        });
    }
}
