//! What a task holds for others: a nursery's owner pays for several children at a time, and what it
//! has paid for and not spawned is there for those who run whenever the owner does not.

mod both;

use both::*;
use parcae::Result;
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Enough to pay for 64 children with slices of 100 ops in advance, and for more than three times as many.
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
#[test]
fn what_was_paid_in_advance_is_there_for_children_of_another_kind() {
    const SPAWNS: u64 = 300;
    everywhere(|cx| {
        let all = Budget { spawn_count: SPAWNS, ..ops(OPS) };
        cx.nursery_with(NurseryOpts::new().budget(all).slice(ops(100)), |n| {
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
