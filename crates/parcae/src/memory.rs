//! Memory budgets: an allocator that charges the task that allocates.

use crate::cx;
use std::alloc::{GlobalAlloc, Layout, System};

/// A global allocator that charges what a task allocates to its memory budget.
///
/// ```
/// use parcae::prelude::*;
///
/// #[global_allocator]
/// static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();
///
/// fn main() -> parcae::Result<()> {
///     let rt = Runtime::builder().build()?;
///     let error = rt.run(|cx| {
///         let small = NurseryOpts::new().budget(Budget { memory: 1 << 20, ..Budget::UNLIMITED });
///         cx.nursery_with(small, |n| {
///             n.spawn(|cx| {
///                 let mut hoard = Vec::new();
///                 loop {
///                     cx.checkpoint()?; // fails here when a megabyte is used up
///                     hoard.push([0_u8; 1000]);
///                 }
///                 #[allow(unreachable_code)]
///                 Ok(())
///             })?
///             .join()
///         })
///     });
///     assert!(matches!(error.unwrap_err().kind(), ErrorKind::MemoryBudgetExhausted(_)));
///     Ok(())
/// }
/// ```
///
/// # What is counted
///
/// Every allocation on a task, to that task. What is freed is credited to the task that frees
/// it, up to what it has allocated itself: memory that one task allocates and another frees
/// stays charged to the first, and no budget is made. What a task has not freed when it ends, its
/// result for example, is spent.
///
/// # What happens when it is too much
///
/// The allocation succeeds; the next checkpoint draws what is missing from the pool, or
/// suspends or fails the task, as its nursery says. A task that is beyond its budget by more than
/// the `hard` multiple of what it was given waits *in* the allocation until it is recharged or
/// cancelled, like a suspended one. (It cannot fail there: in Rust an allocation that fails ends the
/// process, unless the caller uses `try_reserve` and its like.) A task that is cancelled is let through, to reach
/// its next checkpoint and unwind.
#[derive(Debug)]
pub struct Allocator<A = System> {
    inner: A,
    hard: u64,
}

/// How far a task may go beyond its memory budget before it waits in an allocation.
const HARD: u64 = 4;

impl Allocator<System> {
    /// On top of the system's allocator.
    pub const fn system() -> Allocator<System> {
        Allocator::new(System)
    }
}

impl<A> Allocator<A> {
    /// On top of another allocator.
    pub const fn new(inner: A) -> Allocator<A> {
        Allocator { inner, hard: HARD }
    }

    /// How many times its budget a task may have allocated before it waits. 4 if it is not set.
    #[must_use]
    pub const fn hard(mut self, multiple: u64) -> Allocator<A> {
        self.hard = multiple;
        self
    }
}

// SAFETY: as the inner allocator; charging neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size(), self.hard);
        // SAFETY: as the caller says.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size(), self.hard);
        // SAFETY: as the caller says.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.inner.dealloc(place, layout) };
        if let Some(frame) = cx::current() {
            frame.freed(layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            charge(size - layout.size(), self.hard);
        }
        // SAFETY: as the caller says.
        let moved = unsafe { self.inner.realloc(place, layout, size) };
        if !moved.is_null()
            && size < layout.size()
            && let Some(frame) = cx::current()
        {
            frame.freed(layout.size() - size);
        }
        moved
    }
}

#[inline]
fn charge(bytes: usize, hard: u64) {
    if let Some(frame) = cx::current() {
        frame.allocated(bytes);
        if frame.overdraft() > 0 {
            frame.wait_for_memory(hard);
        }
    }
}
