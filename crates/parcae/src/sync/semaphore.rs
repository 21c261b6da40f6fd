//! Semaphores: the public form of `permits`.

use super::constructor;
use super::permits::Permits;
use super::primitive;
use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::lab::OpKind;
use crate::sched::worker::{drop_point, point_at};
use crate::scope::cx::Here;
use crate::scope::cx::parking::Deadline;
use crate::wait::{Grant, Waiter, Why};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A counting semaphore.
///
/// First come, first served: a waiter that wants many permits is not overtaken by waiters that want
/// few.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::Semaphore;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let (two, inside, most) = (Semaphore::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
/// let rt = Runtime::builder().workers(2).build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         for _ in 0..10 {
///             n.spawn(|cx| {
///                 let _permit = two.acquire()?;
///                 most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
///                 cx.yield_now()?;
///                 inside.fetch_sub(1, Relaxed);
///                 Ok(())
///             })?;
///         }
///         Ok(())
///     })
/// })?;
/// assert!(most.into_inner() <= 2);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Semaphore {
    permits: Permits<Waiter>,
}

impl Semaphore {
    constructor! {
        /// A semaphore with `permits` free permits.
        pub fn new(permits: usize) -> Semaphore {
            Semaphore { permits: Permits::new(permits) }
        }
    }

    /// Waits for `permits` permits.
    fn take(&self, permits: usize, deadline: impl FnOnce() -> Deadline) -> Result<()> {
        let why = Why::signal("semaphore", &self.permits);
        match primitive::wait(&self.permits, permits, why, deadline)?.in_time()? {
            Grant::Closed => Err(Semaphore::closed()),
            _ => Ok(()),
        }
    }

    /// The error of a closed semaphore. A cancelled task is told that instead, as it is by a closed
    /// channel: usually the task that closed it was cancelled too. Otherwise a later error of the
    /// task may follow from this one.
    #[cold]
    fn closed() -> Error {
        if let Some(frame) = Here::new().frame() {
            if let Err(cancelled) = frame.check_cancelled() {
                return cancelled;
            }
            frame.sees_peer_gone();
        }
        Error::new(ErrorKind::SemaphoreClosed)
    }

    /// Waits for one permit. A checkpoint if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, its budget is exhausted, or the semaphore is
    /// [closed](Semaphore::close).
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit<'_>> {
        self.acquire_many(1)
    }

    /// Waits for several permits at once. If the semaphore never has that many, the call waits
    /// until it is cancelled.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, its budget is exhausted, or the semaphore is
    /// [closed](Semaphore::close).
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>> {
        point_at(OpKind::Acquire, &self.permits);
        self.take(permits, || Deadline::Never)?;
        Ok(Permit { semaphore: self, permits })
    }

    /// Like [`acquire_many`](Semaphore::acquire_many), with a timeout.
    ///
    /// # Errors
    ///
    /// If the timeout expires, or as for [`acquire_many`](Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Result<Permit<'_>> {
        point_at(OpKind::Acquire, &self.permits);
        self.take(permits, || Deadline::after(time))?;
        Ok(Permit { semaphore: self, permits })
    }

    /// Like [`acquire_many`](Semaphore::acquire_many), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`acquire_many`](Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_deadline(&self, permits: usize, at: Instant) -> Result<Permit<'_>> {
        point_at(OpKind::Acquire, &self.permits);
        self.take(permits, || Deadline::at(at))?;
        Ok(Permit { semaphore: self, permits })
    }

    /// Takes permits if they are free, no waiter is queued, and the semaphore is open. Not a
    /// checkpoint: a polling loop needs one of its own.
    #[track_caller]
    pub fn try_acquire(&self, permits: usize) -> Option<Permit<'_>> {
        point_at(OpKind::Acquire, &self.permits);
        self.permits.try_take(permits).then(|| Permit { semaphore: self, permits })
    }

    /// Like [`acquire_many`](Semaphore::acquire_many). The permits keep the semaphore alive and may
    /// be moved to a task that outlives the caller.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, its budget is exhausted, or the semaphore is
    /// [closed](Semaphore::close).
    #[track_caller]
    pub fn acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Result<OwnedPermit> {
        point_at(OpKind::Acquire, &self.permits);
        self.take(permits, || Deadline::Never)?;
        Ok(OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// Like [`try_acquire`](Semaphore::try_acquire), with owned permits.
    #[track_caller]
    pub fn try_acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Option<OwnedPermit> {
        point_at(OpKind::Acquire, &self.permits);
        let taken = self.permits.try_take(permits);
        taken.then(|| OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// Closes the semaphore for good. All present and future waiters fail with
    /// [`ErrorKind::SemaphoreClosed`]. Permits that were acquired before remain valid. Not a
    /// checkpoint.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::sync::Semaphore;
    ///
    /// let slots = Semaphore::new(1);
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     let permit = slots.acquire()?;
    ///     cx.nursery(|n| {
    ///         let waiter = n.spawn(|_| Ok(slots.acquire().unwrap_err()))?;
    ///         slots.close();
    ///         assert!(matches!(waiter.join()?.kind(), ErrorKind::SemaphoreClosed));
    ///         Ok(())
    ///     })?;
    ///     drop(permit);
    ///     assert!(slots.is_closed() && slots.try_acquire(1).is_none());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[track_caller]
    pub fn close(&self) {
        point_at(OpKind::Close, &self.permits);
        self.permits.close();
    }

    /// Whether the semaphore was closed.
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Number of permits that are free at this moment. Not a checkpoint: a polling loop needs one
    /// of its own.
    pub fn available(&self) -> usize {
        self.permits.free()
    }

    /// Adds permits.
    ///
    /// # Panics
    ///
    /// If the number of permits overflows `usize`.
    #[track_caller]
    pub fn add(&self, permits: usize) {
        point_at(OpKind::Release, &self.permits);
        self.permits.give(permits);
    }

    /// Removes up to `permits` free permits for good. Returns the number removed.
    #[track_caller]
    pub fn forget(&self, permits: usize) -> usize {
        point_at(OpKind::Acquire, &self.permits);
        self.permits.forget(permits)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}

/// Permits of a [`Semaphore`]. Dropping the value releases them.
#[must_use = "dropping it releases the permits"]
#[derive(Debug)]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    permits: usize,
}

impl<'s> Permit<'s> {
    /// Splits off `permits` permits. `None` if this value has fewer.
    ///
    /// ```
    /// use parcae::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(5);
    /// let mut five = semaphore.acquire_many(5)?;
    /// let two = five.split(2).unwrap();
    /// assert!(five.split(4).is_none()); // it has three
    /// drop(two);
    /// assert_eq!((semaphore.available(), five.permits()), (2, 3));
    /// five.merge(semaphore.acquire()?);
    /// assert_eq!((semaphore.available(), five.permits()), (1, 4));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn split(&mut self, permits: usize) -> Option<Permit<'s>> {
        self.permits = self.permits.checked_sub(permits)?;
        Some(Permit { semaphore: self.semaphore, permits })
    }

    /// Adds the permits of `other` to this value.
    ///
    /// # Panics
    ///
    /// If `other` belongs to a different semaphore.
    pub fn merge(&mut self, mut other: Permit<'s>) {
        assert!(
            std::ptr::eq(self.semaphore, other.semaphore),
            "permits of another semaphore cannot be merged"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Number of permits.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Consumes the permits for good: they are not released.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        drop_point(OpKind::Release, &self.semaphore.permits);
        self.semaphore.permits.give(self.permits);
    }
}

/// Permits that keep their [`Semaphore`] alive. Dropping the value releases them.
#[must_use = "dropping it releases the permits"]
#[derive(Debug)]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedPermit {
    /// Splits off `permits` permits. `None` if this value has fewer.
    pub fn split(&mut self, permits: usize) -> Option<OwnedPermit> {
        self.permits = self.permits.checked_sub(permits)?;
        Some(OwnedPermit { semaphore: Arc::clone(&self.semaphore), permits })
    }

    /// Adds the permits of `other` to this value.
    ///
    /// # Panics
    ///
    /// If `other` belongs to a different semaphore.
    pub fn merge(&mut self, mut other: OwnedPermit) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "permits of another semaphore cannot be merged"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Number of permits.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Consumes the permits for good: they are not released.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        drop_point(OpKind::Release, &self.semaphore.permits);
        self.semaphore.permits.give(self.permits);
    }
}
