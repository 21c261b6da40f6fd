//! Mutexes, read-write locks, semaphores, and what is made once.

use super::super::*;
use super::{cancelled_at_every_point, deterministic, everywhere, run};
use crate::base::error::{Error, Result};
use crate::prelude::*;
use crate::support::DETERMINISTIC_RUNS;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Adds one in two steps, with others let in between.
fn add_slowly(cx: &Cx, number: &mut usize) -> Result<()> {
    let before = *number;
    cx.yield_now()?;
    *number = before + 1;
    Ok(())
}

#[test]
fn a_mutex_keeps_others_out() {
    everywhere(|cx| {
        let mutex = Mutex::new(0);
        cx.nursery(|n| {
            for _ in 0..8 {
                n.spawn(|cx| {
                    for _ in 0..10 {
                        add_slowly(cx, &mut *mutex.lock()?)?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(mutex.into_inner(), 80);
        Ok(())
    });
}

#[test]
fn tasks_and_threads_share_a_mutex() {
    for workers in [1, 3] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let mutex = Mutex::new(0);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| (0..500).for_each(|_| *mutex.lock().unwrap() += 1));
            }
            run(&rt, |cx| {
                cx.nursery(|n| {
                    for _ in 0..4 {
                        n.spawn(|cx| {
                            (0..100).try_for_each(|_| add_slowly(cx, &mut *mutex.lock()?))
                        })?;
                    }
                    Ok(())
                })
            });
        });
        assert_eq!(mutex.into_inner(), 1_400);
    }
}

#[test]
fn a_cancelled_wait_for_a_mutex_leaves_it_to_others() {
    let mutex = Mutex::new(0_usize);
    let done = AtomicUsize::new(0);
    cancelled_at_every_point(
        |cx| {
            for _ in 0..3 {
                let mut number = mutex.lock()?;
                cx.yield_now()?;
                *number += 1;
                done.fetch_add(1, Relaxed);
            }
            Ok(())
        },
        |cx| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    n.spawn(|cx| {
                        for _ in 0..2 {
                            add_slowly(cx, &mut *mutex.lock()?)?;
                            done.fetch_add(1, Relaxed);
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })
        },
        || assert_eq!(*mutex.try_lock().expect("free in the end"), done.load(Relaxed)),
    );
}

#[test]
fn who_waits_is_not_overtaken_for_ever() {
    deterministic(|cx| {
        let (mutex, turns) = (Mutex::new(()), AtomicUsize::new(0));
        cx.nursery(|n| {
            let guard = mutex.lock()?;
            let waiter = n.spawn(|_| {
                let _guard = mutex.lock()?;
                Ok(turns.load(Relaxed))
            })?;
            for _ in 0..20 {
                cx.yield_now()?; // until it waits
            }
            drop(guard);
            // Always has it when the other one looks.
            while !waiter.is_finished() {
                let _guard = mutex.lock()?;
                turns.fetch_add(1, Relaxed);
                for _ in 0..4 {
                    cx.yield_now()?;
                }
            }
            assert!(waiter.join()? < 100);
            Ok(())
        })
    });
}

#[test]
fn waits_end_with_their_time() {
    everywhere(|cx| {
        let (mutex, rwlock, semaphore) = (Mutex::new(1), RwLock::new(2), Semaphore::new(3));
        let (a, b, c) = (mutex.lock()?, rwlock.read()?, semaphore.acquire_many(2)?);
        let time = Duration::from_micros(200);
        cx.nursery(|n| {
            let late = n.spawn(|_| {
                assert!(mutex.lock_timeout(time).unwrap_err().is_timed_out());
                assert!(rwlock.write_timeout(time).unwrap_err().is_timed_out());
                assert!(semaphore.acquire_timeout(2, time).unwrap_err().is_timed_out());
                assert_eq!(*rwlock.read_timeout(time)?, 2);
                Ok(())
            })?;
            late.join()
        })?;
        drop((a, b, c));
        let time = Duration::from_secs(100);
        assert_eq!(*mutex.lock_timeout(time)?, 1);
        assert_eq!(*rwlock.write_timeout(time)?, 2);
        assert_eq!(semaphore.acquire_timeout(3, time)?.permits(), 3);
        Ok(())
    });
}

#[test]
fn a_panic_unlocks() {
    everywhere(|cx| {
        let (mutex, rwlock) = (Mutex::new(1), RwLock::new(1));
        let outcome = cx.nursery(|n| {
            n.spawn(|_| -> Result<()> {
                let (_a, _b) = (mutex.lock()?, rwlock.write()?);
                std::panic::resume_unwind(Box::new("on purpose"));
            })?
            .join()
        });
        assert!(outcome.unwrap_err().is_panic());
        assert_eq!(*mutex.lock()? + *rwlock.read()?, 2);
        Ok(())
    });
}

#[test]
fn a_destructor_of_a_panic_does_not_wait() {
    struct Locks<'l>(&'l Mutex<()>, &'l AtomicUsize);
    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            let error = self.0.lock().unwrap_err();
            self.1.store(usize::from(matches!(error.kind(), ErrorKind::Unwinding)), Relaxed);
        }
    }
    everywhere(|cx| {
        let (mutex, refused) = (Mutex::new(()), AtomicUsize::new(0));
        let _guard = mutex.lock()?;
        let outcome = cx.nursery(|n| {
            n.spawn(|_| -> Result<()> {
                let _locks = Locks(&mutex, &refused);
                std::panic::resume_unwind(Box::new("on purpose"));
            })?
            .join()
        });
        assert!(outcome.unwrap_err().is_panic());
        assert_eq!(refused.into_inner(), 1);
        Ok(())
    });
}

#[test]
fn permits_are_conserved_under_storms_of_cancels() {
    everywhere(|cx| {
        let (semaphore, inside) = (Semaphore::new(3), AtomicUsize::new(0));
        for round in 0..6 {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let mut tasks = Vec::new();
                for i in 0..12 {
                    let (semaphore, inside) = (&semaphore, &inside);
                    tasks.push(n.spawn(move |cx| {
                        let permit = semaphore.acquire_many(1 + i % 3)?;
                        let now = inside.fetch_add(permit.permits(), Relaxed) + permit.permits();
                        let yielded = cx.yield_now();
                        inside.fetch_sub(permit.permits(), Relaxed);
                        assert!(now <= 3);
                        yielded
                    })?);
                }
                for _ in 0..round {
                    cx.yield_now()?;
                }
                for (i, task) in tasks.iter().enumerate() {
                    if (i + round) % 3 == 0 {
                        task.cancel();
                    }
                }
                for task in tasks {
                    task.join().or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e) })?;
                }
                Ok(())
            })?;
            assert_eq!(semaphore.available(), 3);
        }
        Ok(())
    });
}

/// Runs `body` in three tasks.
fn three(cx: &Cx, body: impl Fn(&Cx) -> Result<()> + Sync) -> Result<()> {
    cx.nursery(|n| {
        for _ in 0..3 {
            n.spawn(&body)?;
        }
        Ok(())
    })
}

#[test]
fn a_cancelled_wait_for_permits_leaves_them_to_others() {
    let semaphore = Semaphore::new(2);
    cancelled_at_every_point(
        |cx| {
            for _ in 0..3 {
                let _both = semaphore.acquire_many(2)?;
                cx.yield_now()?;
            }
            Ok(())
        },
        |cx| {
            three(cx, |cx| {
                let _one = semaphore.acquire()?;
                cx.yield_now()
            })
        },
        || assert_eq!(semaphore.available(), 2),
    );
}

// rule: S4-PARK-1
#[test]
fn who_wants_many_permits_is_served_in_turn() {
    deterministic(|cx| {
        let semaphore = Semaphore::new(2);
        let order = Mutex::new(Vec::new());
        cx.nursery(|n| {
            let one = semaphore.acquire()?;
            let all = n.spawn(|_| {
                let _all = semaphore.acquire_many(2)?;
                order.lock()?.push("all");
                Ok(())
            })?;
            while semaphore.try_acquire(1).is_some() {
                cx.yield_now()?; // until there is a waiter
            }
            let few = n.spawn(|_| {
                let _one = semaphore.acquire()?;
                order.lock()?.push("few");
                Ok(())
            })?;
            cx.yield_now()?;
            drop(one);
            all.join()?;
            few.join()
        })?;
        assert_eq!(*order.lock()?, ["all", "few"]);
        Ok(())
    });
}

#[test]
fn a_first_that_goes_away_lets_those_behind_it_in() {
    deterministic(|cx| {
        let semaphore = Semaphore::new(2);
        let _one = semaphore.acquire()?;
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let all = n.spawn(|_| semaphore.acquire_many(2).map(drop))?;
            while semaphore.try_acquire(1).is_some() {
                cx.yield_now()?;
            }
            let one = n.spawn(|_| semaphore.acquire().map(drop))?;
            cx.yield_now()?;
            all.cancel();
            assert!(all.join().unwrap_err().is_cancelled());
            one.join()
        })
    });
}

#[test]
fn permits_can_be_owned_added_and_forgotten() {
    let semaphore = Arc::new(Semaphore::new(1));
    let permit = semaphore.acquire_owned(1).unwrap();
    assert!(semaphore.try_acquire_owned(1).is_none());
    let other = std::thread::spawn(move || permit.permits());
    assert_eq!(other.join().unwrap(), 1);
    assert_eq!(semaphore.available(), 1);
    semaphore.add(4);
    assert_eq!(semaphore.forget(2), 2);
    semaphore.try_acquire(1).unwrap().forget();
    semaphore.try_acquire_owned(1).unwrap().forget();
    assert_eq!((semaphore.available(), semaphore.forget(9), semaphore.available()), (1, 1, 0));
}

#[test]
fn readers_share_and_writers_do_not() {
    everywhere(|cx| {
        let (lock, readers) = (RwLock::new((0, 0)), AtomicUsize::new(0));
        cx.nursery(|n| {
            for i in 0..10 {
                let (lock, readers) = (&lock, &readers);
                n.spawn(move |cx| {
                    for _ in 0..5 {
                        if i % 3 == 0 {
                            let mut pair = lock.write()?;
                            assert_eq!(readers.load(Relaxed), 0);
                            pair.0 += 1;
                            cx.yield_now()?;
                            pair.1 += 1;
                            let pair = pair.downgrade();
                            readers.fetch_add(1, Relaxed);
                            assert_eq!(pair.0, pair.1);
                            readers.fetch_sub(1, Relaxed);
                        } else {
                            let pair = lock.read()?;
                            readers.fetch_add(1, Relaxed);
                            assert_eq!(pair.0, pair.1);
                            cx.yield_now()?;
                            assert_eq!(pair.0, pair.1);
                            readers.fetch_sub(1, Relaxed);
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(lock.into_inner(), (20, 20));
        Ok(())
    });
}

#[test]
fn a_cancelled_writer_lets_readers_in() {
    let lock = RwLock::new(0);
    cancelled_at_every_point(
        |cx| {
            for _ in 0..3 {
                let mut data = lock.write()?;
                *data += 1;
                cx.yield_now()?;
            }
            Ok(())
        },
        |cx| {
            three(cx, |cx| {
                let _data = lock.read()?;
                cx.yield_now()
            })
        },
        || assert!(lock.try_write().is_some()),
    );
}

#[test]
fn a_value_is_made_once() {
    everywhere(|cx| {
        let (cell, made) = (OnceCell::new(), AtomicUsize::new(0));
        cx.nursery(|n| {
            let make = |cx: &Cx| {
                cell.get_or_try_init(|| {
                    cx.yield_now()?;
                    Ok(made.fetch_add(1, Relaxed))
                })
                .copied()
            };
            let tasks: Result<Vec<_>> = (0..8).map(|_| n.spawn(make)).collect();
            for task in tasks? {
                assert_eq!(task.join()?, 0);
            }
            Ok(())
        })?;
        assert_eq!((cell.get(), cell.set(7)?), (Some(&0), Err(7)));
        Ok(())
    });
}

#[test]
fn making_that_fails_is_tried_by_the_next() {
    everywhere(|cx| {
        let (cell, tries) = (OnceCell::new(), AtomicUsize::new(0));
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let make = |cx: &Cx| {
                cell.get_or_try_init(|| {
                    cx.yield_now()?;
                    match tries.fetch_add(1, Relaxed) {
                        0 => Err(Error::msg("no")),
                        1 => std::panic::resume_unwind(Box::new("on purpose")),
                        n => Ok(n),
                    }
                })
                .copied()
            };
            let tasks: Result<Vec<_>> = (0..5).map(|_| n.spawn(make)).collect();
            let made = tasks?.into_iter().filter_map(|task| task.join().ok());
            assert_eq!(made.collect::<Vec<_>>(), [2, 2, 2]);
            Ok(())
        })
    });
}

#[test]
fn lazily_and_once() {
    let (once, calls) = (Once::new(), AtomicUsize::new(0));
    assert!(!once.is_completed());
    for _ in 0..3 {
        once.call_once(|| {
            calls.fetch_add(1, Relaxed);
        })
        .unwrap();
    }
    let lazy = Lazy::new(|| calls.fetch_add(10, Relaxed));
    assert_eq!((lazy.get().unwrap(), lazy.get().unwrap()), (&1, &1));
    assert!(once.is_completed() && calls.into_inner() == 11);
    let mut cell = OnceCell::new();
    assert_eq!(cell.set(3).unwrap(), Ok(()));
    assert_eq!((cell.get_mut().copied(), cell.take(), cell.get()), (Some(3), Some(3), None));
}

/// Tasks of two workers, threads, timeouts and cancels on one mutex: it excludes, and every task
/// that was not cancelled gets its turns.
#[test]
fn storms_of_tasks_threads_timeouts_and_cancels() {
    for round in 0..10 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let (mutex, done) = (Mutex::new(0_usize), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for i in 0..200 {
                        let time = Duration::from_micros(i % 7);
                        if let Ok(mut number) = mutex.lock_timeout(time) {
                            *number += 1;
                            done.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
            run(&rt, |cx| {
                cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                    let mut tasks = Vec::new();
                    for _ in 0..16 {
                        tasks.push(n.spawn(|cx| {
                            for i in 0..40 {
                                let mut number = if i % 3 == 0 {
                                    match mutex.lock_timeout(Duration::from_micros(i % 5)) {
                                        Ok(number) => number,
                                        Err(error) if error.is_timed_out() => continue,
                                        Err(error) => return Err(error),
                                    }
                                } else {
                                    mutex.lock()?
                                };
                                let before = *number;
                                let yielded = if i % 2 == 0 { cx.yield_now() } else { Ok(()) };
                                *number = before + 1;
                                done.fetch_add(1, Relaxed);
                                yielded?;
                            }
                            Ok(())
                        })?);
                    }
                    for (i, task) in tasks.iter().enumerate() {
                        if (i + round) % 4 == 0 {
                            cx.yield_now()?;
                            task.cancel();
                        }
                    }
                    for task in tasks {
                        task.join().or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e) })?;
                    }
                    Ok(())
                })
            });
        });
        assert_eq!(*mutex.try_lock().expect("free in the end"), done.into_inner());
    }
}

#[test]
fn a_cancelled_reader_lets_the_writer_in() {
    let lock = RwLock::new(0);
    cancelled_at_every_point(
        |cx| {
            for _ in 0..3 {
                let number = lock.read()?;
                let before = *number;
                cx.yield_now()?;
                assert_eq!(*number, before, "nobody writes while it is read");
            }
            Ok(())
        },
        |cx| {
            for _ in 0..4 {
                let mut number = lock.write()?;
                *number += 1;
                cx.yield_now()?;
            }
            Ok(())
        },
        || assert!(lock.try_write().is_some(), "free in the end"),
    );
    assert_eq!(lock.into_inner(), 4 * 24 * DETERMINISTIC_RUNS);
}

#[test]
fn who_is_cancelled_while_it_makes_a_value_leaves_that_to_the_next() {
    let made = AtomicUsize::new(0);
    deterministic(|cx| {
        for point in 0..12 {
            let cell = OnceCell::new();
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let make = |cx: &Cx| {
                    let value = cell.get_or_try_init(|| {
                        cx.yield_now()?;
                        cx.yield_now()?;
                        made.fetch_add(1, Relaxed);
                        Ok(7)
                    });
                    value.copied()
                };
                let (victim, other) = (n.spawn(make)?, n.spawn(make)?);
                for _ in 0..point {
                    cx.yield_now()?;
                }
                victim.cancel();
                if let Err(error) = victim.join() {
                    assert!(error.is_cancelled());
                }
                assert_eq!(other.join()?, 7);
                Ok(())
            })?;
            assert_eq!(made.swap(0, Relaxed), 1, "made once");
            assert_eq!(cell.get(), Some(&7));
        }
        Ok(())
    });
}
