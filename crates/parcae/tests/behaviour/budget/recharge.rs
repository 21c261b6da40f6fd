//! A task that is out of budget is suspended, is listed, and runs again after a recharge.

use crate::support::*;
use parcae::Result;
use parcae::budget::{Account, Recharge, Resource};
use parcae::cap::CapError;
use parcae::cap::{BudgetLimits, CapBudget, Delegation, SpawnLimits};
use parcae::channel::channel;
use parcae::nursery::NurseryEvent;
use parcae::prelude::*;
use parcae::profile::{Cluster, Sovereign};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

// rule: S0-EXHAUST-4, S0-STATE-8, S0-STATE-9
#[test]
fn one_recharge_makes_all_exhausted_tasks_run_again() {
    everywhere(|cx| {
        let opts = NurseryOpts::new()
            .budget(ops(1_100))
            .slice(Budget::CHILD.with_ops(100))
            .on_exhausted(OnExhausted::Suspend);
        // No child uses up the budget that the last one is spawned with.
        let all_spawned = AtomicBool::new(false);
        cx.nursery_with(opts, |n| {
            let child = |cx: &Cx| {
                until(cx, || all_spawned.load(Ordering::Relaxed))?;
                work(cx, 500)
            };
            let children: Vec<_> = (0..5).map(|_| n.spawn(child)).collect::<Result<_>>()?;
            all_spawned.store(true, Ordering::Relaxed);
            until(cx, || n.budget().suspended > 0 && n.budget().left.ops == 0)?;
            n.recharge(Budget { ops: 5_000, ..Budget::ZERO })?;
            children.into_iter().try_for_each(TaskHandle::join)
        })
    });
}

// rule: S0-EXHAUST-6, S2-BUDGET-6
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

// rule: S0-CHECK-6, S0-EXHAUST-1, S0-EXHAUST-3, S1-MODULE-7, S2-BUDGET-5
#[test]
fn an_exhausted_task_does_nothing_until_it_is_recharged() {
    everywhere(|cx| {
        let done = AtomicU64::new(0);
        let opts = NurseryOpts::new().budget(ops(1_001)).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            n.spawn(|cx| {
                while done.load(Ordering::Relaxed) < 1_500 {
                    cx.checkpoint()?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            for _ in 0..100 {
                cx.yield_now()?;
                assert_eq!(done.load(Ordering::Relaxed), 1_000);
            }
            n.recharge(Budget { ops: 500, ..Budget::ZERO })
        })?;
        assert_eq!(done.into_inner(), 1_500);
        Ok(())
    });
}

// rule: S0-EXHAUST-5, S0-PROFILE-5, S0-PROFILE-6, S1-PROFILE-3, S2-BUDGET-6
#[test]
fn supervisors_of_a_cluster_recharge_children_that_are_not_theirs() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(2).profile::<Cluster>().deterministic(seed);
        let rt = rt.build().unwrap();
        let all = Budget { ops: 100_000, ..Budget::ZERO };
        let limits = BudgetLimits { total: all, per_request: all };
        let cap = rt.cap_budget(limits, Delegation::Forbidden);
        succeed(rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(500)).on_exhausted(OnExhausted::Suspend);
            let done = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new(), |outer| {
                let outcome = cx.nursery_with(opts, |n| {
                    let account = n.account();
                    let (cap, done) = (&cap, &done);
                    outer.spawn(move |cx| {
                        while !done.load(Ordering::Relaxed) {
                            if account.standing().suspended > 0 {
                                account.recharge(cap, Budget { ops: 1_000, ..Budget::ZERO })?;
                            }
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                    n.spawn(|cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?.join()
                });
                done.store(true, Ordering::Relaxed);
                outcome
            })
        }));
    }
}

// rule: S2-BUDGET-6
#[test]
fn a_suspended_child_with_a_budget_of_its_own_is_recharged_by_its_handle() {
    explored(0..50, |rt| {
        let counted = AtomicU64::new(0);
        let opts = NurseryOpts::new().on_exhausted(OnExhausted::Suspend).child_budget(ops(100));
        rt.run(|cx| {
            cx.nursery_with(opts, |n| {
                let child = n.spawn(|cx| {
                    for _ in 0..250 {
                        cx.checkpoint()?;
                        counted.fetch_add(1, Relaxed);
                    }
                    Ok(())
                })?;
                let account = child.account();
                while !child.is_finished() {
                    if let [suspended] = &account.suspended()[..] {
                        assert_eq!(suspended.resource, Resource::Ops);
                        assert_eq!(counted.load(Relaxed) % 100, 0);
                        child.recharge(Budget { ops: 100, ..Budget::ZERO })?;
                    }
                    cx.yield_now()?;
                }
                child.join()
            })
        })
    })
    .unwrap();
}

#[test]
fn a_handle_does_not_recharge_beyond_the_ceiling_of_the_capability() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let task_budget = Budget::UNLIMITED.with_syscalls(5);
    let cap = rt.cap_spawn(SpawnLimits { max_tasks: 4, task_budget }, Delegation::Forbidden);
    let used = AtomicU64::new(0);
    rt.run(|cx| {
        let opts = NurseryOpts::new().on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let child = n.spawn(&cap, |cx| {
                loop {
                    cx.charge(Budget::ZERO.with_syscalls(1))?;
                    used.fetch_add(1, Relaxed);
                }
                #[allow(unreachable_code)]
                parcae::Result::Ok(())
            })?;
            while child.account().suspended().is_empty() {
                cx.yield_now()?;
            }
            let refused = child.recharge(Budget::ZERO.with_syscalls(50)).unwrap_err();
            assert!(refused.to_string().contains("capability #1"), "{refused}");
            n.wind_down();
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(used.into_inner(), 5);
}

#[test]
fn a_recharge_that_races_with_the_end_of_a_child_makes_no_budget() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let tenant = NurseryOpts::new().budget(Budget {
        ops: 10_000_000,
        spawn_count: 10_000,
        ..Budget::UNLIMITED
    });
    rt.nursery(tenant, |n| {
        for round in 0..500 {
            let own = SpawnOpts::new().budget(ops(1_000));
            let child = n.spawn_with(own, move |cx| {
                for _ in 0..round % 40 {
                    cx.checkpoint()?;
                }
                Ok(())
            })?;
            while !child.is_finished() {
                child.recharge(Budget { ops: 7, ..Budget::ZERO })?;
            }
            child.recharge(Budget { ops: 7, ..Budget::ZERO })?;
            child.join()?;
        }
        Ok(())
    })
    .unwrap();
    // Debug builds check every mutation of a pool; here it is checked from outside, at rest.
    let rt = Runtime::builder().workers(2).budget(ops(1_000_000).with_spawn_count(10_000));
    let rt = rt.build().unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            for round in 0..500 {
                let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), move |cx| {
                    (0..round % 40).try_for_each(|_| cx.checkpoint())
                })?;
                while !child.is_finished() {
                    child.recharge(Budget { ops: 3, ..Budget::ZERO })?;
                }
                child.join()?;
            }
            Ok(())
        })
    })
    .unwrap();
    let standing = rt.budget();
    assert_eq!(standing.held, Budget::ZERO);
    assert_eq!(standing.left.ops + standing.spent.ops, 1_000_000);
    let checkpoints: u64 = (0..500).map(|round| round % 40).sum();
    assert_eq!(standing.spent.ops, checkpoints + 501);
}

/// A host sees tasks that are suspended on a budget of their own, and roots can be recharged.
#[test]
fn tasks_with_a_budget_of_their_own_are_seen_and_recharged() {
    let some = Budget { ops: 5_000, ..Budget::ZERO };
    let steps = |cx: &Cx| (0..2_000).try_for_each(|_| cx.checkpoint());
    let rt = Runtime::builder().workers(1).on_exhausted(OnExhausted::Suspend).build().unwrap();
    rt.nursery(NurseryOpts::new().on_exhausted(OnExhausted::Suspend), |n| {
        let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), steps)?;
        while n.suspended().is_empty() {
            parcae::yield_now()?;
        }
        assert_eq!(n.suspended()[0].resource, Resource::Ops);
        child.recharge(some)?;
        child.join()
    })
    .unwrap();
    let limits = parcae::cap::BudgetLimits { total: some, per_request: some };
    let cap = rt.cap_budget(limits, parcae::cap::Delegation::Forbidden);
    let root = rt.handle().spawn_with(SpawnOpts::new().budget(ops(100)), steps).unwrap();
    while root.account().suspended().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    root.account().recharge(&cap, some).unwrap();
    root.join().unwrap();
    let root = rt.handle().spawn(|cx| cx.forever(|| Ok(()))).unwrap();
    root.cancel();
    let line = line!() - 1;
    let error = root.join().unwrap_err().to_string();
    assert!(error.contains(&format!("{}:{line}:", file!())), "{error}");
}

#[test]
fn only_the_owner_recharges_from_its_own_budget() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.nursery(NurseryOpts::new().budget(ops(1_000).with_spawn_count(3)), |n| {
        let by_child = n.spawn(|_| Ok(n.recharge(Budget { ops: 1, ..Budget::ZERO })))?.join()?;
        assert!(by_child.unwrap_err().to_string().contains("CapBudget"));
        n.recharge(Budget { ops: 1, ..Budget::ZERO })
    })
    .unwrap();
}

#[test]
fn a_suspended_task_goes_on_with_what_a_sibling_gives_back() {
    must_end(|| {
        let outcome = runtime(2).run(|cx| {
            cx.nursery_with(suspending(20_002).slice(Budget::CHILD), |n| {
                let account = n.account();
                let rich = n.spawn(move |cx| {
                    while account.standing().suspended == 0 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                let poor = n.spawn(|cx| (0..12_000).try_for_each(|_| cx.checkpoint()))?;
                rich.join()?;
                poor.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn a_recharge_reaches_tasks_that_are_suspended_in_nurseries_below() {
    must_end(|| {
        let outcome = runtime(2).run(|cx| {
            cx.nursery_with(suspending(5_000), |n| {
                let child = n.spawn(|cx| {
                    cx.nursery(|m| {
                        m.spawn(|cx| (0..8_000).try_for_each(|_| cx.checkpoint()))?.join()
                    })
                })?;
                for _ in 0..200 {
                    cx.yield_now()?;
                    thread::sleep(Duration::from_millis(1));
                }
                n.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                child.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn a_parent_can_recharge_a_suspended_child_with_a_budget_of_its_own() {
    must_end(|| {
        let outcome = runtime(2).run(|cx| {
            let opts = NurseryOpts::new().on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), |cx| {
                    (0..200).try_for_each(|_| cx.checkpoint())
                })?;
                for _ in 0..100 {
                    cx.yield_now()?;
                    thread::sleep(Duration::from_millis(1));
                }
                child.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                child.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn a_recharge_that_nobody_used_goes_back_to_the_owner() {
    let rt = Runtime::builder().workers(1).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        let before = cx.budget().ops;
        let own = NurseryOpts::new().budget(Budget { ops: 10, ..Budget::ZERO });
        cx.nursery_with(own, |n| n.recharge(Budget { ops: 5_000, ..Budget::ZERO }))?;
        assert_eq!(cx.budget().ops, before, "unused budget is lost");
        Ok(())
    })
    .unwrap();
}

#[test]
fn suspended_tasks_that_are_gone_are_not_counted() {
    fn forever(cx: &Cx) -> Result<()> {
        loop {
            cx.checkpoint()?;
        }
    }

    runtime(1)
        .run(|cx| {
            cx.nursery_with(suspending(5_000), |n| {
                let child = n.spawn(forever)?;
                while n.budget().suspended == 0 {
                    cx.yield_now()?;
                }
                child.cancel();
                assert!(child.join().is_err());
                assert_eq!(n.budget().suspended, 0);
                Ok(())
            })
        })
        .unwrap();
}

// rule: S0-EXHAUST-6
#[test]
fn who_holds_a_capability_recharges_itself_up_to_its_limit() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap();
        let total = Budget::ZERO.with_ops(5_000);
        let cap = rt.cap_budget(BudgetLimits::total(total), Delegation::Forbidden);
        let mut rounds = 0;
        let outcome = rt.run(|cx| {
            let tenant =
                NurseryOpts::new().budget(Budget::SERVICE.with_ops(1_001).with_spawn_count(9));
            cx.nursery_with(tenant, |n| {
                let (cap, rounds) = (&cap, &mut rounds);
                let child = n.spawn(move |cx| {
                    loop {
                        while cx.checkpoint().is_ok() {
                            *rounds += 1;
                        }
                        cx.account().recharge(cap, Budget::ZERO.with_ops(2_000))?;
                    }
                });
                let outcome: parcae::Result<()> = child?.join();
                outcome
            })
        });
        let error = kind_of(outcome);
        assert!(matches!(error, ErrorKind::Capability(CapError::BudgetLimitExceeded { .. })));
        assert_eq!(rounds, 1_000 + 5_000); // and one op for the spawn
    }
}

/// The builder of a runtime mints any capability there. In another runtime it is worth nothing.
#[test]
fn a_capability_of_another_runtime_recharges_nobody() {
    let [ours, theirs] = [1, 2].map(|seed| {
        Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap()
    });
    let amount = Budget::ZERO.with_ops(5_000);
    let mint = |rt: &Runtime| rt.cap_budget(BudgetLimits::total(amount), Delegation::Forbidden);
    let (right, wrong) = (mint(&ours), mint(&theirs));
    let outcome = ours.run(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(1_000)), |n| {
            let before = n.budget();
            let error = kind_of(n.account().recharge(&wrong, amount));
            assert!(matches!(error, ErrorKind::Capability(CapError::Foreign { .. })), "{error:?}");
            assert_eq!((n.budget(), wrong.left()), (before, amount)); // nothing has moved
            n.account().recharge(&right, amount)
        })
    });
    assert_eq!(outcome.unwrap(), amount);
}

const MANY: u64 = 1 << 40;

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

fn any_budget(rt: &Runtime) -> CapBudget {
    let all = Budget { ops: MANY, memory: MANY, ..Budget::ZERO };
    rt.cap_budget(BudgetLimits { total: all, per_request: all }, Delegation::Forbidden)
}

/// The recharge comes while the hook waits, before the task has parked.
#[test]
fn a_hook_that_waits_does_not_lose_the_recharge() {
    explored(0..200, |rt| {
        let cap = any_budget(rt);
        rt.run(|cx| {
            let (exhausted, events) = channel::<()>(0);
            let host = NurseryOpts::new()
                .budget(ops(500))
                .on_exhausted(OnExhausted::Suspend)
                .on_event(move |event| {
                    if let NurseryEvent::Exhausted { .. } = event {
                        let _ = exhausted.send(());
                    }
                });
            cx.nursery(|above| {
                let (account, accounts) = channel::<Account>(1);
                above.spawn(move |_| {
                    let account = accounts.recv()?;
                    while events.recv().is_ok() {
                        account.recharge(&cap, Budget { ops: 500, ..Budget::ZERO })?;
                    }
                    Ok(())
                })?;
                cx.nursery_with(host, |n| {
                    account.send(n.account())?;
                    n.spawn(|cx| (0..2_000).try_for_each(|_| cx.checkpoint()))?.join()
                })
            })
        })
    })
    .unwrap();
}

/// A task that a recharge below has woken is not listed above any more.
#[test]
fn a_task_that_was_recharged_is_listed_nowhere() {
    let rt = deterministic();
    let cap = any_budget(&rt);
    let suspend = || NurseryOpts::new().on_exhausted(OnExhausted::Suspend);
    rt.run(|cx| {
        cx.nursery_with(suspend().budget(ops(1_000)).slice(ops(100)), |outer| {
            let (account, accounts) = channel::<Account>(1);
            let middle = outer.spawn(move |cx| {
                cx.nursery_with(suspend(), |inner| {
                    account.send(inner.account())?;
                    inner.spawn(|cx| (0..3_000).try_for_each(|_| cx.checkpoint()))?.join()
                })
            })?;
            let inner = accounts.recv()?;
            while inner.suspended().is_empty() {
                cx.yield_now()?;
            }
            inner.recharge(&cap, Budget { ops: 5_000, ..Budget::ZERO })?;
            middle.join()?;
            assert!(outer.suspended().is_empty(), "{:?}", outer.suspended());
            Ok(())
        })
    })
    .unwrap();
}

/// A recharge that comes while the hook runs leaves a wake-up behind, and the next wait ends early:
/// the hook hears of each shortage once all the same.
#[test]
fn a_hook_hears_of_each_shortage_once() {
    with_runtimes(|rt| {
        let all = Budget { ops: 100_000, ..Budget::ZERO };
        let limits = BudgetLimits { total: all, per_request: all };
        let cap = Arc::new(rt.cap_budget(limits, Delegation::Forbidden));
        let account: Arc<OnceLock<Account>> = Arc::default();
        let heard = Arc::new(AtomicU64::new(0));
        let hook = {
            let (account, heard) = (Arc::clone(&account), Arc::clone(&heard));
            move |event: &NurseryEvent| {
                let NurseryEvent::Exhausted { .. } = event else { return };
                if heard.fetch_add(1, Relaxed) == 0 {
                    let account = account.get().expect("set before the child starts");
                    account.recharge(&cap, Budget { ops: 50, ..Budget::ZERO }).unwrap();
                }
            }
        };
        let opts = NurseryOpts::new().budget(ops(100)).on_exhausted(OnExhausted::Suspend);
        let outcome = rt.run(|cx| {
            cx.nursery_with(opts.on_event(hook), |n| {
                assert!(account.set(n.account()).is_ok());
                let child = n.spawn(|cx| work(cx, 10_000))?;
                until(cx, || heard.load(Relaxed) >= 2 && n.budget().suspended == 1)?;
                (0..20).try_for_each(|_| cx.yield_now())?;
                assert_eq!(heard.load(Relaxed), 2, "one for each time that the budget ran out");
                child.cancel();
                assert!(child.join().unwrap_err().is_cancelled());
                Ok(())
            })
        });
        let panicked = outcome.as_ref().is_err_and(parcae::Error::is_panic);
        assert!(!panicked, "{outcome:?}");
    });
}

/// The `task_budget` of a `CapSpawn` bounds what a `CapBudget` adds, for a root task, a child, and
/// the nurseries that they open.
#[test]
fn an_account_is_not_recharged_beyond_the_ceiling_of_the_capability() {
    fn spend(cx: &Cx<Sovereign>, used: &AtomicU64) -> parcae::Result<()> {
        loop {
            cx.charge(Budget::ZERO.with_syscalls(1))?;
            used.fetch_add(1, Relaxed);
        }
    }
    let calls = |calls| Budget::ZERO.with_syscalls(calls);
    let builder = Runtime::builder().profile::<Sovereign>().workers(2);
    let rt = builder.budget(Budget::UNLIMITED.with_syscalls(3)).on_exhausted(OnExhausted::Suspend);
    let rt = rt.build().unwrap();
    let task_budget = Budget::UNLIMITED.with_syscalls(5);
    let cap = rt.cap_spawn(SpawnLimits { max_tasks: 4, task_budget }, Delegation::Forbidden);
    let more = rt.cap_budget(BudgetLimits::total(calls(100)), Delegation::Forbidden);
    let used = Arc::new(AtomicU64::new(0));
    for nested in [false, true] {
        used.store(0, Relaxed);
        let count = Arc::clone(&used);
        let (tx, accounts) = parcae::channel::channel(1);
        let root = rt.spawn(&cap, move |cx| match nested {
            false => spend(cx, &count),
            true => cx.nursery(|n| {
                tx.send(n.account())?;
                spend(cx, &count)
            }),
        });
        let root = root.unwrap();
        let account = if nested { accounts.recv().unwrap() } else { root.account() };
        while root.account().suspended().is_empty() {
            std::thread::yield_now();
        }
        let (had, more_had) = (used.load(Relaxed), more.left().syscalls);
        let added = account.recharge(&more, calls(50)).unwrap().syscalls;
        assert_eq!(more.left().syscalls, more_had - added, "the rest stays with the capability");
        assert_eq!(had + added, 5);
        while used.load(Relaxed) < 5 || root.account().suspended().is_empty() {
            std::thread::yield_now();
        }
        let left = more.left();
        let refused = account.recharge(&more, calls(50)).unwrap_err();
        assert!(refused.to_string().contains("capability #1"), "{refused}");
        assert_eq!((more.left(), used.load(Relaxed)), (left, 5));
        root.cancel();
        assert!(root.join().unwrap_err().is_cancelled());
    }
}

fn allowance(rt: &Runtime, total: u64) -> CapBudget {
    let limits = BudgetLimits::total(Budget { ops: total, ..Budget::ZERO });
    rt.cap_budget(limits, Delegation::Forbidden)
}

const PERIOD: Duration = Duration::from_millis(100);

fn every(cap: &CapBudget, amount: u64) -> NurseryOpts {
    let amount = Budget { ops: amount, ..Budget::ZERO };
    NurseryOpts::new().recharge(Recharge::every(cap, PERIOD, amount))
}

/// Two tenants with an allowance: each gets its own, once in a period and no more, also if several
/// tasks wait for it; and all of it was paid by the capability.
#[test]
fn an_allowance_comes_back_with_time() {
    schedules(&WORKERS, SEEDS, 0, |schedule| {
        let rt = schedule.builder().build().unwrap();
        let (small, large) = (allowance(&rt, 1_000_000), allowance(&rt, 1_000_000));
        let taken = |cap: &CapBudget| 1_000_000 - cap.left().ops;
        succeed(rt.run(|cx| {
            let began = parcae::time::now();
            let periods = move || (parcae::time::now() - began).as_nanos() / PERIOD.as_nanos();
            cx.nursery(|n| {
                for (cap, amount) in [(&small, 1_000), (&large, 10_000)] {
                    n.spawn(move |cx| {
                        let opts = every(cap, amount).slice(Budget::CHILD.with_ops(100));
                        cx.nursery_with(opts, |n| {
                            for _ in 0..4 {
                                n.spawn(|cx| work(cx, 2_500))?;
                            }
                            Ok(())
                        })?;
                        // The first allowance is the nursery's own.
                        let most = (periods() as u64) * amount;
                        assert!(taken(cap) <= most, "{} in {most}", taken(cap));
                        Ok(())
                    })?;
                }
                Ok(())
            })?;
            assert!(periods() >= 9, "{} periods for 10 000 ops", periods());
            assert!(taken(&small) >= 9_000);
            Ok(())
        }));
    });
}

#[test]
fn an_allowance_that_is_not_used_is_not_taken() {
    schedules(&WORKERS, SEEDS, 0, |schedule| {
        let rt = schedule.builder().build().unwrap();
        let cap = allowance(&rt, 1_000_000);
        succeed(rt.run(|cx| {
            cx.nursery_with(every(&cap, 1_000), |n| {
                n.spawn(|cx| {
                    cx.sleep(PERIOD * 100)?;
                    work(cx, 1_500)
                })?
                .join()
            })
        }));
        assert!(1_000_000 - cap.left().ops <= 2_000, "two allowances, for 1500 ops");
    });
}

/// A capability that has no more: the task waits, and its deadline ends it.
#[test]
fn an_allowance_ends_with_its_capability() {
    schedules(&WORKERS, SEEDS, 1, |schedule| {
        let rt = schedule.builder().build().unwrap();
        let cap = allowance(&rt, 2_500);
        let done = AtomicU64::new(0);
        let error = rt
            .run(|cx| {
                let opts = every(&cap, 1_000).timeout(PERIOD * 20);
                cx.nursery_with(opts, |n| {
                    n.spawn(|cx| {
                        cx.forever(|| {
                            done.fetch_add(1, Relaxed);
                            Ok(())
                        })
                    })?
                    .join()
                })
            })
            .unwrap_err();
        assert!(error.is_timed_out(), "{error}");
        assert_eq!(cap.left().ops, 0);
        assert!(done.load(Relaxed) <= 3_500, "its own 1000, and 2500 of the capability");
    });
}

#[test]
fn an_allowance_of_another_runtime_is_refused() {
    let other = Runtime::builder().build().unwrap();
    let cap = allowance(&other, 10);
    everywhere(|cx| {
        let error = cx.nursery_with(every(&cap, 10), |_| Ok(())).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Capability(CapError::Foreign { .. })), "{error}");
        Ok(())
    });
}
