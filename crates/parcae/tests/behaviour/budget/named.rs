//! A budget that a program names for a runtime, a nursery or a task binds: no operation, nested
//! nursery or handle gets round it.

use crate::support::*;
use parcae::budget::Standing;
use parcae::inspect::TaskSnapshot;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Counts the checkpoints that a task gets through before it fails for lack of budget.
fn greedy(counted: &AtomicU64) -> impl Fn(&Cx) -> parcae::Result<()> + '_ {
    |cx| {
        for _ in 0..100_000 {
            cx.checkpoint()?;
            counted.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

fn is_out_of_budget(error: &parcae::Error) -> bool {
    matches!(error.kind(), ErrorKind::BudgetExceeded(_))
}

// rule: S0-GOAL-3, S0-SEC-1
#[test]
fn a_budget_named_for_a_child_binds_below_an_unlimited_root() {
    for policy in [None, Some(OnExhausted::Refill), Some(OnExhausted::Fail)] {
        let rt = Runtime::builder().build().unwrap();
        let counted = AtomicU64::new(0);
        let mut opts = NurseryOpts::new();
        opts = policy.into_iter().fold(opts, NurseryOpts::on_exhausted);
        let error = rt.nursery(opts, |n| {
            n.spawn_with(SpawnOpts::new().budget(ops(1_000)), greedy(&counted))?.join()
        });
        assert!(is_out_of_budget(&error.unwrap_err()));
        assert_eq!(counted.into_inner(), 1_000, "{policy:?}");
    }
}

// rule: S0-GOAL-3
#[test]
fn a_child_budget_binds_each_child() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    // Below an unlimited root, and in a nursery that has more.
    for budget in [None, Some(ops(1_000_000).with_spawn_count(100))] {
        let mut opts = NurseryOpts::new().child_budget(ops(700)).on_failure(OnFailure::Isolate);
        opts = budget.into_iter().fold(opts, NurseryOpts::budget);
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        rt.nursery(opts, |n| {
            let children: Vec<_> =
                counts.iter().map(|count| n.spawn(greedy(count))).collect::<Result<_, _>>()?;
            for child in children {
                assert!(is_out_of_budget(&child.join().unwrap_err()));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(counts.map(AtomicU64::into_inner), [700, 700]);
    }
}

#[test]
fn a_budget_named_for_a_root_task_binds() {
    let rt = Runtime::builder().build().unwrap();
    let counted = AtomicU64::new(0);
    let opts = SpawnOpts::new().budget(ops(1_000));
    assert!(is_out_of_budget(&rt.run_with(opts.clone(), greedy(&counted)).unwrap_err()));
    assert_eq!(counted.into_inner(), 1_000);
    let task = rt.handle().spawn_with(opts, |cx| cx.forever(|| Ok(()))).unwrap();
    assert!(is_out_of_budget(&task.join().unwrap_err()));
}

#[test]
fn what_a_named_budget_leaves_open_is_shared() {
    let rt = Runtime::builder().build().unwrap();
    let tenant = NurseryOpts::new().budget(Budget {
        ops: 1_000_000,
        spawn_count: 10,
        channel_ops: 1_000,
        ..Budget::UNLIMITED
    });
    rt.nursery(tenant, |n| {
        // It may use the nursery's channel operations, and does not take all of them away.
        let first = n.spawn_with(SpawnOpts::new().budget(ops(500)), |cx| {
            cx.charge(Budget::ZERO.with_channel_ops(300))?;
            cx.yield_now()
        })?;
        let second = n.spawn(|cx| cx.charge(Budget::ZERO.with_channel_ops(300)))?;
        first.join()?;
        second.join()
    })
    .unwrap();
}

// rule: S0-GOAL-3, S0-SEC-1, S0-TERM-4
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

// rule: S0-GOAL-3, S0-SEC-1
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

// rule: S0-BUDGET-1, S0-INHERIT-1, S0-INHERIT-2, S0-INHERIT-3, S0-INHERIT-4, S0-INHERIT-5
// rule: S0-INHERIT-6, S0-NURSERY-6, S0-SUBMIT-2, S0-TASK-3, S2-BUDGET-3, S2-PRIM-2
#[test]
fn a_child_gets_its_share_of_every_component_and_the_pool_has_that_much_less() {
    everywhere(|cx| {
        let rich = Budget {
            ops: 200_000,
            memory: 64 << 20,
            spawn_count: 50,
            channel_ops: 5_000,
            syscalls: 500,
        };
        // A sixteenth of what is left when the spawn is paid for, rounded up.
        let poor = Budget { ops: 51, memory: 1_000, spawn_count: 50, channel_ops: 7, syscalls: 3 };
        let part = Budget { ops: 4, memory: 63, spawn_count: 0, channel_ops: 1, syscalls: 1 };
        for (pool, share) in [(rich, Budget::CHILD), (poor, part)] {
            let seen = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new().budget(pool), |n| {
                let child = n.spawn(|cx| {
                    let own = cx.budget();
                    while !seen.load(Ordering::Relaxed) {
                        cx.yield_now()?; // which costs nothing
                    }
                    Ok(own)
                })?;
                cx.yield_now()?; // takes the prepaid budget back
                let Standing { granted, left, held, spent, .. } = n.budget();
                assert_eq!((granted, held, spent), (pool, share, Budget::SPAWN));
                let mut rest = pool;
                rest.charge(share)?;
                rest.charge(Budget::SPAWN)?;
                assert_eq!(left, rest);
                seen.store(true, Ordering::Relaxed);
                assert_eq!(child.join()?, share);
                Ok(())
            })?;
        }
        Ok(())
    });
}

// rule: S0-EXHAUST-1, S1-MODULE-7
#[test]
fn what_is_missing_of_other_components_binds_the_operation() {
    everywhere(|cx| {
        let none = Budget { channel_ops: 0, syscalls: 1, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(none).slice(none);
        cx.nursery_with(opts, |n| {
            n.spawn(|cx| {
                cx.charge(Budget::SYSCALL)?;
                let refused = cx.charge(Budget::SYSCALL);
                assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
                let refused = cx.charge(Budget::CHANNEL_OP);
                assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
                work(cx, 5_000) // the task goes on
            })?
            .join()
        })
    });
}

#[test]
fn a_component_without_limit_has_none_after_a_nursery() {
    let rt = Runtime::builder().workers(1).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        for round in 0..2 {
            cx.nursery(|n| n.spawn(|cx| cx.nursery(|m| m.spawn(|_| Ok(()))?.join()))?.join())
                .map_err(|e| Error::msg(format!("round {round}: {e}")))?;
            assert_eq!(cx.budget().memory, u64::MAX, "after round {round}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn opening_a_nursery_does_not_use_up_what_a_task_may_draw_once() {
    runtime(1)
        .run(|cx| {
            let opts = NurseryOpts::new().budget(ops(100_000)).on_exhausted(OnExhausted::Fail);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    cx.checkpoint()?;
                    cx.nursery(|_| cx.checkpoint())
                })?
                .join()
            })
        })
        .unwrap();
}

/// A child that was lent its nursery spawns siblings out of its own budget, if it has one.
#[test]
fn a_lent_nursery_is_no_way_round_a_budget() {
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let spawned = AtomicUsize::new(0);
        rt.nursery(NurseryOpts::new().budget(ops(1_000_000).with_spawn_count(64)), |n| {
            let few = SpawnOpts::new().budget(ops(1_000).with_spawn_count(3));
            let child = n.spawn_with(few, |_| {
                for _ in 0..10 {
                    n.spawn(|_| Ok(()))?;
                    spawned.fetch_add(1, SeqCst);
                }
                Ok(())
            })?;
            let error = child.join().unwrap_err();
            assert!(error.to_string().contains("spawn"), "{error}");
            n.spawn(|_| Ok(()))?.join() // there is enough for others
        })
        .unwrap_err();
        assert_eq!(spawned.into_inner(), 3);
    }
}

#[test]
fn two_root_tasks_share_the_budget_of_the_runtime() {
    let rt = Runtime::builder().workers(2).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        let second = rt
            .handle()
            .spawn(|cx| (0..10).try_for_each(|_| cx.checkpoint()))
            .and_then(|task| task.join());
        cx.checkpoint()?;
        second
    })
    .unwrap();
}

#[test]
fn a_root_task_with_a_budget_gets_it_from_the_runtime_and_gives_the_rest_back() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap();
        let own = Budget::ZERO.with_ops(3_000).with_memory(1 << 10);
        let opts = SpawnOpts::new().name("import").budget(own);
        let held = rt.run_with(opts.clone(), |cx| {
            assert_eq!((cx.budget(), cx.info().name()), (own, Some("import")));
            work(cx, 100)?;
            Ok(())
        });
        held.unwrap();
        let standing = rt.budget();
        assert_eq!((standing.held, standing.spent.ops), (Budget::ZERO, 101)); // one for its spawn
        // More than there is, and nothing is lost by asking.
        let much = SpawnOpts::new().budget(Budget::SERVICE.with_ops(100_000));
        let error = kind_of(rt.run_with(much, |_| Ok(())));
        assert!(matches!(error, ErrorKind::BudgetExceeded(_)), "{error:?}");
        assert_eq!(rt.budget(), standing);
        // It binds, though the runtime has more.
        assert!(matches!(kind_of(rt.run_with(opts, forever)), ErrorKind::BudgetExceeded(_)));
        let standing = rt.budget();
        assert_eq!((standing.held, standing.spent.ops), (Budget::ZERO, 101 + 3_001));
        assert_eq!(standing.left.memory, Budget::SERVICE.memory);
    }
}

/// Resources without a named budget are unlimited in all displays, also while a nursery shares the
/// account of its task.
#[test]
fn resources_that_are_not_counted_are_shown_as_unlimited() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let named = SpawnOpts::new().name("named").budget(ops(1_000));
            n.spawn_with(named, |cx| {
                let unlimited = Budget::UNLIMITED.with_ops(0);
                assert_eq!(cx.budget().with_ops(0), unlimited);
                cx.nursery(|inner| {
                    assert_eq!(cx.budget().with_ops(0), unlimited);
                    inner.spawn(|cx| {
                        assert_eq!(cx.budget().with_ops(0), unlimited);
                        Ok(())
                    })?;
                    cx.charge(Budget { memory: 5, channel_ops: 5, syscalls: 5, ..Budget::OP })?;
                    assert_eq!(cx.budget().with_ops(0), unlimited);
                    let inside = cx.nursery(|_| Ok(cx.budget()))?;
                    assert_eq!(inside.with_ops(0), unlimited);
                    Ok(())
                })?;
                assert_eq!(cx.budget().with_ops(0), unlimited);
                Ok(())
            })?
            .join()
        })?;
        Ok(())
    });
}

#[test]
fn dumps_show_no_zero_for_resources_that_are_not_counted() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let named = SpawnOpts::new().name("named").budget(ops(1_000));
    rt.nursery(NurseryOpts::new(), |n| {
        let (tx, rx) = parcae::channel::channel::<()>(0);
        n.spawn_with(named, move |cx| {
            cx.nursery(|n| n.spawn(move |_| Ok(rx.recv()?)).map(drop)) // waits for its child
        })?;
        let left = loop {
            parcae::yield_now()?;
            let tasks = rt.dump().tasks;
            let task = tasks.into_iter().find(|task| task.name.as_deref() == Some("named"));
            if let Some(TaskSnapshot { budget: Some(left), wait: Some(_), .. }) = task {
                break left;
            }
        };
        assert_eq!(left.with_ops(0), Budget::UNLIMITED.with_ops(0));
        tx.send(())?;
        Ok(())
    })
    .unwrap();
}
