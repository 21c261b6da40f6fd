//! Turns, priorities, and that nobody starves.

use super::*;

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
        // After everybody has started, nobody goes twice before the others went once.
        let order = order.into_inner().unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(order.iter().filter(|&&n| n == name).count(), 3, "{order:?}");
        }
        assert_ne!(order[..3], ["a", "a", "a"], "{order:?}");
    });
}

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
