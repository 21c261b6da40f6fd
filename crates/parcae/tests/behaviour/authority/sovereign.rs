//! Spawning by capability: a task gets as much as its nursery gives, up to the capability's
//! `task_budget`, and a handle is no way round it.

use crate::support::*;
use parcae::Result;
use parcae::cap::CapSpawn;
use parcae::cap::{Delegation, SpawnLimits};
use parcae::prelude::*;
use parcae::profile::{Feature, ProfileId, Sovereign};

/// Runs a test with a runtime of which all is counted.
fn counted(task_budget: Budget, test: impl Fn(&Runtime<Sovereign>, &CapSpawn)) {
    for seed in 0..SEEDS {
        let builder = Runtime::builder().workers(2).profile::<Sovereign>().deterministic(seed);
        let rt = builder.budget(Budget::CLUSTER).build().unwrap();
        let limits = SpawnLimits { max_tasks: 100, task_budget };
        let cap = rt.cap_spawn(limits, Delegation::Allowed);
        test(&rt, &cap);
        let (Budget { ops, .. }, held) = (rt.budget().granted, rt.budget().held);
        assert_eq!((ops, held), (Budget::CLUSTER.ops, Budget::ZERO), "seed {seed}");
    }
}

/// Spawns tasks inside of tasks, all by the same capability.
fn nest(cx: &Cx<Sovereign>, cap: &CapSpawn, depth: u32) -> Result<u32> {
    if depth == 0 {
        return Ok(0);
    }
    cx.checkpoint()?;
    let below = cx.nursery(|n| n.spawn(cap, move |cx| nest(cx, cap, depth - 1))?.join())?;
    cx.checkpoint()?; // the spawner has budget left
    Ok(below + 1)
}

// rule: S0-PROFILE-9, S0-SUBSYS-4
#[test]
fn a_task_spawns_by_the_capability_that_it_was_spawned_by() {
    counted(Budget::CHILD.with_spawn_count(10), |rt, cap| {
        assert_eq!(rt.run(|cx| nest(cx, cap, 10)).unwrap(), 10);
        assert_eq!(cap.live(), 0);
    });
}

// rule: S1-PROFILE-4
#[test]
fn what_a_task_spawns_counts_against_its_own_bound() {
    counted(Budget::CHILD.with_spawn_count(4), |rt, cap| {
        // The first has 4; its child takes its own spending out of that, and so on.
        assert_eq!(rt.run(|cx| nest(cx, cap, 5)).unwrap(), 5);
        let error = rt.run(|cx| nest(cx, cap, 6)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::SpawnBudgetExhausted(_)), "{error}");
        let named = format!("spawn capability #{}, whose `task_budget`", cap.serial());
        assert!(error.to_string().contains(&named), "{error}");
    });
}

// rule: S0-GOAL-6
#[test]
fn a_task_comes_back_for_more_up_to_its_bound_and_no_further() {
    let most = Budget::UNLIMITED.with_ops(35_000);
    counted(most, |rt, cap| {
        let mut rounds = 0;
        let error = rt.run(|cx| {
            cx.nursery(|n| {
                let rounds = &mut rounds;
                n.spawn(cap, move |cx| {
                    cx.forever(|| {
                        *rounds += 1;
                        Ok(())
                    })
                })?
                .join()
            })
        });
        let error = error.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
        assert!(error.to_string().contains("under spawn capability #"), "{error}");
        assert_eq!(rounds, 35_000);
    });
}

#[test]
fn a_shortage_of_the_nursery_is_not_blamed_on_the_capability() {
    counted(Budget::UNLIMITED.with_ops(500_000), |rt, cap| {
        let tenant = || NurseryOpts::new().budget(Budget::SERVICE.with_ops(20_000));
        let error = rt.run(|cx| {
            cx.nursery_with(tenant(), |n| n.spawn(cap, |cx| cx.forever(|| Ok(())))?.join())
        });
        let error = error.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
        assert!(!error.to_string().contains("capability"), "{error}");
    });
}

// rule: S0-PROFILE-8
#[test]
fn a_budget_by_name_binds_and_is_lowered_to_that_of_the_capability() {
    counted(Budget::CHILD.with_ops(5_000), |rt, cap| {
        for (asked, expected) in [(1_000, 1_000), (9_000, 5_000)] {
            let mut rounds = 0;
            let outcome = rt.run(|cx| {
                cx.nursery(|n| {
                    let opts = SpawnOpts::new().budget(Budget::ZERO.with_ops(asked));
                    let rounds = &mut rounds;
                    let count = move |cx: &Cx<Sovereign>| {
                        cx.forever(|| {
                            *rounds += 1;
                            Ok(())
                        })
                    };
                    n.spawn_with(cap, opts, count)?.join()
                })
            });
            assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
            assert_eq!(rounds, expected);
        }
    });
}

#[test]
fn who_fails_when_it_is_out_of_budget_has_all_of_its_bound_at_once() {
    for seed in 0..SEEDS {
        let builder = Runtime::builder().profile::<Sovereign>().deterministic(seed);
        let rt = builder.budget(Budget::CLUSTER).on_exhausted(OnExhausted::Fail).build().unwrap();
        let task_budget = Budget::CHILD.with_ops(30_000).with_spawn_count(2);
        let cap = rt.cap_spawn(SpawnLimits { max_tasks: 10, task_budget }, Delegation::Forbidden);
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                let child = n.spawn(&cap, |cx| Ok(cx.budget()))?;
                assert_eq!(child.join()?, task_budget);
                Ok(())
            })
        }));
    }
}

// rule: S0-GOAL-6, S0-SEC-2
#[test]
fn a_root_task_by_capability_is_bounded_too() {
    let rt = Runtime::builder().workers(1).profile::<Sovereign>().build().unwrap();
    let limits = SpawnLimits { max_tasks: 1, task_budget: Budget::UNLIMITED.with_ops(2_000) };
    let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    let task = rt.handle().spawn(&cap, |cx| cx.forever(|| Ok(()))).unwrap();
    let error = task.join().unwrap_err();
    assert!(error.to_string().contains("under spawn capability #1"), "{error}");
    while cap.live() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(rt.handle().spawn(&cap, |_| Ok(7)).unwrap().join().unwrap(), 7);
}

fn is_out_of_budget(error: &parcae::Error) -> bool {
    matches!(error.kind(), ErrorKind::BudgetExceeded(_))
}

// rule: S0-GOAL-6, S0-PROFILE-9, S0-SEC-2
#[test]
fn a_handle_is_no_way_round_the_capability_in_sovereign() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let limits = SpawnLimits { max_tasks: 1, task_budget: ops(100) };
    let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    let handle = rt.handle();
    assert_eq!(handle.spawn(&cap, |_| Ok(1)).unwrap().join().unwrap(), 1);
    let error = handle.spawn(&cap, |cx| cx.forever(|| Ok(()))).unwrap().join().unwrap_err();
    assert!(is_out_of_budget(&error), "{error}");
    // While the one place is taken there is no other.
    let first = handle.spawn(&cap, |cx| cx.sleep(std::time::Duration::MAX)).unwrap();
    let second = handle.spawn(&cap, |_| Ok(())).unwrap_err();
    assert!(matches!(second.kind(), ErrorKind::Capability(_)));
    first.cancel();
    assert!(first.join().unwrap_err().is_cancelled());
    cap.revoke();
    assert!(matches!(handle.spawn(&cap, |_| Ok(())).unwrap_err().kind(), ErrorKind::Capability(_)));
}

// rule: S0-PROFILE-1, S0-PROFILE-3, S1-PROFILE-1, S2-NSIZE-3
#[test]
fn profiles_are_checked_at_run_time_too() {
    use ProfileId as P;
    let all = [P::Core, P::Service, P::Cluster, P::Sovereign];
    let has = |feature| all.map(|profile| profile.check(feature).is_ok());
    assert_eq!(has(Feature::Nursery), [false, true, true, true]);
    assert_eq!(has(Feature::Spawn), [false, true, true, true]);
    assert_eq!(has(Feature::Supervise), [false, false, true, true]);
    assert_eq!(all.map(P::needs_capability), [false, false, false, true]);
    let sizes = all.map(|profile| profile.stack_size().bytes() >> 10);
    assert_eq!(sizes, [64, 256, 256, 512]);
}

// rule: S0-GOAL-6, S0-PROFILE-8, S0-PROFILE-9, S0-ROOT-12, S0-SEC-2, S0-SUBSYS-4, S0-TASK-6
// rule: S1-PROFILE-4
#[test]
fn a_sovereign_task_spawns_as_far_as_its_capability_goes() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(2).profile::<Sovereign>().deterministic(seed);
        let rt = rt.build().unwrap();
        let two = SpawnLimits { max_tasks: 2, task_budget: Budget::UNLIMITED };
        let cap = rt.cap_spawn(two, Delegation::Forbidden);
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let park = |cx: &Cx<Sovereign>| cx.park();
                let (first, _second) = (n.spawn(&cap, park)?, n.spawn(&cap, park)?);
                assert!(matches!(kind_of(n.spawn(&cap, park)), ErrorKind::Capability(_)));
                first.cancel();
                assert!(first.join().unwrap_err().is_cancelled());
                while cap.live() == 2 {
                    cx.yield_now()?;
                }
                n.spawn(&cap, |_| Ok(()))?.join()?; // its place is free again
                cap.revoke();
                assert!(matches!(kind_of(n.spawn(&cap, park)), ErrorKind::Capability(_)));
                n.wind_down();
                Ok(())
            })
        });
        succeed(outcome);
        assert_eq!(cap.live(), 0);
    }
}
