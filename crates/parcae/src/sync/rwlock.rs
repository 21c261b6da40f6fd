//! Read-write locks.
//!
//! A reader takes one permit, a writer all of them. The line is strict, so readers that come after a writer
//! wait behind it: neither side starves the other.

use super::permits::Permits;
use super::{attend_for, attend_forever, constructor};
use crate::error::Result;
use crate::wait::{Holder, Waiter, Why};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// How many readers there can be at once. More wait.
const ALL: usize = u32::MAX as usize;

/// Data that many can read or one can change.
///
/// First come, first served: a reader that comes after a waiting writer waits behind it. So a
/// task that reads must not read again before it has given the first guard back: a writer may stand
/// between the two.
///
/// ```
/// use parcae::sync::RwLock;
///
/// let prices = RwLock::new(vec![3, 4]);
/// {
///     let (one, other) = (prices.read()?, prices.read()?);
///     assert_eq!(one[0] + other[1], 7);
///     assert!(prices.try_write().is_none());
/// }
/// prices.write()?.push(5);
/// assert_eq!(prices.into_inner(), [3, 4, 5]);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct RwLock<T: ?Sized> {
    permits: Permits<Waiter>,
    writer: Holder,
    data: UnsafeCell<T>,
}

// SAFETY: readers share `T`, and a writer may take it out: both bounds.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: owns a `T`; nobody is in line while it moves, for that borrows it.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    constructor! {
        /// A lock that nobody has.
        pub fn new(data: T) -> RwLock<T> {
            RwLock { permits: Permits::new(ALL), writer: Holder::nobody(), data: UnsafeCell::new(data) }
        }
    }

    /// The data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the data can be read. A cancel point if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    pub fn read(&self) -> Result<ReadGuard<'_, T>> {
        attend_forever(&self.permits, 1, self.why("read lock"))?;
        Ok(ReadGuard { lock: self })
    }

    /// As [`read`](RwLock::read), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited.
    pub fn read_timeout(&self, time: Duration) -> Result<ReadGuard<'_, T>> {
        attend_for(&self.permits, 1, self.why("read lock"), time)?;
        Ok(ReadGuard { lock: self })
    }

    /// The data for reading, if nobody changes it nor waits for that.
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.permits.try_take(1).then(|| ReadGuard { lock: self })
    }

    /// Waits until the data can be changed. A cancel point if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    pub fn write(&self) -> Result<WriteGuard<'_, T>> {
        attend_forever(&self.permits, ALL, self.why("write lock"))?;
        Ok(self.write_guard())
    }

    /// As [`write`](RwLock::write), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited.
    pub fn write_timeout(&self, time: Duration) -> Result<WriteGuard<'_, T>> {
        attend_for(&self.permits, ALL, self.why("write lock"), time)?;
        Ok(self.write_guard())
    }

    /// The data for changing, if nobody has it.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.permits.try_take(ALL).then(|| self.write_guard())
    }

    fn write_guard(&self) -> WriteGuard<'_, T> {
        self.writer.take();
        WriteGuard { lock: self }
    }

    /// Readers are not known by name: it is the writer that is waited for, or anybody.
    fn why(&self, what: &'static str) -> Why<'_> {
        Why::Lock(what, &self.writer)
    }

    /// The data, for who has the lock to itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(data) => f.debug_struct("RwLock").field("data", &&*data).finish(),
            None => f.debug_struct("RwLock").field("data", &format_args!("<locked>")).finish(),
        }
    }
}

/// The data of a [`RwLock`], for reading.
#[must_use = "dropping it unlocks"]
pub struct ReadGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
}

/// The data of a [`RwLock`], for changing.
#[must_use = "dropping it unlocks"]
pub struct WriteGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
}

// SAFETY: as good as `&T`. `Send` follows from `Sync` of the lock.
unsafe impl<T: ?Sized + Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: as above: shared, it only reads.
unsafe impl<T: ?Sized + Sync> Sync for WriteGuard<'_, T> {}

impl<'l, T: ?Sized> WriteGuard<'l, T> {
    /// Goes on reading, without letting a writer in between.
    pub fn downgrade(self) -> ReadGuard<'l, T> {
        let this = ManuallyDrop::new(self);
        this.lock.writer.leave();
        this.lock.permits.give(ALL - 1);
        ReadGuard { lock: this.lock }
    }
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds a permit, so there is no writer.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds all permits.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds all permits, and is borrowed alone.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.permits.give(1);
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.writer.leave();
        self.lock.permits.give(ALL);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
