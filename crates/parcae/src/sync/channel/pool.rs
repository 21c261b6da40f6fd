//! A pool of items that are costly to make.
//!
//! At most `capacity` *permits* circulate in a channel. The holder of a permit takes an idle item,
//! or makes one if none is idle. It returns the item first and the permit afterwards. So
//!
//! ```text
//! idle items ≤ permits in the channel        items in all ≤ capacity
//! ```
//!
//! and waiting, order, timeouts and cancellation are those of the channel. Making, resetting and
//! dropping run outside of all locks. Whatever they do, the permit is returned.

use super::error::RecvError;
use super::handles::drop_all;
use super::state::{ChannelCore, Put};
use super::{Receiver, Sender, channel};
use crate::base::error::{Error, Result};
use crate::base::lock::{Guard, Lock};
use crate::wait::Wake;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::time::Duration;

/// A pool of items, which are made on first use and lent to one borrower at a time.
///
/// ```
/// use parcae::channel::Pool;
///
/// let buffers = Pool::new(2, || Ok(Vec::with_capacity(4096))).reset(|buffer: &mut Vec<u8>| {
///     buffer.clear();
///     buffer.capacity() <= 65_536 // others are not kept
/// });
/// let mut buffer = buffers.borrow()?;
/// buffer.extend_from_slice(b"scratch");
/// drop(buffer); // returns it to the pool
/// assert!(buffers.borrow()?.is_empty());
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Items that are not kept are dropped, and so are idle items when the pool is closed or dropped.
pub struct Pool<T> {
    permits: (Sender<()>, Receiver<()>),
    idle: IdleItems<T>,
    make: Box<dyn Fn() -> Result<T> + Send + Sync>,
    reset: Box<Reset<T>>,
}

/// The items that are not lent. The last one returned is at the back, and is the first to be lent.
pub(super) struct IdleItems<T>(Lock<VecDeque<T>>);

impl<T> IdleItems<T> {
    pub(super) fn new() -> IdleItems<T> {
        IdleItems(Lock::new(VecDeque::new()))
    }

    fn lock(&self) -> Guard<'_, VecDeque<T>> {
        self.0.lock()
    }

    /// An idle item, for the holder of a permit. `None` if one has to be made.
    pub(super) fn take(&self) -> Option<T> {
        self.lock().pop_back()
    }

    /// Returns an item, if there is one, and then its permit: the next holder of the permit finds
    /// the item. The result is to be dropped by the caller.
    #[must_use = "it is dropped outside of all locks"]
    pub(super) fn give_back<W: Wake>(
        &self,
        item: Option<T>,
        permits: &ChannelCore<(), W>,
    ) -> VecDeque<T> {
        if let Some(item) = item {
            self.lock().push_back(item);
        }
        // Neither a cancel point nor charged, since it must not fail. SAFETY: a permit has size
        // zero, so any aligned address will do.
        match unsafe { permits.try_send(NonNull::dangling()) } {
            Put::Done(wakes) => {
                wakes.wake();
                VecDeque::new()
            }
            _ => self.empty(permits), // closed meanwhile: no later borrower
        }
    }

    /// Takes out the items that cannot be borrowed any more, once the permits are closed.
    #[must_use = "it is dropped outside of all locks"]
    pub(super) fn empty<W>(&self, permits: &ChannelCore<(), W>) -> VecDeque<T> {
        drop(permits.drain());
        std::mem::take(&mut *self.lock())
    }
}

/// Prepares an item for the next borrower. Returns false if it is not to be kept.
type Reset<T> = dyn Fn(&mut T) -> bool + Send + Sync;

impl<T> Pool<T> {
    /// A pool of up to `capacity` items, at least one, with a function that makes them.
    pub fn new(capacity: usize, make: impl Fn() -> Result<T> + Send + Sync + 'static) -> Pool<T> {
        let permits = channel(capacity.max(1));
        // Not by `send`, so that no task is charged, and in one step for any capacity.
        permits.0.shared().core.fill(capacity.max(1));
        Pool { permits, idle: IdleItems::new(), make: Box::new(make), reset: Box::new(|_| true) }
    }

    /// Sets a function that prepares a returned item for the next borrower. If it returns false,
    /// the item is dropped.
    #[must_use = "it returns the changed pool"]
    pub fn reset(mut self, reset: impl Fn(&mut T) -> bool + Send + Sync + 'static) -> Pool<T> {
        self.reset = Box::new(reset);
        self
    }

    /// Borrows an item. Waits if all are lent. The item is returned when the guard is dropped. A
    /// cancel point, charged like a receive.
    ///
    /// # Errors
    ///
    /// If the pool is closed, the task is cancelled, its budget is exhausted, or making an item
    /// fails.
    #[track_caller]
    pub fn borrow(&self) -> Result<Borrowed<'_, T>> {
        self.lend(self.permits.1.recv())
    }

    /// Like [`borrow`](Pool::borrow), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`borrow`](Pool::borrow), or the time is up.
    #[track_caller]
    pub fn borrow_timeout(&self, time: Duration) -> Result<Borrowed<'_, T>> {
        self.lend(self.permits.1.recv_timeout(time))
    }

    /// Like [`borrow`](Pool::borrow), without waiting.
    ///
    /// # Errors
    ///
    /// As for [`borrow`](Pool::borrow), or the call would have to wait.
    #[track_caller]
    pub fn try_borrow(&self) -> Result<Borrowed<'_, T>> {
        self.lend(self.permits.1.try_recv())
    }

    fn lend(&self, permit: Result<(), RecvError>) -> Result<Borrowed<'_, T>> {
        permit?;
        // From here on the guard returns the permit, even if making the item fails or panics.
        let mut borrowed = Borrowed { pool: self, item: None };
        let idle = self.idle.take();
        borrowed.item = Some(match idle {
            Some(item) => item,
            None => (self.make)()?,
        });
        Ok(borrowed)
    }

    /// Number of items that can be borrowed at once.
    pub fn available(&self) -> usize {
        self.permits.1.len()
    }

    /// Closes the pool: waiters and later borrowers fail. Idle items are dropped, and lent ones
    /// when they are returned. Later calls have no effect.
    #[track_caller]
    pub fn close(&self) {
        self.permits.0.close();
        drop_all(self.idle.empty(&self.permits.0.shared().core));
    }

    /// Like [`close`](Pool::close), with an error for borrowers.
    #[track_caller]
    pub fn close_with(&self, error: impl Into<Error>) {
        self.permits.0.close_with(error);
        self.close();
    }

    /// Returns an item, if there is one, and its permit.
    fn give_back(&self, item: Option<T>) {
        let mut refused = None;
        let kept = catch_unwind(AssertUnwindSafe(|| {
            let mut item = item?;
            if (self.reset)(&mut item) { Some(item) } else { None } // dropped here
        }));
        let kept = kept.unwrap_or_else(|panic| {
            refused = Some(panic);
            None
        });
        drop_all(self.idle.give_back(kept, &self.permits.0.shared().core));
        if let Some(panic) = refused
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("capacity", &self.permits.0.capacity())
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// An item of a [`Pool`]. Dropping the guard returns it.
pub struct Borrowed<'p, T> {
    pool: &'p Pool<T>,
    /// `None` while it is made, and after `take`.
    item: Option<T>,
}

impl<T> Borrowed<'_, T> {
    /// Keeps the item. The pool may make another in its place.
    pub fn take(mut self) -> T {
        self.item.take().expect("lent with an item")
    }
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("lent with an item")
    }
}

impl<T> DerefMut for Borrowed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("lent with an item")
    }
}

impl<T> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        self.pool.give_back(self.item.take());
    }
}

impl<T: fmt::Debug> fmt::Debug for Borrowed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Borrowed").field(&self.item).finish()
    }
}
