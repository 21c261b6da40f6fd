//! Memory budgets: an allocator that charges the task that allocates.

use crate::scope::cx;
use std::alloc::{GlobalAlloc, Layout, System};

/// A global allocator that charges the allocations of a task to its memory budget.
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
/// Every allocation on a task, to that task. A deallocation is credited to the task that frees the
/// memory, up to the amount that it has allocated itself: memory that one task allocates and
/// another frees stays charged to the first, and no budget is created. Memory that a task has not
/// freed when it ends, its result for example, is spent.
///
/// # What happens when it is too much
///
/// The allocation succeeds; the next checkpoint draws what is missing from the pool, or suspends or
/// fails the task, as its nursery says. With [`hard`](Allocator::hard) a task that is beyond its
/// budget by more than a multiple of it gets no more memory: `try_reserve` and similar calls return
/// an error. All others end the *process*, as always in Rust when an allocation fails; so it is off
/// unless it is asked for.
#[derive(Debug)]
pub struct Allocator<A = System> {
    inner: A,
    /// None if it is [`u64::MAX`].
    hard: u64,
}

impl Allocator<System> {
    /// On top of the system's allocator.
    pub const fn system() -> Allocator<System> {
        Allocator::new(System)
    }
}

impl<A> Allocator<A> {
    /// On top of another allocator.
    pub const fn new(inner: A) -> Allocator<A> {
        Allocator { inner, hard: u64::MAX }
    }

    /// Refuses memory to a task that has this many times its budget. Without it no allocation is
    /// refused.
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
        if !charge(layout.size(), self.hard) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !charge(layout.size(), self.hard) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.inner.dealloc(place, layout) };
        if let Some(frame) = cx::Here::new().frame() {
            frame.freed(layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !charge(size - layout.size(), self.hard) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        let moved = unsafe { self.inner.realloc(place, layout, size) };
        if !moved.is_null()
            && size < layout.size()
            && let Some(frame) = cx::Here::new().frame()
        {
            frame.freed(layout.size() - size);
        }
        moved
    }
}

/// Charges the running task. Returns false, without a charge, if the task must not get more.
#[inline]
fn charge(bytes: usize, hard: u64) -> bool {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else { return true };
    if hard != u64::MAX && !frame.may_allocate(bytes, hard) {
        return false;
    }
    frame.allocated(bytes);
    true
}
