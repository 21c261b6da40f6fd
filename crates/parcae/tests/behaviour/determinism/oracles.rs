//! The lab: oracles, and the places that failures name.

use parcae::lab::{Explore, FailureKind, Strategy};
use parcae::prelude::*;
use parcae::sync::Mutex;
use parcae::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Two tasks that lock in different orders, and a third that goes on all the time.
fn two_stuck_and_one_alive(rt: &Runtime) -> parcae::Result<()> {
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| {
                let _first = a.lock()?;
                let _second = b.lock()?;
                Ok(())
            })?;
            n.spawn(|_| {
                let _second = b.lock()?;
                let _first = a.lock()?;
                Ok(())
            })?;
            n.spawn(move |cx| {
                (0..50).try_for_each(|_| cx.sleep(SECOND))?;
                n.cancel();
                Ok(())
            })?;
            Ok(())
        })
    });
    let _ = outcome; // the cancellation hides that two were stuck
    Ok(())
}

#[test]
fn tasks_that_wait_for_each_other_are_found_while_others_go_on() {
    for workers in [0, 1, 3] {
        let hunt = Explore::new().workers(workers..=workers);
        let found = hunt.run(two_stuck_and_one_alive).unwrap_err();
        assert_eq!(found.kind(), FailureKind::Deadlock, "{found}");
        assert_eq!(found.signature().matches("lock at").count(), 2, "{found}");
        let again = Explore::new().replay(found.token(), two_stuck_and_one_alive).unwrap();
        assert_eq!(again.unwrap_err().signature(), found.signature());
    }
}

#[test]
fn a_lock_that_is_held_for_long_is_no_deadlock() {
    let test = |rt: &Runtime| {
        let lock = Mutex::new(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    n.spawn(|cx| {
                        let _held = lock.lock()?;
                        cx.sleep(SECOND)
                    })?;
                }
                Ok(())
            })
        })
    };
    let report = Explore::new().schedules(200).verify(1).run(test).unwrap();
    assert_eq!((report.schedules, report.diverged), (200, None));
}

#[test]
fn a_livelock_names_the_places_that_repeat() {
    let test = |rt: &Runtime| {
        let (polite, other) = (AtomicBool::new(true), AtomicBool::new(true));
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    while polite.load(SeqCst) {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                while other.load(SeqCst) {
                    cx.yield_now()?;
                }
                Ok(())
            })
        })
    };
    let found = Explore::new().steps(400).run(test).unwrap_err();
    assert_eq!(found.kind(), FailureKind::Livelock, "{found}");
    assert!(found.signature().contains("load at"), "{found}");
    assert!(found.signature().matches("oracles.rs").count() == 2, "{found}");
}

/// Two bugs at two places: each shrinks to itself.
#[test]
fn a_failure_has_its_own_place_after_shrinking() {
    let test = |rt: &Runtime| {
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..2 {
                    n.spawn(|_| {
                        a.store(a.load(SeqCst) + 1, SeqCst);
                        b.store(b.load(SeqCst) + 1, SeqCst);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })?;
        assert_eq!(a.load(SeqCst), 2);
        assert_eq!(b.load(SeqCst), 2);
        Ok(())
    };
    let mut signatures = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let found = Explore::new().seed(seed).run(test).unwrap_err();
        let again = Explore::new().replay(found.seed_token(), test).unwrap().unwrap_err();
        assert_eq!(again.signature(), found.signature());
        assert!(found.forced_switches() <= 2, "{found}");
        signatures.insert(found.signature().to_owned());
    }
    assert_eq!(signatures.len(), 2, "{signatures:?}");
}

#[test]
fn channel_operations_have_the_place_of_the_call() {
    let test = |rt: &Runtime| {
        let ((tx, rx), (other, others)) =
            (parcae::channel::channel::<u8>(0), parcae::channel::channel::<u8>(0));
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(move |_| {
                    tx.send(1)?;
                    Ok(others.recv().map(drop)?)
                })?;
                other.send(1)?;
                Ok(rx.recv().map(drop)?)
            })
        })
    };
    let found = Explore::new().run(test).unwrap_err();
    let steps = &found.run().steps;
    let channel = |name: &str| matches!(name, "send" | "receive");
    let sites: Vec<_> =
        steps.iter().filter(|s| channel(s.op.name())).flat_map(|s| s.site).collect();
    assert!(!sites.is_empty(), "{found}");
    assert!(sites.iter().all(|site| site.file().ends_with("oracles.rs")), "{found}");
}

/// Timers that are due at the same instant: their order is a choice.
#[test]
fn timers_of_one_instant_come_in_any_order() {
    let orders = std::sync::Mutex::new(BTreeSet::new());
    let test = |rt: &Runtime| {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        rt.run(|cx| {
            let timers = [1, 2].map(|number| {
                let (token, expiry) = cx.token_with_timeout(SECOND);
                let order = Arc::clone(&order);
                token.on_cancel(move |_| order.lock().unwrap().push(number)).forget();
                (token, expiry)
            });
            cx.sleep(2 * SECOND)?;
            drop(timers);
            Ok(())
        })?;
        orders.lock().unwrap().insert(order.lock().unwrap().clone());
        Ok(())
    };
    Explore::new().schedules(100).verify(1).run(test).unwrap();
    let orders = orders.into_inner().unwrap();
    assert_eq!(orders, BTreeSet::from([vec![1, 2], vec![2, 1]]));
}

/// Time stands still while a task is ready, with workers too.
#[test]
fn the_shortest_sleep_does_not_overtake_a_task_that_could_run() {
    let test = |rt: &Runtime| {
        let worked = AtomicBool::new(false);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    (0..5).try_for_each(|_| cx.yield_now())?;
                    worked.store(true, SeqCst);
                    Ok(())
                })?;
                cx.sleep(Duration::from_nanos(1))?;
                assert!(worked.load(SeqCst), "the timer came first");
                Ok(())
            })
        })
    };
    Explore::new().schedules(400).run(test).unwrap();
}

#[test]
fn every_strategy_repeats_its_schedules_on_a_new_runtime() {
    for strategy in Strategy::ALL {
        let hunt = Explore::new().strategies([strategy]).schedules(60).verify(1);
        let report = hunt.run(|rt| {
            let (tx, rx) = parcae::channel::channel::<u64>(1);
            rt.run(|cx| {
                cx.nursery(|n| {
                    n.spawn(move |cx| {
                        cx.sleep(SECOND)?;
                        Ok(tx.send(1)?)
                    })?;
                    n.spawn(|cx| cx.yield_now())?;
                    Ok(rx.recv().map(drop)?)
                })
            })
        });
        assert_eq!(report.unwrap().diverged, None, "{strategy:?}");
    }
}

/// A test that remembers earlier schedules is reported although it passes, with the first step that
/// differs.
#[test]
fn a_schedule_that_cannot_be_repeated_is_named() {
    let runs = std::sync::atomic::AtomicU64::new(0);
    let test = |rt: &Runtime| {
        let run = runs.fetch_add(1, SeqCst);
        rt.run(|cx| (0..run).try_for_each(|_| cx.checkpoint()))
    };
    let report = Explore::new().workers(0..=0).schedules(4).verify(2).run(test).unwrap();
    let diverged = report.diverged.clone().unwrap();
    assert!(diverged.step.is_some(), "{report}");
    assert_eq!(diverged.found.unwrap().op.name(), "checkpoint");
    assert!(report.to_string().contains("went another way at step"), "{report}");
}
