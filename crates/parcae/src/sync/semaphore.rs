//! Semaphores.

use super::permits::Permits;
use super::{attend_for, attend_forever, constructor};
use crate::error::Result;
use crate::wait::{Waiter, Why};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

    /// Waits for a permit. A cancel point if it has to wait.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    pub fn acquire(&self) -> Result<Permit<'_>> {
        self.acquire_many(1)
    }

    /// Waits for so many permits at once. If that is more than there ever are, it waits until it is cancelled.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>> {
        attend_forever(&self.permits, permits, Why::signal("semaphore", &self.permits))?;
        Ok(Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for no longer than this.
    ///
    /// # Errors
    ///
    /// If the time is over, or the task was cancelled while it waited.
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Result<Permit<'_>> {
        attend_for(&self.permits, permits, Why::signal("semaphore", &self.permits), time)?;
        Ok(Permit { semaphore: self, permits })
    }

    /// So many permits, if they are free and nobody waits.
    pub fn try_acquire(&self, permits: usize) -> Option<Permit<'_>> {
        self.permits.try_take(permits).then(|| Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many); the permits keep the semaphore alive, and can be given to a
    /// task that outlives the caller.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited.
    pub fn acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Result<OwnedPermit> {
        attend_forever(&self.permits, permits, Why::signal("semaphore", &self.permits))?;
        Ok(OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// As [`try_acquire`](Semaphore::try_acquire), with owned permits.
    pub fn try_acquire_owned(self: &Arc<Semaphore>, permits: usize) -> Option<OwnedPermit> {
        let taken = self.permits.try_take(permits);
        taken.then(|| OwnedPermit { semaphore: Arc::clone(self), permits })
    }

    /// How many permits are free, at this moment.
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

impl Permit<'_> {
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
