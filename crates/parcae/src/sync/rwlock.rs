//! Read-write locks.
//!
//! A reader takes one permit, a writer all of them. The queue of `permits` is strictly first come,
//! first served, so readers that come after a writer wait behind it: neither side starves the
//! other.

use super::permits::Permits;
use super::primitive::{wait_deadline, wait_forever, wait_timeout};
use super::{MappedReadGuard, MappedWriteGuard, constructor};
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker::{drop_point, point_at};
use crate::wait::{Holder, Waiter, Why};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Default for the number of concurrent readers. Further readers wait.
const ALL: usize = u32::MAX as usize;

/// A lock for many readers or one writer.
///
/// First come, first served: a reader that comes after a waiting writer waits behind it. So a task
/// that holds a read guard must not call [`read`](RwLock::read) again: a writer queued between the
/// two calls would deadlock with it.
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
    /// Number of permits, which is the largest number of concurrent readers.
    all: usize,
    writer: Holder,
    data: UnsafeCell<T>,
}

// SAFETY: readers share `T`, and a writer may move it out: both bounds.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: owns a `T`. No waiter is queued while the lock moves, since a waiter borrows it.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    constructor! {
        /// An unlocked lock.
        pub fn new(data: T) -> RwLock<T> {
            RwLock::with_max_readers(data, ALL)
        }
    }

    constructor! {
        /// An unlocked lock for at most `readers` concurrent readers, at least one. Further readers
        /// wait.
        ///
        /// ```
        /// use parcae::sync::RwLock;
        ///
        /// let table = RwLock::with_max_readers([1, 2, 3], 2);
        /// let (one, two) = (table.read()?, table.read()?);
        /// assert!(table.try_read().is_none()); // a third reader would wait
        /// drop((one, two));
        /// assert!(table.try_write().is_some());
        /// # Ok::<(), parcae::Error>(())
        /// ```
        pub fn with_max_readers(data: T, readers: usize) -> RwLock<T> {
            let all = if readers == 0 { 1 } else { readers };
            RwLock { permits: Permits::new(all), all, writer: Holder::nobody(), data: UnsafeCell::new(data) }
        }
    }

    /// Consumes the lock and returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading; waits while a writer holds the lock or is queued. A checkpoint if it has
    /// to wait.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_, T>> {
        point_at(OpKind::Read, &self.permits);
        wait_forever(&self.permits, 1, self.why("read lock"))?;
        Ok(ReadGuard { lock: self })
    }

    /// Like [`read`](RwLock::read), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires, the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn read_timeout(&self, time: Duration) -> Result<ReadGuard<'_, T>> {
        point_at(OpKind::Read, &self.permits);
        wait_timeout(&self.permits, 1, self.why("read lock"), time)?;
        Ok(ReadGuard { lock: self })
    }

    /// Like [`read`](RwLock::read), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`read`](RwLock::read).
    #[track_caller]
    pub fn read_deadline(&self, at: Instant) -> Result<ReadGuard<'_, T>> {
        point_at(OpKind::Read, &self.permits);
        wait_deadline(&self.permits, 1, self.why("read lock"), at)?;
        Ok(ReadGuard { lock: self })
    }

    /// Locks for reading if no writer holds the lock and no waiter is queued. Not a checkpoint: a
    /// polling loop needs one of its own.
    #[track_caller]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        point_at(OpKind::Read, &self.permits);
        self.permits.try_take(1).then(|| ReadGuard { lock: self })
    }

    /// Locks for writing; waits until the lock is free. A checkpoint if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn write(&self) -> Result<WriteGuard<'_, T>> {
        point_at(OpKind::Lock, &self.permits);
        wait_forever(&self.permits, self.all, self.why("write lock"))?;
        Ok(self.write_guard())
    }

    /// Like [`write`](RwLock::write), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires, the task is cancelled while it waits, or its budget is exhausted.
    #[track_caller]
    pub fn write_timeout(&self, time: Duration) -> Result<WriteGuard<'_, T>> {
        point_at(OpKind::Lock, &self.permits);
        wait_timeout(&self.permits, self.all, self.why("write lock"), time)?;
        Ok(self.write_guard())
    }

    /// Like [`write`](RwLock::write), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`write`](RwLock::write).
    #[track_caller]
    pub fn write_deadline(&self, at: Instant) -> Result<WriteGuard<'_, T>> {
        point_at(OpKind::Lock, &self.permits);
        wait_deadline(&self.permits, self.all, self.why("write lock"), at)?;
        Ok(self.write_guard())
    }

    /// Locks for writing if the lock is free. Not a checkpoint: a polling loop needs one of its
    /// own.
    #[track_caller]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        point_at(OpKind::Lock, &self.permits);
        self.permits.try_take(self.all).then(|| self.write_guard())
    }

    fn write_guard(&self) -> WriteGuard<'_, T> {
        self.writer.take();
        WriteGuard { lock: self }
    }

    /// Only a writer is known by name: if readers hold the lock, the report names no holder.
    fn why(&self, what: &'static str) -> Why<'_> {
        Why::Lock(what, &self.writer)
    }

    /// The data, without locking: the exclusive borrow proves that the lock is free.
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

/// Shared access to the data of a [`RwLock`]. Dropping the guard unlocks.
#[must_use = "dropping it unlocks"]
pub struct ReadGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
}

/// Exclusive access to the data of a [`RwLock`]. Dropping the guard unlocks.
#[must_use = "dropping it unlocks"]
pub struct WriteGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
}

// SAFETY: equivalent to `&T`. `Send` follows from `Sync` of the lock.
unsafe impl<T: ?Sized + Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: as above: a shared guard only reads.
unsafe impl<T: ?Sized + Sync> Sync for WriteGuard<'_, T> {}

impl<'l, T: ?Sized> ReadGuard<'l, T> {
    /// Narrows the guard to a part of the data. The whole lock stays held until the new guard is
    /// dropped.
    ///
    /// ```
    /// use parcae::sync::{ReadGuard, RwLock};
    ///
    /// let prices = RwLock::new(vec![3, 4]);
    /// let last = ReadGuard::filter_map(prices.read()?, |prices| prices.last()).unwrap();
    /// assert_eq!(*last, 4);
    /// assert!(prices.try_write().is_none());
    /// # drop(last);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn map<U: ?Sized>(
        guard: ReadGuard<'l, T>,
        part: impl FnOnce(&T) -> &U,
    ) -> MappedReadGuard<'l, U> {
        let part = NonNull::from(part(&guard));
        // SAFETY: a part of the data, whose lock passes to the new guard.
        unsafe { MappedReadGuard::new(guard.hand_over(), part) }
    }

    /// Like [`map`](ReadGuard::map), for a part that may not exist.
    ///
    /// # Errors
    ///
    /// The unchanged guard, if `part` returns `None`.
    pub fn filter_map<U: ?Sized>(
        guard: ReadGuard<'l, T>,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<MappedReadGuard<'l, U>, ReadGuard<'l, T>> {
        match part(&guard).map(NonNull::from) {
            // SAFETY: as above.
            Some(part) => Ok(unsafe { MappedReadGuard::new(guard.hand_over(), part) }),
            None => Err(guard),
        }
    }

    /// The lock without the data.
    fn hand_over(self) -> SharedHold<'l> {
        SharedHold(&ManuallyDrop::new(self).lock.permits)
    }
}

impl<'l, T: ?Sized> WriteGuard<'l, T> {
    /// Narrows the guard to a part of the data. The whole lock stays held until the new guard is
    /// dropped.
    ///
    /// ```
    /// use parcae::sync::{RwLock, WriteGuard};
    ///
    /// let prices = RwLock::new(vec![3, 4]);
    /// *WriteGuard::map(prices.write()?, |prices| &mut prices[0]) += 1;
    /// assert_eq!(prices.into_inner(), [4, 4]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn map<U: ?Sized>(
        mut guard: WriteGuard<'l, T>,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedWriteGuard<'l, U> {
        let part = NonNull::from(part(&mut guard));
        // SAFETY: a part of the data, whose lock passes to the new guard.
        unsafe { MappedWriteGuard::new(guard.hand_over(), part) }
    }

    /// Like [`map`](WriteGuard::map), for a part that may not exist.
    ///
    /// # Errors
    ///
    /// The unchanged guard, if `part` returns `None`.
    pub fn filter_map<U: ?Sized>(
        mut guard: WriteGuard<'l, T>,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedWriteGuard<'l, U>, WriteGuard<'l, T>> {
        match part(&mut guard).map(NonNull::from) {
            // SAFETY: as above.
            Some(part) => Ok(unsafe { MappedWriteGuard::new(guard.hand_over(), part) }),
            None => Err(guard),
        }
    }

    /// The lock without the data.
    fn hand_over(self) -> ExclusiveHold<'l> {
        let lock = ManuallyDrop::new(self).lock;
        ExclusiveHold { permits: &lock.permits, all: lock.all, writer: &lock.writer }
    }

    /// Turns the write lock into a read lock. No writer gets in between.
    pub fn downgrade(self) -> ReadGuard<'l, T> {
        let this = ManuallyDrop::new(self);
        this.lock.writer.leave();
        this.lock.permits.give(this.lock.all - 1);
        ReadGuard { lock: this.lock }
    }
}

/// A lock held for reading, without its data. Dropping it unlocks.
pub(super) struct SharedHold<'l>(&'l Permits<Waiter>);

impl Drop for SharedHold<'_> {
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, self.0);
        self.0.give(1);
    }
}

/// A lock held for writing, without its data. Dropping it unlocks.
pub(super) struct ExclusiveHold<'l> {
    permits: &'l Permits<Waiter>,
    all: usize,
    writer: &'l Holder,
}

impl Drop for ExclusiveHold<'_> {
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, self.permits);
        self.writer.leave();
        self.permits.give(self.all);
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
        // SAFETY: the guard holds all permits, and is borrowed exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, &self.lock.permits);
        self.lock.permits.give(1);
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        drop_point(OpKind::Unlock, &self.lock.permits);
        self.lock.writer.leave();
        self.lock.permits.give(self.lock.all);
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
