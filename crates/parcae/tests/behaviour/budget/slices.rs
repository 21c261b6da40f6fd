//! How much a child draws at a time, and what a nested nursery gets from above.

use crate::support::explored;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn ops(ops: u64) -> Budget {
    Budget::UNLIMITED.with_ops(ops)
}

fn work(cx: &Cx, ops: u64) -> Result<()> {
    (0..ops).try_for_each(|_| cx.checkpoint())
}

fn is_out_of_budget(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BudgetExceeded(_))
}

// ----- small pools ------------------------------------------------------------------------------

/// A new user names a small budget, and spawns several children.
// rule: S0-INHERIT-1
#[test]
fn children_share_a_small_pool() {
    for policy in [OnExhausted::Refill, OnExhausted::Suspend] {
        explored(0..100, |rt| {
            let small = Budget {
                ops: 1_000,
                memory: 100_000,
                spawn_count: 20,
                channel_ops: 40,
                syscalls: 40,
            };
            let opts = NurseryOpts::new().budget(small).on_exhausted(policy);
            rt.run(|cx| {
                cx.nursery_with(opts, |n| {
                    for _ in 0..10 {
                        n.spawn(|cx| {
                            cx.charge(Budget { memory: 5_000, ..Budget::ZERO })?;
                            cx.charge(Budget { channel_ops: 2, syscalls: 2, ..Budget::ZERO })?;
                            work(cx, 50)
                        })?;
                    }
                    Ok(())
                })
            })
        })
        .unwrap();
    }
}

/// The whole pool can be used, whatever the order, and not an op more.
#[test]
fn all_of_a_small_pool_can_be_used() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            for total in [1, 2, 5, 17, 100, 1_000, 30_000] {
                let done = AtomicU64::new(0);
                let tenant = NurseryOpts::new().budget(ops(total + 1));
                let outcome = cx.nursery_with(tenant, |n| {
                    n.spawn(|cx| {
                        cx.forever(|| {
                            done.fetch_add(1, Relaxed);
                            Ok(())
                        })
                        .map(|_| ())
                    })?
                    .join()
                });
                assert!(is_out_of_budget(&outcome.unwrap_err()));
                assert_eq!(done.into_inner(), total);
            }
            Ok(())
        })
    })
    .unwrap();
}

/// A spawn that no pool can pay for is still an error.
#[test]
fn a_spawn_without_budget_is_refused() {
    explored(0..50, |rt| {
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().budget(ops(1)), |n| {
                assert!(is_out_of_budget(&n.spawn(|_| Ok(())).unwrap_err())); // none to begin with
                Ok(())
            })?;
            cx.nursery_with(NurseryOpts::new().budget(ops(100).with_spawn_count(1)), |n| {
                n.spawn(|_| Ok(()))?.join()?;
                let refused = n.spawn(|_| Ok(())).unwrap_err();
                assert!(matches!(refused.kind(), ErrorKind::SpawnBudgetExhausted(_)));
                Ok(())
            })
        })
    })
    .unwrap();
}

/// Under `Fail` each child gets half of what is left, at most the default slice, and no more.
// rule: S0-INHERIT-1
#[test]
fn under_fail_each_child_gets_half_of_what_is_left() {
    explored(0..50, |rt| {
        rt.run(|cx| {
            let fail = NurseryOpts::new().on_exhausted(OnExhausted::Fail);
            let opts = fail.clone().budget(ops(1_003)).on_failure(OnFailure::Isolate);
            let counts = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
            cx.nursery_with(opts, |n| {
                let greedy = |count| {
                    move |cx: &Cx| -> Result<()> {
                        loop {
                            cx.checkpoint()?;
                            AtomicU64::fetch_add(count, 1, Relaxed);
                        }
                    }
                };
                let all: Vec<_> = counts.iter().map(|count| n.spawn(greedy(count))).collect();
                for child in all {
                    assert!(is_out_of_budget(&child?.join().unwrap_err()));
                }
                Ok(())
            })?;
            assert_eq!(counts.map(AtomicU64::into_inner), [501, 250, 125]);
            // The same for what a child with a named budget shares with its siblings.
            let channels = fail.budget(ops(1_000).with_channel_ops(100));
            cx.nursery_with(channels, |n| {
                let named = || SpawnOpts::new().budget(ops(100));
                let left = |cx: &Cx| Ok(cx.budget());
                let first = n.spawn_with(named(), left)?;
                let second = n.spawn_with(named(), left)?;
                let (first, second) = (first.join()?, second.join()?);
                assert_eq!((first.ops, second.ops), (100, 100));
                assert_eq!(first.channel_ops, 50);
                assert!([25, 50].contains(&second.channel_ops), "{second:?}"); // it may come back
                Ok(())
            })
        })
    })
    .unwrap();
}

/// A slice that is named is drawn as it is.
#[test]
fn a_named_slice_is_drawn_whole() {
    explored(0..50, |rt| {
        rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(100)).slice(Budget::CHILD.with_ops(60));
            cx.nursery_with(opts, |n| {
                assert_eq!(n.spawn(|cx| Ok(cx.budget().ops))?.join()?, 60);
                Ok(())
            })
        })
    })
    .unwrap();
}

#[test]
fn root_tasks_share_a_small_runtime() {
    for policy in [OnExhausted::Refill, OnExhausted::Suspend] {
        let budget = Budget { ops: 2_000, spawn_count: 100, ..Budget::UNLIMITED };
        let rt = Runtime::builder().workers(2).budget(budget).on_exhausted(policy).build().unwrap();
        let handle = rt.handle();
        let tasks: Vec<_> =
            (0..20).map(|_| handle.spawn(|cx| work(cx, 90)).expect("there is enough")).collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!((rt.budget().spent.ops, rt.budget().held.ops), (20 * 91, 0));
    }
}

// ----- nested nurseries -------------------------------------------------------------------------

/// A budget that is named in a nested nursery comes from above, if the nursery's slice is smaller.
#[test]
fn a_nested_nursery_asks_above_for_a_named_budget() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            let may_spawn = Budget::CHILD.with_ops(1_000).with_spawn_count(5);
            let tenant = ops(1_000_000).with_spawn_count(100).with_memory(64 << 20);
            let opts = NurseryOpts::new().budget(tenant).slice(may_spawn);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    // Two levels down, fifty slices, and more memory than a slice has.
                    cx.nursery(|n| {
                        let named = ops(50_000).with_memory(8 << 20);
                        n.spawn_with(SpawnOpts::new().budget(named), |cx| work(cx, 40_000))?;
                        cx.nursery(|n| {
                            n.spawn_with(SpawnOpts::new().budget(ops(50_000)), |cx| work(cx, 500))?
                                .join()
                        })
                    })
                })?
                .join()?;
                while n.live() > 0 {
                    cx.yield_now()?;
                }
                let now = n.budget();
                assert_eq!(now.spent.ops, 40_000 + 500 + 3);
                assert_eq!((now.held.ops, now.left.ops), (0, 1_000_000 - now.spent.ops));
                assert_eq!(now.left.memory, 64 << 20);
                Ok(())
            })
        })
    })
    .unwrap();
}

/// A refused amount stays in the pools above, at every level: a refused spawn takes nothing away
/// from others.
#[test]
fn a_named_budget_that_is_not_there_moves_nothing() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            let slice = Budget::CHILD.with_ops(1_000).with_spawn_count(5);
            let opts = NurseryOpts::new()
                .budget(ops(100_000).with_spawn_count(10).with_memory(1 << 20))
                .slice(slice);
            cx.nursery_with(opts, |outer| {
                let account = outer.account();
                outer
                    .spawn(move |cx| {
                        cx.nursery(|n| {
                            let before = account.standing().left;
                            let named = ops(50_000).with_memory(2 << 20); // more than all memory
                            let refused = n.spawn_with(SpawnOpts::new().budget(named), |_| Ok(()));
                            let error = refused.unwrap_err();
                            let memory =
                                matches!(error.kind(), ErrorKind::MemoryBudgetExhausted(_));
                            assert!(memory, "{error}");
                            assert_eq!(account.standing().left, before);
                            Ok(())
                        })
                    })?
                    .join()
            })
        })
    })
    .unwrap();
}

/// An explicit bound is no slice: nothing comes from above.
#[test]
fn a_nursery_with_a_budget_of_its_own_does_not_ask_above() {
    explored(0..50, |rt| {
        rt.run(|cx| {
            let slice = Budget::CHILD.with_spawn_count(10);
            let tenant = NurseryOpts::new().budget(ops(100_000).with_spawn_count(50)).slice(slice);
            cx.nursery_with(tenant, |n| {
                n.spawn(|cx| {
                    let bounded = NurseryOpts::new().budget(ops(1_000).with_spawn_count(5));
                    cx.nursery_with(bounded, |n| {
                        let named = SpawnOpts::new().budget(ops(5_000));
                        let refused = n.spawn_with(named, |_| Ok(())).unwrap_err();
                        assert!(is_out_of_budget(&refused), "{refused}");
                        Ok(())
                    })
                })?
                .join()?;
                // The same for a child whose budget is named: its nurseries have that and no more.
                let own = SpawnOpts::new().budget(ops(1_000).with_spawn_count(5));
                n.spawn_with(own, |cx| {
                    cx.nursery(|n| {
                        let named = SpawnOpts::new().budget(ops(5_000));
                        let refused = n.spawn_with(named, |_| Ok(())).unwrap_err();
                        assert!(is_out_of_budget(&refused), "{refused}");
                        Ok(())
                    })
                })?
                .join()
            })
        })
    })
    .unwrap();
}

/// A recharge of a child by its handle draws from above, too.
#[test]
fn a_recharge_in_a_nested_nursery_asks_above() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            let slice = Budget::CHILD.with_ops(1_000).with_spawn_count(5);
            let opts = NurseryOpts::new()
                .budget(ops(100_000).with_spawn_count(10))
                .slice(slice)
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    cx.nursery(|n| {
                        let own = SpawnOpts::new().budget(ops(10));
                        let child = n.spawn_with(own, |cx| work(cx, 20_000))?;
                        while child.account().suspended().is_empty() {
                            cx.yield_now()?;
                        }
                        child.recharge(Budget { ops: 20_000, ..Budget::ZERO })?;
                        child.join()
                    })
                })?
                .join()
            })
        })
    })
    .unwrap();
}

/// The body of a nursery that shares its owner's budget works between two spawns, and leaves enough
/// for the children: a root task, whose slice is drawn whole otherwise, too.
#[test]
fn the_body_of_a_nursery_leaves_budget_to_the_children() {
    fn alternate(cx: &Cx) -> parcae::Result<()> {
        let (tx, rx) = parcae::channel::channel(4);
        cx.nursery(|n| {
            n.spawn(move |_| (0..3).try_for_each(|_| Ok(rx.recv()?)))?;
            for _ in 0..3 {
                cx.checkpoint()?;
                tx.send(())?;
                n.spawn(|cx| (0..10).try_for_each(|_| cx.checkpoint()))?.join()?;
            }
            Ok(())
        })
    }
    let small = Budget { ops: 1_000, spawn_count: 8, channel_ops: 100, ..Budget::UNLIMITED };
    for policy in [OnExhausted::Refill, OnExhausted::Suspend] {
        let free = Runtime::builder().on_exhausted(policy).build().unwrap();
        free.run_with(SpawnOpts::new().budget(small), alternate).unwrap();
        free.spawn_with(SpawnOpts::new().budget(small), alternate).unwrap().join().unwrap();
        let bounded = Runtime::builder().budget(small).on_exhausted(policy).build().unwrap();
        bounded.run(alternate).unwrap();
    }
}

// ----- root tasks -------------------------------------------------------------------------------

/// Several root tasks live side by side on a small budget: none draws all of it.
#[test]
fn root_tasks_share_the_budget_of_their_runtime() {
    for policy in [OnExhausted::Refill, OnExhausted::Suspend, OnExhausted::Fail] {
        for seed in 0..20 {
            let builder = Runtime::builder().workers(2).deterministic(seed);
            let small = Budget::SERVICE.with_ops(2_000).with_channel_ops(64);
            let rt = builder.budget(small).on_exhausted(policy).build().unwrap();
            let handle = rt.handle();
            rt.run(|cx| {
                let second = handle.spawn(|cx| work(cx, 50))?;
                cx.sleep(std::time::Duration::from_secs(1))?; // holds its slice
                second.join()?;
                work(cx, 100)
            })
            .unwrap();
        }
    }
    // On threads, each started by `run`.
    let rt = Runtime::builder().workers(2).budget(ops(1_000)).build().unwrap();
    let (first, second) = parcae::channel::channel::<()>(0);
    std::thread::scope(|threads| {
        let sleeper = threads.spawn(|| rt.run(|_| Ok(second.recv()?)));
        while rt.live_tasks() == 0 {
            std::thread::yield_now();
        }
        rt.run(|cx| work(cx, 50)).unwrap();
        first.send(()).unwrap();
        sleeper.join().unwrap().unwrap();
    });
}
