//! Turns, priorities, and that no task starves.

use super::*;

// rule: S0-VYIELD-1, S0-WTLS-8, S1-TEST-2
#[test]
fn yielding_tasks_take_turns() {
    deterministic(|engine| {
        if engine.shared.config.workers > 1 {
            return;
        }
        let order = Mutex::new(Vec::new());
        engine.run(|| {
            scope(|s| {
                for name in ["a", "b", "c"] {
                    let order = &order;
                    s.spawn(move || {
                        for _ in 0..3 {
                            order.lock().unwrap().push(name);
                            yield_now();
                        }
                    });
                }
            });
        });
        // After all have started, no task goes twice before the others went once.
        let order = order.into_inner().unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(order.iter().filter(|&&n| n == name).count(), 3, "{order:?}");
        }
        assert_ne!(order[..3], ["a", "a", "a"], "{order:?}");
    });
}

// rule: S4-FAIR-1
#[test]
fn a_task_that_yields_for_ever_starves_nobody() {
    everywhere(|engine| {
        let stop = AtomicBool::new(false);
        engine.run(|| {
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        while !stop.load(Ordering::Acquire) {
                            yield_now();
                        }
                    });
                }
                yield_now();
                for priority in [Priority::Low, Priority::Normal, Priority::High] {
                    let stop = &stop;
                    s.spawn_at(priority, move || {
                        if priority == Priority::Low {
                            stop.store(true, Ordering::Release);
                        }
                    });
                }
            });
        });
    });
}

// rule: S0-TASK-7
#[test]
fn urgent_tasks_go_first_and_idle_ones_last() {
    for seed in seeds() {
        let opts = EngineOpts { workers: 1, seed, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let order = Mutex::new(Vec::new());
        engine.run(|| {
            scope(|s| {
                for priority in [Priority::Low, Priority::Normal, Priority::High] {
                    for _ in 0..5 {
                        let order = &order;
                        s.spawn_at(priority, move || order.lock().unwrap().push(priority));
                    }
                }
            });
        });
        let order = order.into_inner().unwrap();
        let mut sorted = order.clone();
        sorted.sort_by(|a, b| b.cmp(a));
        assert_eq!(order, sorted);
    }
}

#[test]
fn a_task_that_yields_until_another_of_its_priority_ran_is_not_alone() {
    everywhere(|engine| {
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            engine.run(|| {
                scope(|s| {
                    s.spawn_at(priority, move || {
                        let done = AtomicBool::new(false);
                        scope(|s| {
                            s.spawn_at(priority, || done.store(true, Ordering::Release));
                            while !done.load(Ordering::Acquire) {
                                yield_now();
                            }
                        });
                    });
                });
            });
        }
    });
}

#[test]
fn an_urgent_task_that_yields_for_ever_starves_nobody() {
    everywhere(|engine| {
        let stop = AtomicBool::new(false);
        engine.run(|| {
            scope(|s| {
                for _ in 0..2 {
                    s.spawn_at(Priority::High, || {
                        while !stop.load(Ordering::Acquire) {
                            yield_now();
                        }
                    });
                }
                s.spawn(|| {
                    (0..3).for_each(|_| yield_now());
                    stop.store(true, Ordering::Release);
                });
            });
        });
    });
}

// rule: S0-STEAL-1, S0-WORKER-6
#[test]
fn nobody_steals_if_that_is_asked_for() {
    for deterministic in [true, false] {
        let opts = EngineOpts {
            workers: 3,
            victims: Victims::Nobody,
            deterministic,
            ..EngineOpts::default()
        };
        let engine = Engine::new(opts).unwrap();
        let elsewhere = AtomicUsize::new(0);
        engine.run(|| {
            let home = worker_index();
            scope(|s| {
                for _ in 0..500 {
                    s.spawn(|| {
                        elsewhere.fetch_add(usize::from(worker_index() != home), Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(elsewhere.into_inner(), 0);
        assert_eq!(engine.stats().iter().map(|stats| stats.stolen).sum::<u64>(), 0);
    }
}

/// The worker that a movable task is woken for is stuck, and no other is ever idle.
// rule: S4-AFF-3, S4-FAIR-3
#[test]
fn a_woken_movable_task_does_not_wait_for_an_idle_worker() {
    for _ in 0..5 {
        let monitor = MonitorOpts { temporary: 0, ..MonitorOpts::default() };
        let engine =
            Engine::new(EngineOpts { workers: 2, monitor, ..EngineOpts::default() }).unwrap();
        let (slot, open, done) = (Mutex::new(None), AtomicBool::new(false), AtomicBool::new(false));
        engine.run(|| {
            scope(|s| {
                let movable = || {
                    *slot.lock().unwrap() = Some((Waker::current(), worker_index()));
                    while !open.load(Ordering::Acquire) {
                        park().unwrap();
                    }
                    done.store(true, Ordering::Release);
                };
                // SAFETY: references to what is shared on its stack.
                unsafe { s.spawn_migratable(movable) };
                let (waker, home) = loop {
                    yield_now();
                    if let Some(parked) = slot.lock().unwrap().take() {
                        break parked;
                    }
                };
                let deadline = Instant::now() + Duration::from_secs(300);
                let busy = AtomicUsize::new(0);
                scope(|s| {
                    // Two of these: one on each worker. The one at home gets stuck, the other
                    // has always something to do.
                    for _ in 0..2 {
                        s.spawn(|| {
                            busy.fetch_add(1, Ordering::Relaxed);
                            while busy.load(Ordering::Relaxed) < 2 {
                                std::hint::spin_loop();
                            }
                            if worker_index() == home {
                                open.store(true, Ordering::Release);
                                let waker = &waker;
                                std::thread::scope(|s| drop(s.spawn(|| waker.wake())));
                            }
                            while !done.load(Ordering::Acquire) {
                                assert!(Instant::now() < deadline, "nobody went on with it");
                                if worker_index() != home {
                                    yield_now();
                                }
                            }
                        });
                    }
                });
            });
        });
    }
}
