//! Sleeping, ticks and timeouts, mostly on virtual time.

use super::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// Under the deterministic executor, with many seeds.
fn deterministic(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        for seed in 0..40 {
            let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
            rt.run(|cx| test(cx)).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        }
    }
}

/// What the clock says, in whole seconds.
fn seconds_since(start: Instant) -> u64 {
    (now() - start).as_secs()
}

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
        let late = cx.timeout(SECOND * 3, |_| sleep(SECOND * 10));
        assert!(late.unwrap_err().is_timed_out());
        assert_eq!(seconds_since(start), 3);
        assert_eq!(cx.timeout(SECOND * 3, |_| sleep(SECOND).map(|()| 7))?, 7);
        assert_eq!(seconds_since(start), 4);
        // With children, which are cancelled too.
        let late = cx.timeout(SECOND, |cx| {
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
        let late = cx.timeout(SECOND, |cx| {
            cx.shield(|| sleep(SECOND * 2))?;
            Ok(7)
        });
        assert_eq!(late?, 7);
        let error = cx.timeout(SECOND, |_| Err::<(), _>(Error::msg("no"))).unwrap_err();
        assert_eq!(error.to_string(), "no");
        Ok(())
    });
}

#[test]
fn of_two_timeouts_the_one_that_has_passed_is_named() {
    deterministic(|cx| {
        let outer = cx.timeout(SECOND, |cx| {
            let inner = cx.timeout(SECOND * 5, |_| sleep(SECOND * 10));
            assert!(!inner.as_ref().unwrap_err().is_timed_out());
            inner
        });
        assert!(outer.unwrap_err().is_timed_out());
        let inner = cx.timeout(SECOND * 5, |cx| Ok(cx.timeout(SECOND, |_| sleep(SECOND * 10))));
        assert!(inner?.unwrap_err().is_timed_out());
        Ok(())
    });
}
