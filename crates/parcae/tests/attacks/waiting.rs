//! Waiting: who is suspended is found by what was given back or put in, who is cancelled hears of
//! it wherever it waits, and nobody waits for himself.

use crate::help::{deterministic, in_time, runtime};
use crate::{asleep, ops, suspending};
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[test]
fn a_suspended_task_goes_on_with_what_a_sibling_gives_back() {
    in_time(|| {
        let outcome = runtime(2).run(|cx| {
            cx.nursery_with(suspending(20_002), |n| {
                let account = n.account();
                let rich = n.spawn(move |cx| {
                    while account.standing().suspended == 0 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                let poor = n.spawn(|cx| (0..12_000).try_for_each(|_| cx.checkpoint()))?;
                rich.join()?;
                poor.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn a_recharge_reaches_tasks_that_are_suspended_in_nurseries_below() {
    in_time(|| {
        let outcome = runtime(2).run(|cx| {
            cx.nursery_with(suspending(5_000), |n| {
                let child = n.spawn(|cx| {
                    cx.nursery(|m| {
                        m.spawn(|cx| (0..8_000).try_for_each(|_| cx.checkpoint()))?.join()
                    })
                })?;
                for _ in 0..200 {
                    cx.yield_now()?;
                    thread::sleep(Duration::from_millis(1));
                }
                n.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                child.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn a_parent_can_recharge_a_suspended_child_with_a_budget_of_its_own() {
    in_time(|| {
        let outcome = runtime(2).run(|cx| {
            let opts = NurseryOpts::new().on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), |cx| {
                    (0..200).try_for_each(|_| cx.checkpoint())
                })?;
                for _ in 0..100 {
                    cx.yield_now()?;
                    thread::sleep(Duration::from_millis(1));
                }
                child.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                child.join()
            })
        });
        outcome.unwrap();
    });
}

#[test]
fn cancelling_a_child_at_the_end_of_its_nursery_reaches_its_children() {
    in_time(|| {
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

#[test]
fn two_deterministic_runtimes_that_would_wait_for_each_other_are_an_error() {
    in_time(|| {
        let (a, b) = (deterministic(1), deterministic(1));
        assert!(a.run(|_| b.run(|_| a.run(|_| Ok(())))).is_err());
    });
}

#[test]
fn a_token_derived_while_its_parent_is_cancelled_is_cancelled() {
    let missed = in_time(|| {
        let mut missed = 0;
        for round in 0..4_000 {
            let root = CancelToken::new();
            let go = AtomicBool::new(false);
            thread::scope(|s| {
                let canceller = s.spawn(|| {
                    while !go.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..round % 500 {
                        std::hint::spin_loop();
                    }
                    root.cancel();
                });
                go.store(true, SeqCst);
                let children: Vec<_> = (0..400).map(|_| root.child()).collect();
                canceller.join().unwrap();
                missed += children.iter().filter(|child| !child.is_cancelled()).count();
            });
        }
        missed
    });
    assert_eq!(missed, 0, "tokens below a cancelled one that are not cancelled");
}
