//! Preemption from elsewhere, on threads: a wake on another thread and a deadline make the running
//! task look up at its next checkpoint.
//!
//! The task that is to be preempted computes until the other one has run, and its turn is longer
//! than the test could last. So it ends by preemption or not at all.

use crate::contexts::ms;
use crate::support::*;
use parcae::channel::channel;
use parcae::policy::{ContextOpts, Latency, WorkerSet};
use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ops of a turn; the first turn of a tenant with the longest slices has as many.
const TURN: u64 = 20_000_000;

fn threads(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).yield_interval(TURN).build().expect("a runtime")
}

/// Computes slowly until told, or until this is true: about a microsecond for each checkpoint.
/// Returns the number of checkpoints.
fn slow_until(cx: &Cx, curtain: &Curtain, done: impl Fn() -> bool) -> parcae::Result<u64> {
    let mut ops = 0;
    while !curtain.is_down() {
        if ops % 256 == 255 && done() {
            curtain.fall();
        }
        cx.checkpoint()?;
        ops += 1;
        (0..200).for_each(|_| std::hint::spin_loop());
    }
    Ok(ops)
}

/// The same, until told.
fn slow(cx: &Cx, curtain: &Curtain) -> parcae::Result<u64> {
    slow_until(cx, curtain, || false)
}

/// A task of a tenant with short slices waits on the worker on which a tenant with long ones
/// computes; a thread wakes it.
#[test]
fn a_wake_from_another_thread_preempts() {
    let rt = threads(1);
    let (sender, receiver) = channel::<()>(1);
    let curtain = Curtain::default();
    let computing = AtomicU64::new(0);
    let used = std::thread::scope(|threads| {
        threads.spawn(|| {
            while computing.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            sender.send(()).unwrap();
        });
        rt.run(|cx| {
            cx.nursery(|all| {
                all.spawn(|cx| {
                    let opts = NurseryOpts::new().name("quick").latency(Latency::Sensitive);
                    cx.nursery_with(opts, |n| {
                        n.spawn(|cx| {
                            cx.external(|| receiver.recv())?;
                            curtain.fall();
                            Ok(())
                        })
                        .map(drop)
                    })
                })?;
                let batch = all.spawn(|cx| {
                    let opts = NurseryOpts::new().name("batch").latency(Latency::Batch);
                    cx.nursery_with(opts, |n| {
                        n.spawn(|cx| {
                            cx.sleep(ms(5))?; // until the other one waits
                            computing.store(1, Ordering::Release);
                            slow(cx, &curtain)
                        })?
                        .join()
                    })
                })?;
                batch.join()
            })
        })
        .unwrap()
    });
    assert!(used < TURN / 10, "{used} ops");
    let stats = rt.stats();
    assert!(of(&stats, "batch").preempted >= 1, "{stats:?}");
}

/// The same, woken by its own deadline.
#[test]
fn a_deadline_preempts_a_tenant() {
    let rt = threads(1);
    let curtain = Curtain::default();
    let used = rt
        .run(|cx| {
            cx.nursery(|all| {
                all.spawn(|cx| {
                    let opts = NurseryOpts::new().name("quick").latency(Latency::Sensitive);
                    cx.nursery_with(opts, |n| {
                        n.spawn(|cx| {
                            cx.sleep(ms(20))?;
                            curtain.fall();
                            Ok(())
                        })
                        .map(drop)
                    })
                })?;
                let batch = all.spawn(|cx| {
                    let opts = NurseryOpts::new().name("batch").latency(Latency::Batch);
                    cx.nursery_with(opts, |n| {
                        n.spawn(|cx| {
                            cx.sleep(ms(5))?; // until the other one sleeps
                            slow(cx, &curtain)
                        })?
                        .join()
                    })
                })?;
                batch.join()
            })
        })
        .unwrap();
    assert!(used < TURN / 10, "{used} ops");
}

/// The release of a job ends the turn of a task without a context; and the end of its budget ends
/// that of a task on one.
#[test]
fn releases_and_budgets_end_turns_on_threads() {
    let rt = threads(2);
    let opts = ContextOpts::new(ms(2), ms(10)).workers(WorkerSet::of(1));
    let cap = rt.admit(opts).unwrap();
    let (curtain, jobs) = (Curtain::default(), AtomicU64::new(0));
    let done = || jobs.load(Ordering::Relaxed) == 5 && cap.stats().depletions >= 2;
    let used = rt
        .run(|cx| {
            cx.nursery(|n| {
                // They compute on both workers until the budget has ended twice.
                let hogs: Vec<_> = (0..2)
                    .map(|_| n.spawn(|cx| slow_until(cx, &curtain, done)))
                    .collect::<Result<_, _>>()?;
                n.spawn_with(SpawnOpts::new().context(&cap), |cx| {
                    for _ in 0..5 {
                        cx.next_period()?;
                        jobs.fetch_add(1, Ordering::Relaxed);
                    }
                    // No end by itself: only the end of the budget lets others run.
                    slow(cx, &curtain).map(drop)
                })?;
                hogs.into_iter().map(|hog| hog.join()).sum::<parcae::Result<u64>>()
            })
        })
        .unwrap();
    assert_eq!(jobs.load(Ordering::Relaxed), 5);
    assert!(used < TURN / 2, "{used} ops");
    let stats = cap.stats();
    assert!(stats.jobs == 4 && stats.depletions >= 2, "{stats:?}");
}

/// Many contexts, tasks that come and go, and revocation in the middle, on three workers.
#[test]
fn no_task_is_lost_on_contexts() {
    let rt = Runtime::builder().workers(3).build().unwrap();
    let ended = AtomicU64::new(0);
    rt.run(|cx| {
        for round in 0..10_u64 {
            let caps: Vec<_> = (0..6)
                .map(|_| rt.admit(ContextOpts::new(ms(2), ms(10))))
                .collect::<parcae::Result<_>>()?;
            let (ended, last) = (&ended, &caps[5]);
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                for task in 0..60_u64 {
                    let opts = SpawnOpts::new().context(&caps[task as usize % 6]);
                    n.spawn_with(opts, move |cx| {
                        for step in 0..20 {
                            match (task + step) % 4 {
                                0 => cx.yield_now()?,
                                1 => cx.sleep(std::time::Duration::from_micros(50 * round))?,
                                _ => (0..200).try_for_each(|_| cx.checkpoint())?,
                            }
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                if round % 2 == 1 {
                    last.revoke();
                }
                Ok(())
            })
            .or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    })
    .unwrap();
    assert!(ended.load(Ordering::Relaxed) >= 10 * 50);
}
