//! Blocks of memory that a worker keeps for small objects which tasks make and drop at a high rate:
//! the shared part of a oneshot. The allocator takes 150 instructions for both.
//!
//! Every block has the [`LAYOUT`] and comes from the allocator, so a block may be given to any
//! worker, or back to the allocator. A worker keeps at most [`MOST`]. Tasks whose memory is counted
//! use the allocator, which counts it: a block that is kept has no owner.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

/// Two cache lines: a oneshot of a value of up to six words.
pub(crate) const LAYOUT: Layout = match Layout::from_size_align(128, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};
/// The most blocks that a worker keeps: 8 KiB. More oneshots than that are not made and dropped
/// within the turn of a few tasks.
const MOST: u32 = 64;

/// A free block.
struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

/// The free blocks of a worker. Used by its thread alone.
pub(super) struct BlockCache {
    first: Cell<Option<NonNull<FreeBlock>>>,
    len: Cell<u32>,
}

impl BlockCache {
    pub(super) fn new() -> BlockCache {
        BlockCache { first: Cell::new(None), len: Cell::new(0) }
    }

    #[inline(always)]
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        let block = self.first.get()?;
        // SAFETY: a free block in this list, which is written by `give`.
        self.first.set(unsafe { block.as_ref() }.next);
        self.len.set(self.len.get() - 1);
        Some(block.cast())
    }

    /// Keeps a block. False if there are enough; then it is still the caller's.
    ///
    /// # Safety
    ///
    /// The block has the [`LAYOUT`], was allocated with it, and is the caller's.
    #[inline(always)]
    pub(super) unsafe fn give(&self, block: NonNull<u8>) -> bool {
        if self.len.get() == MOST {
            return false;
        }
        let block = block.cast::<FreeBlock>();
        // SAFETY: as the caller says; large enough, and aligned.
        unsafe { block.write(FreeBlock { next: self.first.get() }) };
        self.first.set(Some(block));
        self.len.set(self.len.get() + 1);
        true
    }
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        while let Some(block) = self.take() {
            // SAFETY: as `give` demands.
            unsafe { dealloc(block.as_ptr(), LAYOUT) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::alloc::alloc;

    #[test]
    fn a_worker_keeps_a_bounded_number_of_blocks() {
        let cache = BlockCache::new();
        assert!(cache.take().is_none());
        // SAFETY: not of size zero.
        let fresh = || NonNull::new(unsafe { alloc(LAYOUT) }).unwrap();
        for _ in 0..MOST {
            // SAFETY: new.
            assert!(unsafe { cache.give(fresh()) });
        }
        let surplus = fresh();
        // SAFETY: new; refused, so still ours.
        unsafe {
            assert!(!cache.give(surplus));
            dealloc(surplus.as_ptr(), LAYOUT);
        }
        let taken = cache.take().unwrap();
        // SAFETY: ours.
        assert!(unsafe { cache.give(taken) });
        assert_eq!(cache.take(), Some(taken), "the one that is warm");
        // SAFETY: ours.
        unsafe { dealloc(taken.as_ptr(), LAYOUT) };
        assert_eq!(cache.len.get(), MOST - 1);
    }
}
