//! Budgets: none is made, lost, hoarded or forgotten.

use crate::help::runtime;
use crate::{ops, suspending};
use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn what_a_body_draws_in_a_nursery_with_a_budget_of_its_own_is_accounted_for() {
    runtime(1)
        .run(|cx| {
            cx.nursery_with(NurseryOpts::new().budget(ops(100_000)), |n| {
                n.spawn(|cx| {
                    cx.nursery_with(NurseryOpts::new().budget(ops(1_000)), |_| {
                        (0..15_000).try_for_each(|_| cx.checkpoint())
                    })
                })?
                .join()?;
                let standing = n.budget();
                assert_eq!(standing.held.ops, 0, "nobody holds anything");
                assert_eq!(
                    standing.granted.ops,
                    standing.left.ops + standing.held.ops + standing.spent.ops
                );
                assert_eq!(standing.spent.ops, 15_001);
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn a_recharge_that_nobody_used_goes_back_to_the_owner() {
    let rt = Runtime::builder().workers(1).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        let before = cx.budget().ops;
        let own = NurseryOpts::new().budget(Budget { ops: 10, ..Budget::ZERO });
        cx.nursery_with(own, |n| n.recharge(Budget { ops: 5_000, ..Budget::ZERO }))?;
        assert_eq!(cx.budget().ops, before, "unused budget is lost");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_component_without_limit_has_none_after_a_nursery() {
    let rt = Runtime::builder().workers(1).budget(ops(1_000_000)).build().unwrap();
    rt.run(|cx| {
        for round in 0..2 {
            cx.nursery(|n| n.spawn(|cx| cx.nursery(|m| m.spawn(|_| Ok(()))?.join()))?.join())
                .map_err(|e| Error::msg(format!("round {round}: {e}")))?;
            assert_eq!(cx.budget().memory, u64::MAX, "after round {round}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn opening_a_nursery_does_not_use_up_what_a_task_may_draw_once() {
    runtime(1)
        .run(|cx| {
            let opts = NurseryOpts::new().budget(ops(100_000)).on_exhausted(OnExhausted::Fail);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    cx.checkpoint()?;
                    cx.nursery(|_| cx.checkpoint())
                })?
                .join()
            })
        })
        .unwrap();
}

#[test]
fn a_task_that_runs_out_of_ops_does_not_hoard_memory() {
    runtime(1)
        .run(|cx| {
            let budget = Budget { ops: 1_000_000, memory: 4 << 20, ..Budget::UNLIMITED };
            let go = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new().budget(budget), |n| {
                n.spawn(|cx| {
                    (0..200_000).try_for_each(|_| cx.checkpoint())?;
                    go.store(true, SeqCst);
                    (0..100).try_for_each(|_| cx.yield_now())
                })?;
                while !go.load(SeqCst) {
                    cx.yield_now()?;
                }
                n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?.join()
            })
        })
        .unwrap();
}

#[test]
fn a_task_that_does_nothing_spends_nothing_of_a_very_large_budget() {
    let budget = Budget { memory: u64::MAX - 1, ..Budget::UNLIMITED };
    let rt = Runtime::builder().workers(1).budget(budget).build().unwrap();
    rt.run(|_| Ok(())).unwrap();
    assert_eq!(rt.budget().spent.memory, 0);
}

#[test]
fn suspended_tasks_that_are_gone_are_not_counted() {
    fn forever(cx: &Cx) -> Result<()> {
        loop {
            cx.checkpoint()?;
        }
    }

    runtime(1)
        .run(|cx| {
            cx.nursery_with(suspending(5_000), |n| {
                let child = n.spawn(forever)?;
                while n.budget().suspended == 0 {
                    cx.yield_now()?;
                }
                child.cancel();
                assert!(child.join().is_err());
                assert_eq!(n.budget().suspended, 0);
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn the_account_of_a_nursery_that_counts_nothing_takes_nothing() {
    let rt = runtime(1);
    let limits = BudgetLimits { total: Budget::SERVICE, per_request: Budget::SERVICE };
    let cap = rt.cap_budget(limits, Delegation::Forbidden);
    let account = rt.run(|cx| cx.nursery(|n| Ok(n.account()))).unwrap();
    assert_eq!(account.recharge(&cap, Budget::CHILD).unwrap(), Budget::ZERO);
    assert_eq!(cap.left(), Budget::SERVICE);
}
