//! Bounded storms: what is borrowed, and what is carried from task to task, stays whole whatever
//! ends the tasks.

use crate::support::*;
use parcae::fiber::{Fiber, Step};
use parcae::prelude::*;
use parcae::stack::{StackPool, StackSize};
use parcae::{Error, Result};
use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Memory on the owner's stack, which its children borrow.
struct Area {
    lent: AtomicBool,
    inside: AtomicU64,
}

/// A stay of a child in the area.
struct Stay<'a>(&'a Area);

impl<'a> Stay<'a> {
    fn new(area: &'a Area) -> Stay<'a> {
        area.inside.fetch_add(1, Relaxed);
        Stay(area)
    }

    fn look(&self) {
        assert!(self.0.lent.load(Relaxed), "the nursery has ended");
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.look();
        self.0.inside.fetch_sub(1, Relaxed);
    }
}

/// One child: it computes, waits, opens a nursery of its own, fails, panics, or runs out of budget.
fn borrower(cx: &Cx, area: &Area, kind: u64) -> Result<()> {
    let stay = Stay::new(area);
    for _ in 0..kind % 7 {
        cx.yield_now()?;
        stay.look();
    }
    match kind % 6 {
        0 => Err(Error::msg("fails")),
        1 => std::panic::resume_unwind(Box::new("panics")),
        2 => cx.nursery(|n| {
            for _ in 0..3 {
                n.spawn(|cx| {
                    let stay = Stay::new(area);
                    cx.sleep(std::time::Duration::from_micros(kind))?;
                    stay.look();
                    Ok(())
                })?;
            }
            Ok(())
        }),
        3 => forever(cx),
        4 => cx.shield(|| cx.sleep(std::time::Duration::from_micros(3))),
        _ => work(cx, 50),
    }
}

#[test]
fn whatever_ends_the_children_nobody_is_left_in_what_they_borrow() {
    const POLICIES: [OnFailure; 3] = [OnFailure::FailFast, OnFailure::Isolate, OnFailure::Collect];
    everywhere_seeded(|cx, seed| {
        for round in 0..6 {
            let number = seed * 6 + round;
            let area = Area { lent: AtomicBool::new(true), inside: AtomicU64::new(0) };
            let opts = NurseryOpts::new().on_failure(POLICIES[number as usize % 3]);
            let outcome = cx.nursery_with(opts, |n| {
                for child in 0..1 + number % 5 {
                    let (kind, area) = (number * 7 + child, &area);
                    let opts = SpawnOpts::new().budget(ops(60));
                    n.spawn_with(opts, move |cx| borrower(cx, area, kind))?;
                }
                for _ in 0..number % 4 {
                    cx.yield_now()?;
                }
                if number.is_multiple_of(3) {
                    n.cancel();
                }
                Ok(())
            });
            drop(outcome);
            area.lent.store(false, Relaxed);
            assert_eq!(area.inside.into_inner(), 0);
        }
        Ok(())
    });
}

thread_local! {
    /// Suspended fibers, which any task of the thread resumes.
    static STASH: RefCell<Vec<(Fiber, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Starts a fiber that counts its resumptions, in a variable of its own stack.
fn started(pool: &StackPool, dropped: &'static AtomicU64) -> Result<Fiber> {
    struct Counts(&'static AtomicU64, u64);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let mut fiber = Fiber::new(pool.acquire(StackSize::new(64 * 1024)?)?, "carried")?;
    let step = fiber.start(move |here| {
        let mut counts = Counts(dropped, 0);
        while counts.1 < 20 {
            counts.1 += 1;
            let _ = parcae::checkpoint(); // of the task that has resumed it
            here.suspend().expect("no destructor runs");
        }
    });
    assert!(matches!(step?, Step::Suspended));
    Ok(fiber)
}

#[test]
fn fibers_are_carried_from_task_to_task_of_their_thread() {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    everywhere_seeded(|cx, seed| {
        let pool = StackPool::new()?;
        cx.nursery(|n| {
            for task in 0..4 {
                let pool = &pool;
                n.spawn(move |cx| {
                    for step in 0..40_u64 {
                        let found = STASH.with(|stash| stash.borrow_mut().pop());
                        let (mut fiber, count) = match found {
                            Some(found) => found,
                            None => {
                                STARTED.fetch_add(1, Relaxed);
                                (started(pool, &DROPPED)?, 1)
                            }
                        };
                        match fiber.resume()? {
                            Step::Suspended if (seed + task + step).is_multiple_of(11) => {
                                drop(fiber); // unwinds it, on a stack that another task has begun
                            }
                            Step::Suspended => {
                                STASH
                                    .with(|stash| stash.borrow_mut().insert(0, (fiber, count + 1)));
                            }
                            _ => assert_eq!(count, 20, "it has counted every resumption"),
                        }
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
    STASH.with(|stash| stash.borrow_mut().clear()); // the workers' have gone with their threads
    assert!(STARTED.load(Relaxed) > 500);
    assert_eq!(STARTED.load(Relaxed), DROPPED.load(Relaxed), "every one was unwound or has ended");
}
