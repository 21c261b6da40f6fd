//! Workers: defaults, identity, the order in which they look for work, and sleep.

use super::log::{Logged, events, my_id, sum_of, virtual_engine};
use super::*;
use crate::sched::events::EventKind;
use crate::sched::run_queue::FAIRNESS;
use std::collections::BTreeSet;

// rule: S0-DETERM-5, S0-VICTIM-4, S0-WCOUNT-1
#[test]
fn the_defaults_are_those_of_the_specification() {
    let opts = EngineOpts::default();
    assert_eq!(opts.workers, std::thread::available_parallelism().unwrap().get());
    assert_eq!((opts.victims, opts.seed), (Victims::Random, 0));
    let engine = Engine::new(opts.clone()).unwrap();
    assert_eq!(engine.stats().len(), opts.workers);
}

/// Each task blocks its thread until there is one on every worker.
// rule: S0-TERM-2, S0-WCOUNT-2, S0-WORKER-1, S4-QUEUE-4, S4-TERM-2
#[test]
fn every_worker_is_a_thread_with_an_index_of_its_own() {
    for workers in [1, 2, 5] {
        // No other worker helps, even if the machine starts a thread late.
        let monitor = MonitorOpts { temporary: 0, ..MonitorOpts::default() };
        let engine = Engine::new(EngineOpts { workers, monitor, ..EngineOpts::default() }).unwrap();
        let (seen, deadline) =
            (Mutex::new(BTreeSet::new()), Instant::now() + Duration::from_secs(300));
        let meet = || {
            let name = std::thread::current().name().map(str::to_owned);
            assert!(seen.lock().unwrap().insert((worker_index(), name)));
            while seen.lock().unwrap().len() < workers && Instant::now() < deadline {
                std::thread::yield_now();
            }
        };
        engine.run(|| {
            scope(|s| {
                (1..workers).for_each(|_| s.spawn(meet));
                meet();
            });
        });
        let all = (0..workers).map(|index| (Some(index), Some(format!("parcae-{index}"))));
        assert_eq!(seen.into_inner().unwrap(), all.collect());
    }
}

// rule: S0-WORKER-8, S1-TEST-2, S4-MEM-8, S4-SHUT-3, S4-SHUT-4
#[test]
fn the_counters_of_the_workers_add_up() {
    everywhere(|engine| {
        engine
            .run(|| scope(|s| (0..30).for_each(|_| s.spawn(|| (0..4).for_each(|_| yield_now())))));
        while engine.live() > 0 {
            std::thread::yield_now(); // the root has answered and is about to end
        }
        let sum = engine.stats().into_iter().fold(WorkerStats::default(), |a, b| a + b);
        assert_eq!((sum.spawned_here, sum.ended, sum.yielded), (30, 31, 120));
        assert!(sum.injected >= 1 && sum.executed >= sum.ended && sum.restarts == 0, "{sum:?}");
        assert!(sum.parked >= sum.woken, "{sum:?}");
    });
}

/// Own tasks before the global queue, and that before stealing.
// rule: S0-NURSERY-8, S0-TERM-2, S0-WLOOP-2, S0-WLOOP-3, S0-WLOOP-4, S2-PRIM-1
#[test]
fn a_worker_looks_at_its_own_then_at_the_global_queue_then_steals() {
    let mut steals = 0;
    for (workers, seed) in seeds().flat_map(|seed| [(1, seed), (2, seed)]) {
        let engine = virtual_engine(workers, seed, Victims::Random);
        engine.run_until_idle();
        let last = engine.run(|| {
            scope(|s| {
                engine.spawn(|| {});
                (0..20).for_each(|_| s.spawn(|| {}));
            });
            my_id()
        });
        engine.run_until_idle();
        let log = events(&engine);
        let place = |what: &dyn Fn(&Logged) -> bool| log.iter().position(what);
        let global = place(&|e| e.is(EventKind::Start) && e.task == last + 1).unwrap();
        let steal = place(&|e| e.is(EventKind::Steal)).unwrap_or(usize::MAX);
        assert!(global < steal, "seed {seed}: {log:?}");
        steals += usize::from(steal != usize::MAX);
        if workers == 1 {
            let before = log[..global].iter().filter(|e| e.is(EventKind::Finish)).count();
            assert_eq!(before, 21, "all children and their parent: {log:?}");
        }
    }
    assert!(steals > 0);
}

// rule: S0-WLOOP-5
#[test]
fn a_worker_sleeps_only_when_there_is_nothing() {
    for seed in seeds() {
        let engine = virtual_engine(1, seed, Victims::Random);
        engine.run(|| scope(|s| (0..50).for_each(|_| s.spawn(yield_now))));
        engine.run_until_idle();
        let log = events(&engine);
        let sleep = log.iter().position(|e| e.is(EventKind::Sleep)).unwrap();
        assert_eq!(sleep, log.len() - 1, "{log:?}");
        assert_eq!(sum_of(&engine, |worker| worker.slept), 1);
    }
}

/// With threads too, a worker without work does not spin for ever.
// rule: S0-STEAL-7, S0-WLOOP-5, S1-MODULE-5
#[test]
fn idle_workers_fall_asleep_and_come_back() {
    threads(|engine| {
        for round in 0..5 {
            let before = sum_of(engine, |worker| worker.slept);
            assert_eq!(engine.run(|| round), round);
            let deadline = Instant::now() + Duration::from_secs(300);
            while sum_of(engine, |worker| worker.slept) == before {
                assert!(Instant::now() < deadline, "round {round}: {:?}", engine.stats());
                std::thread::yield_now();
            }
        }
    });
}

/// The global queue gets its turn although the worker never runs out of its own tasks.
// rule: S0-WLOOP-3, S4-FAIR-1
#[test]
fn the_global_queue_waits_for_a_bounded_number_of_picks() {
    for seed in seeds() {
        let engine = virtual_engine(1, seed, Victims::Random);
        let reached = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&reached);
        engine.run(|| {
            engine.spawn(move || flag.store(true, Ordering::Relaxed));
            // Each fifth of the looks at what comes last is for this queue.
            let mut yields = 0..5 * FAIRNESS;
            while !reached.load(Ordering::Relaxed) {
                assert!(yields.next().is_some());
                yield_now();
            }
            assert_ne!(yields.start, 1, "own tasks come first");
        });
    }
}
