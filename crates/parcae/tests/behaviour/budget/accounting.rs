//! Every operation is charged once, to the op. No budget is made, lost or hoarded on the way.

use crate::support::*;
use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

// rule: S0-CHECK-7, S0-COST-1
#[test]
fn whatever_runs_is_charged_to_the_op() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
            n.spawn(|cx| work(cx, 1_500))?.join()?;
            n.spawn(|cx| cx.each(0..1_500).try_for_each(|item| item.map(|_| ())))?.join()?;
            n.spawn(|cx| cx.chunks(0..1_500).try_for_each(|strip| strip.map(|_| ())))?.join()?;
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

/// Spends some, and lets children in nested nurseries spend more. Every third nursery has a budget
/// of its own, some children fail, and some panic.
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
    drop(outcome); // failures below do not matter here
    Ok(())
}

// rule: S0-COST-4, S0-INHERIT-6, S0-NBIND-5
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

// rule: S0-COST-4, S1-GUARD-1, S1-MODULE-3, S2-SCOPE-1
#[test]
fn a_root_task_is_charged_for_its_spawn() {
    let budget = Budget { ops: 10_000, spawn_count: 5, ..Budget::UNLIMITED };
    let rt = Runtime::builder().budget(budget).build().unwrap();
    rt.run(|_| Ok(())).unwrap();
    let handle = rt.handle();
    for _ in 0..4 {
        handle.spawn(|_| Ok(())).unwrap().join().unwrap();
    }
    assert_eq!((rt.budget().spent.spawn_count, rt.budget().spent.ops), (5, 5));
    let refused = handle.spawn(|_| Ok(())).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::SpawnBudgetExhausted(_)), "{refused}");
    assert!(rt.run(|_| Ok(())).is_err());
    assert_eq!((rt.budget().spent.spawn_count, rt.budget().spent.ops), (5, 5));
}

// rule: S0-COST-4, S0-GOAL-6, S0-SEC-1, S0-TESTRT-2
#[test]
fn a_handle_inside_of_a_task_spends_its_spawn_count() {
    let rt = Runtime::builder().build().unwrap();
    let handle = rt.handle();
    let started = AtomicUsize::new(0);
    rt.nursery(NurseryOpts::new(), |n| {
        let may_spawn_two = SpawnOpts::new().budget(Budget::UNLIMITED.with_spawn_count(2));
        n.spawn_with(may_spawn_two, |_| {
            for _ in 0..100 {
                match handle.spawn(|_| Ok(())) {
                    Ok(task) => {
                        started.fetch_add(1, Relaxed);
                        task.join()?;
                    }
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::SpawnBudgetExhausted(_)));
                    }
                }
            }
            Ok(())
        })?
        .join()
    })
    .unwrap();
    assert_eq!(started.into_inner(), 2);
}

#[test]
fn figures_of_parked_tasks_are_exact() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let tenant = NurseryOpts::new().budget(Budget {
        ops: 1_000_000,
        spawn_count: 100,
        channel_ops: 10_000,
        ..Budget::UNLIMITED
    });
    rt.nursery(tenant, |n| {
        let (sender, receiver) = parcae::channel::channel::<u64>(64);
        // One level further down, where a nursery of its own is filled from this one.
        let child = n.spawn_with(
            SpawnOpts::new().budget(Budget::UNLIMITED.with_spawn_count(5)),
            move |cx| {
                cx.nursery(|n| {
                    n.spawn(move |cx| {
                        (0..123).try_for_each(|_| cx.checkpoint())?;
                        receiver.recv()?;
                        Ok(())
                    })?;
                    Ok(())
                })
            },
        )?;
        // It parks sooner or later; then its 123 ops, the spawns and the receive are known.
        let expected = 123 + 2 + 1;
        while n.budget().spent.ops != expected {
            std::thread::yield_now();
        }
        let standing = n.budget();
        assert_eq!(standing.spent.spawn_count, 2);
        assert_eq!(standing.granted.ops, standing.left.ops + standing.held.ops + expected);
        sender.send(1)?;
        child.join()
    })
    .unwrap();
}

// rule: S0-ERR-2, S0-EXHAUST-1
#[test]
fn memory_can_be_charged_by_hand() {
    everywhere(|cx| {
        let megabyte = Budget { memory: 1 << 20, ..Budget::UNLIMITED };
        let opts = || NurseryOpts::new().budget(megabyte);
        let outcome = cx.nursery_with(opts(), |n| {
            n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?.join()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::MemoryBudgetExhausted(_)));
        // Where that is the policy the task waits for a recharge.
        cx.nursery_with(opts().on_exhausted(OnExhausted::Suspend), |n| {
            let child = n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            n.recharge(Budget { memory: 1 << 20, ..Budget::ZERO })?;
            child.join()
        })
    });
}

#[test]
fn what_a_body_draws_in_a_nursery_with_a_budget_of_its_own_is_accounted_for() {
    runtime(1)
        .run(|cx| {
            cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
                n.spawn(|cx| {
                    cx.nursery_with(NurseryOpts::new().budget(ops(1_000)), |_| {
                        (0..15_000).try_for_each(|_| cx.checkpoint())
                    })
                })?
                .join()?;
                let standing = n.budget();
                assert_eq!(standing.held.ops, 0, "nobody holds anything");
                assert_eq!(
                    standing.granted.ops,
                    standing.left.ops + standing.held.ops + standing.spent.ops
                );
                assert_eq!(standing.spent.ops, 15_001);
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn a_task_that_runs_out_of_ops_does_not_hoard_memory() {
    runtime(1)
        .run(|cx| {
            let budget = Budget { ops: 1_000_000, memory: 4 << 20, ..Budget::UNLIMITED };
            let go = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new().budget(budget), |n| {
                n.spawn(|cx| {
                    (0..200_000).try_for_each(|_| cx.checkpoint())?;
                    go.store(true, SeqCst);
                    (0..100).try_for_each(|_| cx.yield_now())
                })?;
                while !go.load(SeqCst) {
                    cx.yield_now()?;
                }
                n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?.join()
            })
        })
        .unwrap();
}

#[test]
fn a_task_that_does_nothing_spends_nothing_of_a_very_large_budget() {
    let budget = Budget { memory: u64::MAX - 1, ..Budget::UNLIMITED };
    let rt = Runtime::builder().workers(1).budget(budget).build().unwrap();
    rt.run(|_| Ok(())).unwrap();
    assert_eq!(rt.budget().spent.memory, 0);
}

#[test]
fn the_account_of_a_nursery_that_counts_nothing_takes_nothing() {
    let rt = runtime(1);
    let limits = BudgetLimits { total: Budget::SERVICE, per_request: Budget::SERVICE };
    let cap = rt.cap_budget(limits, Delegation::Forbidden);
    let account = rt.run(|cx| cx.nursery(|n| Ok(n.account()))).unwrap();
    assert_eq!(account.recharge(&cap, Budget::CHILD).unwrap(), Budget::ZERO);
    assert_eq!(cap.left(), Budget::SERVICE);
}

#[test]
fn a_running_task_shows_what_it_has_spent_whenever_it_takes_more() {
    everywhere(|cx| {
        let grant = Budget::ZERO.with_ops(1_000);
        let opts = NurseryOpts::new().budget(ops(100_000)).slice(grant);
        cx.nursery_with(opts, |n| {
            let task = n.spawn(|cx| {
                work(cx, 4_500)?;
                cx.park()
            })?;
            while n.budget().spent.ops < 4_000 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert!(standing.held.ops <= 1_000, "{standing:?}");
            let sum = standing.left.ops + standing.held.ops + standing.spent.ops;
            assert_eq!(sum, standing.granted.ops);
            task.cancel();
            n.wind_down();
            Ok(())
        })
    });
}
