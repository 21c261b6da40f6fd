//! The mutex with its data.

use super::raw::RawMutex;
use super::{attend_for, attend_forever, constructor};
use crate::error::Result;
use crate::wait::{Holder, Waiter, Why};
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Data that one task or thread at a time can use.
///
/// Taking and giving back a free lock is an atomic operation each. While the lock is wanted by
/// several, whoever runs may take it before those who wait, which spares switches; one who has come in vain
/// four times gets it handed over. See [the module](super) for cancelling, panics (nothing is poisoned) and
/// priorities.
///
/// The guard may be kept across waits, and may go to another thread. A task that locks what it has locked
/// waits for itself, until it is cancelled.
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

// SAFETY: the lock gives the data to one at a time, so that sharing the mutex only sends `T`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: owns a `T`; nobody is in line while it moves, for that borrows it.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    constructor! {
        /// A mutex that is not locked.
        pub fn new(data: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(), holder: Holder::nobody(), data: UnsafeCell::new(data) }
        }
    }

    /// The data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the data is free, and takes it. A cancel point if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        if !self.raw.try_lock() {
            attend_forever(&self.raw, 0, Why::Lock("mutex", &self.holder))?;
        }
        Ok(self.guard())
    }

    /// Takes the data if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_lock().then(|| self.guard())
    }

    /// As [`lock`](Mutex::lock), for no longer than this.
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
    /// If the time is over, or the task was cancelled while it waited.
    pub fn lock_timeout(&self, time: Duration) -> Result<MutexGuard<'_, T>> {
        if !self.raw.try_lock() {
            attend_for(&self.raw, 0, Why::Lock("mutex", &self.holder), time)?;
        }
        Ok(self.guard())
    }

    /// Of who has just taken the lock.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        self.holder.take();
        MutexGuard { mutex: self }
    }

    /// Whether somebody has it, at this moment.
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// The data, for who has the mutex to itself.
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

/// The data of a [`Mutex`]. Dropping it unlocks.
#[must_use = "dropping it unlocks"]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
}

// SAFETY: as good as `&T`. `Send` follows from that of the mutex: a lock has no thread of its own, and the
// guard gives access to `&mut T`, which is why the mutex asks for `T: Send`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    pub(super) fn mutex(&self) -> &'m Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the lock.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.holder.leave();
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
