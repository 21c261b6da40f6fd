//! Timers on threads: who acts on them, who takes them back.

use crate::api::engine::{Engine, EngineOpts};
use crate::prelude::*;
use crate::sched::timers::Due;
use crate::scope::cancel::CancelNode;
use crate::scope::cx;
use crate::sync::time::{now, sleep, sleep_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);

// rule: S4-SLEEP-3, S4-SLEEP-4
#[test]
fn nobody_wakes_early() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            for task in 0..200_u64 {
                n.spawn(move |_| {
                    for turn in 0..5 {
                        let due = now() + Duration::from_micros((task * 31 + turn * 17) % 3_000);
                        sleep_until(due)?;
                        assert!(now() >= due);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
}

/// The only worker is stuck in the task that set the deadline.
// rule: S4-SLEEP-5, S4-SLEEP-7
#[test]
fn a_stuck_worker_does_not_hold_its_deadlines_up() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    rt.run(|cx| {
        for _ in 0..3 {
            let (token, _expiry) = cx.token_with_timeout(MILLISECOND);
            while !token.is_cancelled() {
                std::hint::spin_loop(); // no checkpoint
            }
        }
        Ok(())
    })
    .unwrap();
}

/// A worker that is never without work acts on its deadlines all the same, itself.
// rule: S4-SLEEP-4
#[test]
fn a_busy_worker_acts_on_its_deadlines() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let fired = || rt.stats().counters().fired;
    let done = AtomicBool::new(false);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|cx| {
                    while !done.load(Ordering::Relaxed) {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            // Some are left to the watch, if this machine is as busy as the worker.
            while fired() == 0 {
                sleep(MILLISECOND)?;
            }
            done.store(true, Ordering::Relaxed);
            Ok(())
        })
    })
    .unwrap();
}

// rule: S4-SLEEP-1, S4-SLEEP-6
#[test]
fn a_worker_that_sleeps_wakes_for_its_deadline_and_not_before() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let slept = || rt.stats().counters().slept;
    rt.run(|_| {
        let before = slept();
        sleep(MILLISECOND * 200)?;
        // Once; perhaps again for the wake of another runtime's test that it lost. Ticks would be
        // many.
        assert!(slept() - before < 5, "{} times", slept() - before);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_deadline_is_taken_back_on_any_thread() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        let here = cx::Here::new();
        let shared = &here.frame().unwrap().settings().shared;
        for _ in 0..50 {
            let (token, expiry) = cx.token_with_timeout(Duration::from_secs(3_600));
            std::thread::scope(|s| s.spawn(move || drop(expiry)).join()).unwrap();
            assert!(!token.is_cancelled());
        }
        assert_eq!(shared.timers.counts().1, 0);
        // After it has passed there is nothing to take back.
        let (token, expiry) = cx.token_with_timeout(MILLISECOND);
        while !token.is_cancelled() {
            cx.yield_now()?;
        }
        std::thread::scope(|s| s.spawn(move || drop(expiry)).join()).unwrap();
        Ok(())
    })
    .unwrap();
}

/// Deadlines that pass while they are taken back, from both sides.
#[test]
fn races_of_passing_and_taking_back() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (passed, called) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    rt.run(|cx| {
        cx.nursery(|n| {
            for task in 0..100_u64 {
                let (passed, called) = (&passed, &called);
                n.spawn(move |cx| {
                    for turn in 0..20 {
                        let time = Duration::from_micros((task + turn * 7) % 150);
                        let (token, expiry) = cx.token_with_timeout(time);
                        let called = Arc::clone(called);
                        let callback = token.on_cancel(move |_| {
                            called.fetch_add(1, Ordering::Relaxed);
                        });
                        callback.forget();
                        sleep(Duration::from_micros((task * 13 + turn) % 150))?;
                        drop(expiry);
                        sleep(Duration::from_micros(300))?; // firing comes to its end
                        passed.fetch_add(usize::from(token.is_cancelled()), Ordering::Relaxed);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    drop(rt);
    assert!(called.load(Ordering::Relaxed) >= passed.load(Ordering::Relaxed));
    assert!(called.load(Ordering::Relaxed) <= 2_000);
}

#[test]
fn threads_that_are_no_workers_set_deadlines() {
    let engine = Engine::new(EngineOpts { workers: 1, ..EngineOpts::default() }).unwrap();
    let shared = engine.shared();
    let node: Arc<CancelNode> = CancelNode::root();
    let stay = CancelNode::root();
    let later = |time| shared.later(time);
    let kept = shared.at(later(Duration::from_secs(3_600)), Due::expire(&stay));
    let _first = shared.at(later(MILLISECOND), Due::expire(&node));
    while !node.is_cancelled() {
        std::thread::yield_now();
    }
    drop(kept);
    assert!(!stay.is_cancelled());
    assert_eq!(shared.timers.counts(), (2, 0));
}

/// A callback may set and take back timers, and wake tasks.
#[test]
fn a_callback_of_a_deadline_uses_the_runtime() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    rt.run(|cx| {
        let (outer, _expiry) = cx.token_with_timeout(MILLISECOND);
        let shared = Arc::clone(&cx::Here::new().frame().unwrap().settings().shared);
        let (waker, woken) = (cx.waker(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&woken);
        let callback = outer.on_cancel(move |_| {
            let node = CancelNode::root();
            let at = shared.later(Duration::from_secs(60));
            drop(shared.at(at, Due::expire(&node)));
            flag.store(true, Ordering::Release);
            waker.wake();
        });
        while !woken.load(Ordering::Acquire) {
            cx.park()?;
        }
        drop(callback);
        Ok(())
    })
    .unwrap();
}

/// Sleepers that expired while their worker was busy run in the order of their deadlines.
#[test]
fn expired_sleepers_run_in_the_order_of_their_deadlines() {
    const SLEEPERS: usize = 300;
    let rt = Runtime::builder().workers(1).build().unwrap();
    loop {
        let armed = AtomicUsize::new(0);
        let ran = std::sync::Mutex::new(Vec::new());
        let first = Instant::now() + 200 * MILLISECOND;
        // Farther apart than a tick.
        let due = |sleeper: usize| first + Duration::from_micros(sleeper as u64 * 100);
        let in_time = rt.run(|cx| {
            cx.nursery(|n| {
                for i in 0..SLEEPERS {
                    let sleeper = i * 7 % SLEEPERS;
                    let (armed, ran) = (&armed, &ran);
                    n.spawn(move |_| {
                        armed.fetch_add(1, Ordering::Relaxed);
                        sleep_until(due(sleeper))?;
                        ran.lock().unwrap().push(sleeper);
                        Ok(())
                    })?;
                }
                while armed.load(Ordering::Relaxed) < SLEEPERS {
                    cx.yield_now()?;
                }
                cx.yield_now()?;
                let in_time = Instant::now() < first;
                let left = due(SLEEPERS + 10).saturating_duration_since(Instant::now());
                std::thread::sleep(left); // the worker is stuck
                Ok(in_time)
            })
        });
        // Otherwise the machine was too slow, and some deadlines had passed before.
        if in_time.unwrap() {
            assert_eq!(*ran.lock().unwrap(), (0..SLEEPERS).collect::<Vec<_>>());
            return;
        }
    }
}

/// Tasks that are always ready do not keep expired sleepers from running.
#[test]
fn expired_sleepers_run_beside_tasks_that_yield() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let left = AtomicUsize::new(500);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..200 {
                n.spawn(|cx| {
                    while left.load(Ordering::Relaxed) > 0 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            for i in 0..500 {
                let left = &left;
                n.spawn(move |cx| {
                    cx.sleep(Duration::from_micros(500 + i % 50))?;
                    left.fetch_sub(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

/// Deadlines are multiples of the grain, and not early.
#[test]
fn deadlines_are_rounded_up_to_the_grain() {
    const GRAIN: Duration = Duration::from_millis(700);
    let rt = Runtime::builder().workers(1).timer_grain(GRAIN).build().unwrap();
    rt.run(|_| {
        let here = cx::Here::new();
        let frame = here.frame().unwrap();
        let shared = &frame.settings().shared;
        let at = shared.later(MILLISECOND);
        let _sleeper = shared.at(at, Due::wake(frame.task_ref()));
        let next = shared.next_of(0);
        assert!(next >= at && next - at < GRAIN.as_nanos() as u64, "{next} {at}");
        assert_eq!(next % GRAIN.as_nanos() as u64, 0);
        Ok(())
    })
    .unwrap();
}
