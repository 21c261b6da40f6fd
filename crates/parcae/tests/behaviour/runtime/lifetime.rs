//! Runtimes are values: several side by side, one inside another, dropped early, from inside, or by
//! other threads.

use crate::support::*;
use parcae::Result;
use parcae::prelude::*;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

// rule: S0-NBIND-3, S0-ROOT-1, S0-ROOT-3, S0-ROOT-6, S0-ROOT-9, S0-ROOT-10, S0-SUBSYS-1
// rule: S0-SUBSYS-2, S0-SUBSYS-3, S0-TESTRT-1, S0-TESTRT-2, S2-API-1
#[test]
fn runtimes_are_values_that_live_and_end_side_by_side() {
    let first = Runtime::builder().workers(2).build().unwrap();
    let second = Runtime::builder().workers(1).deterministic(42).build().unwrap();
    let third = Runtime::builder().workers(3).budget(ops(5_000)).build().unwrap();
    for rt in [&first, &second, &third] {
        let outcome = rt.run(|cx| cx.nursery(|n| Ok(n.spawn(|_| Ok(1))?.join()? + 1)));
        assert_eq!(outcome.unwrap(), 2);
    }
    second.token().cancel();
    assert!(second.run(|_| Ok(())).unwrap_err().is_cancelled());
    drop(second);
    assert_eq!(first.run(|_| Ok(3)).unwrap(), 3);
    assert!(first.budget().granted.ops > 5_000 && third.budget().granted.ops == 5_000);
    drop(first);
    assert_eq!(third.run(|_| Ok(4)).unwrap(), 4);
}

// rule: S1-GUARD-1, S1-MODULE-3, S2-API-2, S2-SCOPE-1
#[test]
fn a_runtime_that_is_dropped_ends_what_is_queued_what_waits_and_what_runs() {
    for workers in [1, 2, 4] {
        for _ in 0..10 {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            let handle = rt.handle();
            let tasks: Vec<_> = (0..12)
                .map(|task| {
                    handle.spawn(move |cx| match task % 3 {
                        0 => asleep(cx),
                        1 => forever(cx),
                        _ => cx.nursery(|n| {
                            n.spawn(asleep)?;
                            n.spawn(forever)?.join()
                        }),
                    })
                })
                .collect::<Result<_>>()
                .unwrap();
            drop(rt);
            assert!(matches!(kind_of(handle.spawn(|_| Ok(()))), ErrorKind::ShuttingDown));
            for task in tasks {
                assert!(matches!(kind_of(task.join()), ErrorKind::Cancelled(_)));
            }
        }
    }
}

// rule: S2-API-2
#[test]
fn a_runtime_that_never_ran_anything_ends() {
    with_runtimes(drop);
}

#[test]
fn dropping_a_runtime_waits_for_its_root_tasks() {
    let ended = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ended);
    let rt = runtime(2);
    let (started, start) = mpsc::channel();
    rt.handle()
        .spawn(move |_| {
            started.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
            theirs.store(true, SeqCst);
            Ok(())
        })
        .unwrap();
    start.recv().unwrap();
    drop(rt);
    assert!(ended.load(SeqCst), "the runtime is gone, its task runs");
}

#[test]
fn dropping_a_deterministic_runtime_drops_what_was_spawned() {
    let owned = Arc::new(());
    let theirs = Arc::clone(&owned);
    let rt = seeded(1);
    rt.handle()
        .spawn(move |_| {
            let _theirs = theirs;
            Ok(())
        })
        .unwrap();
    drop(rt);
    assert_eq!(Arc::strong_count(&owned), 1, "the task was neither run nor dropped");
}

#[test]
fn every_join_comes_back_when_a_runtime_ends_under_those_who_spawn() {
    must_end(|| {
        for round in 0..200_u64 {
            let rt = runtime(2);
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let handle = rt.handle();
                    thread::spawn(move || {
                        for i in 0..50_u64 {
                            let spawned = handle.spawn(move |cx| {
                                if i % 2 == 0 {
                                    cx.nursery(|n| {
                                        n.spawn(asleep)?;
                                        n.cancel();
                                        Ok(())
                                    })?;
                                }
                                Ok(i)
                            });
                            let Ok(task) = spawned else {
                                break;
                            };
                            if i % 3 != 0 {
                                let _ = task.join();
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(round * 7));
            drop(rt);
            for thread in threads {
                thread.join().unwrap();
            }
        }
    });
}

#[test]
fn a_runtime_in_a_task_of_another_joins_and_wakes_across() {
    must_end(|| {
        for seed in [None, Some(3)] {
            let outer = runtime(2);
            let outcome = outer.run(|cx| {
                let builder = Runtime::builder().workers(2);
                let inner = match seed {
                    Some(seed) => builder.deterministic(seed),
                    None => builder,
                }
                .build()?;
                let one = outer.handle().spawn(|_| Ok(1))?;
                let sum = inner.run(|icx| {
                    // A deterministic executor has to be told of waits for other runtimes.
                    let one = icx.external(|| one.join())?;
                    icx.nursery(|n| {
                        let two = n.spawn(|_| Ok(2))?;
                        Ok(one + two.join()?)
                    })
                })?;
                cx.checkpoint()?;
                let token = cx.token();
                inner.run(|icx| {
                    let waker = icx.waker();
                    let _callback = token.on_cancel(move |_| waker.wake());
                    token.cancel();
                    icx.park()?;
                    Ok(())
                })?;
                assert!(cx.checkpoint().is_err());
                Ok(sum)
            });
            assert_eq!(outcome.unwrap(), 3);
        }
    });
}

#[test]
fn a_task_may_be_the_last_owner_of_its_runtime() {
    must_end(|| {
        for _ in 0..100 {
            let rt = runtime(2);
            let handle = rt.handle();
            let (give, given) = mpsc::channel::<Arc<Runtime>>();
            let task = handle
                .spawn(move |cx| {
                    drop(given.recv().unwrap());
                    assert!(cx.checkpoint().is_err());
                    cx.shield(|| cx.nursery(|n| n.spawn(|_| Ok(5))?.join()))
                })
                .unwrap();
            drop(handle);
            give.send(rt).unwrap();
            assert_eq!(task.join().unwrap(), 5);
        }
    });
}

#[test]
fn after_its_token_a_runtime_runs_nothing_any_more() {
    with_runtimes(|rt| {
        let outcome = rt.run(|cx| {
            rt.token().cancel();
            cx.checkpoint()
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert!(rt.run(|_| Ok(())).unwrap_err().is_cancelled());
        let refused = kind_of(rt.handle().spawn(|_| Ok(())));
        assert!(matches!(refused, ErrorKind::ShuttingDown));
    });
}
