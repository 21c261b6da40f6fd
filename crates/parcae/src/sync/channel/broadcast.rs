//! A channel whose subscribers all get every value.
//!
//! The last `capacity` values are kept, numbered. A subscriber holds the number of its next value.
//! If that value is gone, the subscriber gets the number of missed values as an error, and
//! continues with the oldest one. So a slow subscriber delays neither the sender nor the other
//! subscribers. Values are reference-counted, and cloned for each subscriber outside of the lock.

use super::changes::{Reader, notify_changed};
use super::error::{Reason, RecvError, SendError};
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::ObjectLock as Lock;
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cx::Here;
use crate::scope::cx::parking::Deadline;
use crate::wait::{Queue, Waiter};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel whose subscribers all get every value. It keeps the last `capacity` values, at least
/// one. A send never waits.
///
/// ```
/// use parcae::channel::broadcast;
///
/// let (tx, mut first) = broadcast(2);
/// tx.send("a")?;
/// let mut second = tx.subscribe(); // sees later values only
/// tx.send("b")?;
/// tx.send("c")?;
/// assert_eq!((second.recv()?, second.recv()?), ("b", "c"));
/// assert_eq!(first.recv().unwrap_err().missed(), Some(1)); // "a" is gone
/// assert_eq!(first.recv()?, "b");
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn broadcast<T>(capacity: usize) -> (Broadcaster<T>, Subscriber<T>) {
    let state = BroadcastState {
        kept: VecDeque::new(),
        next: 0,
        senders: 1,
        subscribers: 1,
        waiters: Queue::new(),
    };
    let shared = Arc::new(BroadcastShared { state: Lock::new(state), capacity: capacity.max(1) });
    forget_address(&shared.state);
    (Broadcaster { shared: Arc::clone(&shared) }, Subscriber { shared, wants: 0 })
}

struct BroadcastShared<T> {
    state: Lock<BroadcastState<T>>,
    capacity: usize,
}

pub(crate) struct BroadcastState<T> {
    /// The last values, the newest at the back.
    kept: VecDeque<Arc<T>>,
    /// The number of the next value to be sent.
    next: u64,
    /// Number of senders. At 0 no more values come.
    senders: usize,
    subscribers: usize,
    waiters: Queue<Waiter>,
}

impl<T> BroadcastState<T> {
    /// The value with this number, or the number of missed values. `None` if it has not been sent.
    fn get(&self, wants: &mut u64) -> Option<Result<Arc<T>, Reason>> {
        let oldest = self.next - self.kept.len() as u64;
        if *wants < oldest {
            let missed = oldest - *wants;
            *wants = oldest;
            return Some(Err(Reason::Lagged(missed)));
        }
        match self.kept.get((*wants - oldest) as usize) {
            Some(value) => {
                *wants += 1;
                Some(Ok(Arc::clone(value)))
            }
            None => (self.senders == 0).then_some(Err(Reason::Closed(None))),
        }
    }
}

/// Sends to all subscribers. Clones send to the same subscribers.
pub struct Broadcaster<T> {
    shared: Arc<BroadcastShared<T>>,
}

impl<T> Broadcaster<T> {
    /// Sends a value to all present subscribers. Returns their number. Without a subscriber the
    /// value is dropped.
    ///
    /// # Errors
    ///
    /// The task is cancelled or its budget is exhausted. The value is in the error.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let here = Here::new();
        let payer = match super::prepare(&here) {
            Ok(payer) => payer,
            Err(error) => return Err(SendError::new(value, Reason::Interrupted(error))),
        };
        point_at(OpKind::ChannelSend, &self.shared.state);
        let value = Arc::new(value);
        let mut state = self.shared.state.lock();
        let subscribers = state.subscribers;
        state.next += 1;
        let mut gone = None;
        if subscribers == 0 {
            gone = Some(value);
        } else {
            if state.kept.len() == self.shared.capacity {
                gone = state.kept.pop_front();
            }
            state.kept.push_back(value);
        }
        let woken = notify_changed(&mut state.waiters);
        drop(state);
        super::charge(payer);
        woken.wake();
        drop(gone); // runs user code, with nothing left to do
        Ok(subscribers)
    }

    /// A new subscriber, for values that are sent from now on.
    pub fn subscribe(&self) -> Subscriber<T> {
        let mut state = self.shared.state.lock();
        state.subscribers += 1;
        Subscriber { shared: Arc::clone(&self.shared), wants: state.next }
    }

    /// Number of subscribers.
    pub fn subscribers(&self) -> usize {
        self.shared.state.lock().subscribers
    }
}

impl<T> Clone for Broadcaster<T> {
    fn clone(&self) -> Broadcaster<T> {
        self.shared.state.lock().senders += 1;
        Broadcaster { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Broadcaster<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            let woken = notify_changed(&mut state.waiters);
            drop(state);
            woken.wake();
        }
    }
}

/// Receives all values sent since it subscribed. A clone is another subscriber, at the same
/// position.
pub struct Subscriber<T> {
    shared: Arc<BroadcastShared<T>>,
    /// The number of the next value.
    wants: u64,
}

impl<T> Subscriber<T> {
    /// Number of values that can be received without waiting; missed ones do not count.
    ///
    /// ```
    /// use parcae::channel::broadcast;
    ///
    /// let (tx, mut subscriber) = broadcast(2);
    /// for value in 0..3 {
    ///     tx.send(value)?;
    /// }
    /// assert_eq!(subscriber.len(), 2); // the first one is gone
    /// let late = subscriber.resubscribe();
    /// assert!(late.is_empty());
    /// assert_eq!(subscriber.recv().unwrap_err().missed(), Some(1));
    /// assert_eq!((subscriber.recv()?, subscriber.len()), (1, 1));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        let state = self.shared.state.lock();
        let unseen = usize::try_from(state.next - self.wants).unwrap_or(usize::MAX);
        unseen.min(state.kept.len())
    }

    /// Whether a receive would have to wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new subscriber, for values that are sent from now on. A clone continues at the same
    /// position instead.
    #[must_use]
    pub fn resubscribe(&self) -> Subscriber<T> {
        let mut state = self.shared.state.lock();
        state.subscribers += 1;
        Subscriber { shared: Arc::clone(&self.shared), wants: state.next }
    }
}

impl<T: Clone> Subscriber<T> {
    /// Receives the next value. Waits for it.
    ///
    /// # Errors
    ///
    /// [`Reason::Lagged`] if values were overwritten before they were received: the next call
    /// continues with the oldest one. Otherwise if all senders are gone, the task is cancelled, or
    /// its budget is exhausted.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::Never)
    }

    /// Like [`recv`](Subscriber::recv), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or the time is up.
    #[track_caller]
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::after(time))
    }

    /// Like [`recv`](Subscriber::recv), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or the time is up.
    #[track_caller]
    pub fn recv_deadline(&mut self, at: Instant) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::at(at))
    }

    /// Receives the next value if it has been sent.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or the call would have to wait.
    #[track_caller]
    pub fn try_recv(&mut self) -> Result<T, RecvError> {
        self.try_read()
    }
}

impl<T: Clone> Reader for Subscriber<T> {
    const NAME: &'static str = "broadcast";

    type State = BroadcastState<T>;
    type Found = Arc<T>;
    type Value = T;

    fn parts(&mut self) -> (&Lock<BroadcastState<T>>, &mut u64) {
        (&self.shared.state, &mut self.wants)
    }

    fn waiters(state: &mut BroadcastState<T>) -> &mut Queue<Waiter> {
        &mut state.waiters
    }

    fn read(state: &BroadcastState<T>, wants: &mut u64) -> Option<Result<Arc<T>, Reason>> {
        state.get(wants)
    }

    fn value(found: Arc<T>) -> T {
        Arc::unwrap_or_clone(found) // no clone for the last owner
    }
}

impl<T> Clone for Subscriber<T> {
    fn clone(&self) -> Subscriber<T> {
        self.shared.state.lock().subscribers += 1;
        Subscriber { shared: Arc::clone(&self.shared), wants: self.wants }
    }
}

impl<T> Drop for Subscriber<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.subscribers -= 1;
        // A new subscriber gets later values only, so no subscriber wants these.
        let unseen =
            if state.subscribers == 0 { std::mem::take(&mut state.kept) } else { VecDeque::new() };
        drop(state);
        super::handles::drop_all(unseen);
    }
}

impl<T> fmt::Debug for Broadcaster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcaster").field("subscribers", &self.subscribers()).finish()
    }
}

impl<T> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("wants", &self.wants).finish_non_exhaustive()
    }
}
