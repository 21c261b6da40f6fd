//! Waits, shields and unwinding of a task's frame.

use super::window::at_registering;
use crate::Result;
use crate::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A cancellation between a task's check of the mark and its registration is noticed: no thread
/// would wake the task.
#[test]
fn a_cancellation_just_before_a_task_registers_is_noticed() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let error = rt
            .run(|cx| {
                // The token of a nursery: that of a root task would wake the task itself.
                cx.nursery(|n| {
                    let token = n.token();
                    at_registering(move || token.cancel());
                    cx.park() // its first wait in this scope, so it registers
                })
            })
            .unwrap_err();
        assert!(error.is_cancelled(), "{error}");
    }
}

/// The grace period of a shield ends with the shield: it affects neither the next shield nor the
/// outer one.
#[test]
fn the_grace_of_a_shield_ends_with_it() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            cx.shield_for(SECOND, || ());
            cx.sleep(SECOND * 2)?;
            cx.token().cancel();
            cx.shield(|| cx.sleep(SECOND * 5)).expect("a later shield holds");
            cx.shield_for(SECOND * 9, || {
                cx.shield_for(SECOND, || cx.sleep(SECOND * 2)).expect_err("a second at most");
                cx.sleep(SECOND * 3)
            })
            .expect("the one around it holds for longer");
            cx.shield_for(SECOND, || cx.sleep(SECOND * 2)).expect_err("no longer than its grace");
            Ok(())
        })
        .unwrap();
    }
}

/// Calls operations that yield or wait, in a destructor.
struct Waits<'c>(&'c Cx);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        for _ in 0..3 {
            let _ = self.0.yield_now();
            let _ = self.0.park();
            let _ = self.0.sleep(SECOND);
            for _ in 0..100 {
                let _ = self.0.checkpoint();
            }
        }
    }
}

/// The count of panics belongs to the thread: while a task unwinds, no other task runs on that
/// thread, whatever its destructors do.
#[test]
fn no_other_task_sees_a_panic() {
    for seed in 0..20 {
        let builder = Runtime::builder().workers(2).deterministic(seed).yield_interval(7);
        let rt = builder.build().unwrap();
        let steps = AtomicUsize::new(0);
        let error = rt
            .run(|cx| {
                cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    for _ in 0..3 {
                        n.spawn(|cx| {
                            for _ in 0..50 {
                                assert!(!std::thread::panicking(), "it is another's");
                                steps.fetch_add(1, Ordering::Relaxed);
                                cx.yield_now()?;
                            }
                            Ok(())
                        })?;
                    }
                    n.spawn(|cx| -> Result<()> {
                        let _waits = Waits(cx);
                        cx.yield_now()?;
                        resume_unwind(Box::new("mine"))
                    })?;
                    Ok(())
                })
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("panicked: mine"), "{error}");
        assert_eq!((error.others(), steps.into_inner()), (0, 150));
    }
}

/// A task that is alone on its worker draws on its budget as any other, turn by turn: under the
/// deterministic executor each turn ends with a yield.
#[test]
fn turns_of_a_task_that_is_alone_are_paid_for() {
    let builder = || Runtime::builder().workers(1).yield_interval(7);
    let rts = [builder().build().unwrap(), builder().deterministic(0).build().unwrap()];
    for ops in [10, 16, 17, 18, 100, 5_000] {
        let steps = rts.each_ref().map(|rt| steps_with(rt, ops));
        assert!(steps[0] + 10 > ops && steps[0] <= ops, "{} of {ops}", steps[0]);
        assert_eq!(steps[0], steps[1]);
    }
}

/// Checkpoints that a child in a nursery with so many ops can pass.
fn steps_with(rt: &Runtime, ops: u64) -> u64 {
    let mut steps = 0;
    let result = rt.run(|cx| {
        let budget = NurseryOpts::new().budget(Budget::UNLIMITED.with_ops(ops));
        cx.nursery_with(budget, |n| {
            let count = |cx: &Cx| {
                cx.forever(|| {
                    steps += 1;
                    Ok(())
                })
            };
            n.spawn(count)?.join()
        })
    });
    assert!(result.unwrap_err().to_string().contains("ops"));
    steps
}

/// A task that only computes, alone on its worker, still lets every kind of other task run.
#[test]
fn a_task_that_is_alone_lets_others_run_when_they_come() {
    let rt = Runtime::builder().workers(1).yield_interval(16).build().unwrap();
    let handle = rt.handle();
    let seen = AtomicUsize::new(0);
    let until = |cx: &Cx, count: usize| -> Result<()> {
        for chunk in cx.chunks(0..usize::MAX) {
            chunk?;
            if seen.load(Ordering::Relaxed) == count {
                break;
            }
        }
        Ok(())
    };
    rt.run(|cx| {
        cx.nursery(|n| {
            let note = || Ok(seen.fetch_add(1, Ordering::Relaxed));
            n.spawn(move |_| note())?;
            until(cx, 1)?;
            for (count, priority) in [(2, Priority::Low), (3, Priority::High)] {
                n.spawn_with(SpawnOpts::new().priority(priority), move |_| note())?;
                until(cx, count)?;
            }
            n.spawn(move |cx| {
                cx.sleep(Duration::from_millis(1))?;
                note()
            })?;
            until(cx, 4)?;
            let (tx, rx) = std::sync::mpsc::channel();
            std::thread::scope(|s| {
                s.spawn(|| tx.send(handle.spawn(|_| Ok(())).map(|task| task.join())));
                until_some(cx, || rx.try_recv().ok())?.expect("spawned").expect("joined");
                Ok(())
            })
        })
    })
    .unwrap();
}

/// Two tasks that only compute share their worker turn by turn.
#[test]
fn two_tasks_that_compute_take_turns() {
    const TURNS: usize = 200;
    let rt = Runtime::builder().workers(1).yield_interval(16).build().unwrap();
    let (begun, last, changes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    rt.run(|cx| {
        cx.nursery(|n| {
            for me in [1, 2] {
                let (begun, last, changes) = (&begun, &last, &changes);
                n.spawn(move |cx| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    until_some(cx, || (begun.load(Ordering::Relaxed) == 2).then_some(()))?;
                    for _ in 0..16 * TURNS {
                        cx.checkpoint()?;
                        if last.swap(me, Ordering::Relaxed) != me {
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    let changes = changes.into_inner();
    assert!(changes >= TURNS, "{changes} changes in {} turns", 2 * TURNS);
}

fn until_some<T>(cx: &Cx, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    loop {
        cx.checkpoint()?;
        if let Some(found) = look() {
            return Ok(found);
        }
    }
}

/// Ops that a task uses in a bound, by checkpoints, charges and turns of any length.
#[test]
fn a_bound_is_exact_whatever_the_turns_are() {
    let charge = |cx: &Cx, ops| cx.charge(Budget { ops, ..Budget::ZERO });
    for interval in [1, 7, 100, 1_000] {
        for budget in [Budget::UNLIMITED, Budget { ops: 100_000, ..Budget::UNLIMITED }] {
            let builder = Runtime::builder().workers(1).yield_interval(interval);
            let rt = builder.build().unwrap();
            let opts = SpawnOpts::new().budget(budget);
            rt.run_with(opts, |cx| {
                let before = cx.budget().ops;
                let mut used = 0;
                for bound in [0, 1, 6, 7, 8, 99, 100, 101, 999, 2_500] {
                    let mut ops = 0;
                    cx.limit_ops(bound, Err, || {
                        while cx.checkpoint().is_ok() {
                            ops += 1;
                        }
                    });
                    assert_eq!(ops, bound, "interval {interval}");
                    used += ops;
                    let (mut ops, mut step) = (0, 1);
                    cx.limit_ops(bound, Err, || {
                        while charge(cx, step).is_ok() {
                            ops += step;
                            step = step % 13 + 1;
                        }
                    });
                    assert!(ops <= bound && bound < ops + step, "{ops} of {bound}");
                    used += ops;
                }
                cx.limit_ops(50, Err, || charge(cx, 51)).expect_err("nothing was charged");
                charge(cx, 10_000)?; // without a bound
                used += 10_000;
                if before != u64::MAX {
                    assert_eq!(before - cx.budget().ops, used, "interval {interval}");
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

/// A bound inside of another one: the outer one pays for all that is used inside.
#[test]
fn a_bound_inside_of_another_one_has_no_more_than_that() {
    for interval in [1, 7, 1_000] {
        let rt = Runtime::builder().workers(1).yield_interval(interval).build().unwrap();
        rt.run(|cx| {
            let spend = |most: u64| (0..most).take_while(|_| cx.checkpoint().is_ok()).count();
            cx.limit_ops(100, Err, || {
                assert_eq!(cx.limit_ops(30, Err, || spend(50)), 30);
                assert_eq!(spend(20), 20);
                assert_eq!(cx.limit_ops(80, Err, || spend(10)), 10);
                assert_eq!(cx.limit_ops(80, Err, || spend(90)), 40);
                assert_eq!(spend(5), 0);
            });
            assert_eq!(spend(5_000), 5_000);
            Ok(())
        })
        .unwrap();
    }
}

/// The owner of a bound may wait and compute before it answers; the part goes on with the rest.
#[test]
fn the_owner_of_a_bound_may_wait() {
    for seed in 0..20 {
        let builder = Runtime::builder().workers(2).deterministic(seed).yield_interval(7);
        let rt = builder.build().unwrap();
        rt.run(|cx| {
            let mut asked = 0;
            let owner = |error| {
                asked += 1;
                cx.sleep(SECOND)?;
                (0..100).try_for_each(|_| cx.checkpoint())?;
                if asked < 4 { Ok(10) } else { Err(error) }
            };
            let mut used = 0;
            cx.limit_ops(10, owner, || {
                while cx.checkpoint().is_ok() {
                    used += 1;
                }
                used += u32::from(cx.checkpoint().is_ok()); // refused once is refused
            });
            assert_eq!((asked, used), (4, 40));
            cx.token().cancel();
            let asked = |_| panic!("a cancelled task is not asked");
            let error = cx.limit_ops(0, asked, || cx.checkpoint()).unwrap_err();
            assert!(error.is_cancelled());
            Ok(())
        })
        .unwrap();
    }
}

/// A part that unwinds leaves its bound.
#[test]
fn a_bound_ends_with_a_panic() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    rt.run(|cx| {
        let part = std::panic::AssertUnwindSafe(|| {
            cx.limit_ops(10, Err, || resume_unwind(Box::new("away")));
        });
        std::panic::catch_unwind(part).unwrap_err();
        (0..100).try_for_each(|_| cx.checkpoint())
    })
    .unwrap();
}
