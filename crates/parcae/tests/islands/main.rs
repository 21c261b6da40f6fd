//! Realtime islands, in a program whose allocator sees what tasks allocate, and counts for tests.

mod breaches;
mod graphs;
mod jobs;
mod preparations;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts the allocations of threads that ask for it, whether of tasks or of the runtime.
struct Counting(parcae::Allocator);

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

static COUNT: AtomicU64 = AtomicU64::new(0);

fn note() {
    if COUNTS.with(Cell::get) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: as the inner allocator; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller says.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.0.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as the caller says.
        unsafe { self.0.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(parcae::Allocator::system());

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn us(time: u64) -> Duration {
    Duration::from_micros(time)
}
