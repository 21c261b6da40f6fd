//! Spawning: the tasks that may spawn into a nursery, results and costs of a spawn.

use crate::support::*;
use parcae::Result;
use parcae::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::thread::ThreadId;

// rule: S0-ERR-1, S0-SUBMIT-3
#[test]
fn a_spawn_returns_the_childs_number_or_an_error() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(Budget { spawn_count: 5, ..ops(1_000) }), |n| {
            let mut ids = BTreeSet::from([cx.info().id()]);
            for _ in 0..5 {
                let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), |cx| Ok(cx.info()))?;
                let id = child.id();
                assert_eq!(child.join()?.id(), id);
                assert!(ids.insert(id), "{id} is not new");
            }
            assert!(matches!(kind_of(n.spawn(|_| Ok(()))), ErrorKind::SpawnBudgetExhausted(_)));
            Ok(())
        })
    });
}

#[test]
fn children_spawn_siblings() {
    explored(0..200, |rt| {
        let ended = AtomicUsize::new(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    for _ in 0..3 {
                        n.spawn(|_| {
                            n.spawn(|_| Ok(ended.fetch_add(1, Relaxed)))?;
                            Ok(ended.fetch_add(1, Relaxed))
                        })?;
                        cx.checkpoint()?;
                    }
                    Ok(ended.fetch_add(1, Relaxed))
                })?;
                Ok(())
            })
        })?;
        assert_eq!(ended.into_inner(), 7, "the nursery has ended before its children");
        Ok(())
    })
    .unwrap();
}

#[test]
fn siblings_spawn_on_threads_and_the_pool_pays() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..50 {
        let ended = AtomicUsize::new(0);
        let tenant = NurseryOpts::new().budget(ops(1_000_000).with_spawn_count(111));
        let spent = rt
            .nursery(tenant, |n| {
                for _ in 0..10 {
                    n.spawn(|_| {
                        for _ in 0..10 {
                            n.spawn(|_| Ok(ended.fetch_add(1, Relaxed)))?;
                        }
                        Ok(())
                    })?;
                }
                // A thread that the body waits for may spawn too.
                std::thread::scope(|threads| {
                    threads.spawn(|| n.spawn(|_| Ok(ended.fetch_add(1, Relaxed))).map(drop)).join()
                })
                .expect("no panic")?;
                Ok(n.budget().granted.spawn_count)
            })
            .unwrap();
        assert_eq!((ended.into_inner(), spent), (101, 111));
    }
}

/// A value that says it is `Send` because it is used on its own thread only, as some crates offer.
struct OnThread<T> {
    value: T,
    thread: ThreadId,
}

// SAFETY: the value is reached through `get` only, which refuses on every other thread, and what
// is `Copy` has nothing to drop.
unsafe impl<T: Copy> Send for OnThread<T> {}

// SAFETY: as for `Send`.
unsafe impl<T: Copy> Sync for OnThread<T> {}

impl<T: Copy> OnThread<T> {
    fn new(value: T) -> Self {
        OnThread { value, thread: thread::current().id() }
    }

    fn get(&self) -> T {
        assert_eq!(self.thread, thread::current().id());
        self.value
    }
}

#[test]
fn a_child_spawns_nothing_that_its_parents_nursery_does_not_wait_for() {
    /// Static: an orphan would outlive the test's frame.
    static ENDED: AtomicBool = AtomicBool::new(false);
    runtime(1)
        .run(|cx| {
            cx.nursery(|n| {
                let nursery = OnThread::new(n);
                n.spawn(move |cx| {
                    for _ in 0..10 {
                        cx.yield_now()?; // the body has returned
                    }
                    nursery.get().spawn(|cx| {
                        for _ in 0..100 {
                            cx.yield_now()?; // the one that spawned it has ended
                        }
                        ENDED.store(true, SeqCst);
                        Ok(())
                    })?;
                    Ok(())
                })?;
                Ok(())
            })?;
            if !ENDED.load(SeqCst) {
                std::process::abort(); // an orphan, and it uses a frame that is gone
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_context_opens_nurseries_for_its_own_task_only() {
    runtime(1)
        .run(|cx| {
            let parent = OnThread::new(cx);
            cx.nursery(|n| {
                n.spawn(move |_| {
                    let outcome = parent.get().nursery(|_| Ok(()));
                    assert!(outcome.is_err(), "a nursery on somebody else's frame");
                    Ok(())
                })?;
                Ok(())
            })
        })
        .unwrap();
}

/// Knows how many bytes this thread has allocated and not freed, and how often it has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Number of allocations of this thread.
pub(crate) fn allocations() -> usize {
    ALLOCATIONS.get()
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// rule: S0-CANCEL-4, S0-NURSERY-12
#[test]
fn a_nursery_that_spawns_for_ever_does_not_grow() {
    for _ in 0..3 {
        // All on the thread of one worker, and with fewer stacks than there are children. The
        // deterministic executor would write a log, which grows.
        let rt = Runtime::builder().workers(1).temporary_workers(0).max_stacks(60).build().unwrap();
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                let batch = |size: usize| -> Result<()> {
                    for index in 0..size {
                        let child = n.spawn_with(SpawnOpts::new().name("child"), |cx| {
                            cx.yield_now()?;
                            Ok(vec![1_u8; 100])
                        })?;
                        match index % 3 {
                            0 => drop(child.join()?),
                            1 => child.cancel(),
                            _ => drop(child),
                        }
                        if index % 20 == 0 {
                            until(cx, || n.live() == 0)?;
                        }
                    }
                    until(cx, || n.live() == 0)
                };
                batch(500)?;
                let before = BYTES.get();
                batch(5_000)?;
                let grown = BYTES.get() - before;
                assert!(grown < 4096, "{grown} bytes for 5000 children");
                Ok(())
            })
        }));
    }
}
