//! An allocator that panics while a test forbids allocating.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watched;

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

fn watch() {
    if FORBIDDEN.get() {
        FORBIDDEN.set(false); // the panic itself may allocate
        panic!("allocated on a path that must not");
    }
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        watch();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        watch();
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Runs `run`, in which nothing may be allocated or freed by this thread.
pub(crate) fn without_allocating<R>(run: impl FnOnce() -> R) -> R {
    FORBIDDEN.set(true);
    let result = run();
    FORBIDDEN.set(false);
    result
}
