//! The lab: strategies, tokens, shrinking, oracles, faults.

use crate::support::child;
use parcae::lab::{Explore, FailureKind, Faults, OpKind, Strategy};
use parcae::prelude::*;
use parcae::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use parcae::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicUsize};
use std::time::Duration;

/// Two tasks increment a counter; one can lose the increment of the other.
fn lost_update(rt: &Runtime) -> parcae::Result<()> {
    let count = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                    count.store(count.load(SeqCst) + 1, SeqCst);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    assert_eq!(count.into_inner(), 2);
    Ok(())
}

/// Two tasks take two locks in different orders.
fn lock_order(rt: &Runtime) -> parcae::Result<()> {
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let both = |first: &Mutex<i32>, second: &Mutex<i32>| {
        let _first = first.lock()?;
        let _second = second.lock()?;
        Ok(())
    };
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| both(&a, &b))?;
            n.spawn(|_| both(&b, &a))?;
            Ok(())
        })
    })
}

/// As [`lock_order`], in one order.
fn locks_in_order(rt: &Runtime) -> parcae::Result<()> {
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                    let mut a = a.lock()?;
                    let mut b = b.lock()?;
                    *a += 1;
                    *b += *a;
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    assert_eq!(*b.lock()?, 3);
    Ok(())
}

/// A signal that comes before the wait is lost, because the flag is set outside of the lock.
fn lost_signal(rt: &Runtime) -> parcae::Result<()> {
    let (ready, lock, changed) = (AtomicBool::new(false), Mutex::new(()), Condvar::new());
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| {
                let guard = lock.lock()?;
                if !ready.load(SeqCst) {
                    drop(changed.wait(guard)?);
                }
                Ok(())
            })?;
            n.spawn(|_| {
                ready.store(true, SeqCst);
                changed.notify_all();
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// A bounded queue with one condition variable for both directions: the one waiter that a signal
/// wakes may be of the wrong kind, and the signal is lost.
fn one_condvar(rt: &Runtime) -> parcae::Result<()> {
    let (queue, changed) = (Mutex::new(VecDeque::new()), Condvar::new());
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                    for value in 0..2 {
                        let mut queue = changed.wait_while(queue.lock()?, |q| !q.is_empty())?;
                        queue.push_back(value);
                        changed.notify_one();
                    }
                    Ok(())
                })?;
                n.spawn(|_| {
                    for _ in 0..2 {
                        let mut queue = changed.wait_while(queue.lock()?, |q| q.is_empty())?;
                        queue.pop_front();
                        changed.notify_one();
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
}

/// Ten tasks that yield four times each.
fn yields(rt: &Runtime) -> parcae::Result<()> {
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..10 {
                n.spawn(|cx| (0..4).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
}

#[test]
fn every_strategy_finds_a_lost_update_a_deadlock_and_a_lost_signal() {
    let tests = [
        (lost_update as fn(&Runtime) -> parcae::Result<()>, FailureKind::Panic),
        (lock_order, FailureKind::Deadlock),
        (lost_signal, FailureKind::Deadlock),
    ];
    for strategy in Strategy::ALL {
        for (test, kind) in tests {
            let hunt = Explore::new().strategies([strategy]).schedules(3_000);
            let found = hunt.time(Duration::MAX).run(test).unwrap_err();
            assert_eq!(found.kind(), kind, "{}: {found}", strategy.name());
            assert_eq!(found.strategy(), strategy);
        }
    }
}

#[test]
fn the_fixed_version_passes() {
    let report = Explore::new().schedules(800).time(Duration::MAX).run(locks_in_order).unwrap();
    assert_eq!(report.schedules, 800);
    assert!(report.distinct > 20, "{report}");
    assert!(report.exhausted, "{report}");
}

#[test]
fn the_search_of_all_schedules_ends() {
    let hunt = Explore::new().strategies([Strategy::Exhaustive]).workers(0..=0).schedules(10_000);
    let report = hunt.time(Duration::MAX).run(locks_in_order).unwrap();
    assert!(report.exhausted && report.schedules < 3_000, "{report}");
    assert!(report.distinct > 10, "{report}");
}

#[test]
fn failures_shrink_to_the_switches_that_matter() {
    let mut counts = Vec::new();
    for test in [lost_update as fn(&Runtime) -> parcae::Result<()>, lock_order, lost_signal] {
        for seed in 0..10 {
            let hunt = Explore::new().seed(seed).workers(0..=0).time(Duration::MAX);
            let found = hunt.run(test).unwrap_err();
            counts.push(found.forced_switches());
            assert!(found.forced_switches() <= 6, "seed {seed}: {found}");
            assert!(found.run().shown().len() <= 10);
        }
    }
    counts.sort_unstable();
    assert!(counts[counts.len() / 2] <= 3, "{counts:?}");
    println!("{counts:?}");
}

#[test]
fn both_forms_of_a_token_repeat_the_run() {
    let count = if cfg!(debug_assertions) { 60 } else { 3_000 };
    for seed in 0..count {
        let test = [lost_update, lock_order, lost_signal, one_condvar][seed as usize % 4];
        let hunt = Explore::new().seed(seed).time(Duration::MAX);
        let found = hunt.run(test).unwrap_err();
        for token in [found.token(), found.seed_token()] {
            let again = hunt.replay(token, test).unwrap().unwrap_err();
            assert_eq!(again.signature(), found.signature(), "seed {seed}, {token}: {found}");
            assert!(!again.to_string().contains("note:"), "seed {seed}, {token}: {again}");
        }
    }
}

#[test]
fn a_lost_signal_of_a_queue_comes_again_with_each_strategy_and_with_early_wakes() {
    let (hunts, repetitions) = if cfg!(debug_assertions) { (4, 10) } else { (40, 25) };
    for strategy in Strategy::ALL {
        for seed in 0..hunts {
            let faults = Faults::none();
            let faults = if seed % 2 == 1 { faults.spurious_wakes() } else { faults };
            let hunt = Explore::new().seed(seed).strategies([strategy]).faults(faults);
            let hunt = hunt.workers(0..=0).schedules(5_000).time(Duration::MAX);
            let found = hunt.run(one_condvar).unwrap_err();
            assert_eq!(found.kind(), FailureKind::Deadlock, "{found}");
            for token in [found.token(), found.seed_token()] {
                for _ in 0..repetitions {
                    let again = Explore::new().replay(token, one_condvar).unwrap().unwrap_err();
                    assert_eq!(again.signature(), found.signature(), "{token}: {found}");
                    assert_eq!(again.divergence(), None, "{token}: {again}");
                }
            }
        }
    }
}

#[test]
fn an_operation_on_another_object_is_a_divergence() {
    let other = StdAtomicBool::new(false);
    let test = |rt: &Runtime| {
        let locks = [Mutex::new(0), Mutex::new(0)];
        rt.run(|cx| {
            cx.checkpoint()?;
            *locks[0].lock()? += 1;
            *locks[usize::from(other.load(SeqCst))].lock()? += 1;
            Err(parcae::Error::msg("fails"))
        })
    };
    let found = Explore::new().run(test).unwrap_err();
    other.store(true, SeqCst);
    let again = Explore::new().replay(found.token(), test).unwrap().unwrap_err();
    let diverged = again.divergence().expect("another lock");
    let (expected, found) = (diverged.expected.as_ref(), diverged.found.as_ref());
    assert_eq!(expected.map(|op| (op.op, op.object)), Some((OpKind::Lock, 1)), "{diverged}");
    assert_eq!(found.map(|op| (op.op, op.object)), Some((OpKind::Lock, 2)), "{diverged}");
}

/// Whether the allocator gives a new object the place of an old one depends on the process, and is
/// no part of a run.
#[test]
fn places_in_memory_that_are_used_again_are_no_divergence() {
    let (runs, kept) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let test = |rt: &Runtime| {
        let odd = runs.fetch_add(1, SeqCst) % 2 == 1;
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..2 {
                    n.spawn(|cx| {
                        for value in 0..3 {
                            let lock = Box::new(Mutex::new(value));
                            *lock.lock()? += 1;
                            let (tx, rx) = parcae::channel::oneshot();
                            n.spawn(move |_| Ok(tx.send(value)?))?.join()?;
                            rx.recv()?;
                            drop(lock);
                            if odd {
                                kept.lock().unwrap().push(Box::new(Mutex::new(value)));
                            }
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
    };
    let report = Explore::new().schedules(300).time(Duration::MAX).verify(1).run(test).unwrap();
    assert_eq!(report.diverged, None);
}

/// Messages and backtraces of panics take longer than schedules.
#[test]
fn panics_are_silent_while_a_failure_is_repeated() {
    if !child::is_victim() {
        let outcome = child::run(module_path!(), "panics_are_silent_while_a_failure_is_repeated");
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        return;
    }
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|_| {
        HEARD.fetch_add(1, SeqCst);
    }));
    let runs = AtomicUsize::new(0);
    let found = Explore::new().run(|rt| {
        runs.fetch_add(1, SeqCst);
        lost_update(rt)
    });
    assert!(found.is_err());
    let (runs, heard) = (runs.load(SeqCst), HEARD.load(SeqCst));
    assert!(runs > 20 && heard == 0, "{runs} runs, {heard} messages");
    // Outside of the lab panics are told as before.
    let caught = std::panic::catch_unwind(|| panic!("heard"));
    assert!(caught.is_err() && HEARD.load(SeqCst) == 1);
}

#[test]
fn a_hunt_with_the_same_seed_is_the_same_hunt() {
    let hunt = |seed| {
        let report = Explore::new().seed(seed).schedules(80).time(Duration::MAX).run(yields);
        let report = report.unwrap();
        (report.distinct, report.steps)
    };
    assert_eq!(hunt(1), hunt(1));
    assert_ne!(hunt(1), hunt(2));
}

#[test]
fn threads_divide_the_schedules() {
    let report = Explore::new().threads(3).schedules(90).time(Duration::MAX).run(yields).unwrap();
    assert_eq!(report.schedules, 90);
    let found = Explore::new().threads(2).run(lost_update).unwrap_err();
    assert_eq!(found.kind(), FailureKind::Panic);
}

#[test]
fn a_channel_from_outside_can_deadlock() {
    let (_tx, rx) = parcae::channel::channel::<u8>(1);
    let found = Explore::new()
        .run(|rt| {
            rt.run(|cx| {
                cx.nursery(|n| {
                    n.spawn(|_| Ok(rx.recv().map(drop)?))?;
                    Ok(())
                })
            })
        })
        .unwrap_err();
    assert_eq!(found.kind(), FailureKind::Deadlock, "{found}");
}

#[test]
fn a_deadlock_whose_errors_are_ignored_is_one() {
    let test = |rt: &Runtime| {
        let (_tx, rx) = parcae::channel::channel::<u8>(1);
        rt.run(|_| {
            let _ = rx.recv();
            Ok(())
        })
    };
    assert_eq!(Explore::new().run(test).unwrap_err().kind(), FailureKind::Deadlock);
}

#[test]
fn tasks_that_go_on_for_ever_are_a_livelock() {
    let test = |rt: &Runtime| {
        let flag = AtomicBool::new(false);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    while !flag.load(SeqCst) {} // reaches no cancel point
                    Ok(())
                })?;
                n.spawn(|cx| {
                    while !flag.load(SeqCst) {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                Ok(())
            })
        })
    };
    let found = Explore::new().steps(500).run(test).unwrap_err();
    assert_eq!(found.kind(), FailureKind::Livelock, "{found}");
    assert!(found.to_string().contains("load #1"), "{found}");
}

#[test]
fn a_task_that_goes_on_alone_is_a_livelock_also_with_workers() {
    for workers in [0, 2] {
        let hunt = Explore::new().workers(workers..=workers).steps(300).schedules(4);
        let test = |rt: &Runtime| {
            rt.run(|cx| {
                loop {
                    cx.checkpoint()?;
                }
            })
        };
        let found = hunt.run(test).unwrap_err();
        assert_eq!(found.kind(), FailureKind::Livelock, "{workers} workers: {found}");
    }
}

#[test]
fn a_task_that_spins_until_another_has_run_is_no_livelock() {
    let test = |rt: &Runtime| {
        let flag = AtomicBool::new(false);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    while !flag.load(SeqCst) {}
                    Ok(())
                })?;
                n.spawn(|_| {
                    flag.store(true, SeqCst);
                    Ok(())
                })?;
                Ok(())
            })
        })
    };
    Explore::new().steps(300).schedules(100).time(Duration::MAX).run(test).unwrap();
}

#[test]
fn a_task_that_is_left_behind_is_a_leak() {
    let test = |rt: &Runtime| {
        let (_tx, rx) = parcae::channel::channel::<u8>(1);
        drop(rt.spawn(move |_| Ok(rx.recv().map(drop)?))?);
        rt.run(|_| Ok(()))?;
        std::mem::forget(_tx);
        Ok(())
    };
    let found = Explore::new().run(test).unwrap_err();
    assert!(
        found.signature().contains("receive at") && found.signature().contains("lab.rs"),
        "{found}"
    );
    assert_eq!(found.kind(), FailureKind::Leak, "{found}");
}

#[test]
fn cancelling_at_each_wait_reaches_each_wait() {
    // The value is lost if the task is cancelled between the two receives.
    let test = |rt: &Runtime| {
        let (tx, rx) = parcae::channel::channel::<u8>(2);
        let (got, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    got.fetch_add(u64::from(rx.recv()?), SeqCst);
                    cx.sleep(Duration::from_secs(1))?;
                    done.fetch_add(1, SeqCst);
                    Ok(())
                })?;
                cx.sleep(Duration::from_secs(2))?;
                tx.send(7)?;
                Ok(())
            })
        });
        let _ = outcome;
        assert_eq!(got.load(SeqCst) / 7, done.load(SeqCst), "half of the work was done");
        Ok(())
    };
    let hunt = Explore::new().faults(Faults::none().cancel_at_each_wait()).schedules(100);
    assert_eq!(hunt.run(test).unwrap_err().kind(), FailureKind::Panic);
    Explore::new().schedules(100).run(test).unwrap();
}

#[test]
fn refused_spawns_are_seen_by_the_program() {
    let test = |rt: &Runtime| rt.run(|cx| cx.nursery(|n| n.spawn(|_| Ok(()))?.join()));
    let hunt = Explore::new().faults(Faults::none().refused_spawns());
    let found = hunt.run(test).unwrap_err();
    assert_eq!(found.kind(), FailureKind::Error, "{found}");
    let again = hunt.replay(found.token(), test).unwrap().unwrap_err();
    assert_eq!(again.signature(), found.signature());
}

#[test]
fn early_wakes_and_late_timers_harm_no_correct_program() {
    let faults = Faults::none().spurious_wakes().late_timers();
    let hunt = Explore::new().faults(faults).schedules(150).time(Duration::MAX);
    hunt.run(locks_in_order).unwrap();
    hunt.run(|rt| {
        rt.run(|cx| cx.nursery(|n| n.spawn(|cx| cx.sleep(Duration::from_secs(1)))?.join()))
    })
    .unwrap();
}

#[test]
fn a_wrong_token_is_refused() {
    for text in ["", "pcr1.", "pcr1.!!!", "pcr2.AAAA", "pcr1.AQICoJwB"] {
        let error = Explore::new().replay(text, lost_update).unwrap_err();
        assert!(error.to_string().contains("no token"), "{error}");
    }
}

/// Runs under the lab and on threads, where the locks are the same.
#[parcae::test(schedules = 60)]
fn the_attribute_runs_a_test(cx: &Cx) -> parcae::Result<()> {
    let total = Mutex::new(0);
    cx.nursery(|n| {
        for _ in 0..3 {
            n.spawn(|_| {
                *total.lock()? += 1;
                Ok(())
            })?;
        }
        Ok(())
    })?;
    assert_eq!(*total.lock()?, 3);
    Ok(())
}

/// Points that are on slow paths outside of the lab: all of them are reached in it.
#[test]
fn every_operation_on_a_channel_and_every_spawn_is_a_step() {
    for workers in [0, 2] {
        let hunt = Explore::new().workers(workers..=workers).schedules(1);
        let failure = hunt.run(|rt| {
            rt.run(|cx| {
                let (tx, rx) = parcae::channel::channel(8);
                (0..5).try_for_each(|i| tx.send(i))?;
                (0..5).try_for_each(|_| rx.recv().map(drop))?;
                let (answer, answered) = parcae::channel::oneshot();
                answer.send(1)?;
                answered.recv()?;
                cx.nursery(|n| {
                    (0..3).try_for_each(|_| n.spawn(|_| Ok(()))?.join())?;
                    n.spawn_with(SpawnOpts::new(), |_| Ok(()))?.join()
                })?;
                Err(parcae::Error::msg("always"))
            })
        });
        let failure = failure.expect_err("it fails");
        let of = |name: &str| failure.run().steps.iter().filter(|s| s.op.name() == name).count();
        assert_eq!(["send", "receive", "spawn"].map(of), [6, 6, 4], "{failure}");
        assert!(of("join") >= 4, "{failure}"); // more if another task goes first
    }
}
