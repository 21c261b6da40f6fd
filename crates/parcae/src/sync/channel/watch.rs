//! A value that changes, and whose watchers see the newest version.
//!
//! The value has a version. A watcher remembers the version that it has seen, and waits for a later
//! one; it may miss versions in between.
//!
//! Watchers wait in one queue. Setters that wait for the last watcher to go wait in another: a
//! select with a watcher among its cases interprets the end of its wait as a change.
//!
//! No user code runs under the lock. A change in place works on a copy, and is repeated if the
//! version shows that another setter was faster.

use super::changes::{Reader, notify_changed};
use super::error::{Reason, RecvError};
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::ObjectLock as Lock;
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cx::parking::Deadline;
use crate::wait::{Queue, Waiter};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A value that changes, such as a configuration. Watchers see the newest version, not every
/// version.
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
    let state = WatchState {
        value: Arc::new(initial),
        version: 0,
        setters: 1,
        watchers: 1,
        waiters: Queue::new(),
        setters_waiting: Queue::new(),
    };
    let state = Arc::new(Lock::new(state));
    forget_address(&*state);
    (Watched { state: Arc::clone(&state) }, Watcher { state, seen: 0 })
}

pub(crate) struct WatchState<T> {
    value: Arc<T>,
    version: u64,
    /// Number of setters. At 0 the value no longer changes.
    setters: usize,
    watchers: usize,
    /// Watchers that wait for a change, or for the last setter to go.
    waiters: Queue<Waiter>,
    /// Setters that wait for the last watcher to go.
    setters_waiting: Queue<Waiter>,
}

/// Sets a watched value. Clones set the same value.
pub struct Watched<T> {
    state: Arc<Lock<WatchState<T>>>,
}

impl<T> Watched<T> {
    /// Replaces the value and wakes the watchers. Returns the old value. Not a checkpoint: a loop
    /// of such calls needs one of its own.
    #[track_caller]
    pub fn set(&self, value: T) -> Arc<T> {
        point_at(OpKind::ChannelSend, &*self.state);
        let value = Arc::new(value);
        let mut state = self.state.lock();
        let old = std::mem::replace(&mut state.value, value);
        state.version += 1;
        let woken = notify_changed(&mut state.waiters);
        drop(state);
        woken.wake();
        old
    }

    /// Changes the value and wakes the watchers. The closure works on a copy. If another setter is
    /// faster, it is called again with a copy of the newer value, so that no change is lost. Not a
    /// checkpoint: a loop of such calls needs one of its own.
    ///
    /// ```
    /// use parcae::channel::watch;
    ///
    /// let (limits, mut watcher) = watch(vec![1, 2]);
    /// limits.modify(|limits| limits.push(3));
    /// assert_eq!(*watcher.changed()?, [1, 2, 3]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[doc(alias = "send_modify")]
    #[track_caller]
    pub fn modify(&self, mut change: impl FnMut(&mut T))
    where
        T: Clone,
    {
        self.modify_if(|value| {
            change(value);
            true
        });
    }

    /// Like [`modify`](Watched::modify), but keeps the old value and wakes no watcher if the
    /// closure returns false. Returns whether the value was changed.
    ///
    /// ```
    /// use parcae::channel::watch;
    ///
    /// let (highest, watcher) = watch(7);
    /// let raise = |to: i32| highest.modify_if(|now| to > std::mem::replace(now, to.max(*now)));
    /// assert!(!raise(5) && !watcher.has_changed());
    /// assert!(raise(9) && watcher.has_changed());
    /// ```
    #[doc(alias = "send_if_modified")]
    #[track_caller]
    pub fn modify_if(&self, mut change: impl FnMut(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        loop {
            let (before, version) = {
                let state = self.state.lock();
                (Arc::clone(&state.value), state.version)
            };
            let mut value = (*before).clone();
            if !change(&mut value) {
                return false;
            }
            let value = Arc::new(value);
            let mut state = self.state.lock();
            if state.version != version {
                drop(state);
                continue; // the copy is dropped outside of the lock
            }
            let old = std::mem::replace(&mut state.value, value);
            state.version += 1;
            let woken = notify_changed(&mut state.waiters);
            drop(state);
            woken.wake();
            drop((old, before)); // runs user code
            return true;
        }
    }

    /// Number of watchers.
    pub fn watchers(&self) -> usize {
        self.state.lock().watchers
    }

    /// Waits until there are no watchers. A checkpoint, like every channel operation.
    ///
    /// ```
    /// use parcae::channel::watch;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     let (level, mut watcher) = watch(1);
    ///     cx.nursery(|n| {
    ///         n.spawn(move |_| Ok(*watcher.changed()?))?;
    ///         level.set(2);
    ///         level.closed() // the watcher has ended with its task
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The task is cancelled or its budget is exhausted.
    #[track_caller]
    pub fn closed(&self) -> crate::Result<()> {
        Ok(LastWatcher { state: &self.state, cursor: 0 }.wait_until(|| Deadline::Never)?)
    }

    /// The current value. Not a checkpoint: a polling loop needs one of its own.
    #[track_caller]
    pub fn get(&self) -> Arc<T> {
        point_at(OpKind::Load, &*self.state);
        Arc::clone(&self.state.lock().value)
    }

    /// A new watcher, which waits for the next change.
    pub fn watcher(&self) -> Watcher<T> {
        let mut state = self.state.lock();
        state.watchers += 1;
        Watcher { state: Arc::clone(&self.state), seen: state.version }
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
            let woken = notify_changed(&mut state.waiters);
            drop(state);
            woken.wake();
        }
    }
}

/// Watches a value. A clone has seen the same version.
pub struct Watcher<T> {
    state: Arc<Lock<WatchState<T>>>,
    seen: u64,
}

impl<T> Watcher<T> {
    /// The current value. Does not mark it as seen for [`changed`](Watcher::changed). Not a
    /// checkpoint: a polling loop needs one of its own.
    #[track_caller]
    pub fn get(&self) -> Arc<T> {
        point_at(OpKind::Load, &*self.state);
        Arc::clone(&self.state.lock().value)
    }

    /// Marks the current value as not seen: [`changed`](Watcher::changed) returns it at once.
    pub fn mark_changed(&mut self) {
        self.seen = self.state.lock().version.wrapping_sub(1);
    }

    /// Marks the current value as seen: [`changed`](Watcher::changed) waits for the next one.
    ///
    /// ```
    /// use parcae::channel::watch;
    ///
    /// let (level, mut watcher) = watch(1);
    /// level.set(2);
    /// watcher.mark_unchanged();
    /// assert!(!watcher.has_changed());
    /// watcher.mark_changed();
    /// assert_eq!(*watcher.changed()?, 2);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.state.lock().version;
    }

    /// Waits until the value satisfies the predicate, and returns it. The current value counts,
    /// whether seen or not. Values that come and go in between may be missed. The closure runs
    /// outside of all locks.
    ///
    /// ```
    /// use parcae::channel::watch;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let (level, mut watcher) = watch(0);
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let high = n.spawn(move |_| Ok(*watcher.wait_for(|&level| level > 5)?))?;
    ///         for now in [3, 9, 9] {
    ///             level.set(now);
    ///             cx.yield_now()?;
    ///         }
    ///         assert_eq!(high.join()?, 9);
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the value does not satisfy the predicate and no longer changes, the task is cancelled, or
    /// its budget is exhausted.
    #[track_caller]
    pub fn wait_for(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Result<Arc<T>, RecvError> {
        self.mark_changed();
        loop {
            let value = self.changed()?;
            if wanted(&value) {
                return Ok(value);
            }
        }
    }

    /// Whether [`changed`](Watcher::changed) would return at once. Not a checkpoint: a polling loop
    /// needs one of its own.
    pub fn has_changed(&self) -> bool {
        self.state.lock().version != self.seen
    }

    /// Waits until the value differs from the version seen last, and returns the newest.
    ///
    /// # Errors
    ///
    /// If the value no longer changes, the task is cancelled, or its budget is exhausted.
    #[track_caller]
    pub fn changed(&mut self) -> Result<Arc<T>, RecvError> {
        self.wait_until(|| Deadline::Never)
    }

    /// Like [`changed`](Watcher::changed), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`changed`](Watcher::changed), or the time is up.
    #[track_caller]
    pub fn changed_timeout(&mut self, time: Duration) -> Result<Arc<T>, RecvError> {
        self.wait_until(|| Deadline::after(time))
    }

    /// Like [`changed`](Watcher::changed), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`changed`](Watcher::changed), or the time is up.
    #[track_caller]
    pub fn changed_deadline(&mut self, at: Instant) -> Result<Arc<T>, RecvError> {
        self.wait_until(|| Deadline::at(at))
    }
}

/// A setter that waits until there are no watchers.
struct LastWatcher<'w, T> {
    state: &'w Lock<WatchState<T>>,
    cursor: u64,
}

impl<T> Reader for LastWatcher<'_, T> {
    const NAME: &'static str = "end of the last watcher";

    type State = WatchState<T>;
    type Found = ();
    type Value = ();

    fn parts(&mut self) -> (&Lock<WatchState<T>>, &mut u64) {
        (self.state, &mut self.cursor)
    }

    fn waiters(state: &mut WatchState<T>) -> &mut Queue<Waiter> {
        &mut state.setters_waiting
    }

    fn read(state: &WatchState<T>, _: &mut u64) -> Option<Result<(), Reason>> {
        (state.watchers == 0).then_some(Ok(()))
    }

    fn value((): ()) {}
}

impl<T> Reader for Watcher<T> {
    const NAME: &'static str = "change of a watched value";

    type State = WatchState<T>;
    type Found = Arc<T>;
    type Value = Arc<T>;

    fn parts(&mut self) -> (&Lock<WatchState<T>>, &mut u64) {
        (&self.state, &mut self.seen)
    }

    fn waiters(state: &mut WatchState<T>) -> &mut Queue<Waiter> {
        &mut state.waiters
    }

    fn read(state: &WatchState<T>, seen: &mut u64) -> Option<Result<Arc<T>, Reason>> {
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
        self.state.lock().watchers += 1;
        Watcher { state: Arc::clone(&self.state), seen: self.seen }
    }
}

impl<T> Drop for Watcher<T> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.watchers -= 1;
        if state.watchers == 0 {
            let woken = notify_changed(&mut state.setters_waiting);
            drop(state);
            woken.wake();
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.state.lock().version; // the lock is not held while formatting
        f.debug_struct("Watched").field("version", &version).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}
