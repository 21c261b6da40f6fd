//! The deadlines of a scheduler.
//!
//! Times are nanoseconds since the scheduler was made. With threads they come from the monotonic
//! clock, and one thread, started when it is first needed, waits for the earliest deadline. Under the
//! deterministic executor time is virtual: a step takes a microsecond, and when nobody can run the
//! clock jumps to the next deadline.
//!
//! Deadlines are kept in order in one map under a lock: setting and taking back one costs the logarithm of how many
//! there are, and nothing happens while none is due. A deadline that is taken back (dropped [`Deadline`]) does
//! nothing any more; one that is due is taken out under the lock and acted on after it, so that each acts at most
//! once.

use crate::cancel::{CancelReason, Node};
use crate::engine::Waker;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::{Arc, Condvar, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A point in time: nanoseconds since the scheduler was made.
pub(crate) type Nanos = u64;

/// What a step of the deterministic executor takes.
pub(crate) const STEP: Nanos = 1_000;

/// The deadlines of a scheduler.
pub(crate) struct Timers {
    started: Instant,
    inner: Arc<Inner>,
}

struct Inner {
    state: std::sync::Mutex<State>,
    /// The earliest deadline has changed, or the thread is to end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: BTreeMap<(Nanos, u64), Due>,
    next_id: u64,
    thread: Option<JoinHandle<()>>,
    stopping: bool,
}

/// What happens at a deadline.
pub(crate) enum Due {
    Cancel(Weak<Node>),
    Wake(Waker),
    /// Wakes the task, and has it look around at its next checkpoint.
    Attend(Waker),
}

impl Due {
    fn act(self) {
        match self {
            Due::Cancel(node) => {
                if let Some(node) = node.upgrade() {
                    node.cancel(CancelReason::Timeout);
                }
            }
            Due::Wake(waker) => waker.wake(),
            Due::Attend(waker) => waker.attend(),
        }
    }
}

/// A deadline that was set. Dropping it takes it back.
pub(crate) struct Deadline {
    inner: Arc<Inner>,
    key: (Nanos, u64),
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let due = self.inner.lock().due.remove(&self.key);
        drop(due); // outside of the lock
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is due at `now`, one at a time.
    fn pop_due(state: &mut State, now: Nanos) -> Option<Due> {
        let entry = state.due.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

impl Timers {
    pub(crate) fn new() -> Timers {
        let inner = Inner { state: std::sync::Mutex::default(), changed: Condvar::new() };
        Timers { started: Instant::now(), inner: Arc::new(inner) }
    }

    /// What the monotonic clock says.
    pub(crate) fn real_now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    /// When the scheduler was made.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Sets a deadline.
    pub(crate) fn set(&self, at: Nanos, what: Due, clock: Clock) -> Deadline {
        let mut state = self.inner.lock();
        let key = (at, state.next_id);
        state.next_id += 1;
        let is_first = state.due.first_key_value().is_none_or(|(first, _)| key < *first);
        state.due.insert(key, what);
        if clock == Clock::Real && state.thread.is_none() && !state.stopping {
            state.thread = self.start();
        }
        drop(state);
        if is_first {
            self.inner.changed.notify_one();
        }
        Deadline { inner: Arc::clone(&self.inner), key }
    }

    /// A thread that waits for deadlines. None if there is no thread to be had: deadlines then
    /// pass unnoticed until the next one is set.
    fn start(&self) -> Option<JoinHandle<()>> {
        let (inner, started) = (Arc::clone(&self.inner), self.started);
        let run = move || {
            let mut state = inner.lock();
            while !state.stopping {
                let now = started.elapsed().as_nanos() as Nanos;
                if let Some(due) = Inner::pop_due(&mut state, now) {
                    drop(state);
                    due.act();
                    state = inner.lock();
                    continue;
                }
                let next = state.due.first_key_value().map(|(&(at, _), _)| at);
                state = match next {
                    None => inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                    Some(at) => {
                        let wait = Duration::from_nanos(at - now);
                        let waited = inner.changed.wait_timeout(state, wait);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
        };
        std::thread::Builder::new().name("parcae-timer".into()).spawn(run).ok()
    }

    /// Under the deterministic executor: acts on what is due at `now`.
    pub(crate) fn fire(&self, now: Nanos) {
        loop {
            let due = Inner::pop_due(&mut self.inner.lock(), now);
            let Some(due) = due else { return };
            due.act();
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.inner.lock().due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Ends the thread. Deadlines that have not passed are forgotten.
    pub(crate) fn stop(&self) {
        let (thread, due) = {
            let mut state = self.inner.lock();
            state.stopping = true;
            (state.thread.take(), std::mem::take(&mut state.due))
        };
        self.inner.changed.notify_one();
        drop(due);
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// Whose clock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Real,
    Virtual,
}
