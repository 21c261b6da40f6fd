//! Each poll costs an op, and code in it is charged.

use super::*;

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

#[test]
fn a_poll_costs_one_op() {
    for seed in 0..10 {
        let rt = Runtime::builder().workers(1).deterministic(seed);
        let rt = rt.budget(ops(10_000)).build().unwrap();
        let spent = |polls| {
            rt.run(|cx| {
                cx.nursery(|n| {
                    n.spawn_future(countdown(polls))?.join()?;
                    let before = n.budget().spent.ops;
                    n.spawn_future(countdown(polls))?.join()?;
                    Ok(n.budget().spent.ops - before)
                })
            })
            .unwrap()
        };
        assert_eq!(spent(100) - spent(0), 100);
    }
}

#[test]
fn without_budget_it_fails_or_gets_more() {
    for seed in 0..20 {
        let run = |policy, granted, of_child, polls| {
            let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
            rt.run(|cx| {
                let opts = NurseryOpts::new().budget(ops(granted)).on_exhausted(policy);
                cx.nursery_with(opts, |n| {
                    let opts = SpawnOpts::new().budget(ops(of_child));
                    n.spawn_future_with(opts, countdown(polls))?.join()
                })
            })
        };
        let error = run(OnExhausted::Fail, 1_000, 20, 100).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
        assert_eq!(run(OnExhausted::Fail, 1_000, 200, 100).unwrap(), "done");
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let refilled = |granted| {
            rt.run(|cx| {
                let opts = NurseryOpts::new().budget(ops(granted));
                cx.nursery_with(opts.on_exhausted(OnExhausted::Refill), |n| {
                    n.spawn_future(countdown(5_000))?.join()
                })
            })
        };
        assert_eq!(refilled(10_000).unwrap(), "done");
        let error = refilled(1_000).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
    }
}

#[test]
fn a_suspended_future_goes_on_after_a_recharge() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let done = rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(50)).on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let child = n.spawn_future_with(SpawnOpts::new().name("poor"), countdown(100))?;
                while n.suspended().is_empty() {
                    cx.yield_now()?;
                }
                let waiting = n.suspended();
                assert_eq!(waiting[0].task.name(), Some("poor"));
                n.recharge(ops(1_000).with_memory(0))?;
                child.join()
            })
        });
        assert_eq!(done.unwrap(), "done");
        let outcome = rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(50)).on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                n.spawn_future(countdown(100))?;
                while n.suspended().is_empty() {
                    cx.yield_now()?;
                }
                n.cancel(); // while it is suspended
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}

/// The rest of an account goes back, also if its future was parked meanwhile.
#[test]
fn budgets_are_conserved() {
    for seed in 0..30 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(100_000));
            cx.nursery_with(opts, |n| {
                let own = SpawnOpts::new().budget(ops(500));
                let children = [
                    n.spawn_future(countdown(20))?,
                    n.spawn_future_with(own, countdown(30))?,
                    n.spawn_future(countdown(0))?,
                ];
                for child in children {
                    child.join()?;
                }
                let waits = n.spawn_future(std::future::pending::<crate::Result<()>>())?;
                cx.yield_now()?;
                let standing = n.budget();
                let sum = standing.left.ops + standing.held.ops + standing.spent.ops;
                assert_eq!(sum, standing.granted.ops);
                waits.cancel();
                assert!(waits.join().is_err());
                let standing = n.budget();
                assert_eq!(standing.held.ops, 0, "{standing:?}");
                assert!((50..1_000).contains(&standing.spent.ops), "{standing:?}");
                Ok(())
            })
        })
        .unwrap();
    }
}
