//! Rules of the specification that no other test shows: one test for each, or for a few
//! that belong together.

use super::*;
use crate::base::rng::Rng;
use crate::sched::events::EventKind;
use crate::sched::run_queue::FAIRNESS;
use std::collections::{BTreeSet, HashSet};

fn virtual_engine(workers: usize, seed: u64, victims: Victims) -> Engine {
    let deterministic = true;
    Engine::new(EngineOpts { workers, seed, victims, deterministic, ..EngineOpts::default() })
        .unwrap()
}

/// An event of the log, as far as these tests look at it.
#[derive(Debug, Clone, Copy)]
struct Logged {
    worker: u64,
    kind: u64,
    task: u64,
    detail: u64,
}

impl Logged {
    fn is(&self, kind: EventKind) -> bool {
        self.kind == kind as u64
    }
}

fn events(engine: &Engine) -> Vec<Logged> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    let event = |e: &[u8]| Logged {
        kind: number(&e[8..9]),
        worker: number(&e[9..11]),
        task: number(&e[16..24]),
        detail: number(&e[24..32]),
    };
    engine.log().chunks(32).map(event).collect()
}

fn total(engine: &Engine, count: impl Fn(&WorkerStats) -> u64) -> u64 {
    engine.stats().iter().map(count).sum()
}

fn my_id() -> u64 {
    // SAFETY: the running task is live.
    unsafe { current_task().task.as_ref().id() }
}

// ----- tasks ------------------------------------------------------------------------------

#[test]
fn no_two_tasks_have_the_same_id() {
    everywhere(|engine| {
        let ids = Arc::new(Mutex::new(Vec::new()));
        engine.run(|| {
            scope(|s| {
                for _ in 0..50 {
                    s.spawn(|| scope(|s| s.spawn(|| ids.lock().unwrap().push(my_id()))));
                    let ids = Arc::clone(&ids);
                    engine.spawn(move || ids.lock().unwrap().push(my_id()));
                }
                while ids.lock().unwrap().len() < 100 {
                    yield_now();
                }
            });
        });
        let ids = ids.lock().unwrap();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 100);
    });
}

/// The thread knows its worker, and the worker its task, also after every switch.
#[test]
fn a_task_finds_itself_after_every_wait() {
    everywhere(|engine| {
        engine.run(|| {
            scope(|s| {
                let body = || {
                    let (me, id) = (current_task(), my_id());
                    for round in 0..20 {
                        if round % 3 == 0 {
                            Waker::current().wake();
                            park().unwrap(); // returns: it was woken before
                        } else {
                            yield_now();
                        }
                        assert_eq!((current_task(), my_id()), (me, id));
                    }
                };
                for _ in 0..20 {
                    s.spawn(body);
                    // SAFETY: a handle and numbers on its stack.
                    unsafe { s.spawn_migratable(body) };
                }
            });
        });
    });
}

#[test]
fn between_steps_a_thread_is_no_worker() {
    deterministic(|engine| {
        let sleeper = Arc::new(Mutex::new(None::<Waker>));
        let theirs = Arc::clone(&sleeper);
        engine.spawn(move || {
            *theirs.lock().unwrap() = Some(Waker::current());
            while park().is_ok() {}
        });
        for _ in 0..3 {
            engine.run_until_idle();
            assert!(worker::current().is_none() && worker_index().is_none());
            sleeper.lock().unwrap().as_ref().unwrap().wake();
        }
        assert!(engine.run(worker_index).is_some_and(|index| index < engine.stats().len()));
        assert!(worker::current().is_none());
        sleeper.lock().unwrap().take().unwrap().cancel();
    });
}

/// More tasks wait than a worker keeps spare stacks for, so that stacks change hands.
#[test]
fn what_is_on_a_stack_stays_while_others_use_theirs() {
    everywhere(|engine| {
        engine.run(|| {
            for _ in 0..3 {
                scope(|s| {
                    for n in 0..60_u32 {
                        let body = move || {
                            let mut mine = [n; 200];
                            for round in 0..n % 7 {
                                yield_now();
                                let mine = std::hint::black_box(&mut mine);
                                assert!(mine.iter().all(|&x| x == n + round), "{n}: {mine:?}");
                                mine.fill(n + round + 1);
                            }
                        };
                        // SAFETY: numbers on its stack.
                        if n % 2 == 0 { s.spawn(body) } else { unsafe { s.spawn_migratable(body) } }
                    }
                });
            }
        });
    });
}

#[test]
fn a_scope_ends_after_all_that_its_children_owned_is_gone() {
    struct Slow<'a>(&'a AtomicUsize);
    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            (0..3).for_each(|_| yield_now());
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|engine| {
        engine.run(|| {
            let gone = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..20 {
                    let captured = Slow(&gone);
                    s.spawn(|| drop((Slow(&gone), captured)));
                }
            });
            assert_eq!(gone.load(Ordering::Relaxed), 40);
        });
    });
}

/// A waiting scope is woken by everybody, all the time.
#[test]
fn a_scope_stands_wakes_that_mean_nothing() {
    everywhere(|engine| {
        engine.run(|| {
            let ended = AtomicUsize::new(0);
            let owner = Waker::current();
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        for _ in 0..10 {
                            owner.wake();
                            yield_now();
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(ended.load(Ordering::Relaxed), 10);
        });
    });
}

#[test]
fn an_unstarted_task_holds_no_stack() {
    for deterministic in [false, true] {
        let monitor = MonitorOpts { temporary: 0, ..MonitorOpts::default() };
        let opts = EngineOpts {
            workers: 1,
            max_stacks: 3,
            deterministic,
            monitor,
            ..EngineOpts::default()
        };
        let engine = Engine::new(opts).unwrap();
        let ran = AtomicUsize::new(0);
        engine.run(|| {
            scope(|s| {
                for _ in 0..10_000 {
                    s.spawn(|| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
                assert_eq!(engine.live(), 10_001);
                assert!(engine.stacks().stats().in_use <= 3);
            });
        });
        assert_eq!(ran.load(Ordering::Relaxed), 10_000);
    }
}

// ----- workers ----------------------------------------------------------------------------

#[test]
fn the_defaults_are_those_of_the_specification() {
    let opts = EngineOpts::default();
    assert_eq!(opts.workers, std::thread::available_parallelism().unwrap().get());
    assert_eq!((opts.victims, opts.seed), (Victims::Random, 0));
    let engine = Engine::new(opts.clone()).unwrap();
    assert_eq!(engine.stats().len(), opts.workers);
}

/// Each task blocks its thread until there is one on every worker.
#[test]
fn every_worker_is_a_thread_with_an_index_of_its_own() {
    for workers in [1, 2, 5] {
        // Nobody helps, even if the machine starts a thread late.
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

#[test]
fn a_worker_sleeps_only_when_there_is_nothing() {
    for seed in seeds() {
        let engine = virtual_engine(1, seed, Victims::Random);
        engine.run(|| scope(|s| (0..50).for_each(|_| s.spawn(yield_now))));
        engine.run_until_idle();
        let log = events(&engine);
        let sleep = log.iter().position(|e| e.is(EventKind::Sleep)).unwrap();
        assert_eq!(sleep, log.len() - 1, "{log:?}");
        assert_eq!(total(&engine, |worker| worker.slept), 1);
    }
}

/// With threads too, a worker without work does not spin for ever.
#[test]
fn idle_workers_fall_asleep_and_come_back() {
    threads(|engine| {
        for round in 0..5 {
            let before = total(engine, |worker| worker.slept);
            assert_eq!(engine.run(|| round), round);
            let deadline = Instant::now() + Duration::from_secs(300);
            while total(engine, |worker| worker.slept) == before {
                assert!(Instant::now() < deadline, "round {round}: {:?}", engine.stats());
                std::thread::yield_now();
            }
        }
    });
}

/// The global queue gets its turn although the worker never runs out of its own tasks.
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

// ----- stealing ---------------------------------------------------------------------------

/// With nothing to steal, a worker makes two rounds before it sleeps. How many attempts fail
/// follows from the strategy, the seed and the bound: min(workers - 1, 4) in each round, and
/// those that would hit the worker itself are left out.
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
            assert_eq!(total(&engine, |worker| worker.stolen), steals.len() as u64);
            stolen += steals.len();
        }
        assert!(stolen > 0, "{victims:?}");
    }
}

/// One of eight workers has something: whoever wakes up finds it at the first attempt.
#[test]
fn the_most_loaded_worker_is_the_first_victim() {
    let mut stolen = 0;
    for seed in seeds() {
        let engine = virtual_engine(8, seed, Victims::MostLoaded);
        engine.run_until_idle();
        engine.run(|| {
            scope(|s| {
                let failed = total(&engine, |worker| worker.failed_steals);
                (0..40).for_each(|_| s.spawn(|| {}));
                for _ in 0..15 {
                    yield_now();
                    if total(&engine, |worker| worker.stolen) > 0 {
                        stolen += 1;
                        assert_eq!(total(&engine, |worker| worker.failed_steals), failed);
                        break;
                    }
                }
            });
        });
    }
    assert!(stolen > 0);
}

// ----- wakes ------------------------------------------------------------------------------

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
            engine.run_until_idle(); // everybody sleeps
            open.fetch_add(1, Ordering::AcqRel);
            sleeper.lock().unwrap().as_ref().unwrap().wake();
        }
        engine.run_until_idle();
        assert_eq!(engine.live(), 0);
    });
}

/// The worker that a movable task ran on is stuck: another one goes on with it.
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

/// Whoever waited for a task that ends is the next to run on its worker, before those that
/// have been ready for longer.
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

// ----- determinism, size and speed ----------------------------------------------------------

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

/// While nobody takes anything: no spawn waits for room.
#[test]
fn a_burst_of_a_hundred_thousand_spawns_succeeds() {
    let engine = virtual_engine(2, 0, Victims::Random);
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..100_000 {
        let ran = Arc::clone(&ran);
        engine.spawn(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(engine.live(), 100_000);
    engine.run_until_idle();
    assert_eq!((engine.live(), ran.load(Ordering::Relaxed)), (0, 100_000));
}

#[test]
fn a_million_tasks_are_alive_at_once() {
    const TASKS: u64 = 1_000_000;
    // Nobody helps, even if the machine stops this worker for a while.
    let monitor = MonitorOpts { temporary: 0, ..MonitorOpts::default() };
    let opts = EngineOpts { workers: 1, monitor, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    let ran = AtomicU64::new(0);
    engine.run(|| {
        scope(|s| {
            for _ in 0..TASKS {
                s.spawn(|| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            assert_eq!(engine.live(), TASKS + 1);
        });
    });
    assert_eq!(ran.load(Ordering::Relaxed), TASKS);
}

/// Stack and record of a task that waits.
#[test]
fn a_task_needs_less_than_sixteen_kilobytes() {
    const TASKS: usize = 1_000;
    let engine = virtual_engine(1, 0, Victims::Random);
    engine.run(|| {
        let (parked, open) = (AtomicUsize::new(0), AtomicBool::new(false));
        scope(|s| {
            for _ in 0..TASKS {
                s.spawn(|| {
                    parked.fetch_add(1, Ordering::Relaxed);
                    while !open.load(Ordering::Relaxed) {
                        yield_now();
                    }
                });
            }
            while parked.load(Ordering::Relaxed) < TASKS {
                yield_now();
            }
            let bytes =
                engine.stacks().resident().unwrap() / TASKS + size_of::<crate::sched::task::Task>();
            open.store(true, Ordering::Relaxed);
            // Frames are larger under the sanitizer.
            let limit = if cfg!(parcae_asan) { 64_000 } else { 16_000 };
            assert!(bytes < limit, "{bytes}");
        });
    });
}
