//! Budgets and authority hold in a runtime that nobody has configured.

use parcae::cap::{Delegation, SpawnLimits};
use parcae::inspect::TaskState;
use parcae::prelude::*;
use parcae::{NurseryEvent, NurseryState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn ops(ops: u64) -> Budget {
    Budget::UNLIMITED.with_ops(ops)
}

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

// ----- what is named binds ----------------------------------------------------------------------

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

#[test]
fn a_suspended_child_with_a_budget_of_its_own_is_recharged_by_its_handle() {
    parcae::explore(0..50, |rt| {
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

// ----- root tasks -------------------------------------------------------------------------------

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
fn a_handle_is_no_way_round_the_capability_in_sovereign() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let limits = SpawnLimits { max_tasks: 1, task_budget: ops(100) };
    let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    let handle = rt.handle();
    assert_eq!(handle.run(&cap, |_| Ok(1)).unwrap(), 1);
    let error = handle.run(&cap, |cx| cx.forever(|| Ok(()))).unwrap_err();
    assert!(is_out_of_budget(&error), "{error}");
    // While the one place is taken there is no other.
    let second = handle.run(&cap, |_| handle.spawn(&cap, |_| Ok(())).map(drop));
    assert!(matches!(second.unwrap_err().kind(), ErrorKind::Capability(_)));
    cap.revoke();
    assert!(matches!(handle.run(&cap, |_| Ok(())).unwrap_err().kind(), ErrorKind::Capability(_)));
}

// ----- recharging -------------------------------------------------------------------------------

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

// ----- leftovers --------------------------------------------------------------------------------

/// Children end on a worker that then runs only a task which yields to itself. Their leftovers are
/// all that is left; a sibling on the other worker needs them.
fn leftovers_reach_a_starving_sibling(policy: OnExhausted) {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let total = 40_000;
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: total, spawn_count: 100, ..Budget::UNLIMITED })
        .slice(Budget::CHILD.with_ops(1_000))
        .on_exhausted(policy);
    for _ in 0..20 {
        let stop = AtomicUsize::new(0);
        rt.nursery(tenant.clone(), |n| {
            // Pinned to wherever it starts, and alone there once the others have ended.
            let idler = n.spawn(|cx| {
                while stop.load(Relaxed) == 0 {
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            for _ in 0..30 {
                n.spawn(|_| Ok(()))?; // leaves 1000 ops
            }
            let hungry = n.spawn(|cx| {
                // Nearly all that the nursery has, which only works if everything comes back.
                for _ in 0..total - 4_000 {
                    cx.checkpoint()?;
                }
                stop.store(1, Relaxed);
                Ok(())
            })?;
            let result = hungry.join();
            stop.store(1, Relaxed);
            idler.join()?;
            result
        })
        .unwrap();
    }
}

#[test]
fn leftovers_reach_a_sibling_that_refills() {
    leftovers_reach_a_starving_sibling(OnExhausted::Refill);
}

#[test]
fn leftovers_reach_a_sibling_that_is_suspended() {
    leftovers_reach_a_starving_sibling(OnExhausted::Suspend);
}

#[test]
fn what_is_paid_ahead_reaches_a_sibling_while_the_owner_runs() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let each = 1_000;
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: 300 * (each + 1), spawn_count: 300, ..Budget::UNLIMITED })
        .slice(Budget::CHILD.with_ops(each));
    rt.nursery(tenant, |n| {
        let done = AtomicUsize::new(0);
        let done = &*Box::leak(Box::new(done));
        // Spawned usually, so that others are paid for too; then the owner keeps its worker.
        let hungry = n.spawn(move |cx| {
            let result = (0..290 * each).try_for_each(|_| cx.checkpoint());
            done.store(1, Relaxed);
            result
        })?;
        while done.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
        hungry.join()
    })
    .unwrap();
}

// ----- siblings, states, events -----------------------------------------------------------------

#[test]
fn children_spawn_siblings() {
    parcae::explore(0..200, |rt| {
        let ended = AtomicUsize::new(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    for _ in 0..3 {
                        n.spawn(|_| {
                            n.spawn(|_| Ok(ended.fetch_add(1, Relaxed)))?;
                            Ok(ended.fetch_add(1, Relaxed))
                        })?;
                        cx.checkpoint()?;
                    }
                    Ok(ended.fetch_add(1, Relaxed))
                })?;
                Ok(())
            })
        })?;
        assert_eq!(ended.into_inner(), 7, "the nursery has ended before its children");
        Ok(())
    })
    .unwrap();
}

#[test]
fn siblings_spawn_on_threads_and_the_pool_pays() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..50 {
        let ended = AtomicUsize::new(0);
        let tenant = NurseryOpts::new().budget(ops(1_000_000).with_spawn_count(111));
        let spent = rt
            .nursery(tenant, |n| {
                for _ in 0..10 {
                    n.spawn(|_| {
                        for _ in 0..10 {
                            n.spawn(|_| Ok(ended.fetch_add(1, Relaxed)))?;
                        }
                        Ok(())
                    })?;
                }
                // A thread that the body waits for may spawn too.
                std::thread::scope(|threads| {
                    threads.spawn(|| n.spawn(|_| Ok(ended.fetch_add(1, Relaxed))).map(drop)).join()
                })
                .expect("no panic")?;
                Ok(n.budget().granted.spawn_count)
            })
            .unwrap();
        assert_eq!((ended.into_inner(), spent), (101, 111));
    }
}

#[test]
fn a_child_sees_that_its_nursery_is_closing() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let states = Mutex::new(Vec::new());
    rt.nursery(NurseryOpts::new(), |n| {
        states.lock().unwrap().push(n.state());
        n.spawn(|cx| {
            cx.sleep(Duration::from_millis(1))?;
            states.lock().unwrap().push(n.state());
            n.cancel();
            states.lock().unwrap().push(n.state());
            Ok(())
        })?;
        Ok(())
    })
    .unwrap_err();
    use NurseryState::{Cancelling, Closing, Open};
    assert_eq!(*states.lock().unwrap(), [Open, Closing, Cancelling]);
}

/// The final state of a nursery, by its last event.
#[test]
fn a_nursery_ends_closed_or_cancelled_and_says_which() {
    use NurseryState::{Cancelled, Closed};
    type Body = for<'s> fn(&'s parcae::Nursery<'s, 'static>) -> parcae::Result<()>;

    static FOREVER: Body = |n| n.spawn(|cx| cx.forever(|| Ok(()))).map(drop);

    let cases: [(&str, Body, NurseryState); 6] = [
        ("empty", |_| Ok(()), Closed),
        ("children that end", |n| n.spawn(|cx| cx.yield_now()).map(drop), Closed),
        (
            "cancelled, empty",
            |n| {
                n.cancel();
                Ok(())
            },
            Cancelled,
        ),
        ("cancelled", |n| FOREVER(n).map(|()| n.cancel()), Cancelled),
        (
            "a child fails",
            |n| {
                n.spawn(|_| -> parcae::Result<()> { Err(parcae::Error::msg("failed")) })?;
                FOREVER(n)
            },
            Cancelled,
        ),
        ("the body fails", |n| FOREVER(n).and(Err(parcae::Error::msg("failed"))), Cancelled),
    ];
    for (name, body, expected) in cases {
        parcae::explore(0..50, |rt| {
            let (sender, events) = parcae::channel::unbounded();
            let opts = NurseryOpts::new().on_event(move |event| {
                if let NurseryEvent::Ended { state, .. } = event {
                    sender.try_send(*state).unwrap();
                }
            });
            let outcome = rt.run(|cx| cx.nursery_with(opts, body));
            assert_eq!(outcome.is_ok(), expected == Closed, "{name}");
            let states: Vec<_> = events.try_iter().collect::<parcae::Result<_>>()?;
            assert_eq!(states, [expected], "{name}");
            Ok(())
        })
        .unwrap();
    }
}

/// The six states of a task, by its handle.
#[test]
fn a_handle_tells_the_six_states_of_its_task() {
    use TaskState::{Cancelled, Completed, Exhausted, Ready, Running, Waiting};
    fn until<T>(handle: &parcae::TaskHandle<'_, T>, state: TaskState) -> parcae::Result<()> {
        while handle.state() != state {
            parcae::yield_now()?;
        }
        Ok(())
    }
    let rt = Runtime::builder().workers(1).build().unwrap();
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: 10_000, memory: 1_000, spawn_count: 9, ..Budget::UNLIMITED })
        .on_failure(OnFailure::Isolate)
        .on_exhausted(OnExhausted::Suspend);
    rt.nursery(tenant, |n| {
        let (send, receive) = parcae::channel::channel::<()>(1);
        let waiting = n.spawn(move |_| Ok(receive.recv()?))?;
        assert_eq!(waiting.state(), Ready);
        until(&waiting, Waiting)?;
        send.send(())?;
        until(&waiting, Completed)?;
        let yielding = n.spawn(|cx| cx.forever(|| Ok(())))?;
        until(&yielding, Running)?; // it has started and stays on its worker
        yielding.cancel();
        until(&yielding, Cancelled)?;
        let hungry = n.spawn(|cx| cx.charge(Budget::ZERO.with_memory(9_000)))?;
        until(&hungry, Exhausted)?;
        hungry.cancel();
        until(&hungry, Cancelled)?;
        let failing = n.spawn(|_| -> parcae::Result<()> { Err(parcae::Error::msg("failed")) })?;
        until(&failing, Completed)?;
        failing.join().unwrap_err();
        Ok(())
    })
    .unwrap();
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
    assert!(error.contains(&format!("promises.rs:{line}:")), "{error}");
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
fn the_hook_hears_of_failures_and_exhaustion_at_once() {
    parcae::explore(0..100, |rt| {
        let (sender, events) = parcae::channel::unbounded();
        let host = NurseryOpts::new()
            .budget(Budget { ops: 2_000, memory: 5_000, spawn_count: 9, ..Budget::UNLIMITED })
            .slice(Budget { ops: 100, memory: 10, ..Budget::UNLIMITED })
            .on_failure(OnFailure::Isolate)
            .on_exhausted(OnExhausted::Suspend)
            .on_event(move |event| drop(sender.try_send(event.clone())));
        rt.run(|cx| {
            cx.nursery_with(host, |n| {
                let named = |name: &'static str| SpawnOpts::new().name(name);
                let failing = n.spawn_with(named("failing"), |_| -> parcae::Result<()> {
                    Err(parcae::Error::msg("first"))
                })?;
                let NurseryEvent::Failed { error, .. } = events.recv()? else {
                    panic!("no failure")
                };
                assert!(error.to_string().contains("first"), "{error}");
                assert_eq!(error.task().and_then(|task| task.name()), Some("failing"));
                failing.join().unwrap_err();
                let hungry = n.spawn_with(named("hungry"), |cx| {
                    cx.nursery(|n| n.spawn(|cx| cx.charge(Budget::ZERO.with_memory(9_000)))?.join())
                });
                // A nested task draws on the tenant's budget: the host hears of it.
                let hungry = hungry?;
                let NurseryEvent::Exhausted { resource, .. } = events.recv()? else {
                    panic!("not exhausted")
                };
                assert_eq!(resource, Resource::Memory);
                assert!(n.suspended().iter().any(|task| task.resource == Resource::Memory));
                n.recharge(Budget::ZERO.with_memory(10_000))?;
                hungry.join()
            })
        })
    })
    .unwrap();
}

// ----- figures ----------------------------------------------------------------------------------

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
