//! Work spreads: idle workers take from busy ones, and the counters say so.

use super::log::{events, sum_of, virtual_engine};
use super::*;
use crate::base::rng::Rng;
use crate::sched::events::EventKind;
use std::collections::HashSet;
use std::sync::mpsc;

// rule: S0-STEAL-4
#[test]
fn an_idle_worker_takes_what_a_busy_one_spawned() {
    let engine = Engine::new(EngineOpts { workers: 2, ..EngineOpts::default() }).unwrap();
    for _ in 0..200 {
        let (here, there) = completes(&engine, || {
            let there = AtomicUsize::new(usize::MAX);
            scope(|s| {
                s.spawn(|| there.store(worker_index().unwrap(), Ordering::Release));
                // Never lets go of its worker.
                while there.load(Ordering::Acquire) == usize::MAX {
                    std::thread::yield_now();
                }
            });
            (worker_index().unwrap(), there.into_inner())
        });
        assert_ne!(here, there);
    }
    assert_eq!(total(&engine).spawned_here, 200);
    assert!(total(&engine).stolen >= 200);
}

#[test]
fn a_task_spawned_while_the_other_worker_falls_asleep_is_not_left_behind() {
    for spin in [Duration::ZERO, Duration::from_micros(5)] {
        let engine = Engine::new(EngineOpts { workers: 2, spin, ..EngineOpts::default() }).unwrap();
        completes(&engine, || {
            let ran = AtomicUsize::new(0);
            scope(|s| {
                for round in 0..5_000 {
                    // The other worker has just run a task. Each time a bit later on its way.
                    (0..round % 500).for_each(|_| std::hint::spin_loop());
                    s.spawn(|| {
                        ran.fetch_add(1, Ordering::Release);
                    });
                    while ran.load(Ordering::Acquire) <= round {
                        std::thread::yield_now();
                    }
                }
            });
        });
    }
}

#[test]
fn a_worker_that_is_held_up_holds_up_nobody_else() {
    for workers in [2, 4] {
        let engine = Engine::new(EngineOpts { workers, ..EngineOpts::default() }).unwrap();
        for _ in 0..20 {
            let (tell, told) = mpsc::channel();
            let ran = completes(&engine, move || {
                let ran = AtomicUsize::new(0);
                scope(|s| {
                    for n in 0..100 {
                        let (ran, tell) = (&ran, tell.clone());
                        s.spawn(move || {
                            if n % 2 == 0 {
                                yield_now();
                            }
                            if ran.fetch_add(1, Ordering::AcqRel) == 99 {
                                tell.send(()).unwrap();
                            }
                        });
                    }
                    told.recv().unwrap(); // blocks the thread until all have run elsewhere
                });
                ran.into_inner()
            });
            assert_eq!(ran, 100);
        }
    }
}

#[test]
fn siblings_do_not_stay_on_one_worker() {
    const WORKERS: usize = 4;
    let mut used = [0; WORKERS];
    for seed in seeds() {
        let opts =
            EngineOpts { workers: WORKERS, seed, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let places = completes(&engine, || {
            let places = Mutex::new(HashSet::new());
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        (0..5).for_each(|_| yield_now());
                        places.lock().unwrap().insert(worker_index().unwrap());
                    });
                }
            });
            places.into_inner().unwrap()
        });
        assert!(places.len() > 1, "all on {places:?}");
        assert!(total(&engine).stolen > 0);
        places.iter().for_each(|&worker| used[worker] += 1);
    }
    assert!(std::env::var_os("PARCAE_SEED").is_some() || !used.contains(&0), "{used:?}");
}

#[test]
fn all_workers_take_part_in_what_one_has_spawned() {
    // Twenty tasks on four workers; the first of each worker waits for the other workers.
    const WORKERS: usize = 4;
    for _ in 0..20 {
        let engine = Engine::new(EngineOpts { workers: WORKERS, ..EngineOpts::default() }).unwrap();
        let ran = completes(&engine, || {
            let (places, ran) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        places.lock().unwrap().insert(worker_index());
                        let deadline = Instant::now() + Duration::from_secs(300);
                        while places.lock().unwrap().len() < WORKERS {
                            assert!(Instant::now() < deadline, "only {places:?} take part");
                            std::thread::yield_now();
                        }
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            ran.into_inner()
        });
        assert_eq!(ran, 20);
    }
}

// rule: S0-VICTIM-1
#[test]
fn every_way_to_choose_victims_finds_all_work() {
    for victims in [Victims::Random, Victims::RoundRobin, Victims::MostLoaded] {
        let mut stolen = 0;
        for deterministic in [true, false] {
            for (workers, seed) in [1, 2, 3, 8].into_iter().zip(0..) {
                let opts =
                    EngineOpts { workers, seed, victims, deterministic, ..EngineOpts::default() };
                let engine = Engine::new(opts).unwrap();
                let ran = completes(&engine, || {
                    let ran = AtomicUsize::new(0);
                    scope(|s| {
                        for _ in 0..500 {
                            s.spawn(|| {
                                yield_now();
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                    ran.into_inner()
                });
                assert_eq!(ran, 500, "{victims:?}, {workers} workers");
                stolen += total(&engine).stolen;
            }
        }
        assert!(stolen > 0, "{victims:?}");
    }
}

#[test]
fn the_counters_add_up() {
    everywhere(|engine| {
        const TASKS: u64 = 40;
        const PARKED: u64 = 5;
        completes(engine, || {
            scope(|s| {
                for n in 0..TASKS {
                    s.spawn(move || {
                        yield_now();
                        yield_now();
                        if n < PARKED {
                            Waker::current().wake();
                            park().unwrap(); // takes no effect
                        }
                    });
                }
            });
        });
        settles(engine);
        let total = total(engine);
        assert_eq!(total.spawned_here, TASKS);
        assert_eq!(total.ended, TASKS + 1);
        assert_eq!(total.yielded, 2 * TASKS);
        assert!(total.woken <= total.parked, "only what is parked is woken: {total:?}");
        // Each task was started; a yield that found no other task is none of these.
        assert!(total.executed > TASKS, "{total:?}");
        assert!(
            total.executed <= TASKS + 1 + total.yielded + total.parked + PARKED + 1,
            "{total:?}"
        );
        assert!(total.injected >= 1, "the root came from outside");
        assert!(total.stolen < total.executed, "what is stolen is run: {total:?}");
        assert_eq!(total.restarts, 0);
    });
}

/// With nothing to steal, a worker makes two rounds before it sleeps. How many attempts fail
/// follows from the strategy, the seed and the bound: min(workers - 1, 4) in each round, and
/// those that would hit the worker itself are left out.
// rule: S0-DETERM-3, S0-STEAL-2, S0-STEAL-3, S0-STEAL-5, S0-STEAL-6, S0-VICTIM-1, S0-VICTIM-2
// rule: S3-GOAL-2, S3-OWN-7
#[test]
fn attempts_are_bounded_and_follow_strategy_and_seed() {
    for workers in [1, 2, 3, 4, 5, 6, 8, 64, 256] {
        for seed in [0, 1, 7] {
            let attempts = 4.min(workers - 1);
            for victims in [Victims::Random, Victims::RoundRobin] {
                let engine = virtual_engine(workers, seed, victims);
                engine.run_until_idle();
                for (index, stats) in engine.stats().into_iter().enumerate() {
                    let rng = Rng::new(seed, index as u64 + 1);
                    let hits_other = |attempt: &usize| match victims {
                        Victims::Random => rng.below(workers) != index,
                        _ => !attempt.is_multiple_of(workers),
                    };
                    let failed = (1..=2 * attempts).filter(hits_other).count();
                    assert_eq!(stats.failed_steals, failed as u64, "{workers} {victims:?}");
                    assert_eq!((stats.stolen, stats.slept), (0, 1));
                }
            }
        }
    }
}

// rule: S0-STEAL-3, S0-STEAL-4, S0-VICTIM-2, S4-QUEUE-4
#[test]
fn steals_are_counted_and_never_from_oneself() {
    for victims in [Victims::Random, Victims::RoundRobin, Victims::MostLoaded] {
        let mut stolen = 0;
        for seed in seeds() {
            let engine = virtual_engine(4, seed, victims);
            engine.run(|| scope(|s| (0..50).for_each(|_| s.spawn(yield_now))));
            let log = events(&engine);
            let steals: Vec<_> = log.iter().filter(|e| e.is(EventKind::Steal)).collect();
            assert!(steals.iter().all(|e| e.worker != e.detail && e.detail < 4), "{steals:?}");
            assert_eq!(sum_of(&engine, |worker| worker.stolen), steals.len() as u64);
            stolen += steals.len();
        }
        assert!(stolen > 0, "{victims:?}");
    }
}

/// One of eight workers has something: the worker that wakes up finds it at the first attempt.
// rule: S0-VICTIM-3
#[test]
fn the_most_loaded_worker_is_the_first_victim() {
    let stolen = AtomicUsize::new(0);
    for seed in seeds() {
        let engine = virtual_engine(8, seed, Victims::MostLoaded);
        engine.run_until_idle();
        engine.run(|| {
            let failed = sum_of(&engine, |worker| worker.failed_steals);
            let is_first = AtomicBool::new(true);
            let look = || {
                let any = sum_of(&engine, |worker| worker.stolen) > 0;
                if any && is_first.swap(false, Ordering::Relaxed) {
                    stolen.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(sum_of(&engine, |worker| worker.failed_steals), failed);
                }
            };
            scope(|s| {
                (0..40).for_each(|_| s.spawn(look));
                yield_now();
            });
        });
    }
    assert!(stolen.into_inner() > 0);
}
