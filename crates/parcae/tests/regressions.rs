//! What went wrong in the runtime that the specification comes from, and what is true here instead.
//! The numbers are those of `docs/traps.md`, second list.

mod both;

use both::*;
use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use parcae::sync::Event;
use parcae::{CancelReason, Error, NurseryState, Result};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts in its destructor.
struct Counts<'c>(&'c AtomicUsize);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lets others run until `done`.
fn until(cx: &Cx, done: impl Fn() -> bool) -> Result<()> {
    while !done() {
        cx.yield_now()?;
    }
    Ok(())
}

// ----- 4: cancelled children that waited were never counted, and their nursery hung ---------------

#[test]
fn cancelling_ends_children_that_wait_that_are_exhausted_and_that_have_not_started() {
    everywhere(|cx| {
        let (started, unwound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Whoever computes uses up the budget that others are to be spawned with.
        let all_spawned = Event::new();
        let opts = NurseryOpts::new()
            .budget(ops(20_000))
            .slice(ops(500))
            .on_exhausted(OnExhausted::Suspend);
        let outcome = cx.nursery_with(opts, |n| {
            for round in 0..8 {
                let (started, unwound, all_spawned) = (&started, &unwound, &all_spawned);
                n.spawn(move |cx| {
                    let _counts = Counts(unwound);
                    started.fetch_add(1, Ordering::Relaxed);
                    all_spawned.wait()?;
                    if round % 2 == 0 { asleep(cx) } else { forever(cx) }
                })?;
            }
            all_spawned.set();
            until(cx, || started.load(Ordering::Relaxed) == 8 && n.budget().suspended == 4)?;
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Explicit)));
        assert_eq!(unwound.into_inner(), 8);
        // Most of these have no chance to start.
        let outcome = cx.nursery(|n| {
            for _ in 0..8 {
                n.spawn(asleep)?;
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

// ----- 5: a running child that was cancelled was dropped without unwinding ------------------------

#[test]
fn a_running_child_that_is_cancelled_runs_its_destructors() {
    fn deep(cx: &Cx, depth: usize, unwound: &AtomicUsize) -> Result<()> {
        let _counts = Counts(unwound);
        if depth == 0 { forever(cx) } else { deep(cx, depth - 1, unwound) }
    }
    everywhere(|cx| {
        let (started, unwound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = cx.nursery(|n| {
            for _ in 0..3 {
                n.spawn(|cx| {
                    started.fetch_add(1, Ordering::Relaxed);
                    deep(cx, 9, &unwound)
                })?;
            }
            until(cx, || started.load(Ordering::Relaxed) == 3)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(unwound.into_inner(), 30);
        Ok(())
    });
}

#[test]
fn a_child_that_returns_before_it_notices_has_its_value() {
    everywhere(|cx| {
        let (started, go) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let value = cx.nursery(|n| {
            let child = n.spawn(|cx| {
                started.fetch_add(1, Ordering::Relaxed);
                while go.load(Ordering::Relaxed) == 0 {
                    cx.shield(|| cx.yield_now())?;
                }
                Ok(5)
            })?;
            until(cx, || started.load(Ordering::Relaxed) == 1)?;
            child.cancel();
            go.store(1, Ordering::Relaxed);
            child.join()
        })?;
        assert_eq!(value, 5);
        Ok(())
    });
}

// ----- 6: nothing was ever charged ----------------------------------------------------------------

#[budgeted]
fn rounds(n: u64) -> u64 {
    let mut sum = 0;
    for round in 0..n {
        sum += round;
    }
    sum
}

#[test]
fn whatever_runs_is_charged_to_the_op() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
            n.spawn(|cx| work(cx, 1_500))?.join()?;
            n.spawn(|cx| cx.each(0..1_500).try_for_each(|item| item.map(|_| ())))?.join()?;
            n.spawn(|cx| cx.strips(0..1_500).try_for_each(|strip| strip.map(|_| ())))?.join()?;
            n.spawn(|_| Ok(rounds(1_500)))?.join()?;
            n.spawn(|cx| cx.charge(Budget { ops: 1_500, ..Budget::ZERO }))?.join()?;
            until(cx, || n.live() == 0)?;
            // `each` looks once more to see that there is nothing left; a budgeted function
            // pays for its call; and each spawn costs one.
            assert_eq!(n.budget().spent.ops, 5 * 1_500 + 1 + 1 + 5);
            Ok(())
        })
    });
}

#[test]
fn a_task_that_only_computes_is_stopped_by_its_budget() {
    everywhere(|cx| {
        let outcome = cx.nursery_with(NurseryOpts::new().budget(ops(30_000)), |n| {
            n.spawn(|_| Ok(rounds(u64::MAX)))?.join()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
        Ok(())
    });
}

// ----- 7: a recharged task was ready, but in no queue ---------------------------------------------

#[test]
fn one_recharge_makes_all_exhausted_tasks_run_again() {
    everywhere(|cx| {
        let opts = NurseryOpts::new()
            .budget(ops(1_100))
            .slice(Budget::CHILD.with_ops(100))
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let children: Vec<_> =
                (0..5).map(|_| n.spawn(|cx| work(cx, 500))).collect::<Result<_>>()?;
            until(cx, || n.budget().suspended > 0 && n.budget().left.ops == 0)?;
            n.recharge(Budget { ops: 5_000, ..Budget::ZERO })?;
            children.into_iter().try_for_each(TaskHandle::join)
        })
    });
}

#[test]
fn a_capability_makes_an_exhausted_task_run_again() {
    with_runtimes(|rt| {
        let all = Budget { ops: 100_000, ..Budget::ZERO };
        let limits = BudgetLimits { total: all, per_request: all };
        let cap = rt.cap_budget(limits, Delegation::Forbidden);
        succeed(rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(100)).on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let child = n.spawn(|cx| work(cx, 10_000))?;
                until(cx, || n.budget().suspended == 1)?;
                n.account().recharge(&cap, Budget { ops: 10_000, ..Budget::ZERO })?;
                child.join()
            })
        }));
    });
}

// ----- 10: a child's budget came from nowhere -----------------------------------------------------

/// Spends some, and lets children in nested nurseries spend more. Every third nursery has a budget of
/// its own, some children fail, and some panic.
fn tree(cx: &Cx, depth: u64, salt: u64, spent: &AtomicU64, spawned: &AtomicU64) -> Result<()> {
    let own = 10 + (salt * 7 + depth) % 20;
    for _ in 0..own {
        cx.checkpoint()?;
        spent.fetch_add(1, Ordering::Relaxed);
    }
    if depth == 0 {
        match salt % 5 {
            0 => return Err(Error::msg("a leaf that fails")),
            1 => std::panic::resume_unwind(Box::new("a leaf that panics")),
            _ => return Ok(()),
        }
    }
    let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
    let opts = if salt.is_multiple_of(3) {
        opts.budget(Budget { spawn_count: 20, ..ops(1_000) })
    } else {
        opts
    };
    let outcome = cx.nursery_with(opts, |n| {
        for child in 0..3 {
            n.spawn(move |cx| tree(cx, depth - 1, salt * 3 + child, spent, spawned))?;
            spawned.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    drop(outcome); // whatever failed below
    Ok(())
}

#[test]
fn what_a_tree_of_nurseries_spends_is_missing_to_the_op() {
    everywhere(|cx| {
        let budget = Budget { ops: 50_000, spawn_count: 1_000, ..Budget::UNLIMITED };
        let child = Budget { ops: 2_000, spawn_count: 40, ..Budget::UNLIMITED };
        let (spent, spawned) = (AtomicU64::new(0), AtomicU64::new(1));
        cx.nursery_with(NurseryOpts::new().budget(budget).slice(child), |n| {
            n.spawn(|cx| tree(cx, 3, 1, &spent, &spawned))?.join()?;
            until(cx, || n.live() == 0)?;
            let standing = n.budget();
            let [spent, spawned] = [&spent, &spawned].map(|n| n.load(Ordering::Relaxed));
            assert_eq!(standing.spent.ops, spent + spawned);
            assert_eq!(standing.spent.spawn_count, spawned);
            assert_eq!((standing.held.ops, standing.held.spawn_count), (0, 0));
            assert_eq!(standing.granted.ops, standing.left.ops + standing.spent.ops);
            Ok(())
        })
    });
}

#[test]
fn nested_nurseries_do_not_get_around_a_budget() {
    /// Opens a nursery in each child of each nursery, for as long as it is let.
    fn bomb(cx: &Cx, done: &AtomicU64) -> Result<()> {
        cx.checkpoint()?;
        done.fetch_add(1, Ordering::Relaxed);
        let opts = NurseryOpts::new().slice(Budget::UNLIMITED);
        cx.nursery_with(opts, |n| {
            n.spawn(move |cx| bomb(cx, done))?;
            n.spawn(move |cx| bomb(cx, done))?;
            Ok(())
        })
    }
    everywhere(|cx| {
        let done = AtomicU64::new(0);
        let budget = Budget { ops: 400, spawn_count: 100, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(budget).slice(budget);
        let outcome = cx.nursery_with(opts, |n| n.spawn(|cx| bomb(cx, &done))?.join());
        assert!(outcome.is_err());
        assert!(done.into_inner() <= 100);
        Ok(())
    });
}

// ----- 11: a nursery stood on the thread, and the task went elsewhere -----------------------------

#[test]
fn cancelling_reaches_nurseries_that_were_opened_after_a_move() {
    fn nest(cx: &Cx, depth: u32, open: &AtomicUsize, ended: &AtomicUsize) -> Result<()> {
        let _counts = Counts(ended);
        for _ in 0..3 {
            cx.yield_now()?;
        }
        if depth == 0 {
            open.fetch_add(1, Ordering::Relaxed);
            return asleep(cx);
        }
        cx.nursery(|n| {
            for _ in 0..2 {
                // SAFETY: nothing on these stacks is bound to a thread.
                let opts = unsafe { SpawnOpts::new().migratable() };
                n.spawn_with(opts, move |cx| nest(cx, depth - 1, open, ended))?;
            }
            cx.yield_now()
        })
    }
    everywhere(|cx| {
        let (open, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = cx.nursery(|n| {
            // SAFETY: as above.
            let opts = unsafe { SpawnOpts::new().migratable() };
            n.spawn_with(opts, |cx| nest(cx, 4, &open, &ended))?;
            until(cx, || open.load(Ordering::Relaxed) == 16)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(ended.into_inner(), 31);
        Ok(())
    });
}

// ----- 12: a nursery that was cancelled reported success ------------------------------------------

#[test]
fn a_nursery_that_was_cancelled_does_not_report_success() {
    everywhere(|cx| {
        let by_itself = cx.nursery(|n| {
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(by_itself), ErrorKind::Cancelled(CancelReason::Explicit)));
        let by_token = cx.nursery(|n| {
            let child = n.spawn(|_| Ok(1))?;
            let value = child.join()?;
            n.token().cancel_because(CancelReason::Timeout);
            Ok(value)
        });
        assert!(matches!(kind_of(by_token), ErrorKind::Cancelled(CancelReason::Timeout)));
        let by_child = cx.nursery(|n| {
            let token = n.token();
            n.spawn(move |_| {
                token.cancel();
                Ok(())
            })?;
            Ok(())
        });
        assert!(matches!(kind_of(by_child), ErrorKind::Cancelled(CancelReason::Explicit)));
        Ok(())
    });
}

// ----- 13: an error of a child told the token, and nobody else ------------------------------------

#[test]
fn a_child_that_fails_cancels_its_nursery_and_all_siblings() {
    everywhere(|cx| {
        let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let go = AtomicUsize::new(0);
        let opts = NurseryOpts::new()
            .budget(ops(10_000))
            .slice(ops(500))
            .on_exhausted(OnExhausted::Suspend);
        let outcome: Result<()> = cx.nursery_with(opts, |n| {
            let bad = n.spawn(|cx| {
                until(cx, || go.load(Ordering::Relaxed) == 1)?;
                Err::<(), _>(Error::msg("bad"))
            })?;
            for sibling in 0..4 {
                let (started, ended) = (&started, &ended);
                n.spawn(move |cx| {
                    let _counts = Counts(ended);
                    started.fetch_add(1, Ordering::Relaxed);
                    if sibling % 2 == 0 { asleep(cx) } else { forever(cx) }
                })?;
            }
            until(cx, || started.load(Ordering::Relaxed) == 4 && n.budget().suspended == 2)?;
            go.store(1, Ordering::Relaxed);
            while n.state() == NurseryState::Open {
                cx.shield(|| cx.yield_now())?;
            }
            assert_eq!(n.state(), NurseryState::Cancelling);
            assert!(n.token().is_cancelled());
            assert!(n.spawn(|_| Ok(())).is_err(), "takes no more children");
            bad.join()
        });
        let error = outcome.unwrap_err();
        assert!(error.to_string().starts_with("bad (task "), "{error}");
        assert_eq!(ended.into_inner(), 4);
        Ok(())
    });
}

// ----- 16: tokens had eight places, and a callback could be called twice --------------------------

#[test]
fn a_nursery_has_any_number_of_nurseries_below_it() {
    everywhere(|cx| {
        let asked = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            for _ in 0..40 {
                n.spawn(|cx| {
                    cx.nursery(|inner| {
                        assert!(!inner.is_cancelled(), "born cancelled");
                        asked.fetch_add(1, Ordering::Relaxed);
                        inner.spawn(asleep)?.join()
                    })
                })?;
            }
            until(cx, || asked.load(Ordering::Relaxed) == 40)?;
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Explicit)));
        Ok(())
    });
}

#[test]
fn tokens_move_and_their_callbacks_are_called_once() {
    for _ in 0..50 {
        let calls = std::sync::Arc::new(AtomicUsize::new(0));
        let root = CancelToken::new();
        let tokens: Vec<CancelToken> = (0..100).map(|_| root.child()).collect();
        let guards: Vec<_> = tokens
            .iter()
            .map(|token| {
                let calls = std::sync::Arc::clone(&calls);
                token.on_cancel(move |_| {
                    calls.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        assert!(tokens.iter().all(|token| !token.is_cancelled()));
        let moved: Box<[CancelToken]> = tokens.into_boxed_slice();
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (root, moved) = (root.clone(), &moved);
                s.spawn(move || {
                    moved[thread].cancel();
                    root.cancel();
                });
            }
        });
        assert!(moved.iter().all(CancelToken::is_cancelled));
        assert_eq!(calls.load(Ordering::Relaxed), 100);
        drop(guards);
    }
}

// ----- 17: a negative result arrived as a large one -----------------------------------------------

#[test]
fn values_of_children_keep_their_type_and_sign() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let (small, large) = (n.spawn(|_| Ok(-1_i32))?, n.spawn(|_| Ok(-1_i64))?);
            let unsigned = n.spawn(|_| Ok(u32::MAX))?;
            let error = n.spawn(|_| Ok(Err::<(), i32>(-1)))?;
            assert_eq!((small.join()?, large.join()?), (-1, -1));
            assert_eq!((unsigned.join()?, error.join()?), (u32::MAX, Err(-1)));
            assert_eq!(n.state(), NurseryState::Open); // no value is a failure
            Ok(())
        })
    });
}

// ----- 18: tasks and stacks were freed with their nursery -----------------------------------------

/// Knows how many bytes this thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
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

// ----- 19: shutdown marked tasks and told nobody --------------------------------------------------

#[test]
fn a_runtime_that_is_dropped_ends_what_is_queued_what_waits_and_what_runs() {
    for workers in [1, 2, 4] {
        for _ in 0..10 {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            let handle = rt.handle();
            let tasks: Vec<_> = (0..12)
                .map(|task| {
                    handle.spawn(move |cx| match task % 3 {
                        0 => asleep(cx),
                        1 => forever(cx),
                        _ => cx.nursery(|n| {
                            n.spawn(asleep)?;
                            n.spawn(forever)?.join()
                        }),
                    })
                })
                .collect::<Result<_>>()
                .unwrap();
            drop(rt);
            assert!(matches!(kind_of(handle.spawn(|_| Ok(()))), ErrorKind::ShuttingDown));
            for task in tasks {
                assert!(matches!(kind_of(task.join()), ErrorKind::Cancelled(_)));
            }
        }
    }
}

#[test]
fn a_runtime_that_never_ran_anything_ends() {
    with_runtimes(drop);
}

// ----- 20: a panic took the process, priorities were ignored --------------------------------------

#[test]
fn panics_cost_their_tasks_and_nothing_else() {
    everywhere(|cx| {
        let survivors = AtomicUsize::new(0);
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let error = cx
            .nursery_with(opts, |n| {
                for index in 0..20 {
                    let survivors = &survivors;
                    n.spawn(move |cx| {
                        cx.yield_now()?;
                        if index % 2 == 0 {
                            std::panic::resume_unwind(Box::new(index));
                        }
                        cx.yield_now()?;
                        survivors.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                Ok(())
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert_eq!(error.others(), 9);
        assert_eq!(survivors.into_inner(), 10);
        Ok(())
    });
}

#[test]
fn urgent_children_run_first() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let order = Mutex::new(Vec::new());
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                for priority in [Priority::Low, Priority::Normal, Priority::High] {
                    let order = &order;
                    n.spawn_with(SpawnOpts::new().priority(priority), move |_| {
                        order.lock().unwrap().push(priority);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        }));
        let order = order.into_inner().unwrap();
        assert_eq!(order, [Priority::High, Priority::Normal, Priority::Low]);
    }
}
