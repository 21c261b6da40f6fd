//! Shutting down: from everywhere, in time, whatever goes on.

use super::*;
use crate::prelude::*;
use crate::sync::channel::channel;
use crate::sync::time::sleep;
use crate::view::inspect::{Function, TaskSnapshot, TaskState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Instant;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn runtime() -> Runtime {
    Runtime::builder().workers(2).stall_after(Duration::MAX).build().unwrap()
}

// rule: S4-SHUT-6, S4-SHUT-9, S4-SHUT-10
#[test]
fn what_waits_is_cancelled_and_everything_ends() {
    let rt = runtime();
    let tasks: Vec<_> =
        (0..20).map(|_| rt.handle().spawn(|_| sleep(LONG * 1_000)).unwrap()).collect();
    let shutdown = rt.shutdown(LONG);
    assert!(shutdown.is_complete(), "{shutdown}");
    assert_eq!(rt.live_tasks(), 0);
    for task in tasks {
        let error = task.join().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Cancelled(CancelReason::Shutdown)), "{error}");
    }
}

// rule: S0-WLOOP-1, S4-SHUT-5
#[test]
fn twice_is_once() {
    let rt = runtime();
    let handle = rt.handle();
    assert!(rt.shutdown(LONG).is_complete());
    assert!(rt.shutdown(Duration::ZERO).is_complete());
    drop(rt);
    let refused = handle.spawn(|_| Ok(())).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ShuttingDown), "{refused}");
}

#[test]
fn many_at_once_agree() {
    let rt = runtime();
    let _task = rt.handle().spawn(|_| sleep(LONG * 1_000)).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| assert!(rt.shutdown(LONG).is_complete()));
        }
    });
}

#[test]
fn from_inside_it_returns_at_once_and_somebody_outside_does_the_rest() {
    let rt = runtime();
    let error = rt
        .run(|cx| {
            let shutdown = rt.shutdown(LONG * 1_000);
            assert!(!shutdown.is_complete());
            assert!(shutdown.live_tasks() >= 1, "this one");
            cx.checkpoint()
        })
        .unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(rt.shutdown(LONG).is_complete());
}

/// The last owner of a runtime that was shut down from inside is a task of it.
#[test]
fn from_inside_by_the_last_owner() {
    let rt = runtime();
    let (done, ends) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let (dropped, drops) = mpsc::channel::<()>();
    let handle = rt.handle();
    rt.handle()
        .spawn(move |_| {
            begun.send(()).unwrap();
            let _ = drops.recv();
            let shutdown = super::shutdown(handle.inner(), LONG);
            done.send(shutdown.is_complete()).unwrap();
            Ok(())
        })
        .unwrap();
    begins.recv_timeout(LONG).unwrap();
    drop(rt);
    drop(dropped);
    assert!(!ends.recv_timeout(LONG).unwrap());
}

// rule: S4-SHUT-5
#[test]
fn during_a_storm_of_spawns_every_task_ends_or_is_refused() {
    for _ in 0..20 {
        let rt = runtime();
        let (accepted, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let start = Barrier::new(4);
        std::thread::scope(|s| {
            for _ in 0..3 {
                let (handle, start) = (rt.handle(), &start);
                let (accepted, ended) = (Arc::clone(&accepted), Arc::clone(&ended));
                s.spawn(move || {
                    struct Counted(Arc<AtomicU64>);
                    impl Drop for Counted {
                        fn drop(&mut self) {
                            self.0.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    start.wait();
                    loop {
                        let counted = Counted(Arc::clone(&ended));
                        accepted.fetch_add(1, Ordering::Relaxed);
                        let spawned = handle.spawn(move |_| {
                            let _counted = counted;
                            Ok(())
                        });
                        if spawned.is_err() {
                            break; // and what it owned is dropped
                        }
                    }
                });
            }
            start.wait();
            std::thread::sleep(Duration::from_millis(2));
            assert!(rt.shutdown(LONG).is_complete());
        });
        assert_eq!(accepted.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
    }
}

// rule: S4-SHUT-6
#[test]
fn threads_that_wait_in_the_runtime_are_released() {
    let rt = runtime();
    let (sender, receiver) = channel::<u32>(1);
    let waits = Barrier::new(4);
    std::thread::scope(|s| {
        let running = s.spawn(|| {
            rt.run(|_| {
                waits.wait();
                sleep(LONG * 1_000)
            })
        });
        let task = rt.handle().spawn(move |_| {
            let _sender = sender; // until it ends
            sleep(LONG * 1_000)
        });
        let joining = s.spawn(|| {
            waits.wait();
            task.unwrap().join()
        });
        let receiving = s.spawn(|| {
            waits.wait();
            receiver.recv().is_err()
        });
        waits.wait();
        assert!(rt.shutdown(LONG).is_complete());
        assert!(running.join().unwrap().unwrap_err().is_cancelled());
        assert!(joining.join().unwrap().unwrap_err().is_cancelled());
        assert!(receiving.join().unwrap(), "closed by the end of the sender");
    });
}

// rule: S4-SHUT-9
#[test]
fn what_cannot_be_stopped_is_named_and_left_behind() {
    let rt = runtime();
    let (release, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (released, begins) = (Arc::clone(&release), Arc::clone(&begun));
    let task = rt
        .handle()
        .spawn(move |_| {
            begins.store(true, Ordering::Release);
            while !released.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
        .unwrap();
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let started = Instant::now();
    let mut shutdown = rt.shutdown(SHORT);
    // A worker that gets no processor does not say what it runs.
    let told = |task: &TaskSnapshot| task.spawned_at.is_some() && !task.frames.is_empty();
    while !shutdown.survivors().iter().all(told) && started.elapsed() < LONG {
        shutdown = rt.shutdown(SHORT);
    }
    assert!(!shutdown.is_complete());
    assert_eq!(shutdown.live_tasks(), 1);
    let [survivor] = shutdown.survivors() else { panic!("one is left: {shutdown}") };
    assert!(survivor.spawned_at.is_some_and(|place| place.file().ends_with("tests.rs")));
    assert_eq!(survivor.state, TaskState::Running);
    // With line tables only, an inlined closure has no path in its name; without debug information
    // no function has a file.
    let is_here = |f: &Function| match f.file.as_deref() {
        Some(file) => file.ends_with("shutdown/tests.rs"),
        None => f.name.contains("shutdown::tests"),
    };
    assert!(survivor.frames.functions().iter().any(is_here), "{shutdown}");
    // The drop does not wait for a task that was left behind, and keeps its memory.
    drop(rt);
    release.store(true, Ordering::Release);
    task.join().unwrap();
}

#[test]
fn a_later_call_waits_for_what_was_late() {
    let rt = runtime();
    let (release, released) = mpsc::channel::<()>();
    rt.handle()
        .spawn(move |_| {
            let _ = released.recv();
            Ok(())
        })
        .unwrap();
    // Perhaps it has not begun: then it never does.
    let first = rt.shutdown(SHORT);
    drop(release);
    let second = rt.shutdown(LONG);
    assert!(second.is_complete(), "{first}, then {second}");
}

#[test]
fn a_call_that_was_left_behind_is_counted() {
    let rt = runtime();
    let (release, released) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let task = rt
        .handle()
        .spawn(move |_| {
            crate::blocking_static(move || {
                begun.send(()).unwrap();
                let _ = released.recv();
            })
        })
        .unwrap();
    begins.recv_timeout(LONG).unwrap();
    let mut shutdown = rt.shutdown(Duration::from_millis(300));
    for _ in 0..200 {
        if shutdown.calls() > 0 {
            break;
        }
        // the workers had no processor to leave with
        shutdown = rt.shutdown(Duration::from_millis(300));
    }
    assert!(task.join().unwrap_err().is_cancelled());
    assert_eq!((shutdown.live_tasks(), shutdown.calls()), (0, 1), "{shutdown}");
    assert!(!shutdown.is_complete());
    drop(release);
}

#[test]
fn cleanup_behind_a_shield_is_waited_for() {
    let rt = runtime();
    let cleaned = Arc::new(AtomicBool::new(false));
    let cleaning = Arc::clone(&cleaned);
    let (begun, begins) = mpsc::channel();
    rt.handle()
        .spawn(move |cx| {
            begun.send(()).unwrap();
            let outcome = sleep(LONG * 1_000);
            cx.shield(|| sleep(Duration::from_millis(20)))?;
            cleaning.store(true, Ordering::Release);
            outcome
        })
        .unwrap();
    begins.recv_timeout(LONG).unwrap();
    assert!(rt.shutdown(LONG).is_complete());
    assert!(cleaned.load(Ordering::Acquire));
}

#[test]
fn virtual_workers_shut_down_too() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(3).deterministic(seed).build().unwrap();
        for _ in 0..10 {
            rt.handle().spawn(|_| sleep(LONG)).unwrap();
        }
        rt.run(|cx| cx.sleep(Duration::from_millis(1))).unwrap();
        let shutdown = rt.shutdown(LONG);
        assert!(shutdown.is_complete(), "seed {seed}: {shutdown}");
    }
}

/// Virtual time passes for the deadline, and only virtual time.
#[test]
fn a_virtual_deadline_passes() {
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    rt.handle().spawn(|cx| cx.shield(|| sleep(LONG))).unwrap();
    rt.run(|cx| cx.sleep(Duration::from_millis(1))).unwrap();
    let early = rt.shutdown(Duration::from_secs(1));
    assert_eq!(early.live_tasks(), 1, "{early}");
    let [survivor] = early.survivors() else { panic!("one is left: {early}") };
    assert_eq!(survivor.state, TaskState::Waiting);
    assert!(survivor.wait.is_some(), "{early}");
    assert!(rt.shutdown(2 * LONG).is_complete());
}
