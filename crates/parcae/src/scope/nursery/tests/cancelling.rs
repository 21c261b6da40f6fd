//! Cancelling: tasks that run, wait, are suspended or have not started; tokens, shields.

use super::*;
use crate::CancelReason;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

// rule: S0-CANCEL-1, S0-STATE-6, S1-TEST-4, S2-CANCEL-1
#[test]
fn running_waiting_and_unstarted_children_end() {
    everywhere(|cx| {
        let started = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            for _ in 0..4 {
                n.spawn(forever)?;
                n.spawn(asleep)?;
            }
            cx.yield_now()?;
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Explicit)));
        // One that is cancelled before it starts does not start.
        let outcome = cx.nursery(|n| {
            n.spawn(|_| {
                started.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })?
            .cancel();
            Ok(())
        });
        assert!(outcome.is_ok());
        Ok(())
    });
}

// rule: S1-BIND-1, S1-BIND-2, S1-BIND-4, S1-BIND-5, S1-GUARD-4, S1-GUARD-5, S1-MODULE-4, S2-SCOPE-4
#[test]
fn cancellation_reaches_nested_nurseries_at_once() {
    fn nest(cx: &Cx, depth: u32, ended: &AtomicUsize) -> Result<()> {
        let outcome = if depth == 0 {
            asleep(cx)
        } else {
            cx.nursery(|n| {
                for _ in 0..2 {
                    n.spawn(move |cx| nest(cx, depth - 1, ended))?;
                }
                Ok(())
            })
        };
        ended.fetch_add(1, Ordering::Relaxed);
        assert!(outcome.as_ref().unwrap_err().is_cancelled());
        outcome
    }
    everywhere(|cx| {
        let ended = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            n.spawn(|cx| nest(cx, 5, &ended))?;
            for _ in 0..20 {
                cx.yield_now()?;
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert!(ended.into_inner() <= 63);
        Ok(())
    });
}

#[test]
fn a_child_below_a_parent_that_ignores_it_is_cancelled_too() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            n.spawn(|cx| {
                // Its body looks at nothing; its children do.
                cx.nursery(|n| {
                    let child = n.spawn(forever)?;
                    while !child.is_finished() {
                        cx.shield(|| cx.yield_now())?;
                    }
                    Ok(())
                })
            })?;
            cx.yield_now()?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn a_token_cancels_from_another_thread() {
    for _ in 0..20 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let token = n.token();
                for _ in 0..5 {
                    n.spawn(asleep)?;
                    n.spawn(forever)?;
                }
                std::thread::spawn(move || token.cancel_because(CancelReason::Timeout));
                Ok(())
            })
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Timeout)));
    }
}

// rule: S1-BIND-3
#[test]
fn one_child_is_cancelled_and_its_siblings_go_on() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            let (runs, waits) = (n.spawn(forever)?, n.spawn(asleep)?);
            let other = n.spawn(|cx| {
                for _ in 0..10 {
                    cx.yield_now()?;
                }
                Ok(3)
            })?;
            cx.yield_now()?;
            runs.cancel();
            waits.cancel();
            assert!(runs.join().unwrap_err().is_cancelled());
            assert!(waits.join().unwrap_err().is_cancelled());
            other.join()
        });
        assert_eq!(outcome?, 3);
        Ok(())
    });
}

// rule: S0-VYIELD-3, S1-BIND-4
#[test]
fn a_join_is_a_cancel_point() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            let waits = n.spawn(|cx| cx.nursery(|n| n.spawn(asleep)?.join()))?;
            cx.yield_now()?;
            waits.cancel();
            waits.join()
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn cleaning_up_behind_a_shield_is_not_interrupted() {
    everywhere(|cx| {
        let (started, cleaned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = cx.nursery(|n| {
            n.spawn(|cx| {
                started.fetch_add(1, Ordering::Relaxed);
                let end = forever(cx);
                cx.shield(|| {
                    for _ in 0..5 {
                        cx.yield_now()?;
                        cx.checkpoint()?;
                    }
                    // Nurseries too.
                    cx.nursery(|n| n.spawn(|cx| cx.yield_now())?.join())?;
                    cleaned.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Error>(())
                })?;
                end
            })?;
            while started.load(Ordering::Relaxed) == 0 {
                cx.yield_now()?;
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(cleaned.into_inner(), 1);
        Ok(())
    });
}

#[test]
fn dropping_a_runtime_cancels_what_is_left() {
    for _ in 0..10 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let task = rt.handle().spawn(asleep).unwrap();
        let other = rt.handle().spawn(forever).unwrap();
        drop(rt);
        for task in [task, other] {
            let error = task.join().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Cancelled(CancelReason::Shutdown)));
        }
    }
}

#[test]
fn a_nursery_that_takes_too_long_is_cancelled() {
    on_workers(|cx| {
        let opts = NurseryOpts::new().timeout(Duration::from_millis(1));
        let outcome = cx.nursery_with(opts, |n| {
            n.spawn(forever)?;
            n.spawn(asleep)?;
            n.spawn(|cx| cx.sleep(Duration::from_secs(1_000)))?;
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Timeout)));
        // One that ends in time is not.
        let opts = NurseryOpts::new().timeout(Duration::from_secs(1_000));
        cx.nursery_with(opts, |n| n.spawn(|cx| cx.sleep(Duration::from_millis(1)))?.join())
    });
}

#[test]
fn virtual_time_passes_at_once_and_in_order() {
    let rt = Runtime::builder().workers(2).deterministic(7).build().unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    rt.run(|cx| {
        cx.nursery(|n| {
            for hours in [3_u64, 1, 2] {
                let order = &order;
                n.spawn(move |cx| {
                    cx.sleep(Duration::from_secs(3600 * hours))?;
                    order.lock().unwrap().push(hours);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(order.into_inner().unwrap(), [1, 2, 3]);
}

#[test]
fn a_token_expires_unless_its_guard_is_dropped() {
    everywhere(|cx| {
        let (token, expiry) = cx.token_with_timeout(Duration::from_millis(1));
        let start = crate::sync::time::now();
        let (other, dropped) = cx.token_with_timeout(Duration::from_millis(20));
        drop(dropped);
        // A machine that stops this worker for that long is no test of it.
        let in_time = crate::sync::time::now() < start + Duration::from_millis(20);
        cx.sleep(Duration::from_millis(25))?;
        while !token.is_cancelled() {
            // the thread that acts on it may have been preempted
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(token.reason(), Some(CancelReason::Timeout));
        assert!(!in_time || !other.is_cancelled());
        drop(expiry);
        Ok(())
    });
}

#[test]
fn a_shield_with_a_grace_period_ceases_to_hold() {
    on_workers(|cx| {
        cx.nursery(|n| {
            let (runs, waits) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let stubborn = |cx: &Cx, end: fn(&Cx) -> Result<()>| {
                let outcome = cx.shield_for(Duration::from_millis(1), || {
                    cx.checkpoint()?; // still holds
                    end(cx)
                });
                assert!(outcome.unwrap_err().is_cancelled());
                Ok::<_, Error>(())
            };
            cx.nursery(|inner| {
                inner.spawn(|cx| {
                    cx.token().cancel();
                    runs.fetch_add(1, Ordering::Relaxed);
                    stubborn(cx, forever)
                })?;
                Ok(())
            })
            .unwrap_err();
            cx.nursery(|inner| {
                inner.spawn(|cx| {
                    cx.token().cancel();
                    waits.fetch_add(1, Ordering::Relaxed);
                    stubborn(cx, asleep)
                })?;
                Ok(())
            })
            .unwrap_err();
            assert_eq!((runs.into_inner(), waits.into_inner()), (1, 1));
            drop(n.token());
            Ok(())
        })
    });
}
