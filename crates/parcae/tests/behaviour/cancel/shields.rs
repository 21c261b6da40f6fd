//! Shields hold off cancellation; the end of a grace period ends them.

use crate::support::explored;
use parcae::prelude::*;
use parcae::{CancelReason, Error, Result};
use std::sync::Mutex;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Virtual time since `start`, in whole seconds: running costs a few microseconds of it.
fn since(start: std::time::Instant) -> Duration {
    Duration::from_secs((parcae::time::now() - start).as_secs())
}

fn asleep(cx: &Cx) -> Result<()> {
    cx.sleep(SECOND * 3_600)
}

/// How the task inside of the shield is cancelled.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cancelled {
    /// Its nursery, before the shield.
    Before,
    /// Its nursery, within the grace period.
    Within,
    /// Its nursery, when the grace period is over and the closure still runs.
    After,
    /// The task alone, by its handle.
    Alone,
}

#[test]
fn the_end_of_a_grace_period_cancels_nurseries_opened_in_the_shield() {
    let ways = [Cancelled::Before, Cancelled::Within, Cancelled::After, Cancelled::Alone];
    for (way, bodies) in ways.iter().flat_map(|way| [(*way, false), (*way, true)]) {
        explored(0..200, |rt| {
            // Not asserted in the child: a panic after a cancellation is a consequence of it.
            let seen = Mutex::new(None);
            let due = if way == Cancelled::After { 9 } else { 5 };
            let outcome = rt.run(|cx| {
                let outcome = cx.nursery(|n| {
                    let (token, started) = (n.token(), parcae::time::now());
                    let seen = &seen;
                    let child = n.spawn(move |cx| {
                        if way == Cancelled::Before {
                            token.cancel();
                        }
                        let cleanup = cx.shield_for(SECOND * 5, || {
                            cx.nursery(|n| {
                                // One further in, and a child that a pass has to reach.
                                n.spawn(|cx| cx.nursery(|n| n.spawn(asleep)?.join()))?;
                                n.spawn(asleep)?;
                                if bodies { asleep(cx) } else { Ok(()) }
                            })
                        });
                        *seen.lock().unwrap() = Some((cleanup, since(started)));
                        cx.shield(|| cx.checkpoint())
                    })?;
                    cx.shield(|| cx.sleep(SECOND * if way == Cancelled::After { 9 } else { 2 }))?;
                    match way {
                        Cancelled::Before => {}
                        Cancelled::Alone => child.cancel(),
                        _ => n.cancel(),
                    }
                    if way == Cancelled::Alone { child.join() } else { Ok(()) }
                });
                match way {
                    Cancelled::Alone => outcome,
                    _ => outcome.map_or_else(if_cancelled, |()| panic!("{way:?}")),
                }
            });
            let (cleanup, ended) = seen.into_inner().unwrap().expect("the child has come so far");
            let error = cleanup.unwrap_err();
            assert!(error.is_cancelled(), "{way:?}: {error}");
            assert_eq!(ended, SECOND * due, "{way:?}");
            outcome
        })
        .unwrap();
    }
}

fn if_cancelled(error: Error) -> Result<()> {
    if error.is_cancelled() { Ok(()) } else { Err(error) }
}

#[test]
fn a_nursery_in_a_shield_says_that_it_was_cancelled_from_above() {
    explored(0..200, |rt| {
        rt.run(|cx| {
            cx.token().cancel();
            let error = cx
                .shield_for(SECOND, || cx.nursery(|n| n.spawn(asleep)?.join()))
                .expect_err("a second at most");
            assert!(matches!(error.kind(), ErrorKind::Cancelled(CancelReason::Parent)), "{error}");
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn without_a_grace_period_nothing_comes_in_from_outside() {
    explored(0..200, |rt| {
        rt.run(|cx| {
            cx.token().cancel();
            cx.shield(|| {
                cx.nursery(|n| {
                    n.spawn(|cx| cx.sleep(SECOND * 60))?;
                    cx.sleep(SECOND * 60)
                })
            })
            .expect("it is not interrupted");
            // A grace period that is long enough.
            cx.shield_for(SECOND * 61, || {
                cx.nursery(|n| n.spawn(|cx| cx.sleep(SECOND * 60))?.join())
            })
            .expect("it is not interrupted");
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn deadlines_and_failures_inside_of_a_shield_count() {
    explored(0..200, |rt| {
        rt.run(|cx| {
            for cancelled in [false, true] {
                if cancelled {
                    cx.token().cancel();
                }
                let start = parcae::time::now();
                let late = cx.shield(|| cx.timeout(SECOND, || asleep(cx))).unwrap_err();
                assert!(late.is_timed_out(), "{late}");
                assert_eq!(since(start), SECOND);
                // The body waits, or computes, and a child has failed.
                for body in [asleep, |cx: &Cx| cx.forever(|| Ok(())).map(|_| ())] {
                    let failed = cx.shield(|| {
                        cx.nursery(|n| {
                            n.spawn(|_| Err::<(), _>(Error::msg("oops")))?;
                            body(cx)
                        })
                    });
                    assert!(failed.unwrap_err().to_string().starts_with("oops"));
                }
                // A shield in the nursery holds that off, in turn.
                let failed: Result<()> = cx.shield(|| {
                    cx.nursery(|n| {
                        n.cancel();
                        cx.shield(|| cx.sleep(SECOND))?;
                        cx.sleep(SECOND).expect_err("the nursery is cancelled");
                        Ok(())
                    })
                });
                assert!(failed.is_err());
            }
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn a_token_made_in_a_shield_is_cancelled_after_the_grace_period() {
    explored(0..50, |rt| {
        rt.run(|cx| {
            cx.token().cancel();
            let start = parcae::time::now();
            cx.shield_for(SECOND, || {
                let (token, _expiry) = cx.token_with_timeout(SECOND * 60);
                assert!(!token.is_cancelled());
                let thread = token.clone();
                let outcome = cx.shield(|| cx.nursery(|n| n.spawn(move |_| thread.wait())?.join()));
                drop(outcome);
                assert_eq!((token.reason(), since(start)), (Some(CancelReason::Parent), SECOND));
            });
            Ok(())
        })
    })
    .unwrap();
}
