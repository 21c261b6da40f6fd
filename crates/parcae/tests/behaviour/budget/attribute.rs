//! `#[budgeted]` on real tasks: endless loops and recursion end with an error of the task.

use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

#[budgeted]
fn spin() -> u64 {
    let mut n = 0_u64;
    loop {
        n = n.wrapping_add(1);
        if n == u64::MAX {
            return n;
        }
    }
}

#[budgeted]
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let frame = [depth; 16];
    recurse(depth + 1) + std::hint::black_box(frame)[3]
}

#[budgeted]
fn sum(numbers: &[u64]) -> u64 {
    let mut sum = 0;
    for number in numbers {
        sum += number;
    }
    sum
}

fn both(test: impl Fn(&Runtime)) {
    for workers in [1, 2] {
        test(&Runtime::builder().workers(workers).build().unwrap());
        for seed in 0..5 {
            test(&Runtime::builder().workers(workers).deterministic(seed).build().unwrap());
        }
    }
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    both(|rt| {
        let outcome = rt.run(|cx| {
            let opts = NurseryOpts::new().budget(Budget { ops: 100_000, ..Budget::UNLIMITED });
            cx.nursery_with(opts, |n| n.spawn(|_| Ok(spin()))?.join())
        });
        assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::BudgetExceeded(_)));
    });
}

// rule: S2-CANCEL-5
#[test]
fn an_endless_loop_is_cancelled_and_runs_its_destructors() {
    both(|rt| {
        struct Counts<'c>(&'c AtomicU64);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (started, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    let _counts = Counts(&dropped);
                    started.fetch_add(1, Ordering::Relaxed);
                    Ok(spin())
                })?;
                while started.load(Ordering::Relaxed) == 0 {
                    cx.yield_now()?;
                }
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(dropped.into_inner(), 1);
    });
}

// rule: S0-CHECK-2, S0-ERR-4
#[test]
fn recursion_fails_its_task_before_the_stack_overflows() {
    both(|rt| {
        let error = rt
            .run(|cx| {
                cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    let bomb = n.spawn(|_| Ok(recurse(0)))?;
                    let other = n.spawn(|_| Ok(1))?;
                    assert_eq!(other.join()?, 1);
                    bomb.join()
                })
            })
            .unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::StackOverflow { .. }), "{error:?}");
    });
}

// rule: S0-CHECK-2, S0-COST-1, S0-COST-2
#[test]
fn a_loop_costs_an_op_for_each_round_and_one_for_the_call() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let numbers: Vec<u64> = (0..5_000).collect();
    rt.run(|cx| {
        let opts = NurseryOpts::new().budget(Budget { ops: 100_000, ..Budget::UNLIMITED });
        cx.nursery_with(opts, |n| {
            let numbers = &numbers;
            assert_eq!(n.spawn(move |_| Ok(sum(numbers)))?.join()?, 12_497_500);
            while n.live() > 0 {
                cx.yield_now()?;
            }
            assert_eq!(n.budget().spent.ops, 5_000 + 1 + 1); // rounds, call, spawn
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn outside_of_tasks_nothing_is_counted() {
    assert_eq!(sum(&[1, 2, 3]), 6);
}

// rule: S0-CHECK-1, S0-GOAL-2, S1-AWAIT-1
#[test]
fn other_tasks_get_their_turn_beside_an_endless_loop() {
    both(|rt| {
        let turns = rt
            .run(|cx| {
                cx.nursery(|n| {
                    n.spawn(|_| Ok(spin()))?;
                    let other = n.spawn(|cx| {
                        for _ in 0..100 {
                            cx.yield_now()?;
                        }
                        Ok(100)
                    })?;
                    let turns = other.join()?;
                    n.wind_down();
                    Ok(turns)
                })
            })
            .unwrap();
        assert_eq!(turns, 100);
    });
}
