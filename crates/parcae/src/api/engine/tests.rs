//! The scheduler as a whole: under the deterministic executor with many seeds, and on
//! threads.

mod determinism;
mod fairness;
mod joining;
mod lifecycle;
mod log;
mod parking;
mod refusals;
mod stealing;
mod storms;
mod tasks;
mod waking;
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
    let Schedule { workers, seed, .. } = schedule;
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
