//! Parks and wakes, by tasks and threads.

use super::*;

// rule: S0-STATE-3, S0-STATE-7, S0-TASK-4, S0-WTLS-7, S1-MODULE-5, S1-TEST-2, S4-PARK-15, S4-TERM-4
#[test]
fn every_park_is_woken() {
    everywhere(|engine| {
        engine.run(|| {
            const PAIRS: usize = 8;
            const ROUNDS: u64 = 50;
            let slots: Vec<(AtomicU64, Mutex<Option<Waker>>)> =
                (0..PAIRS).map(|_| (AtomicU64::new(0), Mutex::new(None))).collect();
            scope(|s| {
                for (turn, waker) in &slots {
                    s.spawn(move || {
                        *waker.lock().unwrap() = Some(Waker::current());
                        for round in 1..=ROUNDS {
                            while turn.load(Ordering::Acquire) < round {
                                park().unwrap();
                            }
                        }
                    });
                    s.spawn(move || {
                        for round in 1..=ROUNDS {
                            turn.store(round, Ordering::Release);
                            let sleeper = waker.lock().unwrap().clone();
                            if let Some(sleeper) = sleeper {
                                sleeper.wake();
                            }
                            yield_now();
                        }
                    });
                }
            });
        });
    });
}

// rule: S0-WTLS-7
#[test]
fn migratable_tasks_go_on_anywhere() {
    everywhere(|engine| {
        let done = AtomicUsize::new(0);
        engine.run(|| {
            scope(|s| {
                for _ in 0..50 {
                    // SAFETY: nothing but numbers and a shared reference on its stack.
                    unsafe {
                        s.spawn_migratable(|| {
                            let mut sum = 0;
                            for n in 0..20 {
                                sum += n;
                                yield_now();
                            }
                            done.fetch_add(sum, Ordering::Relaxed);
                        });
                    }
                }
            });
        });
        assert_eq!(done.load(Ordering::Relaxed), 50 * 190);
    });
}

#[test]
fn a_started_task_stays_on_its_worker() {
    everywhere(|engine| {
        engine.run(|| {
            scope(|s| {
                for _ in 0..50 {
                    s.spawn(|| {
                        let home = worker_index();
                        for _ in 0..20 {
                            yield_now();
                            assert_eq!(worker_index(), home);
                        }
                    });
                }
            });
        });
    });
}

// rule: S4-FAIR-2, S4-SPAWN-4
#[test]
fn foreign_threads_spawn_and_wake() {
    threads(|engine| {
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let count = Arc::clone(&count);
                        engine.spawn(move || {
                            yield_now();
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        let deadline = Instant::now() + Duration::from_secs(300);
        while count.load(Ordering::Relaxed) < 600 {
            assert!(Instant::now() < deadline, "{} of 600 ran", count.load(Ordering::Relaxed));
            std::thread::yield_now();
        }
    });
}

#[test]
fn cancel_wakes_a_parked_task() {
    everywhere(|engine| {
        engine.run(|| {
            let waker = Mutex::new(None);
            scope(|s| {
                s.spawn(|| {
                    *waker.lock().unwrap() = Some(Waker::current());
                    while park().is_ok() {}
                });
                loop {
                    let target: Option<Waker> = waker.lock().unwrap().clone();
                    if let Some(target) = target {
                        target.cancel();
                        break;
                    }
                    yield_now();
                }
            });
        });
    });
}

// rule: S4-TERM-4, S4-UNPARK-1, S4-UNPARK-2, S4-UNPARK-3, S4-UNPARK-4
#[test]
fn a_wake_comes_from_anywhere_at_any_time() {
    threads(|engine| {
        const ROUNDS: u64 = 300;
        let turn = AtomicU64::new(0);
        let waker = Mutex::new(None::<Waker>);
        std::thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=ROUNDS {
                    turn.store(round, Ordering::Release);
                    // Early, late, twice, stale: all of these happen here.
                    let sleeper = waker.lock().unwrap().clone();
                    if let Some(sleeper) = sleeper {
                        sleeper.wake();
                        sleeper.wake();
                    }
                    if round % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
                // The last word: the task may have registered itself after the loop.
                let deadline = Instant::now() + Duration::from_secs(300);
                while engine.live() > 0 && Instant::now() < deadline {
                    let sleeper = waker.lock().unwrap().clone();
                    if let Some(sleeper) = sleeper {
                        sleeper.wake();
                    }
                    std::thread::yield_now();
                }
            });
            engine.run(|| {
                *waker.lock().unwrap() = Some(Waker::current());
                for round in 1..=ROUNDS {
                    while turn.load(Ordering::Acquire) < round {
                        park().unwrap();
                    }
                }
            });
        });
        // A waker of a task that has ended is harmless.
        waker.into_inner().unwrap().unwrap().wake();
        assert_eq!(engine.run(|| 5), 5);
    });
}

// rule: S4-SPAWN-7
#[test]
fn thousands_of_parked_tasks_are_woken() {
    const TASKS: usize = 20_000;
    let opts = EngineOpts { workers: 2, stack_size: StackSize::CORE, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    let (parked, woken, open) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let wakers = Mutex::new(Vec::with_capacity(TASKS));
    engine.run(|| {
        scope(|s| {
            for _ in 0..TASKS {
                s.spawn(|| {
                    wakers.lock().unwrap().push(Waker::current());
                    parked.fetch_add(1, Ordering::Release);
                    while !open.load(Ordering::Acquire) {
                        park().unwrap();
                    }
                    woken.fetch_add(1, Ordering::Relaxed);
                });
            }
            while parked.load(Ordering::Acquire) < TASKS {
                yield_now();
            }
            open.store(true, Ordering::Release);
            for waker in &*wakers.lock().unwrap() {
                waker.wake();
            }
        });
    });
    assert_eq!(woken.load(Ordering::Relaxed), TASKS);
    // The root has told its result; its worker has yet to count it as ended.
    while engine.live() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn movable_tasks_park_and_are_woken_anywhere() {
    everywhere(|engine| {
        engine.run(|| {
            let wakers = Mutex::new(Vec::new());
            let woken = AtomicUsize::new(0);
            scope(|s| {
                for n in 0..30 {
                    let (wakers, woken) = (&wakers, &woken);
                    // SAFETY: only references to shared data and numbers on its stack.
                    unsafe {
                        s.spawn_migratable(move || {
                            wakers.lock().unwrap().push(Waker::current());
                            while woken.load(Ordering::Acquire) <= n {
                                park().unwrap();
                            }
                        });
                    }
                }
                for _ in 0..30 {
                    woken.fetch_add(1, Ordering::AcqRel);
                    let all: Vec<Waker> = wakers.lock().unwrap().clone();
                    all.iter().for_each(Waker::wake);
                    yield_now();
                }
                // Those that had not started registered themselves late.
                while wakers.lock().unwrap().len() < 30 {
                    yield_now();
                }
                wakers.lock().unwrap().iter().for_each(Waker::wake);
            });
        });
    });
}

// rule: S0-SCALE-3, S2-PRIM-1, S3-OWN-5, S4-FAIR-2
#[test]
fn as_many_workers_wake_as_there_is_work() {
    // Each task blocks its thread until all of them run: none may be left behind.
    for priority in [Priority::Normal, Priority::High, Priority::Low] {
        for workers in [2, 3] {
            let engine = Engine::new(EngineOpts { workers, ..EngineOpts::default() }).unwrap();
            for round in 0..60 {
                let running = AtomicUsize::new(0);
                engine.run(|| {
                    scope(|s| {
                        let meet = || {
                            running.fetch_add(1, Ordering::AcqRel);
                            let deadline = Instant::now() + Duration::from_secs(20);
                            while running.load(Ordering::Acquire) < workers {
                                assert!(Instant::now() < deadline, "stranded in round {round}");
                                std::thread::yield_now();
                            }
                        };
                        for _ in 1..workers {
                            s.spawn_at(priority, meet);
                        }
                        meet();
                    });
                });
            }
        }
    }
}
