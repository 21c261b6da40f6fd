//! The mutex and its guard. `raw` has the lock itself.

use super::primitive::{wait_deadline, wait_forever, wait_timeout};
use super::raw::RawMutex;
use super::{MappedMutexGuard, constructor};
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker::{drop_point, point_at};
use crate::wait::{Holder, Waiter, Why};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// A mutual-exclusion lock that protects data.
///
/// Without contention, locking and unlocking are one atomic operation each. Under contention a
/// running task may take the lock before a queued waiter, which saves switches; a waiter that has
/// failed four times gets the lock handed over. See [the module](super) for cancellation, panics
/// (there is no poisoning) and priorities.
///
/// The guard may be kept across waits and sent to another thread. Locking a mutex that the task
/// already holds deadlocks until the task is cancelled.
///
/// ```
/// use parcae::sync::Mutex;
///
/// static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
///
/// NAMES.lock()?.push("Clotho".into()); // a thread: blocks
/// assert!(NAMES.try_lock().is_some());
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex<Waiter>,
    holder: Holder,
    data: UnsafeCell<T>,
}

// SAFETY: the lock admits one holder at a time, so sharing the mutex only sends `T`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: owns a `T`. No waiter is queued while the mutex moves, since a waiter borrows it.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    constructor! {
        /// An unlocked mutex.
        pub fn new(data: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(), holder: Holder::nobody(), data: UnsafeCell::new(data) }
        }
    }

    /// Consumes the mutex and returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex; waits until it is free. A checkpoint if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        point_at(OpKind::Lock, &self.raw);
        if !self.raw.try_lock_first() {
            wait_forever(&self.raw, 0, Why::Lock("mutex", &self.holder))?;
        }
        Ok(self.guard())
    }

    /// Locks the mutex if it is free. Not a checkpoint: a polling loop needs one of its own.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point_at(OpKind::Lock, &self.raw);
        self.raw.try_lock_only().then(|| self.guard())
    }

    /// Like [`lock`](Mutex::lock), with a timeout.
    ///
    /// ```
    /// use parcae::sync::Mutex;
    /// use std::time::Duration;
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.lock()?;
    /// assert!(mutex.lock_timeout(Duration::from_millis(1)).unwrap_err().is_timed_out());
    /// drop(guard);
    /// assert_eq!(*mutex.lock_timeout(Duration::from_millis(1))?, 1);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the timeout expires, the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn lock_timeout(&self, time: Duration) -> Result<MutexGuard<'_, T>> {
        point_at(OpKind::Lock, &self.raw);
        if !self.raw.try_lock_first() {
            wait_timeout(&self.raw, 0, Why::Lock("mutex", &self.holder), time)?;
        }
        Ok(self.guard())
    }

    /// Like [`lock`](Mutex::lock), with a deadline on the clock of [`time::now`](crate::time::now).
    ///
    /// ```
    /// use parcae::sync::Mutex;
    /// use parcae::time;
    ///
    /// let (a, b) = (Mutex::new(1), Mutex::new(2));
    /// let until = time::now() + std::time::Duration::from_millis(5); // one deadline for both
    /// assert_eq!(*a.lock_deadline(until)? + *b.lock_deadline(until)?, 3);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`lock`](Mutex::lock).
    #[track_caller]
    pub fn lock_deadline(&self, at: Instant) -> Result<MutexGuard<'_, T>> {
        point_at(OpKind::Lock, &self.raw);
        if !self.raw.try_lock_first() {
            wait_deadline(&self.raw, 0, Why::Lock("mutex", &self.holder), at)?;
        }
        Ok(self.guard())
    }

    /// The guard of a caller that has just taken the lock.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        self.holder.take();
        MutexGuard { mutex: self }
    }

    /// Whether the mutex is locked at this moment. Not a checkpoint: a polling loop needs one of
    /// its own.
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// The data, without locking: the exclusive borrow proves that the mutex is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(data: T) -> Mutex<T> {
        Mutex::new(data)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(data) => f.debug_struct("Mutex").field("data", &&*data).finish(),
            None => f.debug_struct("Mutex").field("data", &format_args!("<locked>")).finish(),
        }
    }
}

/// Access to the data of a [`Mutex`]. Dropping the guard unlocks.
#[must_use = "dropping it unlocks"]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
}

// SAFETY: equivalent to `&T`. `Send` follows from `Sync` of the mutex: any thread may unlock, and
// the guard gives access to `&mut T`, which is why the mutex requires `T: Send`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    pub(super) fn mutex(&self) -> &'m Mutex<T> {
        self.mutex
    }

    /// Narrows the guard to a part of the data. The whole mutex stays locked until the new guard is
    /// dropped.
    ///
    /// An associated function, not a method, so that it hides no method of the data.
    ///
    /// ```
    /// use parcae::sync::{Mutex, MutexGuard};
    ///
    /// let names = Mutex::new(("Clotho", String::from("Lachesis")));
    /// let mut second = MutexGuard::map(names.lock()?, |names| &mut names.1);
    /// second.push('!');
    /// assert!(names.is_locked());
    /// drop(second);
    /// assert_eq!(names.lock()?.1, "Lachesis!");
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn map<U: ?Sized>(
        mut guard: MutexGuard<'m, T>,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedMutexGuard<'m, U> {
        let part = std::ptr::NonNull::from(part(&mut guard));
        // SAFETY: a part of the data, whose lock passes to the new guard.
        unsafe { MappedMutexGuard::new(guard.hand_over(), part) }
    }

    /// Like [`map`](MutexGuard::map), for a part that may not exist.
    ///
    /// # Errors
    ///
    /// The unchanged guard, if `part` returns `None`.
    pub fn filter_map<U: ?Sized>(
        mut guard: MutexGuard<'m, T>,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'m, U>, MutexGuard<'m, T>> {
        match part(&mut guard).map(std::ptr::NonNull::from) {
            // SAFETY: as above.
            Some(part) => Ok(unsafe { MappedMutexGuard::new(guard.hand_over(), part) }),
            None => Err(guard),
        }
    }

    /// The lock without the data.
    fn hand_over(self) -> Held<'m> {
        let mutex = ManuallyDrop::new(self).mutex;
        Held { raw: &mutex.raw, holder: &mutex.holder }
    }
}

/// A locked mutex without its data. Dropping it unlocks.
pub(super) struct Held<'m> {
    raw: &'m RawMutex<Waiter>,
    holder: &'m Holder,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, self.raw);
        self.holder.leave();
        self.raw.unlock();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, &self.mutex.raw);
        self.mutex.holder.leave();
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
