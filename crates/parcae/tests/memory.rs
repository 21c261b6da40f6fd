//! Memory budgets with the allocator that charges the running task.

mod both;

use both::*;
use parcae::Result;
use parcae::prelude::*;

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

fn threads(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        for _ in 0..20 {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            succeed(rt.run(|cx| test(cx)));
        }
    }
}

#[test]
fn memory_that_is_allocated_is_charged_and_too_much_fails_the_task() {
    threads(|cx| {
        let megabyte = Budget { memory: 1 << 20, ..Budget::UNLIMITED };
        let opts = || NurseryOpts::new().budget(megabyte);
        let outcome = cx.nursery_with(opts(), |n| {
            n.spawn(|cx| {
                let mut hoard = Vec::new();
                loop {
                    cx.checkpoint()?;
                    hoard.push(vec![0_u8; 10_000]);
                }
                #[allow(unreachable_code)]
                Ok(())
            })?
            .join()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::MemoryBudgetExhausted(_)));
        // What is freed can be used again.
        cx.nursery_with(opts(), |n| {
            n.spawn(|cx| {
                for _ in 0..1_000 {
                    cx.checkpoint()?;
                    drop(std::hint::black_box(vec![0_u8; 10_000]));
                }
                Ok(())
            })?
            .join()
        })?;
        Ok(())
    });
}

#[test]
fn a_task_that_is_out_of_memory_budget_waits_for_a_recharge_where_that_is_the_policy() {
    threads(|cx| {
        let small = Budget { memory: 100_000, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(small).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let child = n.spawn(|cx| {
                let kept = vec![0_u8; 150_000];
                cx.checkpoint()?;
                Ok(kept.len())
            })?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            n.recharge(Budget { memory: 1 << 20, ..Budget::ZERO })?;
            assert_eq!(child.join()?, 150_000);
            Ok(())
        })
    });
}

#[test]
fn what_a_task_keeps_is_paid_for_when_it_waits_and_when_it_ends() {
    threads(|cx| {
        let megabyte = Budget { memory: 1 << 20, ..Budget::UNLIMITED };
        for waits in [true, false] {
            let outcome = cx.nursery_with(NurseryOpts::new().budget(megabyte), |n| {
                n.spawn(move |cx| {
                    let kept = vec![1_u8; 4 << 20];
                    if waits {
                        cx.yield_now()?;
                        unreachable!("beyond its budget");
                    }
                    Ok(kept)
                })?
                .join()
            });
            assert!(matches!(kind_of(outcome), ErrorKind::MemoryBudgetExhausted(_)));
        }
        Ok(())
    });
}

#[test]
fn an_allocation_costs_an_op_beside_its_size() {
    threads(|cx| {
        let bounded = Budget::UNLIMITED.with_ops(1_000).with_memory(1 << 20);
        cx.nursery_with(NurseryOpts::new().budget(bounded).slice(bounded), |n| {
            let child = n.spawn(|cx| {
                let before = cx.budget();
                let kept: [Vec<u8>; 5] = std::array::from_fn(|_| vec![7; 1_000]);
                let mut used = before;
                used.charge(cx.budget())?;
                drop(kept);
                assert_eq!(cx.budget().memory, before.memory); // freed, and the ops are spent
                Ok(used)
            })?;
            let used = child.join()?;
            assert_eq!((used.ops, used.memory), (5, 5_000));
            Ok(())
        })
    });
}

/// Memory is spent when a task ends with it, and not before: what it has at a refill it may free
/// later.
#[test]
fn memory_that_a_task_has_at_a_refill_and_frees_later_is_not_spent() {
    threads(|cx| {
        let bounded = Budget::UNLIMITED.with_ops(100_000).with_memory(1 << 20);
        let share = Budget::UNLIMITED.with_ops(500).with_memory(200_000);
        cx.nursery_with(NurseryOpts::new().budget(bounded).slice(share), |n| {
            let child = n.spawn(|cx| {
                let kept = std::hint::black_box(vec![0_u8; 100_000]);
                work(cx, 3_000)?; // several refills
                drop(kept);
                work(cx, 3_000)
            })?;
            child.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert!(standing.spent.ops > 6_000, "{standing:?}");
            assert_eq!(standing.spent.memory, 0, "{standing:?}");
            Ok(())
        })
    });
}
