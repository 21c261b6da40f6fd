//! The same seed gives the same run.

use super::log::virtual_engine;
use super::*;
use std::cell::Cell;
use std::collections::HashSet;

// rule: S0-DETERM-1, S0-DETERM-2, S0-DETERM-5, S0-SCALE-2, S0-TESTRT-3, S0-VICTIM-1, S0-WORKER-7
#[test]
fn the_same_seed_gives_the_same_run() {
    fn run(seed: u64, workers: usize) -> Vec<u8> {
        let opts = EngineOpts { workers, seed, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let shared = Cell::new(0);
        engine.run(|| {
            let waker = Mutex::new(None);
            scope(|s| {
                s.spawn(|| {
                    *waker.lock().unwrap() = Some(Waker::current());
                    let _ = park();
                });
                for n in 0..20 {
                    let waker = &waker;
                    s.spawn(move || {
                        for _ in 0..n % 5 {
                            yield_now();
                        }
                        if let Some(waker) = &*waker.lock().unwrap() {
                            waker.wake();
                        }
                    });
                }
                yield_now();
                let sleeper = waker.lock().unwrap().clone();
                if let Some(sleeper) = sleeper {
                    sleeper.wake();
                }
                for _ in 0..30 {
                    yield_now();
                    if let Some(sleeper) = &*waker.lock().unwrap() {
                        sleeper.wake();
                    }
                }
            });
        });
        shared.set(1);
        engine.log()
    }
    for workers in [1, 2, 5, 64, 256] {
        let mut logs = HashSet::new();
        for seed in 0..6 {
            let log = run(seed, workers);
            assert!(!log.is_empty());
            assert!(log == run(seed, workers), "seed {seed}, {workers} workers");
            logs.insert(log);
        }
        if workers > 1 {
            assert!(logs.len() > 1, "{workers} workers: all seeds gave the same run");
        }
    }
}

// rule: S0-WLOOP-1, S4-SHUT-7, S4-SHUT-8
#[test]
fn a_deterministic_scheduler_that_is_dropped_ends_its_tasks_first() {
    for seed in seeds() {
        let count = Arc::new(AtomicUsize::new(0));
        let opts = EngineOpts { workers: 3, seed, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        for _ in 0..50 {
            let count = Arc::clone(&count);
            engine.spawn(move || {
                yield_now();
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(engine);
        assert_eq!(count.load(Ordering::Relaxed), 50);
    }
}

#[test]
fn a_sleeping_deterministic_scheduler_is_woken_from_outside() {
    for seed in seeds() {
        let opts = EngineOpts { workers: 3, seed, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        for round in 0..20 {
            assert_eq!(engine.run(move || round), round);
            engine.run_until_idle(); // all sleep
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            engine.spawn(move || flag.store(true, Ordering::Relaxed));
            engine.run_until_idle();
            assert!(ran.load(Ordering::Relaxed));
        }
    }
}

// rule: S0-DETERM-4, S0-GOAL-5
#[test]
fn time_that_passes_changes_no_run() {
    let run = |seed, pause: Duration| {
        let engine = virtual_engine(3, seed, Victims::Random);
        engine.run(|| {
            scope(|s| {
                for _ in 0..8 {
                    s.spawn(|| {
                        std::thread::sleep(pause);
                        yield_now();
                        std::thread::sleep(pause);
                    });
                }
            });
        });
        engine.log()
    };
    for seed in 0..5 {
        assert_eq!(run(seed, Duration::ZERO), run(seed, Duration::from_millis(2)));
    }
}
