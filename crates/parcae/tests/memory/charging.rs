//! Memory is charged to the task that allocates it, when it waits, refills and ends.

use crate::support::*;
use parcae::Result;
use parcae::cap::{BudgetLimits, CapBudget, Delegation};
use parcae::channel::channel;
use parcae::nursery::NurseryEvent;
use parcae::prelude::*;
use std::sync::Mutex;
use std::time::Duration;

/// Runs `test` on threads, often: the allocator is used by all threads of the process.
fn on_threads(test: impl Fn(&Cx) -> Result<()> + Sync) {
    schedules(&WORKERS, 0, 20, |schedule| run(&watched(schedule.builder()), &test));
}

// rule: S0-CHECK-4, S0-ERR-2
#[test]
fn memory_that_is_allocated_is_charged_and_too_much_fails_the_task() {
    on_threads(|cx| {
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
        // Freed memory can be used again.
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

// rule: S0-ERR-2
#[test]
fn a_task_that_is_out_of_memory_budget_waits_for_a_recharge_where_that_is_the_policy() {
    on_threads(|cx| {
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

// rule: S0-CHECK-4
#[test]
fn what_a_task_keeps_is_paid_for_when_it_waits_and_when_it_ends() {
    on_threads(|cx| {
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

// rule: S0-COST-3
#[test]
fn an_allocation_costs_an_op_beside_its_size() {
    on_threads(|cx| {
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

/// Memory is spent when a task ends with it, and not before: memory held at a refill may be freed
/// later.
// rule: S0-COST-3
#[test]
fn memory_that_a_task_has_at_a_refill_and_frees_later_is_not_spent() {
    on_threads(|cx| {
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

const MANY: u64 = 1 << 40;

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).temporary_workers(0).yield_interval(100).build().unwrap()
}

fn any_budget(rt: &Runtime) -> CapBudget {
    let all = Budget { ops: MANY, memory: MANY, ..Budget::ZERO };
    rt.cap_budget(BudgetLimits { total: all, per_request: all }, Delegation::Forbidden)
}

/// The timer of the wait costs memory that the task does not have: it is suspended between joining
/// the channel's wait queue and parking, and the value comes meanwhile.
#[test]
fn a_debt_inside_of_a_wait_does_not_lose_the_wake() {
    let rt = deterministic();
    let cap = any_budget(&rt);
    let received = rt.run(|cx| {
        let budget = Budget { memory: 100_000, ..Budget::UNLIMITED };
        let tenant =
            NurseryOpts::new().budget(budget).slice(budget).on_exhausted(OnExhausted::Suspend);
        let (sender, receiver) = channel::<u32>(0);
        cx.nursery_with(tenant, |n| {
            let child = n.spawn(move |cx| {
                let hoard = vec![0_u8; cx.budget().memory as usize];
                let value = receiver.recv_timeout(Duration::from_secs(3_600))?;
                drop(hoard);
                Ok(value)
            })?;
            for _ in 0..1_000 {
                if n.suspended().is_empty() {
                    cx.yield_now()?;
                }
            }
            assert!(!n.suspended().is_empty(), "the wait has cost no memory");
            sender.try_send(7)?;
            (0..5).try_for_each(|_| cx.yield_now())?;
            n.account().recharge(&cap, Budget { memory: 10_000_000, ..Budget::ZERO })?;
            child.join()
        })
    });
    assert_eq!(received.unwrap(), 7);
}

#[test]
fn memory_that_a_hook_allocates_is_not_credited_to_the_task() {
    static SHELF: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let budget = Budget { memory: 1 << 20, ..ops(10_000) };
    let tenant =
        NurseryOpts::new().budget(budget).slice(budget).on_failure(OnFailure::Isolate).on_event(
            |event| {
                if let NurseryEvent::Exhausted { .. } = event {
                    SHELF.lock().unwrap().push(vec![1; 1 << 22]);
                }
            },
        );
    let (before, after) = one_worker()
        .nursery(tenant, |n| {
            n.spawn(|cx| {
                let before = cx.budget().memory;
                cx.charge(Budget { ops: MANY, ..Budget::ZERO }).unwrap_err(); // runs the hook
                SHELF.lock().unwrap().clear();
                Ok((before, cx.budget().memory))
            })?
            .join()
        })
        .unwrap();
    assert!(after <= before + 100, "memory from nowhere: {before}, then {after}");
}
