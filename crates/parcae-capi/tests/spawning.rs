//! A spawn neither waits nor starts a thread. Alone in its process, because it counts threads.

use parcae_capi::api::nursery::{
    janus_nursery_await_all, janus_nursery_create, janus_nursery_spawn,
};
use parcae_capi::decl::{Int, Long};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's, and a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

unsafe extern "C-unwind" fn nothing(_: *mut c_void) -> i64 {
    0
}

/// Spawns some tasks; how often that allocated on this thread.
fn spawn_some() -> u64 {
    // SAFETY: a task that uses nothing.
    unsafe {
        assert!(!janus_nursery_create().is_null());
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..100 {
            assert_eq!(janus_nursery_spawn(Some(nothing), std::ptr::null_mut()), Int(0));
        }
        let allocated = ALLOCATIONS.with(Cell::get) - before;
        assert_eq!(janus_nursery_await_all(), Long(0));
        allocated
    }
}

unsafe extern "C-unwind" fn spawns(_: *mut c_void) -> i64 {
    let _first = spawn_some(); // makes records
    -(spawn_some() as i64)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

// rule: S0-CSPAWN-4
#[test]
fn a_spawn_neither_allocates_nor_starts_a_thread() {
    let _first = spawn_some();
    let before = threads();
    assert_eq!(spawn_some(), 0, "on a thread");
    // SAFETY: a task that uses nothing of this one's.
    unsafe {
        janus_nursery_create();
        assert_eq!(janus_nursery_spawn(Some(spawns), std::ptr::null_mut()), Int(0));
        assert_eq!(janus_nursery_await_all(), Long(0), "on a task");
    }
    assert_eq!(threads(), before);
}
