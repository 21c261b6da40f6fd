//! Cancellation reaches every task below the cancelled node, whatever the task does at that moment.

use crate::support::*;
use parcae::prelude::*;
use parcae::sync::Event;
use parcae::{CancelReason, Result};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

// rule: S0-CANCEL-2, S0-CANCEL-3, S0-CANCEL-4, S1-GUARD-2, S1-NURSERY-8, S2-CANCEL-1, S2-SCOPE-2
#[test]
fn cancelling_ends_children_that_wait_that_are_exhausted_and_that_have_not_started() {
    everywhere(|cx| {
        let (started, unwound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // A computing task uses up the budget that others are to be spawned with.
        let all_spawned = Event::new();
        let opts = NurseryOpts::new()
            .budget(ops(20_000))
            .slice(ops(500))
            .on_exhausted(OnExhausted::Suspend);
        let outcome = cx.nursery_with(opts, |n| {
            for round in 0..8 {
                let (started, unwound, all_spawned) = (&started, &unwound, &all_spawned);
                n.spawn(move |cx| {
                    let _counts = Counts(unwound);
                    started.fetch_add(1, Ordering::Relaxed);
                    all_spawned.wait()?;
                    if round % 2 == 0 { asleep(cx) } else { forever(cx) }
                })?;
            }
            all_spawned.set();
            until(cx, || started.load(Ordering::Relaxed) == 8 && n.budget().suspended == 4)?;
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Explicit)));
        assert_eq!(unwound.into_inner(), 8);
        // Most of these have no chance to start.
        let outcome = cx.nursery(|n| {
            for _ in 0..8 {
                n.spawn(asleep)?;
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

// rule: S0-CANCEL-1, S0-CANCEL-3, S0-STATE-6
#[test]
fn a_running_child_that_is_cancelled_runs_its_destructors() {
    fn deep(cx: &Cx, depth: usize, unwound: &AtomicUsize) -> Result<()> {
        let _counts = Counts(unwound);
        if depth == 0 { forever(cx) } else { deep(cx, depth - 1, unwound) }
    }
    everywhere(|cx| {
        let (started, unwound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = cx.nursery(|n| {
            for _ in 0..3 {
                n.spawn(|cx| {
                    started.fetch_add(1, Ordering::Relaxed);
                    deep(cx, 9, &unwound)
                })?;
            }
            until(cx, || started.load(Ordering::Relaxed) == 3)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(unwound.into_inner(), 30);
        Ok(())
    });
}

#[test]
fn a_child_that_returns_before_it_notices_has_its_value() {
    everywhere(|cx| {
        let (started, go) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let value = cx.nursery(|n| {
            let child = n.spawn(|cx| {
                started.fetch_add(1, Ordering::Relaxed);
                while go.load(Ordering::Relaxed) == 0 {
                    cx.shield(|| cx.yield_now())?;
                }
                Ok(5)
            })?;
            until(cx, || started.load(Ordering::Relaxed) == 1)?;
            child.cancel();
            go.store(1, Ordering::Relaxed);
            child.join()
        })?;
        assert_eq!(value, 5);
        Ok(())
    });
}

// rule: S0-NBIND-1, S0-NBIND-4, S0-NURSERY-3, S1-BIND-1, S1-BIND-2, S1-MODULE-4
#[test]
fn cancelling_reaches_nurseries_that_were_opened_after_a_move() {
    fn nest(cx: &Cx, depth: u32, open: &AtomicUsize, ended: &AtomicUsize) -> Result<()> {
        let _counts = Counts(ended);
        for _ in 0..3 {
            cx.yield_now()?;
        }
        if depth == 0 {
            open.fetch_add(1, Ordering::Relaxed);
            return asleep(cx);
        }
        cx.nursery(|n| {
            for _ in 0..2 {
                // SAFETY: nothing on these stacks is bound to a thread.
                let opts = unsafe { SpawnOpts::new().migratable() };
                n.spawn_with(opts, move |cx| nest(cx, depth - 1, open, ended))?;
            }
            cx.yield_now()
        })
    }
    everywhere(|cx| {
        let (open, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = cx.nursery(|n| {
            // SAFETY: as above.
            let opts = unsafe { SpawnOpts::new().migratable() };
            n.spawn_with(opts, |cx| nest(cx, 4, &open, &ended))?;
            until(cx, || open.load(Ordering::Relaxed) == 16)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(ended.into_inner(), 31);
        Ok(())
    });
}

// rule: S1-NOTIFY-1, S1-RACE-1, S1-RACE-3, S1-RACE-4
#[test]
fn a_child_that_is_cancelled_in_the_queue_does_not_run_and_is_counted() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let ran = AtomicUsize::new(0);
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..10 {
                    n.spawn(|_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled()); // and it came back: all were counted
        assert_eq!(ran.into_inner(), 0);
    }
}

// rule: S0-CHECK-5, S0-VYIELD-4
#[test]
fn a_yield_costs_nothing_and_is_a_cancel_point() {
    everywhere(|cx| {
        let outcome = cx.nursery_with(NurseryOpts::new().budget(ops(3)), |n| {
            n.spawn(|cx| (0..200).try_for_each(|_| cx.yield_now()))?.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            assert_eq!(n.budget().spent.ops, 1); // the spawn
            n.cancel();
            assert!(cx.yield_now().unwrap_err().is_cancelled());
            Ok(())
        });
        let error = outcome.unwrap_err();
        assert!(error.is_cancelled(), "the body came to its end: {error:?}");
        Ok(())
    });
}

// rule: S2-CANCEL-2, S2-CANCEL-3
#[test]
fn a_task_asks_whether_it_was_cancelled() {
    everywhere(|cx| {
        let noticed = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            let started = AtomicUsize::new(0);
            let started = std::sync::Arc::new(started);
            for _ in 0..3 {
                let (token, started) = (n.token(), std::sync::Arc::clone(&started));
                let noticed = &noticed;
                n.spawn(move |cx| {
                    assert_eq!(token.is_cancelled(), cx.is_cancelled());
                    started.fetch_add(1, Ordering::Relaxed);
                    while !cx.is_cancelled() {
                        cx.shield(|| cx.yield_now())?;
                    }
                    assert!(token.is_cancelled() && cx.token().is_cancelled());
                    noticed.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            while started.load(Ordering::Relaxed) < 3 {
                cx.yield_now()?;
            }
            assert!(!n.is_cancelled());
            n.cancel();
            assert!(n.is_cancelled());
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(noticed.into_inner(), 3);
        Ok(())
    });
}

// rule: S1-BIND-4
#[test]
fn cancelling_a_task_cancels_the_nurseries_that_it_owns() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let owner = n.spawn(|cx| {
                cx.nursery(|outer| {
                    outer.spawn(asleep)?;
                    outer.spawn(forever)?;
                    cx.nursery(|inner| {
                        inner.spawn(asleep)?;
                        inner.spawn(forever)?;
                        Ok(()) // waits for them
                    })
                })
            })?;
            let sibling = n.spawn(|cx| (0..50).try_for_each(|_| cx.yield_now()))?;
            cx.yield_now()?;
            owner.cancel();
            assert!(owner.join().unwrap_err().is_cancelled());
            sibling.join() // it was not cancelled
        })
    });
}

#[test]
fn cancelling_a_child_at_the_end_of_its_nursery_reaches_its_children() {
    must_end(|| {
        let outcome = runtime(2).run(|cx| {
            cx.nursery(|n| {
                let child = n.spawn(|cx| {
                    cx.nursery(|m| {
                        m.spawn(asleep)?;
                        Ok(())
                    })
                })?;
                for _ in 0..50 {
                    cx.yield_now()?;
                    thread::sleep(Duration::from_millis(1));
                }
                child.cancel();
                let e = child.join().unwrap_err();
                assert!(e.is_cancelled(), "{e:?}");
                Ok(())
            })
        });
        outcome.unwrap();
    });
}

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

#[test]
fn a_cancellation_during_a_shield_is_seen_right_after_it() {
    let passed = deterministic().run(|cx| {
        let go = AtomicBool::new(false);
        cx.nursery(|n| {
            let child = n.spawn(|cx| {
                cx.shield(|| -> Result<()> {
                    while !go.load(SeqCst) {
                        cx.yield_now()?;
                    }
                    cx.checkpoint()
                })?;
                let mut passed = 0;
                while cx.checkpoint().is_ok() {
                    passed += 1;
                }
                Ok(passed)
            })?;
            (0..4).try_for_each(|_| cx.yield_now())?;
            child.cancel();
            go.store(true, SeqCst);
            child.join()
        })
    });
    assert_eq!(passed.unwrap(), 0);
}
