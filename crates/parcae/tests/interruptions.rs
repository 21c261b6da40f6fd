//! What comes in between: hooks that wait, debts of memory inside of a wait, a cancellation that comes
//! too late, errors that a task ignores. Nothing is lost by any of them.

use parcae::cap::{BudgetLimits, CapBudget, Delegation};
use parcae::channel::channel;
use parcae::prelude::*;
use parcae::{Error, NurseryEvent, NurseryState, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

const MANY: u64 = 1 << 40;

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).temporary_workers(0).yield_interval(100).build().unwrap()
}

fn any_budget(rt: &Runtime) -> CapBudget {
    let all = Budget { ops: MANY, memory: MANY, ..Budget::ZERO };
    rt.cap_budget(BudgetLimits { total: all, per_request: all }, Delegation::Forbidden)
}

// ----- wake-ups -----------------------------------------------------------------------------------

/// The recharge comes while the hook waits, before the task has parked.
#[test]
fn a_hook_that_waits_does_not_lose_the_recharge() {
    parcae::explore(0..200, |rt| {
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

/// The place in the channel's queue costs memory that the task does not have: it is suspended between
/// taking the place and parking, and the value comes meanwhile.
#[test]
fn a_debt_inside_of_a_wait_does_not_lose_the_wake() {
    let rt = deterministic();
    let cap = any_budget(&rt);
    let received = rt.run(|cx| {
        let budget = Budget { memory: 100_000, ..Budget::UNLIMITED };
        let tenant =
            NurseryOpts::new().budget(budget).slice(budget).on_exhausted(OnExhausted::Suspend);
        let (sender, receiver) = channel::<u32>(0);
        cx.nursery_with(tenant, |n| {
            let child = n.spawn(move |cx| {
                let hoard = vec![0_u8; cx.budget().memory as usize];
                let value = receiver.recv()?;
                drop(hoard);
                Ok(value)
            })?;
            while n.suspended().is_empty() {
                cx.yield_now()?;
            }
            sender.try_send(7)?;
            (0..5).try_for_each(|_| cx.yield_now())?;
            n.account().recharge(&cap, Budget { memory: 10_000_000, ..Budget::ZERO })?;
            child.join()
        })
    });
    assert_eq!(received.unwrap(), 7);
}

// ----- causes ---------------------------------------------------------------------------------------

/// A cancellation that comes when the value is there is told to nobody, and hides no failure.
#[test]
fn a_failure_after_a_value_that_came_in_time_is_heard() {
    for selecting in [false, true] {
        let outcome = deterministic().run(|cx| {
            let (sender, receiver) = channel::<u32>(0);
            cx.nursery(|n| {
                let child = n.spawn(move |_| -> Result<()> {
                    let value = if selecting {
                        parcae::select! { recv(receiver) -> value => value? }?
                    } else {
                        receiver.recv()?
                    };
                    Err(Error::msg(format!("bad value {value}")))
                })?;
                while sender.try_send(7).is_err() {
                    cx.yield_now()?;
                }
                child.cancel(); // too late
                drop(child);
                Ok(())
            })
        });
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("bad value 7"), "{error}");
    }
}

/// A child whose own nursery ran into a deadline has failed by itself: heard of whenever its handle goes.
#[test]
fn a_failure_by_a_deadline_of_its_own_is_no_cancellation() {
    for late in [false, true] {
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let outcome = deterministic().nursery(opts, |n| {
            let child = n.spawn(|cx| {
                let opts = NurseryOpts::new().timeout(Duration::from_millis(5));
                cx.nursery_with(opts, |_| cx.sleep(Duration::from_secs(9)))
            })?;
            if late {
                while !child.is_finished() {
                    parcae::time::sleep(Duration::from_millis(1))?;
                }
                assert_eq!(child.state(), parcae::inspect::TaskState::Completed);
            }
            drop(child);
            Ok(())
        });
        assert!(outcome.unwrap_err().is_timed_out(), "late: {late}");
    }
}

/// The first failure is the one that counts, however long the hook takes for it.
#[test]
fn a_hook_that_waits_does_not_change_the_order_of_failures() {
    let (first, error) = deterministic()
        .run(|cx| {
            let (told, hears) = channel::<()>(0);
            let first = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&first);
            let opts = NurseryOpts::new().on_event(move |event| {
                if let NurseryEvent::Failed { error, .. } = event
                    && seen.lock().unwrap().replace(error.to_string()).is_none()
                {
                    let _ = told.send(());
                }
            });
            let outcome: Result<()> = cx.nursery_with(opts, |n| {
                n.spawn(|_| -> Result<()> { Err(Error::msg("the first")) })?;
                let first = &first;
                n.spawn(move |cx| -> Result<()> {
                    while first.lock().unwrap().is_none() {
                        cx.yield_now()?;
                    }
                    Err(Error::msg("the second"))
                })?;
                Ok(hears.recv()?)
            });
            let first = first.lock().unwrap().clone();
            Ok((first, outcome.unwrap_err().to_string()))
        })
        .unwrap();
    assert!(first.is_some() && error.contains("the first"), "{error}");
}

/// The deadline passes while the hook hears of the end: the result says what the hook was told.
#[test]
fn the_end_that_is_told_is_the_end_that_is_returned() {
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&states);
    let outcome = deterministic().run(|cx| {
        let opts = NurseryOpts::new().timeout(Duration::from_millis(50)).on_event(move |event| {
            if let NurseryEvent::Ended { state, .. } = event {
                told.lock().unwrap().push(*state);
                let _ = parcae::time::sleep(Duration::from_millis(100));
            }
        });
        cx.nursery_with(opts, |_| Ok(()))
    });
    assert_eq!(*states.lock().unwrap(), [NurseryState::Closed]);
    outcome.unwrap();
}

#[test]
fn a_cancellation_during_a_shield_is_seen_right_after_it() {
    let passed = deterministic().run(|cx| {
        let go = AtomicBool::new(false);
        cx.nursery(|n| {
            let child = n.spawn(|cx| {
                cx.shield(|| -> Result<()> {
                    while !go.load(SeqCst) {
                        cx.yield_now()?;
                    }
                    cx.checkpoint()
                })?;
                let mut passed = 0;
                while cx.checkpoint().is_ok() {
                    passed += 1;
                }
                Ok(passed)
            })?;
            (0..4).try_for_each(|_| cx.yield_now())?;
            child.cancel();
            go.store(true, SeqCst);
            child.join()
        })
    });
    assert_eq!(passed.unwrap(), 0);
}

// ----- turns ----------------------------------------------------------------------------------------

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

#[test]
fn a_hook_makes_no_turn_longer() {
    static LONGEST: AtomicU64 = AtomicU64::new(0);
    static TURN: AtomicU64 = AtomicU64::new(0);
    fn step() {
        LONGEST.fetch_max(TURN.fetch_add(1, SeqCst) + 1, SeqCst);
    }
    let (started, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let host = NurseryOpts::new().on_failure(OnFailure::Isolate).on_event(|event| {
        if let NurseryEvent::Failed { .. } = event {
            for _ in 0..1_000 {
                parcae::checkpoint().unwrap();
                step();
            }
        }
    });
    one_worker()
        .nursery(host, |n| {
            n.spawn(|cx| {
                while !done.load(SeqCst) {
                    started.store(true, SeqCst);
                    TURN.store(0, SeqCst);
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            while !started.load(SeqCst) {
                parcae::yield_now()?;
            }
            let failing = n.spawn(|cx| -> Result<()> {
                for _ in 0..99 {
                    cx.checkpoint()?;
                    step();
                }
                Err(Error::msg("fails in the middle of a turn"))
            })?;
            failing.join().unwrap_err();
            done.store(true, SeqCst);
            Ok(())
        })
        .unwrap();
    assert!(LONGEST.load(SeqCst) <= 101, "a turn of {LONGEST:?} at an interval of 100");
}

// ----- budgets --------------------------------------------------------------------------------------

#[test]
fn memory_that_a_hook_allocates_is_not_credited_to_the_task() {
    static SHELF: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let budget = Budget { memory: 1 << 20, ..ops(10_000) };
    let tenant =
        NurseryOpts::new().budget(budget).slice(budget).on_failure(OnFailure::Isolate).on_event(
            |event| {
                if let NurseryEvent::Exhausted { .. } = event {
                    SHELF.lock().unwrap().push(vec![1; 1 << 22]);
                }
            },
        );
    let (before, after) = one_worker()
        .nursery(tenant, |n| {
            n.spawn(|cx| {
                let before = cx.budget().memory;
                cx.charge(Budget { ops: MANY, ..Budget::ZERO }).unwrap_err(); // runs the hook
                SHELF.lock().unwrap().clear();
                Ok((before, cx.budget().memory))
            })?
            .join()
        })
        .unwrap();
    assert!(after <= before + 100, "memory from nowhere: {before}, then {after}");
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
