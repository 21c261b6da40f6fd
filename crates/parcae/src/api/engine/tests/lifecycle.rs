//! Schedulers that come and go, with work, without, and while others still wake their tasks;
//! and workers that fail.

use super::*;

/// A scheduler that is gone leaves nothing behind.
fn ends_without_a_trace(engine: Engine) {
    let shared = Arc::downgrade(&engine.shared);
    drop(engine);
    assert_eq!(shared.strong_count(), 0, "somebody keeps the scheduler");
}

#[test]
fn starting_and_stopping_again_and_again() {
    for round in 0..100 {
        for deterministic in [true, false] {
            let opts =
                EngineOpts { workers: 1 + round % 8, deterministic, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            match round % 3 {
                0 => {} // before its workers have looked around
                1 => assert_eq!(completes(&engine, move || round), round),
                _ => std::thread::yield_now(),
            }
            ends_without_a_trace(engine);
        }
    }
}

#[test]
fn starting_and_stopping_many_workers() {
    for deterministic in [true, false] {
        for _ in 0..3 {
            let opts = EngineOpts { workers: 256, deterministic, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            assert_eq!(completes(&engine, || 1), 1);
            ends_without_a_trace(engine);
        }
    }
}

#[test]
fn what_tasks_spawn_while_their_scheduler_ends_runs_too() {
    fn tree(depth: usize, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        scope(|s| (0..4).for_each(|_| s.spawn(|| tree(depth - 1, leaves))));
    }
    for deterministic in [true, false] {
        for (round, workers) in [1, 2, 4].into_iter().cycle().take(30).enumerate() {
            let opts =
                EngineOpts { workers, seed: round as u64, deterministic, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            let leaves = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&leaves);
            engine.spawn(move || tree(4, &theirs));
            ends_without_a_trace(engine);
            assert_eq!(leaves.load(Ordering::Relaxed), 256);
        }
    }
}

#[test]
fn a_waker_outlives_its_scheduler() {
    everywhere(|engine| {
        let opts = EngineOpts {
            workers: 2,
            deterministic: engine.shared.config.deterministic,
            ..EngineOpts::default()
        };
        let other = Engine::new(opts).unwrap();
        let waker = completes(&other, Waker::current);
        drop(other);
        waker.wake();
        waker.cancel();
        // Not even a task of another scheduler is taken for the one that is gone.
        completes(engine, move || waker.wake());
    });
}

#[test]
fn a_scheduler_that_ends_waits_for_tasks_that_foreign_threads_wake() {
    for round in 0..40 {
        const TASKS: usize = 10;
        let engine =
            Engine::new(EngineOpts { workers: 1 + round % 3, ..EngineOpts::default() }).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..TASKS {
            let (calls, wakers, ended) =
                (Arc::clone(&calls), Arc::clone(&wakers), Arc::clone(&ended));
            engine.spawn(move || {
                wakers.lock().unwrap().push(Waker::current());
                while calls.load(Ordering::Acquire) < 20 {
                    park().unwrap();
                }
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        std::thread::scope(|s| {
            s.spawn(|| {
                while ended.load(Ordering::Relaxed) < TASKS {
                    calls.fetch_add(1, Ordering::AcqRel);
                    let known: Vec<Waker> = wakers.lock().unwrap().clone();
                    known.iter().for_each(Waker::wake);
                    std::thread::yield_now();
                }
            });
            drop(engine); // while they are being woken
            assert_eq!(ended.load(Ordering::Relaxed), TASKS);
        });
    }
}

#[test]
fn workers_that_fail_again_and_again_lose_nothing() {
    everywhere(|engine| {
        const TASKS: usize = 60;
        let ended = completes(engine, || {
            let (wakers, ended) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
            let open = AtomicBool::new(false);
            scope(|s| {
                for n in 0..TASKS {
                    let (wakers, ended, open) = (&wakers, &ended, &open);
                    let body = move || {
                        wakers.lock().unwrap().push(Waker::current());
                        while !open.load(Ordering::Acquire) {
                            park().unwrap();
                        }
                        scope(|s| s.spawn(yield_now));
                        ended.fetch_add(1, Ordering::Relaxed);
                    };
                    if n % 3 == 0 {
                        // SAFETY: numbers and shared references on its stack.
                        unsafe { s.spawn_migratable(body) };
                    } else {
                        s.spawn(body);
                    }
                }
                // Fails with tasks in every queue: unstarted, yielded, woken, movable.
                let fail = || {
                    worker::with_current(|worker| worker.shared.faults.arm(FaultPoint::Begin, 1))
                        .unwrap();
                    yield_now();
                };
                while wakers.lock().unwrap().len() < TASKS {
                    fail();
                }
                open.store(true, Ordering::Release);
                for (n, waker) in wakers.lock().unwrap().iter().enumerate() {
                    waker.wake();
                    if n % 20 == 0 {
                        worker::with_current(|worker| {
                            worker.shared.faults.arm(FaultPoint::Begin, 1);
                        })
                        .unwrap();
                    }
                }
                s.spawn(fail);
            });
            ended.into_inner()
        });
        assert_eq!(ended, TASKS);
        settles(engine);
        assert!(total(engine).restarts > 0, "the sabotage worked");
        assert_eq!(total(engine).ended, 2 * TASKS as u64 + 2);
    });
}

/// A task that has ended is counted when `run` returns, not when its worker turns to something
/// else.
#[test]
fn nothing_is_live_when_run_has_returned() {
    everywhere(|engine| {
        for round in 0..300 {
            engine.run(|| scope(|s| (0..round % 4).for_each(|_| s.spawn(yield_now))));
            assert_eq!(engine.live(), 0, "round {round}");
        }
        // The record, too, is free again.
        let records = || {
            let mut count = 0;
            engine.shared.slab.each(|_| count += 1);
            count
        };
        let before = records();
        (0..by_executor(engine, 2_500, 5_000)).for_each(|_| engine.run(|| ()));
        assert_eq!(records(), before);
    });
}

#[test]
fn stacks_are_used_again() {
    for workers in [1, 2] {
        let opts = EngineOpts { workers, deterministic: true, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let round = || {
            completes(&engine, || {
                scope(|s| (0..200).for_each(|_| s.spawn(|| (0..3).for_each(|_| yield_now()))));
            });
            engine.stacks().stats()
        };
        let first = round();
        for _ in 0..50 {
            round();
        }
        let last = round();
        // At most all of them wait at once, whatever the order; the workers keep a few.
        assert!(last.created <= 201 + workers * 32, "{last:?}");
        assert_eq!(first.arenas, last.arenas);
        assert!(last.in_use <= workers * 32, "{last:?}");
    }
}

#[test]
fn stopping_waits_for_tasks_that_wait() {
    for workers in [1, 2, 4] {
        let engine = Engine::new(EngineOpts { workers, ..EngineOpts::default() }).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        engine.spawn(move || {
            let go = Arc::new(AtomicBool::new(false));
            send.send((Waker::current(), Arc::clone(&go))).unwrap();
            while !go.load(Ordering::Acquire) {
                park().unwrap();
            }
            flag.store(true, Ordering::Release);
        });
        let (waker, go) = receive.recv().unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            go.store(true, Ordering::Release);
            waker.wake();
        });
        drop(engine);
        assert!(ended.load(Ordering::Acquire), "dropped before the task had ended");
        other.join().unwrap();
    }
}

#[test]
fn a_task_may_drop_its_own_scheduler() {
    for workers in [1, 2] {
        let engine =
            Arc::new(Engine::new(EngineOpts { workers, ..EngineOpts::default() }).unwrap());
        let (send, receive) = std::sync::mpsc::channel();
        let last = Arc::clone(&engine);
        let gate = Arc::new(std::sync::Barrier::new(2));
        let passed = Arc::clone(&gate);
        engine.spawn(move || {
            passed.wait();
            drop(last);
            send.send(()).unwrap();
        });
        drop(engine);
        gate.wait();
        receive.recv().unwrap();
    }
}
