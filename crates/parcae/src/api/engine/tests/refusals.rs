//! Failures and refusals: panics, missing stacks, wrong numbers, wrong threads.

use super::*;

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

// rule: S0-WCOUNT-3
#[test]
fn wrong_numbers_of_workers_are_refused() {
    for workers in [0, 1025] {
        let outcome = Engine::new(EngineOpts { workers, ..EngineOpts::default() });
        assert!(matches!(outcome, Err(EngineError::Workers(n)) if n == workers));
    }
}
