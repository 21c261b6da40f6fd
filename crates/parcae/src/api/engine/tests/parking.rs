//! Wakes that come before, while and after a task parks; from tasks, from foreign threads; and
//! requests to end.

use super::log::{Logged, events, virtual_engine};
use super::*;
use crate::sched::events::EventKind;

// rule: S4-PARK-9
#[test]
fn a_wake_before_the_park_is_kept() {
    everywhere(|engine| {
        let rounds = by_executor(engine, 100, 1000);
        completes(engine, move || {
            let me = Waker::current();
            for _ in 0..rounds {
                me.wake(); // no other task would
                park().unwrap();
            }
        });
        settles(engine);
        assert_eq!(total(engine).parked, 0, "no park took effect");
    });
}

#[test]
fn a_wake_after_the_park_takes_effect() {
    everywhere(|engine| {
        let rounds = by_executor(engine, 30, 1000);
        let shared = Arc::clone(&engine.shared);
        let parks =
            move || -> u64 { shared.remotes.iter().map(|r| r.stats.snapshot().parked).sum() };
        let returned = completes(engine, move || {
            let (waker, returned) = (Mutex::new(None::<Waker>), AtomicUsize::new(0));
            scope(|s| {
                s.spawn(|| {
                    *waker.lock().unwrap() = Some(Waker::current());
                    for _ in 0..rounds {
                        park().unwrap();
                        returned.fetch_add(1, Ordering::Release);
                    }
                });
                for round in 0..rounds {
                    // Only the child parks while this task yields.
                    while parks() <= round as u64 {
                        yield_now();
                    }
                    waker.lock().unwrap().as_ref().unwrap().wake();
                    while returned.load(Ordering::Acquire) <= round {
                        yield_now();
                    }
                }
            });
            returned.into_inner()
        });
        assert_eq!(returned, rounds);
    });
}

#[test]
fn many_wakers_at_once_run_a_task_once() {
    everywhere(|engine| {
        const WAKERS: usize = 6;
        let rounds = by_executor(engine, 30, 400);
        completes(engine, move || {
            let sleeper = Mutex::new(None::<Waker>);
            let (inside, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
            scope(|s| {
                s.spawn(|| {
                    *sleeper.lock().unwrap() = Some(Waker::current());
                    while ended.load(Ordering::Acquire) < WAKERS {
                        assert!(!inside.swap(true, Ordering::AcqRel), "run twice");
                        yield_now(); // a wake while queued must not queue it again
                        inside.store(false, Ordering::Release);
                        park().unwrap();
                    }
                });
                for n in 0..WAKERS {
                    let (sleeper, ended) = (&sleeper, &ended);
                    let wake = || {
                        let waker = sleeper.lock().unwrap().clone();
                        if let Some(waker) = waker {
                            waker.wake();
                            waker.wake();
                        }
                    };
                    s.spawn(move || {
                        for round in 0..rounds {
                            wake();
                            if round % WAKERS == n {
                                yield_now();
                            }
                        }
                        ended.fetch_add(1, Ordering::AcqRel);
                        wake();
                    });
                }
            });
        });
    });
}

#[test]
fn foreign_threads_wake_what_is_parked() {
    threads(|engine| {
        const TASKS: usize = 23; // a prime, see below
        const THREADS: usize = 3;
        const EACH: usize = 100;
        struct Seat {
            calls: AtomicUsize,
            waker: Mutex<Option<Waker>>,
        }
        let seats: Arc<Vec<Seat>> = Arc::new(
            (0..TASKS)
                .map(|_| Seat { calls: AtomicUsize::new(0), waker: Mutex::new(None) })
                .collect(),
        );
        for n in 0..TASKS {
            let seats = Arc::clone(&seats);
            engine.spawn(move || {
                *seats[n].waker.lock().unwrap() = Some(Waker::current());
                while seats[n].calls.load(Ordering::Acquire) < THREADS * EACH {
                    park().unwrap();
                }
            });
        }
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let seats = &seats;
                s.spawn(move || {
                    for round in 0..EACH {
                        for n in 0..TASKS {
                            // All tasks once, each thread in an order of its own.
                            let seat = &seats[(n * (2 * thread + 1) + round) % TASKS];
                            seat.calls.fetch_add(1, Ordering::AcqRel);
                            let waker = seat.waker.lock().unwrap().clone();
                            if let Some(waker) = waker {
                                waker.wake();
                            }
                        }
                    }
                });
            }
        });
        // A task that got its last call before it had a waker has not parked since.
        settles(engine);
        assert_eq!(total(engine).ended, TASKS as u64);
    });
}

#[test]
fn a_movable_task_does_not_wait_for_its_busy_worker() {
    const ROUNDS: usize = 2_000;
    let engine = Engine::new(EngineOpts {
        workers: 2,
        spin: Duration::from_micros(2),
        ..EngineOpts::default()
    });
    let engine = engine.unwrap();
    let (sleeper, called) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(AtomicUsize::new(0)));
    let (theirs, calls) = (Arc::clone(&sleeper), Arc::clone(&called));
    let caller = std::thread::spawn(move || {
        while calls.load(Ordering::Relaxed) < ROUNDS {
            let Some(waker) = theirs.lock().unwrap().take() else {
                std::thread::yield_now();
                continue;
            };
            let call = calls.fetch_add(1, Ordering::AcqRel);
            (0..call % 300).for_each(|_| std::hint::spin_loop());
            waker.wake();
        }
    });
    // It never ends if a task is left in the inbox of the worker that is busy.
    completes(&engine, move || {
        for round in 0..ROUNDS {
            let (started, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            scope(|s| {
                // SAFETY: numbers and shared references on its stack.
                unsafe {
                    s.spawn_migratable(|| {
                        *sleeper.lock().unwrap() = Some(Waker::current());
                        started.store(true, Ordering::Release);
                        while called.load(Ordering::Acquire) <= round {
                            park().unwrap();
                        }
                        ended.store(true, Ordering::Release);
                    });
                }
                while !started.load(Ordering::Acquire) {
                    yield_now();
                }
                // From here on this worker is busy, whether or not the task has been on it.
                while !ended.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        }
    });
    caller.join().unwrap();
}

#[test]
fn a_foreign_thread_wakes_a_deterministic_scheduler() {
    const ROUNDS: usize = 200;
    for workers in [1, 2, 8] {
        let (calls, waker) = (AtomicUsize::new(0), Mutex::new(None::<Waker>));
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let deadline = Instant::now() + Duration::from_secs(300);
                while !over.load(Ordering::Acquire) {
                    // One call at a time: in between, nothing can run over there.
                    let known = waker.lock().unwrap().take();
                    if let Some(waker) = known {
                        calls.fetch_add(1, Ordering::AcqRel);
                        waker.wake();
                    } else if Instant::now() > deadline {
                        std::process::abort(); // the other thread sleeps for ever
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
            let opts = EngineOpts { workers, deterministic: true, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            engine.run(|| {
                for round in 1..=ROUNDS {
                    *waker.lock().unwrap() = Some(Waker::current());
                    while calls.load(Ordering::Acquire) < round {
                        park().unwrap();
                    }
                }
            });
            over.store(true, Ordering::Release);
        });
        assert_eq!(calls.into_inner(), ROUNDS);
    }
}

#[test]
fn tasks_that_move_are_cancelled_wherever_they_are() {
    everywhere(|engine| {
        for _ in 0..by_executor(engine, 2, 40) {
            let ended = completes(engine, || {
                const TASKS: usize = 16;
                let (targets, ended) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
                scope(|s| {
                    for n in 0..TASKS {
                        let (targets, ended) = (&targets, &ended);
                        // SAFETY: numbers and shared references on its stack.
                        unsafe {
                            s.spawn_migratable(move || {
                                targets.lock().unwrap().push(Waker::current());
                                while park().is_ok() {
                                    (0..n).for_each(|_| yield_now());
                                }
                                ended.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    }
                    let mut cancelled = 0;
                    while cancelled < TASKS {
                        let known: Vec<Waker> = targets.lock().unwrap().clone();
                        known.iter().for_each(Waker::wake); // in motion
                        for target in &known[cancelled..] {
                            target.cancel();
                            target.cancel();
                        }
                        cancelled = known.len();
                        yield_now();
                    }
                });
                ended.into_inner()
            });
            assert_eq!(ended, 16);
        }
    });
}

#[test]
fn a_tree_of_waiting_tasks_is_cancelled() {
    everywhere(|engine| {
        const WIDTH: usize = 6;
        let ended = completes(engine, || {
            let (targets, ended) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
            let wait = || {
                targets.lock().unwrap().push(Waker::current());
                while park().is_ok() {}
                ended.fetch_add(1, Ordering::Relaxed);
            };
            let wait = &wait;
            scope(|s| {
                for _ in 0..WIDTH {
                    s.spawn(move || {
                        scope(|s| {
                            (0..WIDTH).for_each(|_| s.spawn(wait));
                            wait();
                        });
                    });
                }
                // Parents too, so that some wait for their children when they are asked to end.
                while targets.lock().unwrap().len() < WIDTH * (WIDTH + 1) {
                    yield_now();
                }
                let targets: Vec<Waker> = targets.lock().unwrap().clone();
                targets.iter().for_each(Waker::cancel);
            });
            ended.into_inner()
        });
        assert_eq!(ended, WIDTH * (WIDTH + 1));
    });
}

// rule: S3-GOAL-2, S3-OWN-4, S4-AFF-1, S4-FAIR-3, S4-QUEUE-5
#[test]
fn a_pinned_task_is_woken_on_its_worker() {
    everywhere(|engine| {
        engine.run(|| {
            let wakers = Mutex::new(Vec::new());
            let turn = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        let home = worker_index();
                        wakers.lock().unwrap().push(Waker::current());
                        while turn.load(Ordering::Acquire) < 10 {
                            park().unwrap();
                            assert_eq!(worker_index(), home);
                        }
                    });
                }
                for _ in 0..5 {
                    s.spawn(|| {
                        while turn.load(Ordering::Acquire) < 10 || wakers.lock().unwrap().len() < 20
                        {
                            turn.fetch_add(1, Ordering::AcqRel);
                            wakers.lock().unwrap().iter().for_each(Waker::wake);
                            yield_now();
                        }
                        wakers.lock().unwrap().iter().for_each(Waker::wake);
                    });
                }
            });
        });
    });
}

// rule: S3-OWN-4, S4-AFF-1
#[test]
fn a_movable_task_woken_from_outside_goes_on_where_it_was() {
    deterministic(|engine| {
        let sleeper = Arc::new(Mutex::new(None::<Waker>));
        let (theirs, open) = (Arc::clone(&sleeper), Arc::new(AtomicUsize::new(0)));
        let turn = Arc::clone(&open);
        let body = move || {
            for round in 1..=10 {
                let home = worker_index();
                *theirs.lock().unwrap() = Some(Waker::current());
                while turn.load(Ordering::Acquire) < round {
                    park().unwrap();
                }
                assert_eq!(worker_index(), home);
            }
        };
        // SAFETY: shared pointers and numbers on its stack.
        engine.spawn(|| scope(|s| unsafe { s.spawn_migratable(body) }));
        for _ in 0..10 {
            engine.run_until_idle(); // all sleep
            open.fetch_add(1, Ordering::AcqRel);
            sleeper.lock().unwrap().as_ref().unwrap().wake();
        }
        engine.run_until_idle();
        assert_eq!(engine.live(), 0);
    });
}

/// The worker that a movable task ran on is stuck: another one goes on with it.
// rule: S4-AFF-3, S4-FAIR-3, S4-QUEUE-5
#[test]
fn a_movable_task_is_rescued_from_a_stuck_worker() {
    let engine = Engine::new(EngineOpts { workers: 2, ..EngineOpts::default() }).unwrap();
    let mut rescued = 0;
    for round in 0..5_000 {
        if round >= 50 && rescued > 0 {
            break; // on a busy machine others may start it fifty times
        }
        let (slot, open) = (Mutex::new(None::<(Waker, Option<usize>)>), AtomicBool::new(false));
        let done = AtomicBool::new(false);
        rescued += engine.run(|| {
            scope(|s| {
                let body = || {
                    *slot.lock().unwrap() = Some((Waker::current(), worker_index()));
                    while !open.load(Ordering::Acquire) {
                        park().unwrap();
                    }
                    done.store(true, Ordering::Release);
                };
                // SAFETY: references to what is shared on its stack.
                unsafe { s.spawn_migratable(body) };
                let (waker, home) = loop {
                    yield_now();
                    if let Some(parked) = slot.lock().unwrap().take() {
                        break parked;
                    }
                };
                let foreign = || {
                    open.store(true, Ordering::Release);
                    waker.wake();
                    let deadline = Instant::now() + Duration::from_secs(300);
                    while !done.load(Ordering::Acquire) {
                        assert!(Instant::now() < deadline, "nobody went on with it");
                        std::thread::yield_now();
                    }
                };
                // Blocks this worker.
                std::thread::scope(|s| s.spawn(foreign).join().unwrap());
                u32::from(home == worker_index())
            })
        });
    }
    assert!(rescued > 0);
}

/// The task that waited for one that ends is the next to run on its worker, before those that
/// have been ready for longer.
// rule: S4-HAND-1, S4-HAND-7
#[test]
fn who_waited_for_a_task_is_next() {
    for seed in seeds() {
        let engine = virtual_engine(1, seed, Victims::Random);
        engine.run(|| {
            scope(|s| {
                (0..5).for_each(|_| s.spawn(|| (0..8).for_each(|_| yield_now())));
                s.spawn(|| scope(|s| s.spawn(yield_now)));
            });
        });
        let log = events(&engine);
        let woken = |pair: &[Logged]| pair[0].is(EventKind::Finish) && pair[1].is(EventKind::Wake);
        let places: Vec<_> = (0..log.len() - 2).filter(|&n| woken(&log[n..])).collect();
        assert_eq!(places.len(), 2, "the inner scope and the outer one: {log:?}");
        for n in places {
            let (wake, next) = (log[n + 1], log[n + 2]);
            assert!(next.is(EventKind::Resume) && next.task == wake.task, "{log:?}");
        }
    }
}
