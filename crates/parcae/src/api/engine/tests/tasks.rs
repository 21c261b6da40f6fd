//! Tasks: ids, stacks, and how many of them there can be.

use super::log::{my_id, virtual_engine};
use super::*;
use std::collections::HashSet;

// rule: S0-TASK-1
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
// rule: S0-WTLS-1, S0-WTLS-2, S0-WTLS-3, S0-WTLS-4, S0-WTLS-8
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

// rule: S0-WTLS-1, S0-WTLS-5
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
            assert!(worker_index().is_none());
            sleeper.lock().unwrap().as_ref().unwrap().wake();
        }
        assert!(engine.run(worker_index).is_some_and(|index| index < engine.stats().len()));
        assert!(worker_index().is_none());
        sleeper.lock().unwrap().take().unwrap().cancel();
    });
}

/// More tasks wait than a worker keeps spare stacks for, so that stacks change hands.
// rule: S0-WTLS-6, S4-HAND-2, S4-HAND-3, S4-HAND-8, S4-INV-2, S4-TERM-6
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

// rule: S0-TERM-1, S2-PRIM-2, S4-INV-2, S4-SHUT-1, S4-SPAWN-1
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

#[test]
fn a_worker_begins_with_stacks_unless_their_number_is_bounded() {
    let stacks = |max_stacks| {
        let opts = EngineOpts { workers: 1, max_stacks, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        engine.run(|| engine.stacks().stats().created)
    };
    let (few, many) = (stacks(1000), stacks(usize::MAX));
    assert!(few <= 3 && many >= 4, "{few} and {many}");
}

/// While no task is taken: no spawn waits for room.
// rule: S4-INJECT-6, S4-INJECT-7, S4-SHUT-2, S4-SHUT-3
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

// rule: S0-SCALE-1, S4-SHUT-1, S4-SHUT-2, S4-SPAWN-7
#[test]
fn a_million_tasks_are_alive_at_once() {
    const TASKS: u64 = 1_000_000;
    // No other worker helps, even if the machine stops this worker for a while.
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
// rule: S0-PERF-3
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
