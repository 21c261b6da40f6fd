//! `Cx::contain_overflow` of code that allocates in every call, with the allocator that looks at
//! the stack first. In a child process, as `parcae_stacks/contain.rs`.

mod support;

use parcae::prelude::*;
use parcae::stack::StackSize;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use support::child;

#[global_allocator]
static ALLOCATOR: parcae::Allocator<Deep> = parcae::Allocator::new(Deep);

/// The system's allocator, made to go as deep as others do, and deeper than the code around it.
struct Deep;

// SAFETY: as the system's.
unsafe impl GlobalAlloc for Deep {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut text = [0_u8; 32];
        // SAFETY: as much as there is room for; it does not allocate. The rest as the caller says.
        unsafe {
            libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.9f".as_ptr(), 0.1_f64);
            System.alloc(layout)
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) };
    }
}

/// Allocates in every call.
#[inline(never)]
fn grow(depth: usize) -> usize {
    let block = black_box(Box::new([depth; 20]));
    if depth == usize::MAX { 0 } else { grow(depth + 1) + block[7] }
}

#[test]
fn an_allocating_recursion_is_contained_before_it_comes_to_the_allocator() {
    const MARK: &str = "came to its end";
    if child::is_victim() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        rt.run(|cx| {
            for kib in [32, 64, 128, 256] {
                for _ in 0..25 {
                    let size = StackSize::new(kib << 10)?;
                    // SAFETY: it only allocates, and the allocator looks at the stack first.
                    let outcome = unsafe { cx.contain_overflow(size, || grow(0)) };
                    let error = outcome.unwrap_err();
                    assert!(matches!(error.kind(), ErrorKind::StackOverflow { .. }), "{error}");
                    drop(black_box(vec![0_u8; 5_000])); // the allocator's lock is free
                }
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(rt.stats().quarantined_stacks, 100);
        eprintln!("{MARK}");
        return;
    }
    let outcome = child::run(
        module_path!(),
        "an_allocating_recursion_is_contained_before_it_comes_to_the_allocator",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains(MARK), "{outcome:?}");
}

/// Memory that was leaked stays charged.
#[test]
fn what_is_leaked_stays_charged() {
    const MARK: &str = "came to its end";
    if child::is_victim() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let outcome = rt.run(|cx| {
            let small = NurseryOpts::new().budget(Budget { memory: 64 << 10, ..Budget::UNLIMITED });
            cx.nursery_with(small, |n| {
                let task = n.spawn(|cx| {
                    // SAFETY: as above.
                    let outcome = unsafe { cx.contain_overflow(StackSize::SERVICE, || grow(0)) };
                    assert!(outcome.is_err());
                    cx.checkpoint()
                })?;
                task.join()
            })
        });
        let error = outcome.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::MemoryBudgetExhausted(_)), "{error}");
        eprintln!("{MARK}");
        return;
    }
    let outcome = child::run(module_path!(), "what_is_leaked_stays_charged");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains(MARK), "{outcome:?}");
}
