//! Budgets: conserved, refilled, suspended, recharged.

use super::*;
use crate::scope::budget::UNLIMITED;
use crate::scope::cap::{BudgetLimits, Delegation};
use std::sync::atomic::{AtomicU64, Ordering};

// rule: S0-COST-4, S0-NBIND-1, S0-NURSERY-1, S0-TERM-1, S2-API-3, S2-PRIM-3
#[test]
fn a_nursery_spends_what_its_children_do() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
            for _ in 0..5 {
                n.spawn(|cx| work(cx, 3_000))?.join()?;
            }
            while n.live() > 0 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert_eq!(standing.spent.ops, 5 * 3_000 + 5);
            assert_eq!((standing.left.ops, standing.held.ops), (100_000 - 15_005, 0));
            Ok(())
        })
    });
}

/// The number of checkpoints that a child reaches before it fails, in a nursery with 50,000 ops.
fn ops_until_exhausted(cx: &Cx, policy: OnExhausted) -> Result<u64> {
    let done = AtomicU64::new(0);
    let opts = NurseryOpts::new().budget(ops(50_000)).on_exhausted(policy);
    let outcome: Result<()> = cx.nursery_with(opts, |n| {
        n.spawn(|cx| {
            loop {
                cx.checkpoint()?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        })?
        .join()
    });
    assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
    Ok(done.into_inner())
}

// rule: S0-CHECK-6, S0-INHERIT-1
#[test]
fn a_child_comes_back_for_more_until_the_pool_is_dry() {
    everywhere(|cx| {
        assert_eq!(ops_until_exhausted(cx, OnExhausted::Refill)?, 49_999); // one was the spawn
        Ok(())
    });
}

#[test]
fn fail_means_after_the_first_account() {
    everywhere(|cx| {
        assert_eq!(ops_until_exhausted(cx, OnExhausted::Fail)?, Budget::CHILD.ops);
        Ok(())
    });
}

// rule: S0-EXHAUST-2, S0-EXHAUST-4, S0-STATE-4, S1-MODULE-8
#[test]
fn a_suspended_child_goes_on_after_a_recharge() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().budget(ops(2_000)).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let child = n.spawn(|cx| work(cx, 10_000))?;
            let mut recharges = 0;
            while !child.is_finished() {
                if n.budget().suspended > 0 {
                    n.recharge(Budget { ops: 1_000, ..Budget::ZERO })?;
                    recharges += 1;
                }
                cx.yield_now()?;
            }
            child.join()?;
            assert!((8..=9).contains(&recharges), "{recharges}");
            Ok(())
        })
    });
}

// rule: S0-EXHAUST-2
#[test]
fn a_suspended_child_is_cancelled() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().budget(ops(2_000)).on_exhausted(OnExhausted::Suspend);
        let outcome = cx.nursery_with(opts, |n| {
            n.spawn(forever)?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

// rule: S0-EXHAUST-6, S0-PROFILE-9
#[test]
fn a_capability_recharges_from_any_thread_up_to_its_limit() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let limits = BudgetLimits {
        per_request: Budget { ops: 4_000, ..Budget::ZERO },
        total: Budget { ops: 6_000, ..Budget::ZERO },
    };
    let cap = rt.cap_budget(limits, Delegation::Forbidden);
    let opts = NurseryOpts::new().budget(ops(1_000)).on_exhausted(OnExhausted::Suspend);
    let outcome = rt.run(|cx| {
        cx.nursery_with(opts, |n| {
            let account = n.account();
            n.spawn(|cx| work(cx, 1_000_000))?;
            let token = n.token();
            std::thread::scope(|s| {
                s.spawn(|| {
                    let wait = || {
                        while account.standing().suspended == 0 {
                            std::thread::yield_now();
                        }
                    };
                    wait();
                    assert_eq!(account.recharge(&cap, ops(1 << 40)).unwrap().ops, 4_000);
                    wait();
                    assert_eq!(account.recharge(&cap, ops(1 << 40)).unwrap().ops, 2_000);
                    wait();
                    assert!(account.recharge(&cap, ops(1 << 40)).is_err());
                    token.cancel();
                });
            });
            Ok(())
        })
    });
    assert!(outcome.unwrap_err().is_cancelled());
}

// rule: S0-ERR-1, S0-NURSERY-5, S0-SEC-1
#[test]
fn spawns_are_paid_for() {
    everywhere(|cx| {
        let budget = Budget { spawn_count: 3, ..Budget::UNLIMITED };
        cx.nursery_with(NurseryOpts::new().budget(budget), |n| {
            for _ in 0..3 {
                n.spawn(|_| Ok(()))?;
            }
            let refused = n.spawn(|_| Ok(()));
            assert!(matches!(kind_of(refused), ErrorKind::SpawnBudgetExhausted(_)));
            Ok(())
        })
    });
}

// rule: S0-INHERIT-3
#[test]
fn children_cannot_spawn_unless_they_are_given_to() {
    everywhere(|cx| {
        let budget = Budget { spawn_count: 10, ..Budget::UNLIMITED };
        cx.nursery_with(NurseryOpts::new().budget(budget), |n| {
            let child = n.spawn(|cx| {
                let inner = cx.nursery(|n| n.spawn(|_| Ok(()))?.join());
                assert!(matches!(kind_of(inner), ErrorKind::SpawnBudgetExhausted(_)));
                Ok(())
            })?;
            child.join()?;
            let given = SpawnOpts::new().budget(Budget { spawn_count: 2, ..Budget::UNLIMITED });
            n.spawn_with(given, |cx| cx.nursery(|n| n.spawn(|_| Ok(()))?.join()))?.join()
        })
    });
}

#[test]
fn nesting_makes_no_budget() {
    fn nest(cx: &Cx, done: &AtomicU64) -> Result<()> {
        cx.checkpoint()?;
        done.fetch_add(1, Ordering::Relaxed);
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(move |cx| nest(cx, done))?;
            }
            Ok(())
        })
    }
    everywhere(|cx| {
        let done = AtomicU64::new(0);
        let budget = Budget { ops: 300, spawn_count: 1_000, ..Budget::UNLIMITED };
        let child = Budget { ops: 50, spawn_count: 50, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(budget).slice(child);
        let outcome = cx.nursery_with(opts, |n| n.spawn(|cx| nest(cx, &done))?.join());
        assert!(!outcome.unwrap_err().is_cancelled());
        assert!(done.into_inner() <= 150, "each costs an op, and one for its spawn");
        Ok(())
    });
}

// rule: S0-NBIND-5, S0-NURSERY-12, S0-NURSERY-13, S1-TEST-3
#[test]
fn what_a_nursery_leaves_goes_back() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |outer| {
            let child = outer.spawn(|cx| {
                let before = cx.budget().ops;
                let inner = NurseryOpts::new().budget(ops(5_000));
                cx.nursery_with(inner, |n| n.spawn(|cx| work(cx, 1_000))?.join())?;
                let after = cx.budget().ops;
                assert_eq!(before - after, 1_001);
                cx.nursery(|n| n.spawn(|cx| work(cx, 100))?.join())?;
                assert_eq!(after - cx.budget().ops, 101);
                Ok(())
            })?;
            child.join()
        })
    });
}

#[test]
fn a_budget_that_is_not_there_is_refused_and_nothing_is_lost() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(10_000)), |n| {
            let large = SpawnOpts::new().budget(ops(20_000));
            let refused = n.spawn_with(large, |_| Ok(()));
            assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
            assert_eq!(n.budget().left.ops, 10_000);
            assert_eq!(n.budget().held.ops, 0);
            Ok(())
        })
    });
}

// rule: S0-PROFILE-3
#[test]
fn an_unlimited_runtime_counts_nothing() {
    everywhere(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| work(cx, 50_000))?.join()?;
            assert_eq!(n.budget().granted.ops, UNLIMITED);
            assert_eq!(n.budget().spent, Budget::ZERO);
            Ok(())
        })
    });
}

// rule: S0-BUDGET-1
#[test]
fn a_bounded_runtime_ends_its_tasks_and_has_its_budget_back() {
    let rt = Runtime::builder().workers(2).budget(ops(10_000)).build().unwrap();
    assert!(matches!(kind_of(rt.run(forever)), ErrorKind::BudgetExceeded(_)));
    assert_eq!(rt.budget().left.ops, 0);
    let rt = Runtime::builder().workers(2).budget(ops(10_000)).build().unwrap();
    for _ in 0..3 {
        rt.run(|cx| cx.nursery(|n| n.spawn(|cx| work(cx, 1_000))?.join())).unwrap();
    }
    let standing = rt.budget();
    assert_eq!((standing.spent.ops, standing.left.ops), (3_006, 6_994));
}

#[test]
fn a_child_with_a_budget_of_its_own_is_recharged_by_its_handle() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().budget(ops(10_000)).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let own = SpawnOpts::new().name("frugal").budget(ops(1_000));
            let child = n.spawn_with(own, |cx| work(cx, 2_500))?;
            let account = child.account();
            while !child.is_finished() {
                if let [task] = &account.suspended()[..] {
                    assert_eq!(task.task.name(), Some("frugal"));
                    child.recharge(Budget { ops: 500, ..Budget::ZERO })?;
                    let refused = child.recharge(Budget { ops: 50_000, ..Budget::ZERO });
                    assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
                }
                cx.yield_now()?;
            }
            child.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert_eq!((standing.spent.ops, standing.held.ops), (2_501, 0));
            assert_eq!(standing.left.ops, 10_000 - 2_501);
            Ok(())
        })
    });
}

#[test]
fn without_memory_for_a_record_nothing_is_spawned_and_nothing_is_lost() {
    on_workers(|cx| {
        let shared = std::sync::Arc::clone(&cx.frame().settings().shared);
        cx.nursery_with(NurseryOpts::new().budget(ops(1 << 40)), |n| {
            shared.slab.exhaust(true);
            let mut spawned = 0;
            let error = loop {
                match n.spawn(|_| Ok(())) {
                    Ok(_) => spawned += 1, // from the worker's own free records
                    Err(error) => break error,
                }
            };
            shared.slab.exhaust(false);
            assert!(matches!(error.kind(), ErrorKind::OutOfMemory));
            n.spawn(|_| Ok(()))?.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            assert_eq!(n.budget().spent.ops, spawned + 1);
            Ok(())
        })
    });
}

#[test]
fn a_recharge_wakes_who_waits_further_down() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().budget(ops(2_000)).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            // Its nursery shares what it has, and is filled from where it would draw more.
            let child = n.spawn(|cx| cx.nursery(|n| n.spawn(|cx| work(cx, 5_000))?.join()))?;
            while !child.is_finished() {
                if n.budget().suspended > 0 {
                    n.recharge(Budget { ops: 1_000, ..Budget::ZERO })?;
                }
                cx.yield_now()?;
            }
            child.join()
        })
    });
}

#[test]
fn what_is_not_counted_stays_so_in_and_after_a_nursery() {
    let rt = Runtime::builder().workers(2).budget(ops(100_000)).build().unwrap();
    let run = rt.run(|cx| {
        for _ in 0..3 {
            cx.nursery(|n| {
                cx.checkpoint()?;
                assert_eq!(n.budget().granted.syscalls, UNLIMITED);
                assert_eq!(cx.budget().syscalls, UNLIMITED);
                cx.nursery(|n| n.spawn(|cx| Ok(cx.budget().syscalls))?.join())
            })
            .map(|syscalls| assert_eq!(syscalls, UNLIMITED))?;
            assert_eq!(cx.budget().syscalls, UNLIMITED);
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn the_body_of_a_nursery_that_shares_has_its_budget_under_fail() {
    let builder = Runtime::builder().workers(2).budget(ops(1_001));
    let rt = builder.on_exhausted(OnExhausted::Fail).build().unwrap();
    rt.run_with(SpawnOpts::new().budget(ops(1_000)), |cx| cx.nursery(|_| work(cx, 1_000))).unwrap();
    assert_eq!(rt.budget().spent.ops, 1_001); // one for the root task's spawn
}

#[test]
fn what_the_owner_recharged_comes_back() {
    let rt = Runtime::builder().workers(2).budget(ops(10_000)).build().unwrap();
    let more = Budget { ops: 500, ..Budget::ZERO };
    rt.run(|cx| cx.nursery_with(NurseryOpts::new().budget(ops(100)), |n| n.recharge(more)))
        .unwrap();
    assert_eq!((rt.budget().spent.ops, rt.budget().left.ops), (1, 9_999));
}

#[test]
fn what_a_body_draws_beside_a_nursery_with_its_own_budget_is_given_back() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
            // Uses up its first account in the body of a nursery that has another.
            let body = |cx: &Cx| {
                let inner = NurseryOpts::new().budget(ops(10));
                cx.nursery_with(inner, |_| work(cx, 2 * Budget::CHILD.ops))
            };
            n.spawn(body)?.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert_eq!((standing.spent.ops, standing.held.ops), (2 * Budget::CHILD.ops + 1, 0));
            Ok(())
        })
    });
}

fn bytes(memory: u64) -> Runtime {
    let budget = Budget { memory, ..Budget::UNLIMITED };
    Runtime::builder().workers(2).budget(budget).build().unwrap()
}

#[test]
fn memory_from_before_a_nursery_may_be_freed_in_it() {
    let rt = bytes(1_000);
    rt.run_with(SpawnOpts::new().budget(Budget::UNLIMITED.with_memory(1_000)), |cx| {
        cx.frame().allocated(600);
        cx.nursery(|n| {
            cx.frame().freed(600);
            assert_eq!(n.budget().granted.memory, 400);
            Ok(())
        })?;
        assert_eq!(cx.budget().memory, 1_000);
        Ok(())
    })
    .unwrap();
    assert_eq!(rt.budget().left.memory, 1_000);
}

#[test]
fn what_was_allocated_beyond_the_budget_stays_owed() {
    let rt = bytes(1_000);
    rt.run_with(SpawnOpts::new().budget(Budget::UNLIMITED.with_memory(1_000)), |cx| {
        cx.frame().allocated(1_500);
        cx.charge(Budget::SYSCALL)?;
        assert_eq!(cx.frame().overdraft(), 500);
        cx.frame().freed(1_500);
        assert_eq!(cx.budget().memory, 1_000);
        Ok(())
    })
    .unwrap();
    assert_eq!(rt.budget().left.memory, 1_000);
}
