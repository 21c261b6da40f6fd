//! The accounting of memory is safe wherever a task allocates: values are not taken for frames, no
//! other task runs in the middle of an allocation, and debts are paid.

use crate::support::*;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A value that would fault if it were taken for an address.
const WILD: u64 = 0x4141_4141_4141_4140;

/// A nursery with so much memory, all of which each child may have.
fn tenant(memory: u64) -> NurseryOpts {
    let budget = Budget { memory, ..Budget::UNLIMITED };
    NurseryOpts::new().budget(budget).slice(budget)
}

fn is_out_of_memory(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::MemoryBudgetExhausted(_))
}

/// The child has a name, which is freed after the result was stored.
#[test]
fn a_result_is_not_taken_for_a_frame() {
    runtime(1)
        .run(|cx| {
            cx.nursery(|n| n.spawn_with(SpawnOpts::new().name("x"), |_| Ok([WILD; 4]))?.join())
        })
        .unwrap();
}

/// The log allocates between the choice of a task and its start.
#[test]
fn what_a_closure_captures_is_not_taken_for_a_frame() {
    let captured = [WILD; 4];
    seeded(1)
        .run(|cx| {
            cx.nursery(|n| {
                for _ in 0..5_000 {
                    n.spawn(move |_| Ok(black_box(captured)[1]))?;
                }
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn what_a_closure_captures_is_not_taken_for_a_frame_at_whatever_event_the_log_grows() {
    let captured = [WILD; 4];
    for yields in 0..40 {
        seeded(1)
            .run(|cx| {
                for _ in 0..yields {
                    cx.yield_now()?;
                }
                cx.nursery(|n| {
                    for _ in 0..200 {
                        n.spawn(move |_| Ok(black_box(captured)[1]))?;
                    }
                    Ok(())
                })
            })
            .unwrap();
    }
}

#[test]
fn a_result_left_in_a_record_is_not_taken_for_a_frame_by_a_boxed_closure() {
    let large = [WILD; 40];
    runtime(1)
        .run(|cx| {
            cx.nursery(|n| {
                for _ in 0..10 {
                    n.spawn(|_| Ok([WILD; 6]))?.join()?;
                    n.spawn(move |_| Ok(black_box(large)[3]))?.join()?;
                }
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn one_allocation_that_is_far_too_large_is_an_error_of_the_task() {
    must_end(|| {
        let outcome = runtime(1).run(|cx| {
            cx.nursery_with(tenant(1 << 20), |n| {
                n.spawn(|cx| {
                    let large = vec![1_u8; 16 << 20];
                    cx.checkpoint()?;
                    Ok(large.len())
                })?
                .join()
            })
        });
        assert!(is_out_of_memory(&outcome.unwrap_err()));
    });
}

#[test]
fn no_task_runs_in_the_middle_of_anothers_allocation() {
    thread_local!(static LISTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });
    must_end(|| {
        let clash = AtomicBool::new(false);
        let _ = runtime(1).run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    cx.nursery_with(tenant(1 << 16), |n| {
                        n.spawn(|_| {
                            LISTS.with_borrow_mut(|lists| lists.push(vec![0; 1 << 20]));
                            Ok(())
                        })?
                        .join()
                    })
                })?;
                for _ in 0..1_000 {
                    cx.yield_now()?;
                    if LISTS.with(|lists| lists.try_borrow().is_err()) {
                        clash.store(true, SeqCst);
                        n.cancel();
                        break;
                    }
                }
                Ok(())
            })
        });
        assert!(!clash.load(SeqCst), "another task ran in the middle of an allocation");
    });
}

#[test]
fn a_lock_held_over_an_allocation_does_not_stop_the_worker() {
    must_end(|| {
        let lists = Mutex::new(Vec::new());
        let _ = runtime(1).run(|cx| {
            cx.nursery(|n| {
                let lists = &lists;
                n.spawn(move |cx| {
                    cx.nursery_with(tenant(1 << 16), |n| {
                        n.spawn(move |_| {
                            lists.lock().unwrap().push(vec![0_u8; 1 << 20]);
                            Ok(())
                        })?
                        .join()
                    })
                })?;
                for _ in 0..100 {
                    cx.yield_now()?;
                    drop(lists.lock().unwrap());
                }
                n.cancel();
                Ok(())
            })
        });
    });
}

/// A task that goes far into debt, and does this each time.
fn a_debt_remains_after(act: fn(&Cx) -> Result<()>) {
    must_end(move || {
        let outcome = runtime(1).run(|cx| {
            cx.nursery_with(tenant(1 << 20), |n| {
                n.spawn(move |cx| {
                    let mut hoard = Vec::new();
                    for _ in 0..3 {
                        hoard.push(vec![1_u8; 1 << 20]);
                        act(cx)?;
                    }
                    cx.checkpoint()?;
                    Ok(hoard.len())
                })?
                .join()
            })
        });
        let e = outcome.expect_err("three times its budget");
        assert!(is_out_of_memory(&e), "{e}");
    });
}

#[test]
fn a_charge_of_nothing_does_not_pay_a_debt() {
    a_debt_remains_after(|cx| cx.charge(Budget::ZERO));
}

#[test]
fn opening_a_nursery_does_not_pay_a_debt() {
    a_debt_remains_after(|cx| cx.nursery(|_| Ok(())));
}

#[test]
fn memory_from_before_a_nursery_that_is_freed_in_it_makes_no_budget() {
    must_end(|| {
        let outcome = runtime(1).run(|cx| {
            cx.nursery_with(tenant(10 << 20), |n| {
                n.spawn(|cx| {
                    let large = black_box(vec![1_u8; 5 << 20]);
                    cx.checkpoint()?;
                    let before = cx.budget().memory;
                    cx.nursery(|_| {
                        drop(large);
                        Ok(())
                    })?;
                    assert!(cx.budget().memory >= before + (4 << 20));
                    assert!(cx.budget().memory <= 10 << 20);
                    Ok(7)
                })?
                .join()
            })
        });
        assert_eq!(outcome.unwrap(), 7);
    });
}

/// Parking may allocate under a lock of the runtime that a cancellation needs.
#[test]
fn a_task_without_memory_is_cancelled_wherever_it_allocates() {
    must_end(|| {
        for pad in 0..60 {
            let _ = runtime(1).run(|cx| {
                cx.nursery_with(tenant(1 << 16), |n| {
                    n.spawn(move |cx| {
                        let _hoard = black_box(vec![1_u8; (4 << 16) - pad * 16]);
                        cx.park()
                    })?;
                    for _ in 0..20 {
                        cx.yield_now()?;
                    }
                    n.cancel();
                    Ok(())
                })
            });
        }
    });
}

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).temporary_workers(0).yield_interval(100).build().unwrap()
}

/// A task that has no budget, or owes memory, and does not care lets others run.
#[test]
fn a_task_that_ignores_its_errors_lets_others_run() {
    type Step = fn(&Cx) -> Result<()>;
    let checkpoint: Step = |cx| cx.checkpoint();
    let charge: Step = |cx| cx.charge(Budget { ops: 1_000, ..Budget::ZERO });
    let owing: Step = |cx| cx.yield_now();
    for step in [checkpoint, charge, owing] {
        let (go, started, tries) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
        one_worker()
            .run(|cx| {
                cx.nursery(|n| {
                    n.spawn(|cx| {
                        while !started.load(SeqCst) {
                            cx.yield_now()?;
                        }
                        go.store(true, SeqCst);
                        Ok(())
                    })?;
                    let budget = Budget { memory: 100_000, ..ops(100) };
                    n.spawn_with(SpawnOpts::new().budget(budget), |cx| {
                        let hoard = vec![1_u8; 200_000];
                        started.store(true, SeqCst);
                        while !go.load(SeqCst) {
                            assert!(tries.fetch_add(1, SeqCst) < 100_000, "nobody else runs");
                            let _ = step(cx);
                        }
                        drop(hoard);
                        Ok(())
                    })?;
                    Ok(())
                })
            })
            .unwrap();
    }
}
