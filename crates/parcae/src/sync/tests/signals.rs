//! Notify, events, condition variables, barriers.

use super::super::*;
use super::{cancelled_at_every_point, deterministic, everywhere};
use crate::prelude::*;
use crate::support::DETERMINISTIC_RUNS;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

#[test]
fn a_signal_for_nobody_is_kept_once() {
    let notify = Notify::new();
    assert!(!notify.try_wait());
    notify.notify_all(); // no waiter, and not kept
    assert!(!notify.try_wait());
    notify.notify_one();
    notify.notify_one();
    notify.wait().unwrap();
    assert!(notify.wait_timeout(Duration::from_millis(1)).unwrap_err().is_timed_out());
}

#[test]
fn every_signal_wakes_one() {
    everywhere(|cx| {
        let (notify, woken) = (Notify::new(), AtomicUsize::new(0));
        cx.nursery(|n| {
            for _ in 0..5 {
                n.spawn(|_| {
                    notify.wait()?;
                    woken.fetch_add(1, Relaxed);
                    Ok(())
                })?;
            }
            // Signals are not counted, so a new one waits for the last to have had its effect.
            for i in 0..5 {
                notify.notify_one();
                while woken.load(Relaxed) <= i {
                    cx.yield_now()?;
                }
            }
            Ok(())
        })
    });
}

#[test]
fn a_cancelled_wait_passes_its_signal_on() {
    let (notify, got) = (Notify::new(), AtomicUsize::new(0));
    cancelled_at_every_point(
        |_| {
            notify.wait()?;
            notify.notify_one(); // got it: gives another one back
            Ok(())
        },
        |cx| {
            cx.nursery(|n| {
                let waiter = n.spawn(|_| {
                    notify.wait()?;
                    got.fetch_add(1, Relaxed);
                    Ok(())
                })?;
                cx.yield_now()?;
                notify.notify_one();
                waiter.join()
            })
        },
        || {
            notify.try_wait(); // what the victim has left
        },
    );
    assert_eq!(got.into_inner() as u64, 24 * DETERMINISTIC_RUNS);
}

#[test]
fn all_who_wait_are_woken_and_no_more() {
    everywhere(|cx| {
        let (notify, event, woken) = (Notify::new(), Event::new(), AtomicUsize::new(0));
        cx.nursery(|n| {
            for _ in 0..50 {
                n.spawn(|_| {
                    event.wait()?;
                    woken.fetch_add(1, Relaxed);
                    Ok(())
                })?;
            }
            cx.yield_now()?;
            event.set();
            while woken.load(Relaxed) < 50 {
                cx.yield_now()?;
            }
            event.wait()?;
            event.reset();
            assert!(!event.is_set());
            let again = event.wait_timeout(Duration::from_micros(10));
            assert!(again.unwrap_err().is_timed_out());
            n.spawn(|_| notify.wait().map(drop))?;
            while woken.load(Relaxed) < 51 {
                notify.notify_all();
                cx.yield_now()?;
                notify.notify_one();
                woken.store(51, Relaxed);
            }
            Ok(())
        })
    });
}

#[test]
fn a_queue_of_a_mutex_and_a_condvar() {
    everywhere(|cx| {
        let (queue, filled, drained) = (Mutex::new(Vec::new()), Condvar::new(), Condvar::new());
        let sum = cx.nursery(|n| {
            for producer in 0..3 {
                let (queue, filled, drained) = (&queue, &filled, &drained);
                n.spawn(move |_| {
                    for i in 0..10 {
                        let mut queue = drained.wait_while(queue.lock()?, |q| q.len() >= 2)?;
                        queue.push(producer * 10 + i);
                        filled.notify_one();
                    }
                    Ok(())
                })?;
            }
            let consume = |_: &Cx| {
                let mut sum = 0;
                for _ in 0..15 {
                    let mut queue = filled.wait_while(queue.lock()?, |q| q.is_empty())?;
                    sum += queue.pop().unwrap_or_default();
                    drained.notify_all();
                }
                Ok(sum)
            };
            let (a, b) = (n.spawn(consume)?, n.spawn(consume)?);
            Ok(a.join()? + b.join()?)
        })?;
        assert_eq!(sum, (0..30).sum::<i32>());
        Ok(())
    });
}

#[test]
fn a_cancelled_wait_on_a_condvar_passes_its_signal_on() {
    let (items, filled) = (Mutex::new(0), Condvar::new());
    cancelled_at_every_point(
        |_| {
            let mut items = filled.wait_while(items.lock()?, |items| *items == 0)?;
            *items -= 1;
            // Takes one away from the others: puts it back.
            *items += 1;
            filled.notify_one();
            Ok(())
        },
        |cx| {
            cx.nursery(|n| {
                let take = |_: &Cx| {
                    let mut items = filled.wait_while(items.lock()?, |items| *items == 0)?;
                    *items -= 1;
                    Ok(())
                };
                n.spawn(take)?;
                n.spawn(take)?;
                for _ in 0..2 {
                    cx.yield_now()?;
                    *items.lock()? += 1;
                    filled.notify_one();
                }
                Ok(())
            })
        },
        || assert_eq!(*items.try_lock().expect("free in the end"), 0),
    );
}

#[test]
fn a_condvar_waits_no_longer_than_told() {
    everywhere(|_| {
        let (mutex, condvar) = (Mutex::new(1), Condvar::new());
        let time = Duration::from_micros(100);
        let late = condvar.wait_while_timeout(mutex.lock()?, time, |_| true);
        assert!(late.unwrap_err().is_timed_out());
        assert_eq!(*condvar.wait_while_timeout(mutex.lock()?, time, |n| *n != 1)?, 1);
        Ok(())
    });
}

#[test]
fn rounds_of_a_barrier_do_not_mix() {
    everywhere(|cx| {
        let (barrier, leaders) = (Barrier::new(20), AtomicUsize::new(0));
        let places = [const { AtomicUsize::new(0) }; 20];
        cx.nursery(|n| {
            for i in 0..20 {
                let (barrier, places, leaders) = (&barrier, &places, &leaders);
                n.spawn(move |_| {
                    for round in 0..5 {
                        places[i].store(round, Relaxed);
                        if barrier.wait()?.is_leader() {
                            leaders.fetch_add(1, Relaxed);
                        }
                        for place in places {
                            let there = place.load(Relaxed);
                            assert!(there == round || there == round + 1, "{there} in {round}");
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(leaders.into_inner(), 5);
        Ok(())
    });
}

#[test]
fn who_is_cancelled_has_not_come_to_the_barrier() {
    deterministic(|cx| {
        for point in 0..12 {
            let barrier = Barrier::new(2);
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let victim = n.spawn(|_| barrier.wait())?;
                let (a, b) = (n.spawn(|_| barrier.wait())?, n.spawn(|_| barrier.wait())?);
                for _ in 0..point {
                    cx.yield_now()?;
                }
                victim.cancel();
                match victim.join() {
                    // It has met one of them; we are the partner of the other.
                    Ok(_) => drop(barrier.wait()?),
                    Err(error) => assert!(error.is_cancelled()),
                }
                a.join()?;
                b.join().map(drop)
            })?;
        }
        Ok(())
    });
}

/// A waiter that got a signal and is cancelled while it waits for the mutex has not consumed the
/// signal.
#[test]
fn a_signal_goes_on_if_its_receiver_is_cancelled_while_it_takes_the_mutex_again() {
    let passed_on = AtomicUsize::new(0);
    deterministic(|cx| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let wait = |_: &Cx| {
            let mut came = mutex.lock()?;
            *came += 1;
            condvar.wait(came).map(drop)
        };
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let first = n.spawn(wait)?;
            while *mutex.lock()? < 1 {
                cx.yield_now()?;
            }
            let second = n.spawn(wait)?;
            while *mutex.lock()? < 2 {
                cx.yield_now()?;
            }
            let guard = mutex.lock()?;
            condvar.notify_one(); // the first one, which finds the mutex locked
            for _ in 0..12 {
                cx.yield_now()?;
            }
            first.cancel();
            for _ in 0..12 {
                cx.yield_now()?;
            }
            drop(guard);
            match first.join() {
                Ok(()) => condvar.notify_one(), // it was quicker than its cancellation
                Err(error) => {
                    assert!(error.is_cancelled());
                    passed_on.fetch_add(1, Relaxed);
                }
            }
            second.join()
        })
    });
    assert!(passed_on.into_inner() > 60, "hardly anybody was cancelled");
}

#[test]
fn the_last_who_came_is_woken_first() {
    deterministic(|cx| {
        let (notify, order) = (Notify::new(), Mutex::new(Vec::new()));
        cx.nursery(|n| {
            for i in 0..4 {
                let (notify, order) = (&notify, &order);
                n.spawn(move |_| {
                    notify.wait()?;
                    order.lock()?.push(i);
                    Ok(())
                })?;
                cx.sleep(Duration::from_secs(1))?; // it waits by now
            }
            for _ in 0..3 {
                notify.notify_last();
                cx.sleep(Duration::from_secs(1))?;
            }
            notify.notify_one();
            Ok(())
        })?;
        assert_eq!(order.into_inner(), [3, 2, 1, 0]);
        notify.notify_last(); // no waiter: kept
        notify.wait()
    });
}

/// The signal goes to the waiter that is the last by then.
#[test]
fn a_signal_for_the_last_is_passed_on_to_the_last() {
    deterministic(|cx| {
        let (notify, got) = (Notify::new(), AtomicUsize::new(0));
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let mut waiters = Vec::new();
            for i in 1..=3 {
                let (notify, got) = (&notify, &got);
                waiters.push(n.spawn(move |_| {
                    notify.wait()?;
                    got.store(i, Relaxed);
                    Ok(())
                })?);
                cx.sleep(Duration::from_secs(1))?;
            }
            let last = waiters.pop().expect("three");
            last.cancel();
            notify.notify_last(); // granted, or it is out of the line already
            if last.join().is_err() {
                cx.sleep(Duration::from_secs(1))?;
                assert_eq!(got.load(Relaxed), 2, "the first one got it");
                notify.notify_one();
            } else {
                notify.notify_all();
            }
            Ok(())
        })
    });
}

/// The wake-up that comes with a grant is consumed by the wait for budget: the grant is found all
/// the same.
#[test]
fn a_grant_that_comes_while_the_waiter_is_out_of_budget_is_not_missed() {
    deterministic(|cx| {
        let notify = Notify::new();
        let opts = NurseryOpts::new()
            .budget(Budget { ops: 100, ..Budget::UNLIMITED })
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let waiter = n.spawn(|cx| {
                while cx.budget().ops > 0 || pool_has_ops(cx) {
                    cx.checkpoint()?;
                }
                notify.wait()
            })?;
            while n.suspended().is_empty() {
                cx.yield_now()?;
            }
            notify.notify_one();
            for _ in 0..12 {
                cx.yield_now()?;
            }
            n.recharge(Budget { ops: 100, ..Budget::ZERO })?;
            waiter.join()
        })
    });
}

/// Whether the pool that the task draws on has ops.
fn pool_has_ops(cx: &Cx) -> bool {
    cx.account().standing().left.ops > 0
}
