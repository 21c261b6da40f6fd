//! The allocator of the program: it charges the running task, except while a program of the
//! language runs.
//!
//! The interpreter counts the memory of each task itself, exactly. The allocator would count the
//! interpreter's own memory on top of that, and charge ops for it. Both forms take memory from the
//! system's allocator, so memory of one may be freed by the other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether tasks are not charged for allocations.
static UNCOUNTED: AtomicBool = AtomicBool::new(false);

/// From now on no task is charged for allocations.
pub(crate) fn stop_counting() {
    // Relaxed: set by the main thread before it starts the runtime.
    UNCOUNTED.store(true, Ordering::Relaxed);
}

pub(crate) struct Switched {
    counted: parcae::Allocator,
}

impl Switched {
    pub(crate) const fn new() -> Switched {
        Switched { counted: parcae::Allocator::system() }
    }
}

fn is_uncounted() -> bool {
    // Relaxed: see `stop_counting`.
    UNCOUNTED.load(Ordering::Relaxed)
}

// SAFETY: both ways lead to the system's allocator.
unsafe impl GlobalAlloc for Switched {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says, for both.
        unsafe { if is_uncounted() { System.alloc(layout) } else { self.counted.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_uncounted() {
            // SAFETY: as the caller says.
            unsafe { System.alloc_zeroed(layout) }
        } else {
            // SAFETY: as the caller says.
            unsafe { self.counted.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_uncounted() {
            // SAFETY: as the caller says.
            unsafe { System.dealloc(place, layout) }
        } else {
            // SAFETY: as the caller says.
            unsafe { self.counted.dealloc(place, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_uncounted() {
            // SAFETY: as the caller says.
            unsafe { System.realloc(place, layout, size) }
        } else {
            // SAFETY: as the caller says.
            unsafe { self.counted.realloc(place, layout, size) }
        }
    }
}
