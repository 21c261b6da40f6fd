//! The order in which a worker runs tasks, and what does not change it: the clock, channel
//! operations that need not wait, deadlines.

use crate::support::*;
use parcae::channel::channel;
use parcae::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn yields(rt: &Runtime) -> u64 {
    rt.stats().counters().yielded
}

/// Of its own tasks a worker starts the newest first, as the deque gives them out at its end. Fewer
/// tasks than picks until the next look at the oldest.
// rule: S0-WLOOP-2, S1-MODULE-9
#[test]
fn a_worker_starts_its_newest_task_first() {
    const TASKS: usize = 40;
    let order_of = |rt: &Runtime| {
        let order = Mutex::new(Vec::new());
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                for task in 0..TASKS {
                    let order = &order;
                    n.spawn(move |_| {
                        order.lock().unwrap().push(task);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        }));
        order.into_inner().unwrap()
    };
    let newest_first: Vec<usize> = (0..TASKS).rev().collect();
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        assert_eq!(order_of(&rt), newest_first, "seed {seed}");
    }
}

/// Two tasks that only compute and two that only wait for each other, on one worker: neither kind
/// is kept from its turn for longer than the other has a few.
// rule: S0-GOAL-2
#[test]
fn work_that_computes_and_work_that_waits_take_turns() {
    const TURNS: usize = 2_000;
    for seed in 0..SEEDS {
        let builder = Runtime::builder().workers(1).yield_interval(64).deterministic(seed);
        let rt = builder.build().unwrap();
        let turns = Mutex::new(Vec::new());
        let note = &|kind: char| {
            let mut turns = turns.lock().unwrap();
            turns.push(kind);
            turns.len() < TURNS
        };
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..2 {
                    n.spawn(|cx| {
                        while note('c') {
                            work(cx, 64)?;
                        }
                        Ok(())
                    })?;
                }
                let ((ball, catch), (back, home)) = (channel(0), channel(0));
                n.spawn(move |_| {
                    while note('w') && ball.send(()).is_ok() && home.recv().is_ok() {}
                    Ok(())
                })?;
                n.spawn(move |_| {
                    while catch.recv().is_ok() && note('w') && back.send(()).is_ok() {}
                    Ok(())
                })?;
                Ok(())
            })
        }));
        let turns: String = turns.into_inner().unwrap().into_iter().take(TURNS).collect();
        let longest = |kind| turns.split(|c| c != kind).map(str::len).max();
        assert!(longest('c') <= Some(8), "seed {seed}: {:?} in a row compute", longest('c'));
        assert!(longest('w') <= Some(16), "seed {seed}: {:?} in a row wait", longest('w'));
    }
}

/// Tasks that come to many checkpoints, with time between them. The real clock goes on by 40 ms
/// between the first and the last, and the run is the same as without.
// rule: S0-DETERM-4, S0-GOAL-1, S0-GOAL-5, S1-MODULE-2
#[test]
fn time_that_passes_ends_no_turn() {
    let run = |seed, pause: Duration| {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    n.spawn(move |cx| {
                        for _ in 0..4 {
                            work(cx, 10)?;
                            std::thread::sleep(pause);
                        }
                        work(cx, 10)
                    })?;
                }
                Ok(())
            })
        }));
        (yields(&rt), rt.event_log())
    };
    for seed in 0..3 {
        let at_once = run(seed, Duration::ZERO);
        assert_eq!(at_once.0, 0, "a turn is over before its ops are");
        assert!(at_once == run(seed, Duration::from_millis(10)), "seed {seed}: by the clock");
    }
}

/// There is room for every send and a value for every receive: no other task runs, though one
/// could, and the task gives up its worker not once.
// rule: S4-CHAN-1
#[test]
fn operations_that_need_not_wait_go_past_the_scheduler() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                let others = AtomicUsize::new(0);
                let others = std::sync::Arc::new(others);
                let started = || others.load(Ordering::Relaxed);
                for _ in 0..3 {
                    let others = std::sync::Arc::clone(&others);
                    n.spawn(move |_| {
                        others.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                let (sender, receiver) = channel(50);
                for round in 0..4 {
                    for value in 0..50 {
                        sender.send(value).unwrap();
                    }
                    assert_eq!(started(), 0, "seed {seed}, round {round}: a send gave way");
                    for value in 0..50 {
                        assert_eq!(receiver.recv().unwrap(), value);
                    }
                    assert_eq!(started(), 0, "seed {seed}, round {round}: a receive gave way");
                }
                Ok(())
            })
        }));
        assert_eq!(yields(&rt), 0, "seed {seed}");
        drop(rt);
    }
}

/// Until when the handler of the signal keeps the thread that it interrupts; on the clock of
/// [`nanos`].
static KEEP_UNTIL: AtomicU64 = AtomicU64::new(0);

/// How often it did.
static KEPT: AtomicUsize = AtomicUsize::new(0);

fn nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the variable; async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

extern "C" fn keep_thread(_: libc::c_int) {
    KEPT.fetch_add(1, Ordering::SeqCst);
    while nanos() < KEEP_UNTIL.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// The only worker sleeps. A signal keeps its thread until a deadline has passed and a task was
/// submitted, so that it finds both at once: the task whose deadline it is goes first.
// rule: S4-SLEEP-6
#[test]
fn a_worker_that_wakes_acts_on_its_deadlines_before_it_looks_for_work() {
    // SAFETY: a handler of the right signature that only reads a clock and atomics; no other code
    // uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = keep_thread as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let rt = Runtime::builder().workers(1).build().unwrap();
    // SAFETY: asks for the thread's own id.
    let worker = rt.run(|_| Ok(unsafe { libc::pthread_self() } as usize)).unwrap();
    let slept = || rt.stats().workers[0].counters.slept;
    for round in 0..8 {
        let order = std::sync::Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = std::sync::Arc::clone(&order);
            move || order.lock().unwrap().push(name)
        };
        let (before, deadline) = (slept(), Instant::now() + Duration::from_millis(40));
        let due = note("due");
        let sleeper = rt.handle().spawn(move |_| {
            parcae::time::sleep_until(deadline)?;
            due();
            Ok(())
        });
        while slept() == before {
            std::thread::yield_now();
        }
        // A worker that was woken for nothing looks for work for some microseconds, and sleeps
        // again.
        std::thread::sleep(Duration::from_millis(5));
        let left = deadline.saturating_duration_since(Instant::now());
        KEEP_UNTIL.store(nanos() + left.as_nanos() as u64 + 500_000, Ordering::SeqCst);
        let kept = KEPT.load(Ordering::SeqCst);
        // SAFETY: the worker's thread lives as long as `rt`.
        unsafe { libc::pthread_kill(worker as libc::pthread_t, libc::SIGUSR2) };
        while KEPT.load(Ordering::SeqCst) == kept {
            std::thread::yield_now();
        }
        let submitted = note("submitted");
        let other = rt.handle().spawn(move |_| {
            submitted();
            Ok(())
        });
        sleeper.unwrap().join().unwrap();
        other.unwrap().join().unwrap();
        assert_eq!(*order.lock().unwrap(), ["due", "submitted"], "round {round}");
    }
}

// rule: S2-OPTS-5
#[test]
fn a_priority_that_is_not_given_is_normal() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let order = Mutex::new(Vec::new());
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                let order = &order;
                let note = |text| {
                    move |_: &Cx| {
                        order.lock().unwrap().push(text);
                        Ok(())
                    }
                };
                n.spawn_with(SpawnOpts::new().priority(Priority::Low), note("low"))?;
                n.spawn_with(SpawnOpts::new(), note("none"))?;
                n.spawn_with(SpawnOpts::new().priority(Priority::High), note("high"))?;
                Ok(())
            })
        }));
        assert_eq!(order.into_inner().unwrap(), ["high", "none", "low"]);
    }
}

#[test]
fn urgent_children_run_first() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let order = Mutex::new(Vec::new());
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                for priority in [Priority::Low, Priority::Normal, Priority::High] {
                    let order = &order;
                    n.spawn_with(SpawnOpts::new().priority(priority), move |_| {
                        order.lock().unwrap().push(priority);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        }));
        let order = order.into_inner().unwrap();
        assert_eq!(order, [Priority::High, Priority::Normal, Priority::Low]);
    }
}

/// A task that joins a child goes on before tasks of a lower priority, also those of its own
/// nursery.
#[test]
fn a_joiner_goes_before_tasks_of_a_lower_priority() {
    for (joiner, other) in [(Priority::Normal, Priority::Low), (Priority::High, Priority::Normal)] {
        let rt = runtime(1);
        let ran = AtomicUsize::new(0);
        let joined = rt.run_with(SpawnOpts::new().priority(joiner), |cx| {
            cx.nursery(|n| {
                n.spawn_with(SpawnOpts::new().priority(other), |_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
                n.spawn(|_| Ok(()))?.join()?; // the newest is picked first
                assert_eq!(ran.load(Ordering::Relaxed), 0, "{joiner:?} waits for {other:?}");
                Ok(())
            })
        });
        succeed(joined);
    }
}
