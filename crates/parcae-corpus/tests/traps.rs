//! Mistakes that tools of this kind make, one test for each. All seeds are fixed.

use parcae::channel::channel;
use parcae::lab::{Explore, FailureKind, Strategy};
use parcae::prelude::*;
use parcae::sync::Event;
use parcae::sync::atomic::{AtomicBool, Ordering::SeqCst};
use parcae_corpus::CORPUS;
use parcae_corpus::measure::Program;
use std::fs;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A hunt that a loaded machine does not end early.
fn hunt(schedules: u64) -> Explore {
    Explore::new().schedules(schedules).time(Duration::from_secs(600)).seed(3)
}

fn buggy(name: &str) -> Program {
    CORPUS.iter().find(|entry| entry.name == name).expect("a program of the corpus").buggy
}

fn fixed(name: &str) -> Program {
    CORPUS.iter().find(|entry| entry.name == name).expect("a program of the corpus").fixed
}

/// PCT places its changes by an estimate of the length. A long schedule must not spoil it for the
/// short ones after it.
#[test]
fn pct_finds_a_bug_of_short_schedules_among_long_ones() {
    let (short, count) = (buggy("account-update"), AtomicU64::new(0));
    let test = |rt: &Runtime| match count.fetch_add(1, SeqCst) {
        0 => rt.run(|cx| (0..2_000).try_for_each(|_| cx.yield_now())),
        _ => short(rt),
    };
    let failure = hunt(3_000).strategies([Strategy::Pct]).run(test).unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Panic);
}

/// A task of the highest priority that waits in a loop must let others run.
#[test]
fn loops_that_wait_are_no_livelock() {
    for strategy in [Strategy::Pct, Strategy::Pos, Strategy::Starvation, Strategy::RandomSlices] {
        let result = hunt(100).strategies([strategy]).run(|rt| {
            let ready = AtomicBool::new(false);
            rt.run(|cx| {
                cx.nursery(|n| {
                    n.spawn(|cx| {
                        while !ready.load(SeqCst) {
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                    n.spawn(|_| {
                        ready.store(true, SeqCst);
                        Ok(())
                    })?;
                    Ok(())
                })
            })
        });
        assert_eq!(result.map_err(|failure| failure.to_string()).unwrap().schedules, 100);
    }
}

/// URW needs the counts of the same task in other schedules. With them it finds the dining
/// philosophers, which need every task to stop at one place.
#[test]
fn urw_knows_its_tasks_again() {
    let failure = hunt(1_000).strategies([Strategy::Urw]).run(buggy("din_phil-6")).unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Deadlock);
}

/// A deadlock of many tasks, in which each has to stop at one place, shrinks to a switch for each
/// task at most. The task that spawns them must not be stopped.
#[test]
fn a_deadlock_of_many_tasks_shrinks_to_a_switch_for_each() {
    for seed in 0..5 {
        let hunt = hunt(3_000).seed(seed).strategies([Strategy::Urw]).workers(0..=0);
        let failure = hunt.run(buggy("din_phil-6")).unwrap_err();
        assert!(failure.forced_switches() <= 6, "seed {seed}: {failure}");
    }
}

/// The token has everything that the run depends on; the settings of the hunt that repeats it do
/// not matter. Both forms repeat, and the shrunk run fails as the one that was found.
#[test]
fn both_tokens_repeat_the_same_failure_under_other_settings() {
    for name in ["cockroach#10214", "stringbuffer", "grpc#3017", "istio#8967"] {
        let test = buggy(name);
        for strategy in [Strategy::RandomWalk, Strategy::Pct, Strategy::Urw] {
            let found = hunt(5_000).strategies([strategy]).run(test);
            let found = found.expect_err("the strategy finds it");
            for token in [found.token(), found.seed_token()] {
                let again = Explore::new().workers(1..=1).seed(99).replay(token, test).unwrap();
                let again = again.expect_err("it fails again");
                assert_eq!(again.signature(), found.signature(), "{name} {strategy:?} {token}");
                assert!(!again.to_string().contains("note:"), "{name}: {again}");
            }
        }
    }
}

/// A counter that survives from schedule to schedule makes a run differ from its repetition. The
/// replay says so.
#[test]
fn a_test_that_remembers_earlier_schedules_is_reported() {
    let count = AtomicU64::new(0);
    let test = |rt: &Runtime| {
        let run = count.fetch_add(1, SeqCst);
        rt.run(|cx| {
            (0..run).try_for_each(|_| cx.yield_now())?;
            assert!(run < 5, "remembers");
            Ok(())
        })
    };
    let found = hunt(100).run(test).unwrap_err();
    let again = hunt(1).replay(found.token(), test).unwrap().unwrap_err();
    assert!(again.to_string().contains("note:"), "{again}");
}

/// A schedule depends on its seed, not on the schedules before it, failed ones included.
#[test]
fn the_same_seed_gives_the_same_schedules() {
    for name in ["etcd#7443", "queue", "kubernetes#1321"] {
        let run = || {
            let report = hunt(100).run(fixed(name)).unwrap();
            let failure = hunt(5_000).run(buggy(name)).unwrap_err();
            let found = (failure.schedule(), failure.token().to_string());
            ((report.schedules, report.distinct, report.steps), found)
        };
        assert_eq!(run(), run(), "{name}");
    }
}

/// Of two failures, the first in the order of the schedule is reported.
#[test]
fn the_first_of_two_failures_is_reported() {
    let test = |rt: &Runtime| {
        let first_is_over = Event::new();
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| -> parcae::Result<()> {
                    first_is_over.wait()?;
                    panic!("the second")
                })?;
                n.spawn(|_| -> parcae::Result<()> {
                    first_is_over.set();
                    panic!("the first")
                })?;
                Ok(())
            })
        })
    };
    let failure = hunt(50).run(test).unwrap_err();
    assert!(failure.error().to_string().contains("the first"), "{failure}");
}

/// An object that was made outside of the runtime does not excuse a wait: in the lab there is no
/// outside.
#[test]
fn objects_of_the_test_thread_deadlock_too() {
    let failure = hunt(10).run(|rt| {
        let (_kept, rx) = channel::<()>(0);
        rt.run(|_| Ok(rx.recv()?))
    });
    assert_eq!(failure.unwrap_err().kind(), FailureKind::Deadlock);
}

/// A test with two bugs: the shrunk run has the one that was found.
#[test]
fn shrinking_keeps_to_the_bug_that_was_found() {
    let (lost, locked) = (buggy("account-update"), buggy("din_phil-5"));
    for seed in 0..10 {
        let found = hunt(5_000).seed(seed).run(|rt| {
            locked(rt)?;
            lost(rt)
        });
        let found = found.unwrap_err();
        let again = hunt(1).replay(found.seed_token(), |rt: &Runtime| {
            locked(rt)?;
            lost(rt)
        });
        assert_eq!(again.unwrap().unwrap_err().signature(), found.signature());
    }
}

/// Schedules that are all the same are not counted as different.
#[test]
fn equal_schedules_are_counted_once() {
    let report = hunt(100).run(|rt| rt.run(|cx| cx.yield_now())).unwrap();
    assert!(report.distinct <= 4, "{report}"); // one task: at most one for each number of workers
}

/// Failed schedules leave no stacks behind.
#[test]
fn failed_schedules_leave_no_mappings() {
    let mappings = || fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let fail = |hunts: u64| {
        for seed in 0..hunts {
            hunt(1_000).seed(seed).run(buggy("etcd#7902")).unwrap_err();
        }
    };
    fail(10);
    let before = mappings();
    fail(100); // three stacks each, not to mention those of shrinking
    assert!(mappings() < before + 150, "{before} mappings, then {}", mappings());
}

/// Time passes only when all tasks wait: a timeout is no bound on the steps of others.
#[test]
fn time_does_not_pass_by_steps() {
    let report = hunt(300).run(|rt| {
        let worked = AtomicBool::new(false);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    cx.sleep(Duration::from_millis(1))?;
                    assert!(worked.load(SeqCst), "the timer overtook a task that could run");
                    Ok(())
                })?;
                n.spawn(|cx| {
                    (0..50).try_for_each(|_| cx.yield_now())?;
                    worked.store(true, SeqCst);
                    Ok(())
                })?;
                Ok(())
            })
        })
    });
    assert_eq!(report.map_err(|failure| failure.to_string()).unwrap().schedules, 300);
}
