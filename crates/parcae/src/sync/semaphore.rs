//! Semaphores.

use super::constructor;
use super::permits::Permits;
use super::primitive;
use crate::base::error::{Error, ErrorKind, Result};
use crate::scope::cx::parking::Deadline;
use crate::wait::{Grant, Waiter, Why};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A number of permits, which are taken and come back.
///
/// First come, first served: who waits for many permits is not overtaken by who wants few.
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
        /// A semaphore with so many permits.
        pub fn new(permits: usize) -> Semaphore {
            Semaphore { permits: Permits::new(permits) }
        }
    }

    /// Waits for so many permits.
    fn take(&self, permits: usize, deadline: impl FnOnce() -> Deadline) -> Result<()> {
        let why = Why::signal("semaphore", &self.permits);
        match primitive::wait(&self.permits, permits, why, deadline)?.in_time()? {
            Grant::Closed => Err(Error::new(ErrorKind::SemaphoreClosed)),
            _ => Ok(()),
        }
    }

    /// Waits for a permit. A checkpoint if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, has no budget left for the wait, or the semaphore
    /// is [closed](Semaphore::close).
    pub fn acquire(&self) -> Result<Permit<'_>> {
        self.acquire_many(1)
    }

    /// Waits for so many permits at once. If that is more than there ever are, it waits until it is
    /// cancelled.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, has no budget left for the wait, or the semaphore
    /// is [closed](Semaphore::close).
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>> {
        self.take(permits, || Deadline::Never)?;
        Ok(Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or as for [`acquire_many`](Semaphore::acquire_many).
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Result<Permit<'_>> {
        self.take(permits, || Deadline::after(time))?;
        Ok(Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), until a point in time by the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If that time has come, or as for [`acquire_many`](Semaphore::acquire_many).
    pub fn acquire_deadline(&self, permits: usize, at: Instant) -> Result<Permit<'_>> {
        self.take(permits, || Deadline::at(at))?;
        Ok(Permit { semaphore: self, permits })
    }

    /// So many permits, if they are free, nobody waits, and the semaphore is not closed. Not a
    /// checkpoint: a loop around it needs one.
    pub fn try_acquire(&self, permits: usize) -> Option<Permit<'_>> {
        self.permits.try_take(permits).then(|| Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many); the permits keep the semaphore alive, and can
    /// be given to a task that outlives the caller.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, has no budget left for the wait, or the semaphore
    /// is [closed](Semaphore::close).
    pub fn acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Result<OwnedPermit> {
        self.take(permits, || Deadline::Never)?;
        Ok(OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// As [`try_acquire`](Semaphore::try_acquire), with owned permits.
    pub fn try_acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Option<OwnedPermit> {
        let taken = self.permits.try_take(permits);
        taken.then(|| OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// Closes it: from now on no permits are given out. All who wait get an error, and so does
    /// everybody who comes, whose kind is [`ErrorKind::SemaphoreClosed`]. Permits that were given
    /// out stay good. It cannot be opened again. Not a checkpoint.
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
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// How many permits are free, at this moment. Not a checkpoint: a loop around it needs one.
    pub fn available(&self) -> usize {
        self.permits.free()
    }

    /// Adds permits.
    ///
    /// # Panics
    ///
    /// If there are more than fit a word.
    pub fn add(&self, permits: usize) {
        self.permits.give(permits);
    }

    /// Takes free permits out for good, at most so many; returns how many that were.
    pub fn forget(&self, permits: usize) -> usize {
        self.permits.forget(permits)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}

/// Permits of a [`Semaphore`]. Dropping them gives them back.
#[must_use = "dropping it gives the permits back"]
#[derive(Debug)]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    permits: usize,
}

impl<'s> Permit<'s> {
    /// Takes so many of them out, as permits of their own; none if there are not as many.
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

    /// Adds those of another one.
    ///
    /// # Panics
    ///
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: Permit<'s>) {
        assert!(
            std::ptr::eq(self.semaphore, other.semaphore),
            "permits of another semaphore cannot be merged"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// How many.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Does not give them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.permits.give(self.permits);
    }
}

/// Permits that keep their [`Semaphore`] alive. Dropping them gives them back.
#[must_use = "dropping it gives the permits back"]
#[derive(Debug)]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedPermit {
    /// Takes so many of them out, as permits of their own; none if there are not as many.
    pub fn split(&mut self, permits: usize) -> Option<OwnedPermit> {
        self.permits = self.permits.checked_sub(permits)?;
        Some(OwnedPermit { semaphore: Arc::clone(&self.semaphore), permits })
    }

    /// Adds those of another one.
    ///
    /// # Panics
    ///
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: OwnedPermit) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "permits of another semaphore cannot be merged"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// How many.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Does not give them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.semaphore.permits.give(self.permits);
    }
}
