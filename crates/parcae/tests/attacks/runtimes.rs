//! The life of runtimes and root tasks: dropped early, by others, from inside, one in another.

use crate::help::{deterministic, in_time, runtime};
use crate::{asleep, ops};
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

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
    let rt = deterministic(1);
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
fn two_root_tasks_share_the_budget_of_the_runtime() {
    let rt = Runtime::builder().workers(2).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        let second = rt
            .handle()
            .spawn(|cx| (0..10).try_for_each(|_| cx.checkpoint()))
            .and_then(|task| task.join());
        cx.checkpoint()?;
        second
    })
    .unwrap();
}

#[test]
fn every_join_comes_back_when_a_runtime_ends_under_those_who_spawn() {
    in_time(|| {
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
    in_time(|| {
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
                    let one = one.join()?; // of the other runtime
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
    in_time(|| {
        for _ in 0..100 {
            let rt = runtime(2);
            let handle = rt.handle();
            let (give, given) = mpsc::channel::<Runtime>();
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
