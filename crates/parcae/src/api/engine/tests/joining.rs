//! Scopes: children that end before, while and after their owner begins to wait for them.

use super::*;

#[test]
fn one_child_at_a_time() {
    everywhere(|engine| {
        let rounds = by_executor(engine, 100, 3_000);
        let ran = completes(engine, move || {
            let mut ran = 0;
            for round in 0..rounds {
                scope(|s| {
                    let ran = &mut ran;
                    s.spawn(move || {
                        if round % 3 == 0 {
                            yield_now();
                        }
                        *ran += 1;
                    });
                });
            }
            ran
        });
        assert_eq!(ran, rounds);
    });
}

#[test]
fn children_that_ended_before_they_are_waited_for() {
    everywhere(|engine| {
        const CHILDREN: usize = 16;
        for _ in 0..by_executor(engine, 3, 200) {
            completes(engine, || {
                let ended = AtomicUsize::new(0);
                scope(|s| {
                    for _ in 0..CHILDREN {
                        s.spawn(|| {
                            ended.fetch_add(1, Ordering::Release);
                        });
                    }
                    while ended.load(Ordering::Acquire) < CHILDREN {
                        yield_now();
                    }
                });
                assert_eq!(ended.into_inner(), CHILDREN);
            });
        }
    });
}

#[test]
fn many_owners_wait_at_the_same_time() {
    everywhere(|engine| {
        let rounds = by_executor(engine, 3, 30);
        let sum = completes(engine, move || {
            let sum = AtomicUsize::new(0);
            scope(|s| {
                for owner in 0..32 {
                    let sum = &sum;
                    s.spawn(move || {
                        for round in 0..rounds {
                            let mut parts = [0; 8];
                            scope(|s| {
                                for (n, part) in parts.iter_mut().enumerate() {
                                    s.spawn(move || {
                                        (0..(owner + round + n) % 3).for_each(|_| yield_now());
                                        *part = n + 1;
                                    });
                                }
                            });
                            // Every child has written, and the writes are seen.
                            sum.fetch_add(parts.iter().sum(), Ordering::Relaxed);
                        }
                    });
                }
            });
            sum.into_inner()
        });
        assert_eq!(sum, 32 * rounds * 36);
    });
}

#[test]
fn scopes_are_deep() {
    fn descend(depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let mut below = 0;
        scope(|s| s.spawn(|| below = descend(depth - 1)));
        below + 1
    }
    everywhere(|engine| {
        let depth = by_executor(engine, 50, 1_000);
        assert_eq!(completes(engine, move || descend(depth)), depth);
    });
}

// rule: S0-WTLS-9, S4-CTRL-6, S4-HAND-5, S4-HAND-6
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

/// A waiting scope is woken by all others, all the time.
// rule: S4-PARK-4
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
