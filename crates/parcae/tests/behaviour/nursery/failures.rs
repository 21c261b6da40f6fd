//! Failures of children: each is reported, the first one is the nursery's error, and hooks hear of
//! them at once.

use crate::support::*;
use parcae::budget::Resource;
use parcae::channel::channel;
use parcae::nursery::{NurseryEvent, NurseryState};
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

// rule: S1-NURSERY-7, S2-CANCEL-4, S2-CANCEL-5, S2-ENTRY-4
#[test]
fn a_child_that_fails_cancels_its_nursery_and_all_siblings() {
    everywhere(|cx| {
        let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let go = AtomicUsize::new(0);
        let opts = NurseryOpts::new()
            .budget(ops(10_000))
            .slice(ops(500))
            .on_exhausted(OnExhausted::Suspend);
        let outcome: Result<()> = cx.nursery_with(opts, |n| {
            let bad = n.spawn(|cx| {
                until(cx, || go.load(Ordering::Relaxed) == 1)?;
                Err::<(), _>(Error::msg("bad"))
            })?;
            for sibling in 0..4 {
                let (started, ended) = (&started, &ended);
                n.spawn(move |cx| {
                    let _counts = Counts(ended);
                    started.fetch_add(1, Ordering::Relaxed);
                    if sibling % 2 == 0 { asleep(cx) } else { forever(cx) }
                })?;
            }
            until(cx, || started.load(Ordering::Relaxed) == 4 && n.budget().suspended == 2)?;
            go.store(1, Ordering::Relaxed);
            while n.state() == NurseryState::Open {
                cx.shield(|| cx.yield_now())?;
            }
            assert_eq!(n.state(), NurseryState::Cancelling);
            assert!(n.token().is_cancelled());
            assert!(n.spawn(|_| Ok(())).is_err(), "takes no more children");
            bad.join()
        });
        let error = outcome.unwrap_err();
        assert!(error.to_string().starts_with("bad (task "), "{error}");
        assert_eq!(ended.into_inner(), 4);
        Ok(())
    });
}

#[test]
fn panics_cost_their_tasks_and_nothing_else() {
    everywhere(|cx| {
        let survivors = AtomicUsize::new(0);
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let error = cx
            .nursery_with(opts, |n| {
                for index in 0..20 {
                    let survivors = &survivors;
                    n.spawn(move |cx| {
                        cx.yield_now()?;
                        if index % 2 == 0 {
                            std::panic::resume_unwind(Box::new(index));
                        }
                        cx.yield_now()?;
                        survivors.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                Ok(())
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert_eq!(error.others(), 9);
        assert_eq!(survivors.into_inner(), 10);
        Ok(())
    });
}

/// Every child fails with a text of its own. Under the deterministic executor a child is not
/// interrupted between its note and its end, so the notes are in the order of the failures.
// rule: S0-NURSERY-11, S1-GUARD-3, S1-NOTIFY-2
#[test]
fn the_failure_that_comes_out_is_the_first() {
    let policies = [OnFailure::Isolate, OnFailure::FailFast];
    for workers in [1, 2, 4] {
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..SEEDS {
            for policy in policies {
                let builder = Runtime::builder().workers(workers).seed(seed).deterministic(seed);
                let rt = builder.build().unwrap();
                let failed = Mutex::new(Vec::new());
                let error = rt
                    .run(|cx| {
                        cx.nursery_with(NurseryOpts::new().on_failure(policy), |n| {
                            for child in 0..10_usize {
                                let failed = &failed;
                                n.spawn(move |cx| {
                                    for _ in 0..child % 4 {
                                        cx.yield_now()?;
                                    }
                                    let text = format!("failure {child}.");
                                    failed.lock().unwrap().push(text.clone());
                                    Err::<(), _>(Error::msg(text))
                                })?;
                            }
                            Ok(())
                        })
                    })
                    .unwrap_err();
                let failed = failed.into_inner().unwrap();
                let text = error.to_string();
                assert!(text.starts_with(&failed[0]), "seed {seed}: {text} for {failed:?}");
                if let OnFailure::Isolate = policy {
                    assert_eq!((failed.len(), error.others()), (10, 9), "seed {seed}");
                }
                firsts.insert(failed[0].clone());
            }
        }
        // More than one child is the first at times, or the test would say nothing of the order.
        assert!(workers == 1 || firsts.len() > 1, "{firsts:?}");
    }
}

#[test]
fn a_failure_is_heard_of_though_its_handle_is_dropped_just_then() {
    let lost = runtime(2)
        .run(|cx| {
            let mut lost = 0;
            for round in 0..60_000_u64 {
                let started = AtomicBool::new(false);
                let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
                let outcome = cx.nursery_with(opts, |n| {
                    let child = n.spawn(|_| {
                        started.store(true, SeqCst);
                        Err::<(), _>(Error::msg("x"))
                    })?;
                    let start = Instant::now();
                    while !started.load(SeqCst) && start.elapsed() < Duration::from_millis(2) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..(round % 200) * 4 {
                        std::hint::spin_loop();
                    }
                    drop(child);
                    Ok(())
                });
                if outcome.is_ok() {
                    lost += 1;
                }
            }
            Ok(lost)
        })
        .unwrap();
    assert_eq!(lost, 0, "failures that nobody heard of");
}

#[test]
fn an_error_tells_its_task_though_somebody_keeps_a_copy() {
    let kept = Mutex::new(None);
    let e = runtime(1)
        .run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    let e = Error::msg("a");
                    *kept.lock().unwrap() = Some(e.clone());
                    Err::<(), _>(e)
                })?
                .join()
            })
        })
        .unwrap_err();
    assert!(e.task().is_some());
}

// rule: S2-BUDGET-6
#[test]
fn the_hook_hears_of_failures_and_exhaustion_at_once() {
    explored(0..100, |rt| {
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

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

/// A cancellation that comes when the value is there is not reported, and hides no failure.
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

/// A child whose own nursery ran into a deadline has failed by itself: heard of whenever its handle
/// goes.
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
