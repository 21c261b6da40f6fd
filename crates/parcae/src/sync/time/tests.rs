//! Sleeping, ticks and timeouts, mostly on virtual time.

mod threads;

use super::*;
use crate::base::error::Error;
use crate::prelude::*;
use crate::support::deterministic;

const SECOND: Duration = Duration::from_secs(1);

/// The time since `start`, in whole seconds.
fn seconds_since(start: Instant) -> u64 {
    (now() - start).as_secs()
}

// rule: S4-SLEEP-1, S4-SLEEP-3
#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    deterministic(|cx| {
        let order = crate::sync::Mutex::new(Vec::new());
        cx.nursery(|n| {
            for time in [5, 1, 4, 2, 3] {
                let order = &order;
                n.spawn(move |_| {
                    sleep(SECOND * time)?;
                    order.lock()?.push(time);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(order.into_inner(), [1, 2, 3, 4, 5]);
        Ok(())
    });
}

#[test]
fn a_past_deadline_is_no_wait() {
    deterministic(|_| {
        let before = now();
        sleep_until(before)?;
        sleep_until(before - SECOND)?;
        assert_eq!(seconds_since(before), 0);
        Ok(())
    });
    sleep_until(Instant::now()).unwrap();
}

#[test]
fn sleeping_is_a_cancel_point() {
    deterministic(|cx| {
        let outcome: Result<()> = cx.nursery(|n| {
            let asleep = n.spawn(|_| sleep(Duration::MAX))?;
            cx.yield_now()?;
            n.cancel();
            asleep.join()
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

/// Takes a tick late, and returns at which seconds the next ones come.
fn after_a_late_tick(missed: MissedTicks) -> Result<Vec<u64>> {
    let start = now();
    let mut ticks = interval(SECOND * 10).missed(missed);
    sleep(SECOND * 35)?;
    assert_eq!(ticks.tick()? - start, SECOND * 10);
    let mut next = || -> Result<u64> {
        ticks.tick()?;
        Ok(seconds_since(start))
    };
    Ok(vec![next()?, next()?, next()?, next()?])
}

#[test]
fn missed_ticks_are_made_up_for_put_off_or_left_out() {
    deterministic(|_| {
        assert_eq!(after_a_late_tick(MissedTicks::Burst)?, [35, 35, 40, 50]);
        assert_eq!(after_a_late_tick(MissedTicks::Delay)?, [45, 55, 65, 75]);
        assert_eq!(after_a_late_tick(MissedTicks::Skip)?, [40, 50, 60, 70]);
        Ok(())
    });
}

#[test]
fn ticks_start_when_told_and_anew() {
    deterministic(|_| {
        let start = now();
        let mut ticks = interval_at(start, SECOND * 10);
        assert_eq!((ticks.tick()?, seconds_since(start)), (start, 0));
        sleep(SECOND * 5)?;
        ticks.reset();
        ticks.tick()?;
        assert_eq!((seconds_since(start), ticks.period()), (15, SECOND * 10));
        Ok(())
    });
}

#[test]
fn ticks_on_threads() {
    let mut ticks = interval(Duration::from_micros(50));
    let first = ticks.tick().unwrap();
    assert!(ticks.tick().unwrap() > first);
    let rt = Runtime::builder().build().unwrap();
    rt.run(|_| interval(Duration::from_micros(50)).tick().map(drop)).unwrap();
}

#[test]
fn a_closure_runs_no_longer_than_told() {
    deterministic(|cx| {
        let start = now();
        let late = cx.timeout(SECOND * 3, || sleep(SECOND * 10));
        assert!(late.unwrap_err().is_timed_out());
        assert_eq!(seconds_since(start), 3);
        assert_eq!(cx.timeout(SECOND * 3, || sleep(SECOND).map(|()| 7))?, 7);
        assert_eq!(seconds_since(start), 4);
        // With children, which are cancelled too.
        let late = cx.timeout(SECOND, || {
            cx.nursery(|n| {
                n.spawn(|_| sleep(SECOND * 10))?;
                Ok(())
            })
        });
        assert!(late.unwrap_err().is_timed_out());
        assert_eq!(seconds_since(start), 5);
        Ok(())
    });
}

#[test]
fn a_closure_that_does_not_care_has_its_result() {
    deterministic(|cx| {
        let late = cx.timeout(SECOND, || {
            cx.shield(|| sleep(SECOND * 2))?;
            Ok(7)
        });
        assert_eq!(late?, 7);
        let error = cx.timeout(SECOND, || Err::<(), _>(Error::msg("no"))).unwrap_err();
        assert_eq!(error.to_string(), "no");
        Ok(())
    });
}

#[test]
fn of_two_timeouts_the_one_that_has_passed_is_named() {
    deterministic(|cx| {
        let outer = cx.timeout(SECOND, || {
            let inner = cx.timeout(SECOND * 5, || sleep(SECOND * 10));
            assert!(!inner.as_ref().unwrap_err().is_timed_out());
            inner
        });
        assert!(outer.unwrap_err().is_timed_out());
        let inner = cx.timeout(SECOND * 5, || Ok(cx.timeout(SECOND, || sleep(SECOND * 10))));
        assert!(inner?.unwrap_err().is_timed_out());
        Ok(())
    });
}

/// Of everything that the clock of a runtime tells apart, with deadlines of several workers.
#[test]
fn deadlines_pass_in_their_order() {
    deterministic(|cx| {
        let (start, passed) = (now(), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
        cx.nursery(|n| {
            for task in 0..8 {
                let passed = std::sync::Arc::clone(&passed);
                n.spawn(move |cx| {
                    let mut kept = Vec::new();
                    for turn in 0..8 {
                        let micros = (task * 37 + turn * 101) % 256 + 400;
                        let at = now() - start + Duration::from_micros(micros);
                        let (token, expiry) = cx.token_with_timeout(Duration::from_micros(micros));
                        let passed = std::sync::Arc::clone(&passed);
                        let note = move |_| {
                            assert!(
                                cx::Here::new().frame().is_none(),
                                "callbacks run outside of any task"
                            );
                            passed.lock().unwrap().push(at);
                        };
                        kept.push((token.on_cancel(note), expiry, token));
                        cx.yield_now()?;
                    }
                    sleep(SECOND)
                })?;
            }
            Ok(())
        })?;
        let passed = passed.lock().unwrap();
        assert_eq!(passed.len(), 64);
        assert!(passed.is_sorted(), "{passed:?}");
        Ok(())
    });
}

#[test]
fn what_happens_at_once_sets_no_deadline_and_what_waits_takes_it_back() {
    deterministic(|cx| {
        let here = cx::Here::new();
        let shared = &here.frame().unwrap().settings().shared;
        let (tx, rx) = crate::sync::channel::channel(1);
        let mutex = crate::sync::Mutex::new(());
        for _ in 0..3 {
            tx.send_timeout(7, SECOND)?;
            assert_eq!(rx.recv_timeout(SECOND)?, 7);
            drop(mutex.lock_timeout(SECOND)?);
        }
        assert_eq!(shared.timers.counts(), (0, 0));
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.yield_now()?;
                Ok(tx.send(8)?)
            })?;
            assert_eq!(rx.recv_timeout(SECOND)?, 8);
            Ok(())
        })?;
        assert!(rx.recv_timeout(SECOND).unwrap_err().is_timeout());
        let (set, armed) = shared.timers.counts();
        assert!((2..=4).contains(&set) && armed == 0, "{set} set, {armed} left");
        Ok(())
    });
}

#[test]
fn as_good_as_never_comes_after_everything_else() {
    deterministic(|cx| {
        let start = now();
        for far in [Duration::from_secs(1 << 40), Duration::from_nanos(u64::MAX), Duration::MAX] {
            let (token, _expiry) = cx.token_with_timeout(far);
            sleep(SECOND * 100_000)?;
            assert!(!token.is_cancelled());
        }
        assert_eq!(seconds_since(start), 300_000);
        cx.sleep(Duration::MAX) // 146 years
    });
}

/// A sleep that is due costs an op, lets others run and is a cancel point.
#[test]
fn a_sleep_that_is_due_is_a_point() {
    let rt = Runtime::builder().workers(1).deterministic(1);
    let rt = rt.budget(Budget { ops: 100, ..Budget::UNLIMITED }).build().unwrap();
    let outcome = rt.run(|cx| {
        for _ in 0..200 {
            cx.sleep(Duration::ZERO)?;
        }
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::BudgetExceeded(_)));
    deterministic(|cx| {
        let steps = std::sync::atomic::AtomicUsize::new(0);
        cx.nursery(|n| {
            n.spawn(|cx| {
                for _ in 0..5 {
                    steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            for _ in 0..100 {
                sleep_until(now())?;
            }
            assert_eq!(steps.load(std::sync::atomic::Ordering::Relaxed), 5);
            n.wind_down();
            assert!(sleep(Duration::ZERO).unwrap_err().is_cancelled());
            Ok(())
        })
    });
}
