//! A worker's own stacks: last in, first out, without locks or system calls.

use super::arena::SlotList;
use super::handle::Stack;
use super::opts::TrustDomain;
use super::pool::PoolShared;
use super::size::CLASSES;
use super::{StackError, StackSize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many stacks of one size a cache keeps. When it is full, half of them go to the shared pool
/// together, so that a worker near the limit does not take the lock at every release. The number
/// is a guess: two batches of the tasks that one wake-up starts.
const CAPACITY: usize = 64;
const BATCH: usize = CAPACITY / 2;

/// How many stacks a cache holds. Written by the cache's owner only, read by
/// [`StackPool::stats`](super::StackPool::stats).
#[derive(Default)]
#[cfg_attr(not(feature = "unpadded"), repr(align(64)))]
pub(super) struct CacheCount(AtomicUsize);

impl CacheCount {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) // a statistic: orders no other access
    }

    fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed); // as in `get`
    }
}

/// A worker's own stacks over a shared [`StackPool`](super::StackPool).
///
/// Last in, first out: the stack that was released last is in the processor's cache, and its
/// pages are resident.
///
/// ```
/// use parcae::stack::{StackPool, StackSize};
///
/// let pool = StackPool::new()?;
/// let mut cache = pool.cache();
/// let stack = cache.acquire(StackSize::CORE)?; // the first one: from the pool
/// let bottom = stack.bottom();
/// cache.release(stack);
/// let again = cache.acquire(StackSize::CORE)?; // no lock, no system call
/// assert_eq!(again.bottom(), bottom);
/// # Ok::<(), parcae::stack::StackError>(())
/// ```
pub struct StackCache {
    shared: Arc<PoolShared>,
    lists: [SlotList; CLASSES],
    /// Sum of the lists' lengths.
    held: usize,
    count: Arc<CacheCount>,
}

// SAFETY: the slots in the lists are owned by the cache, wherever it goes.
unsafe impl Send for StackCache {}

impl StackCache {
    pub(super) fn new(shared: Arc<PoolShared>) -> StackCache {
        let count = Arc::new(CacheCount::default());
        shared.register_cache(&count);
        StackCache { shared, lists: Default::default(), held: 0, count }
    }

    /// Whether the number of the pool's stacks is bounded.
    pub(crate) fn is_bounded(&self) -> bool {
        self.shared.max_stacks != usize::MAX
    }

    /// A stack of this size, for the default trust domain.
    ///
    /// # Errors
    ///
    /// [`StackError`] says which limit was hit; nothing is lost.
    #[inline]
    pub fn acquire(&mut self, size: StackSize) -> Result<Stack, StackError> {
        self.acquire_for(size, TrustDomain::DEFAULT)
    }

    /// A stack of this size, for a trust domain.
    ///
    /// # Errors
    ///
    /// [`StackError`] says which limit was hit; nothing is lost.
    #[inline]
    pub fn acquire_for(
        &mut self,
        size: StackSize,
        domain: TrustDomain,
    ) -> Result<Stack, StackError> {
        let slot = match self.lists[size.class()].pop() {
            Some(slot) => {
                self.held -= 1;
                self.count.set(self.held);
                slot
            }
            None => self.refill(size)?,
        };
        // SAFETY: popped from our list or taken from the pool: ours.
        Ok(unsafe { self.shared.hand_out(slot, domain) })
    }

    /// Releases a stack into the cache. A stack of another pool returns to that pool.
    #[inline]
    pub fn release(&mut self, stack: Stack) {
        if !std::ptr::eq(stack.shared(), Arc::as_ptr(&self.shared)) {
            return; // dropped: back to its own pool
        }
        let size = stack.size();
        let slot = stack.slot();
        std::mem::forget(stack); // its strong count stays with the slot
        let list = &mut self.lists[size.class()];
        list.push(slot);
        self.held += 1;
        if list.len() > CAPACITY {
            self.overflow(size);
        }
        self.count.set(self.held);
    }

    #[cold]
    fn refill(
        &mut self,
        size: StackSize,
    ) -> Result<std::ptr::NonNull<super::arena::StackSlot>, StackError> {
        let list = &mut self.lists[size.class()];
        self.shared.take_warm(size, BATCH, list);
        self.held += list.len();
        let slot = match list.pop() {
            Some(slot) => {
                self.held -= 1;
                slot
            }
            None => self.shared.take_one(size)?,
        };
        self.count.set(self.held);
        Ok(slot)
    }

    #[cold]
    fn overflow(&mut self, size: StackSize) {
        let oldest = self.lists[size.class()].split_off_oldest(BATCH);
        self.held -= oldest.len();
        PoolShared::take_back(&self.shared, size, oldest);
    }
}

impl Drop for StackCache {
    fn drop(&mut self) {
        for size in StackSize::all() {
            let all = std::mem::take(&mut self.lists[size.class()]);
            if all.len() > 0 {
                PoolShared::take_back(&self.shared, size, all);
            }
        }
        self.shared.unregister_cache(&self.count);
    }
}

impl fmt::Debug for StackCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackCache").field("held", &self.held).finish()
    }
}
