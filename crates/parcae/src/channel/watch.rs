//! A value that changes, of which watchers see the newest.
//!
//! The value has a version. A watcher has the version that it has seen last and waits for another one; those in between it
//! may miss.

use super::bell::{Bell, Look};
use super::error::{Reason, RecvError};
use crate::lock::Lock;
use crate::wait::Deadline;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A value that changes, such as a configuration: watchers see the newest, not each one.
///
/// ```
/// use parcae::channel::watch;
///
/// let (level, mut watcher) = watch(1);
/// level.set(2);
/// level.set(3);
/// assert_eq!(*watcher.changed()?, 3);
/// drop(level);
/// assert!(watcher.changed().unwrap_err().is_closed());
/// assert_eq!(*watcher.get(), 3);
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn watch<T>(initial: T) -> (Watched<T>, Watcher<T>) {
    let state = State { value: Arc::new(initial), version: 0, setters: 1, bell: Bell::new() };
    let state = Arc::new(Lock::new(state));
    (Watched { state: Arc::clone(&state) }, Watcher { state, seen: 0 })
}

pub(crate) struct State<T> {
    value: Arc<T>,
    version: u64,
    /// It does not change any more when there are none.
    setters: usize,
    bell: Bell,
}

/// Changes a value that is watched. Clones change the same.
pub struct Watched<T> {
    state: Arc<Lock<State<T>>>,
}

impl<T> Watched<T> {
    /// Sets another value, and wakes those who wait for that. Returns the old one.
    pub fn set(&self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut state = self.state.lock();
        let old = std::mem::replace(&mut state.value, value);
        state.version += 1;
        let rung = state.bell.ring();
        drop(state);
        rung.wake();
        old
    }

    /// The value as it is.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.state.lock().value)
    }

    /// Another watcher, which waits for the next change.
    pub fn watcher(&self) -> Watcher<T> {
        let seen = self.state.lock().version;
        Watcher { state: Arc::clone(&self.state), seen }
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Watched<T> {
        self.state.lock().setters += 1;
        Watched { state: Arc::clone(&self.state) }
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.setters -= 1;
        if state.setters == 0 {
            let rung = state.bell.ring();
            drop(state);
            rung.wake();
        }
    }
}

/// Watches a value. A clone has seen what this one has.
pub struct Watcher<T> {
    state: Arc<Lock<State<T>>>,
    seen: u64,
}

impl<T> Watcher<T> {
    /// The value as it is. Does not count as seen by [`changed`](Watcher::changed).
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.state.lock().value)
    }

    /// Whether [`changed`](Watcher::changed) would find something at once.
    pub fn has_changed(&self) -> bool {
        self.state.lock().version != self.seen
    }

    /// Waits until the value is another than what was seen last, and returns the newest.
    ///
    /// # Errors
    ///
    /// It will not change any more, or the task was cancelled or has no budget left.
    pub fn changed(&mut self) -> Result<Arc<T>, RecvError> {
        self.wait_until(|| Deadline::Never)
    }

    /// As [`changed`](Watcher::changed), and waits no longer than `time`.
    ///
    /// # Errors
    ///
    /// As for [`changed`](Watcher::changed), or the time is up.
    pub fn changed_timeout(&mut self, time: Duration) -> Result<Arc<T>, RecvError> {
        self.wait_until(|| Deadline::after(time))
    }
}

impl<T> Look for Watcher<T> {
    const NAME: &'static str = "change of a watched value";

    type State = State<T>;
    type Found = Arc<T>;
    type Value = Arc<T>;

    fn parts(&mut self) -> (&Lock<State<T>>, &mut u64) {
        (&self.state, &mut self.seen)
    }

    fn bell(state: &mut State<T>) -> &mut Bell {
        &mut state.bell
    }

    fn look(state: &State<T>, seen: &mut u64) -> Option<Result<Arc<T>, Reason>> {
        if state.version != *seen {
            *seen = state.version;
            return Some(Ok(Arc::clone(&state.value)));
        }
        (state.setters == 0).then_some(Err(Reason::Closed(None)))
    }

    fn value(found: Arc<T>) -> Arc<T> {
        found
    }
}

impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Watcher<T> {
        Watcher { state: Arc::clone(&self.state), seen: self.seen }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.state.lock().version; // the lock is not held while somebody writes
        f.debug_struct("Watched").field("version", &version).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}
