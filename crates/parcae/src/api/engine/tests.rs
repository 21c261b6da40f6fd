//! The scheduler as a whole: under the deterministic executor with many seeds, and on
//! threads.

mod determinism;
mod fairness;
mod joining;
mod lifecycle;
mod log;
mod parking;
mod stealing;
mod storms;
mod tasks;
mod workers;

use super::scoped::current_task;
use super::*;
use crate::Priority;
use crate::sched::worker::faults::FaultPoint;
use crate::support::{self, LIMIT, REPEATS, Schedule, WORKERS, schedules, stuck};
use crate::task::Waker;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Seeds to try; `PARCAE_SEED` picks one.
fn seeds() -> std::ops::Range<u64> {
    support::seeds(20)
}

fn engine(schedule: Schedule) -> Engine {
    let Schedule { workers, seed } = schedule;
    let (deterministic, seed) = (seed.is_some(), seed.unwrap_or_default());
    Engine::new(EngineOpts { workers, seed, deterministic, ..EngineOpts::default() }).unwrap()
}

/// Runs `test` under the deterministic executor.
fn deterministic(test: impl Fn(&Engine)) {
    schedules(&[1, 2, 3, 8], 20, 0, |schedule| test(&engine(schedule)));
}

/// Runs `test` on threads.
fn threads(test: impl Fn(&Engine)) {
    schedules(&WORKERS, 0, REPEATS, |schedule| test(&engine(schedule)));
}

/// Runs `test` under both executors.
fn everywhere(test: impl Fn(&Engine)) {
    deterministic(&test);
    threads(&test);
}

/// Runs `root` as [`Engine::run`] does. If no task can run any more before it has ended, that is
/// a failure, where `run` would wait for ever.
fn completes<R: Send + 'static>(engine: &Engine, root: impl FnOnce() -> R + Send + 'static) -> R {
    let (answer, answers) = std::sync::mpsc::channel();
    engine.spawn(move || {
        let _ = answer.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(root)));
    });
    engine.run_until_idle(); // threads run by themselves
    let deterministic = engine.shared.config.deterministic;
    let patience = if deterministic { Duration::ZERO } else { LIMIT };
    match answers.recv_timeout(patience) {
        Ok(outcome) => outcome.unwrap_or_else(|payload| resume_unwind(payload)),
        Err(_) if deterministic => panic!("stuck: {} tasks have not ended", engine.live()),
        Err(_) => give_up(engine),
    }
}

/// Waits until all tasks have ended.
fn settles(engine: &Engine) {
    engine.run_until_idle();
    let deadline = Instant::now() + LIMIT;
    while engine.live() > 0 {
        if Instant::now() > deadline {
            give_up(engine);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn give_up(engine: &Engine) -> ! {
    stuck(&format!("stuck: {} tasks have not ended: {:#?}", engine.live(), engine.stats()))
}

/// `small` under the deterministic executor, which runs everything many more times.
fn by_executor(engine: &Engine, small: usize, large: usize) -> usize {
    if engine.shared.config.deterministic { small } else { large }
}

/// The counters of all workers together.
fn total(engine: &Engine) -> WorkerStats {
    engine.stats().into_iter().fold(WorkerStats::default(), |sum, worker| sum + worker)
}

// rule: S0-STATE-5, S0-WTLS-9
#[test]
fn a_root_task_returns_its_value() {
    everywhere(|engine| assert_eq!(engine.run(|| 6 * 7), 42));
}

#[test]
fn a_panic_of_the_root_comes_out() {
    everywhere(|engine| {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            engine.run(|| resume_unwind(Box::new("out")));
        }));
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"out"));
        assert_eq!(engine.run(|| 1), 1, "and the scheduler goes on");
    });
}

// rule: S4-LIFE-2
#[test]
fn children_borrow_and_are_awaited() {
    everywhere(|engine| {
        let sum = AtomicUsize::new(0);
        engine.run(|| {
            let numbers: Vec<usize> = (0..100).collect();
            scope(|s| {
                for n in &numbers {
                    s.spawn(|| {
                        sum.fetch_add(*n, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4950);
    });
}

// rule: S0-WORKER-3, S0-WORKER-4, S0-WORKER-5, S4-SPAWN-1, S4-SPAWN-4
#[test]
fn scopes_nest_and_tasks_spawn_tasks() {
    fn tree(depth: usize, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| tree(depth - 1, leaves));
            }
        });
    }
    everywhere(|engine| {
        let leaves = AtomicUsize::new(0);
        engine.run(|| tree(5, &leaves));
        assert_eq!(leaves.load(Ordering::Relaxed), 243);
    });
}

#[test]
fn a_panic_of_a_child_comes_out_of_its_scope_after_all_have_ended() {
    everywhere(|engine| {
        let ended = AtomicUsize::new(0);
        engine.run(|| {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                scope(|s| {
                    for n in 0..10 {
                        let ended = &ended;
                        s.spawn(move || {
                            yield_now();
                            ended.fetch_add(1, Ordering::Relaxed);
                            if n == 3 {
                                resume_unwind(Box::new(n));
                            }
                        });
                    }
                });
            }));
            assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&3));
            assert_eq!(ended.load(Ordering::Relaxed), 10);
        });
    });
}

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

// rule: S0-WLOOP-1, S0-WORKER-2, S4-MEM-8, S4-SHUT-4, S4-SHUT-7, S4-SHUT-8, S4-SHUT-9
#[test]
fn a_scheduler_that_is_dropped_ends_its_tasks_first() {
    for round in 0..50 {
        let count = Arc::new(AtomicUsize::new(0));
        {
            let opts = EngineOpts { workers: 1 + round % 3, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            for _ in 0..100 {
                let count = Arc::clone(&count);
                engine.spawn(move || {
                    yield_now();
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        assert_eq!(count.load(Ordering::Relaxed), 100);
    }
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

// rule: S0-SCALE-2, S0-WCOUNT-2, S0-WORKER-1
#[test]
fn many_workers_on_few_cores() {
    let engine = Engine::new(EngineOpts { workers: 256, ..EngineOpts::default() }).unwrap();
    let count = AtomicUsize::new(0);
    engine.run(|| {
        scope(|s| {
            for _ in 0..5_000 {
                s.spawn(|| {
                    yield_now();
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    });
    assert_eq!(count.load(Ordering::Relaxed), 5_000);
}

// rule: S0-ERR-5
#[test]
fn a_panic_in_the_runtime_costs_no_task() {
    everywhere(|engine| {
        let done = AtomicUsize::new(0);
        engine.run(|| {
            scope(|s| {
                for n in 0..40 {
                    let done = &done;
                    s.spawn(move || {
                        if n % 10 == 3 {
                            worker::with_current(|worker| {
                                worker.shared.faults.arm(FaultPoint::Begin, 1);
                            })
                            .unwrap();
                        }
                        yield_now();
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(done.load(Ordering::Relaxed), 40);
        let restarts: u64 = engine.stats().iter().map(|worker| worker.restarts).sum();
        assert!(restarts > 0, "the sabotage worked");
    });
}

// rule: S4-QUEUE-3
#[test]
fn an_overflowing_deque_loses_nothing() {
    everywhere(|engine| {
        let count = AtomicUsize::new(0);
        engine.run(|| {
            scope(|s| {
                // More than a deque and the ring of the global queue hold together.
                for _ in 0..6_000 {
                    s.spawn(|| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 6_000);
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

// rule: S4-SPAWN-8
#[test]
fn without_stacks_a_task_fails_and_the_others_go_on() {
    // The pool admits the workers' own stacks and a few more.
    let opts = EngineOpts { workers: 1, max_stacks: 4, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    engine.run(|| {
        let open = AtomicBool::new(false);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        while !open.load(Ordering::Acquire) {
                            yield_now();
                        }
                    });
                }
                // All get a turn before the first may end.
                (0..100).for_each(|_| yield_now());
                open.store(true, Ordering::Release);
            });
        }));
        let error = outcome.unwrap_err().downcast::<StackError>().expect("the reason");
        assert!(error.to_string().contains("max_stacks"), "{error}");
    });
    assert_eq!(engine.run(|| 3), 3);
}

#[test]
fn a_root_without_a_stack_is_an_answer_too() {
    let opts = EngineOpts { workers: 1, max_stacks: 1, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.run(|| 1)));
    let payload = outcome.unwrap_err();
    assert!(payload.is::<crate::stack::StackError>());
}

#[test]
fn a_yield_in_a_destructor_that_runs_for_a_panic_does_nothing() {
    struct Yields;
    impl Drop for Yields {
        fn drop(&mut self) {
            yield_now();
            yield_now();
        }
    }
    everywhere(|engine| {
        engine.run(|| {
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        let outcome = std::panic::catch_unwind(|| {
                            let _yields = Yields;
                            resume_unwind(Box::new(()));
                        });
                        assert!(outcome.is_err());
                        yield_now();
                    });
                }
            });
        });
    });
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

#[test]
fn a_payload_that_panics_when_dropped_does_not_hold_up_its_scope() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                resume_unwind(Box::new("from a payload"));
            }
        }
    }
    everywhere(|engine| {
        engine.run(|| {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| resume_unwind(Box::new(Bad)));
                    }
                });
            }));
            std::mem::forget(outcome.unwrap_err());
        });
    });
}

#[test]
fn schedulers_nest() {
    everywhere(|engine| {
        for deterministic in [false, true] {
            let sum = engine.run(|| {
                let opts = EngineOpts { workers: 2, deterministic, ..EngineOpts::default() };
                let inner = Engine::new(opts).unwrap();
                let inside = inner.run(|| 20);
                yield_now();
                inside + 1
            });
            assert_eq!(sum, 21);
        }
    });
}

#[test]
fn waiting_for_the_own_scheduler_is_refused() {
    everywhere(|engine| {
        engine.run(|| {
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.run(|| 1)));
            assert!(outcome.is_err());
        });
    });
}

#[test]
fn a_deterministic_scheduler_refuses_another_thread_before_it_spawns() {
    let opts = EngineOpts { workers: 1, deterministic: true, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    let ran = AtomicBool::new(false);
    std::thread::scope(|s| {
        let other = s.spawn(|| engine.run(|| ran.store(true, Ordering::Relaxed)));
        assert!(other.join().is_err());
    });
    engine.run_until_idle();
    assert!(!ran.load(Ordering::Relaxed), "a closure outlived its caller");
}

// rule: S0-WTLS-5
#[test]
fn a_refused_closure_may_yield_in_its_destructor() {
    struct Yields;
    impl Drop for Yields {
        fn drop(&mut self) {
            yield_now();
        }
    }
    let opts = EngineOpts { workers: 1, max_stacks: 3, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    engine.run(|| {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(|s| {
                for _ in 0..10 {
                    let yields = Yields;
                    s.spawn(move || {
                        let _yields = yields;
                        (0..20).for_each(|_| yield_now());
                    });
                }
            });
        }));
        assert!(outcome.is_err(), "there are not enough stacks");
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

// rule: S0-WCOUNT-3
#[test]
fn wrong_numbers_of_workers_are_refused() {
    for workers in [0, 1025] {
        let outcome = Engine::new(EngineOpts { workers, ..EngineOpts::default() });
        assert!(matches!(outcome, Err(EngineError::Workers(n)) if n == workers));
    }
}
