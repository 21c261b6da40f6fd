//! A channel whose values all subscribers see.
//!
//! The last `capacity` values are kept, numbered. A subscriber has the number of the value that it
//! wants next; if that is gone it is told how many it has missed, and goes on with the oldest. So a
//! slow subscriber holds up neither the sender nor the others. Values are shared by count and
//! cloned for each subscriber outside of the lock.

use super::changes::{Reader, notify_changed};
use super::error::{Reason, RecvError, SendError};
use crate::base::lock::Lock;
use crate::scope::cx::parking::Deadline;
use crate::wait::{Queue, Waiter};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel whose values all subscribers see; it keeps the last `capacity` of them, at least one.
/// A send never waits.
///
/// ```
/// use parcae::channel::broadcast;
///
/// let (tx, mut first) = broadcast(2);
/// tx.send("a")?;
/// let mut second = tx.subscribe(); // sees what comes from now on
/// tx.send("b")?;
/// tx.send("c")?;
/// assert_eq!((second.recv()?, second.recv()?), ("b", "c"));
/// assert_eq!(first.recv().unwrap_err().missed(), Some(1)); // "a" is gone
/// assert_eq!(first.recv()?, "b");
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn broadcast<T>(capacity: usize) -> (Broadcaster<T>, Subscriber<T>) {
    let state =
        State { kept: VecDeque::new(), next: 0, senders: 1, subscribers: 1, waiters: Queue::new() };
    let shared = Arc::new(Shared { state: Lock::new(state), capacity: capacity.max(1) });
    (Broadcaster { shared: Arc::clone(&shared) }, Subscriber { shared, wants: 0 })
}

struct Shared<T> {
    state: Lock<State<T>>,
    capacity: usize,
}

pub(crate) struct State<T> {
    /// The last values, the newest at the back.
    kept: VecDeque<Arc<T>>,
    /// The number of the value that will be sent next.
    next: u64,
    /// No more values come when there are none.
    senders: usize,
    subscribers: usize,
    waiters: Queue<Waiter>,
}

impl<T> State<T> {
    /// The value with a number, or how many were missed; none if it has not been sent.
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

/// Sends to all subscribers. Clones send to the same.
pub struct Broadcaster<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Broadcaster<T> {
    /// Sends a value to all who are subscribed now; says how many that are. Without any the value
    /// is dropped.
    ///
    /// # Errors
    ///
    /// The task was cancelled or has no budget left. The value is in the error.
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let payer = match super::prepare() {
            Ok(payer) => payer,
            Err(error) => return Err(SendError::new(value, Reason::Interrupted(error))),
        };
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
        drop(gone); // runs code of the program, with nothing left to do
        Ok(subscribers)
    }

    /// Another subscriber, for what is sent from now on.
    pub fn subscribe(&self) -> Subscriber<T> {
        let mut state = self.shared.state.lock();
        state.subscribers += 1;
        Subscriber { shared: Arc::clone(&self.shared), wants: state.next }
    }

    /// How many are subscribed.
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

/// Sees all that is sent since it subscribed. A clone is another subscriber, which goes on from the
/// same place.
pub struct Subscriber<T> {
    shared: Arc<Shared<T>>,
    /// The number of the next value.
    wants: u64,
}

impl<T> Subscriber<T> {
    /// How many values it will get before it has to wait; those that it has missed do not count.
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

    /// Whether it would have to wait for a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Another subscriber, which sees what is sent from now on. A clone goes on from the same place
    /// instead.
    #[must_use]
    pub fn resubscribe(&self) -> Subscriber<T> {
        let mut state = self.shared.state.lock();
        state.subscribers += 1;
        Subscriber { shared: Arc::clone(&self.shared), wants: state.next }
    }
}

impl<T: Clone> Subscriber<T> {
    /// The next value; waits for it.
    ///
    /// # Errors
    ///
    /// [`Reason::Lagged`] if values are gone that it has not seen: the next call goes on with the
    /// oldest. Otherwise all senders are gone, or the task was cancelled or has no budget left.
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::Never)
    }

    /// As [`recv`](Subscriber::recv), and waits no longer than `time`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or the time is up.
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::after(time))
    }

    /// As [`recv`](Subscriber::recv), and waits no longer than until `at`, by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or that time has come.
    pub fn recv_deadline(&mut self, at: Instant) -> Result<T, RecvError> {
        self.wait_until(|| Deadline::at(at))
    }

    /// The next value, if it has been sent.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Subscriber::recv), or it would have had to wait.
    pub fn try_recv(&mut self) -> Result<T, RecvError> {
        self.try_read()
    }
}

impl<T: Clone> Reader for Subscriber<T> {
    const NAME: &'static str = "broadcast";

    type State = State<T>;
    type Found = Arc<T>;
    type Value = T;

    fn parts(&mut self) -> (&Lock<State<T>>, &mut u64) {
        (&self.shared.state, &mut self.wants)
    }

    fn waiters(state: &mut State<T>) -> &mut Queue<Waiter> {
        &mut state.waiters
    }

    fn read(state: &State<T>, wants: &mut u64) -> Option<Result<Arc<T>, Reason>> {
        state.get(wants)
    }

    fn value(found: Arc<T>) -> T {
        Arc::unwrap_or_clone(found) // not at all for the last who has it
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
        // Nobody wants them: a new subscriber sees only what comes after it.
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
