//! The owner of a nursery pays for several children at a time. The prepaid budget that it has not
//! used is there for other tasks.

use crate::support::*;
use parcae::Result;
use parcae::prelude::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Enough to pay for 64 children with slices of 100 ops in advance, and for more than three times
/// as many.
const OPS: u64 = 60_000;

/// The owner spawns one child, which pays for more of them in advance, and then lets others run by
/// `wait` until the child has ended. That is when the nursery has no op left: it did them all but
/// the one that its spawn cost.
fn all_is_there_while_the_owner(wait: impl Fn(&Cx, &AtomicBool) -> Result<()> + Sync) {
    for workers in [1, 2] {
        for seed in 0..SEEDS {
            let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
            let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
            succeed(rt.run(|cx| {
                let opts = NurseryOpts::new()
                    .budget(ops(OPS))
                    .slice(ops(100))
                    .on_failure(OnFailure::Isolate);
                cx.nursery_with(opts, |n| {
                    let child = n.spawn(|cx| {
                        let outcome = loop {
                            match cx.checkpoint() {
                                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                                Err(error) => break Err::<(), _>(error),
                            };
                        };
                        ended.store(true, Ordering::Relaxed);
                        outcome
                    })?;
                    wait(cx, &ended)?;
                    assert!(matches!(kind_of(child.join()), ErrorKind::BudgetExceeded(_)));
                    Ok(())
                })
            }));
            assert_eq!(done.into_inner(), OPS - 1, "seed {seed}, {workers} workers");
        }
    }
}

// rule: S0-NURSERY-6
#[test]
fn what_was_paid_in_advance_is_there_while_the_owner_joins() {
    all_is_there_while_the_owner(|_, _| Ok(()));
}

#[test]
fn what_was_paid_in_advance_is_there_while_the_owner_yields() {
    all_is_there_while_the_owner(|cx, ended| {
        while !ended.load(Ordering::Relaxed) {
            cx.yield_now()?;
        }
        Ok(())
    });
}

#[test]
fn what_was_paid_in_advance_is_there_while_the_owner_sleeps() {
    all_is_there_while_the_owner(|_, ended| {
        while !ended.load(Ordering::Relaxed) {
            parcae::time::sleep(Duration::from_millis(1))?;
        }
        Ok(())
    });
}

/// Children with a budget of their own are paid for one by one. The spawns that were paid for in
/// advance are there for them, all of them.
// rule: S0-NURSERY-6
#[test]
fn what_was_paid_in_advance_is_there_for_children_of_another_kind() {
    const SPAWNS: u64 = 300;
    everywhere(|cx| {
        let all = Budget { spawn_count: SPAWNS, ..ops(OPS) };
        // Without spawns in the slice: a child that may spawn without limit is not paid in advance.
        let slice = Budget { spawn_count: 0, ..ops(100) };
        cx.nursery_with(NurseryOpts::new().budget(all).slice(slice), |n| {
            n.spawn(|_| Ok(()))?.join()?;
            let own = || SpawnOpts::new().budget(Budget { spawn_count: 0, ..ops(10) });
            for _ in 1..SPAWNS {
                n.spawn_with(own(), |_| Ok(()))?.join()?;
            }
            let refused = n.spawn_with(own(), |_| Ok(()));
            assert!(matches!(kind_of(refused), ErrorKind::SpawnBudgetExhausted(_)));
            Ok(())
        })
    });
}

#[test]
fn what_is_paid_ahead_is_there_for_others_when_the_owner_waits() {
    everywhere(|cx| {
        // A budget for many children, of which the one that is spawned may use all.
        let little = Budget::ZERO.with_ops(100);
        let opts = NurseryOpts::new().budget(ops(50_000)).slice(little);
        let mut spent = 0;
        let (tx, rx) = parcae::channel::channel(1);
        let outcome = cx.nursery_with(opts, |n| {
            let child = n.spawn(move |cx| {
                rx.recv()?; // until the owner has waited: a running owner keeps its prepaid budget
                forever(cx)
            })?;
            cx.sleep(Duration::from_millis(50))?;
            tx.send(())?;
            let outcome = child.join();
            spent = n.budget().spent.ops;
            outcome
        });
        assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
        assert_eq!(spent, 50_000);
        Ok(())
    });
}

/// Children end on a worker that then runs only a task which yields to itself. Their leftovers are
/// all that is left; a sibling on the other worker needs them.
fn leftovers_reach_a_starving_sibling(policy: OnExhausted) {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let total = 40_000;
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: total, spawn_count: 100, ..Budget::UNLIMITED })
        .slice(Budget::CHILD.with_ops(1_000))
        .on_exhausted(policy);
    for _ in 0..20 {
        let stop = AtomicUsize::new(0);
        rt.nursery(tenant.clone(), |n| {
            // Pinned to wherever it starts, and alone there once the others have ended.
            let idler = n.spawn(|cx| {
                while stop.load(Relaxed) == 0 {
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            for _ in 0..30 {
                n.spawn(|_| Ok(()))?; // leaves 1000 ops
            }
            let hungry = n.spawn(|cx| {
                // Nearly all that the nursery has, which only works if everything comes back.
                for _ in 0..total - 4_000 {
                    cx.checkpoint()?;
                }
                stop.store(1, Relaxed);
                Ok(())
            })?;
            let result = hungry.join();
            stop.store(1, Relaxed);
            idler.join()?;
            result
        })
        .unwrap();
    }
}

#[test]
fn leftovers_reach_a_sibling_that_refills() {
    leftovers_reach_a_starving_sibling(OnExhausted::Refill);
}

#[test]
fn leftovers_reach_a_sibling_that_is_suspended() {
    leftovers_reach_a_starving_sibling(OnExhausted::Suspend);
}

// rule: S2-API-3
#[test]
fn what_is_paid_ahead_reaches_a_sibling_while_the_owner_runs() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let each = 1_000;
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: 300 * (each + 1), spawn_count: 300, ..Budget::UNLIMITED })
        .slice(Budget::CHILD.with_ops(each));
    rt.nursery(tenant, |n| {
        let done = AtomicUsize::new(0);
        let done = &*Box::leak(Box::new(done));
        // Spawned usually, so that others are paid for too; then the owner keeps its worker.
        let hungry = n.spawn(move |cx| {
            let result = (0..290 * each).try_for_each(|_| cx.checkpoint());
            done.store(1, Relaxed);
            result
        })?;
        while done.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
        hungry.join()
    })
    .unwrap();
}
