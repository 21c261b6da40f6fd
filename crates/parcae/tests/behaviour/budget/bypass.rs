//! No detour gets round a task's `spawn_count`: a blocking call, a future, a fiber, another stack.

use crate::support::threads;
use parcae::fiber::{Fiber, Step};
use parcae::prelude::*;
use parcae::stack::{StackPool, StackSize};
use parcae::{Error, Result, blocking, blocking_static};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn is_refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SpawnBudgetExhausted(_))
}

/// A child that may spawn so often.
fn may_spawn(count: u64) -> SpawnOpts {
    SpawnOpts::new().budget(Budget::UNLIMITED.with_spawn_count(count))
}

#[test]
fn a_blocking_call_does_not_spawn_for_a_task_whose_spawns_are_limited() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (handle, started) = (rt.handle(), AtomicUsize::new(0));
    let spawn = || {
        let spawned = handle.spawn(|_| Ok(()));
        started.fetch_add(usize::from(spawned.is_ok()), Relaxed);
        spawned.and_then(|task| task.join())
    };
    rt.nursery(NurseryOpts::new(), |n| {
        n.spawn_with(may_spawn(2), |_| {
            for _ in 0..20 {
                let error = blocking(spawn)?.unwrap_err();
                assert!(is_refused(&error), "{error}");
                assert!(error.to_string().contains("spawn on the task itself"), "{error}");
            }
            let theirs = handle.clone();
            let error = blocking_static(move || theirs.spawn(|_| Ok(())))?.unwrap_err();
            assert!(is_refused(&error), "{error}");
            // A wait for a future on the blocking thread is no detour either.
            let waited = blocking(|| parcae::block_on(async { spawn() }))?.unwrap();
            assert!(is_refused(&waited.unwrap_err()));
            assert_eq!(started.load(Relaxed), 0);
            // A refused spawn is not charged.
            spawn()?;
            spawn()?;
            assert!(is_refused(&spawn().unwrap_err()));
            Ok(())
        })?
        .join()?;
        // The same threads spawn for a task without a limit, and for no task.
        n.spawn(|_| blocking(spawn)?)?.join()
    })
    .unwrap();
    std::thread::scope(|threads| threads.spawn(spawn).join().unwrap()).unwrap();
    assert_eq!(started.into_inner(), 4);
}

#[test]
fn a_blocking_call_spawns_into_the_nursery_whose_budget_pays() {
    threads(|cx| {
        let tenant = NurseryOpts::new().budget(Budget::UNLIMITED.with_spawn_count(5));
        cx.nursery_with(tenant.clone(), |n| {
            // By the owner, and by a child that draws on the same budget.
            blocking(|| n.spawn(|_| Ok(())).map(drop))??;
            n.spawn(|_| blocking(|| n.spawn(|_| Ok(())).map(drop))?)?.join()?;
            // A child with a budget of its own was lent the nursery, and not the right to spawn.
            n.spawn_with(may_spawn(0), |_| {
                let refused = blocking(|| n.spawn(|_| Ok(())).map(drop))?;
                assert!(is_refused(&refused.unwrap_err()));
                Ok(())
            })?
            .join()
        })?;
        Ok(())
    });
}

/// Spawns on the running task, in a future and on a fiber.
fn detours(handle: &parcae::Handle) -> [Result<()>; 2] {
    fn spawn(handle: &parcae::Handle) -> Result<()> {
        handle.spawn(|_| Ok(())).map(drop)
    }
    let by_future = parcae::block_on(async { spawn(handle) }).unwrap();
    let stacks = StackPool::new().unwrap();
    let mut fiber = Fiber::new(stacks.acquire(StackSize::SERVICE).unwrap(), "detour").unwrap();
    let (result, handle) = (Rc::new(Cell::new(None)), handle.clone());
    let theirs = Rc::clone(&result);
    let step = fiber.start(move |_| theirs.set(Some(spawn(&handle)))).unwrap();
    assert!(matches!(step, Step::Finished));
    [by_future, result.take().expect("the fiber has left it")]
}

#[test]
fn futures_and_fibers_spend_the_spawn_count_of_their_task() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let handle = rt.handle();
    rt.nursery(NurseryOpts::new(), |n| {
        n.spawn_with(may_spawn(2), |_| {
            assert!(detours(&handle).iter().all(Result::is_ok));
            for refused in detours(&handle) {
                assert!(is_refused(&refused.unwrap_err()));
            }
            Ok(())
        })?
        .join()
    })
    .unwrap();
}

#[test]
fn a_contained_closure_cannot_spawn() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let handle = rt.handle();
    rt.run(|cx| {
        // SAFETY: it does not overflow.
        let refused = unsafe {
            cx.contain_overflow(StackSize::SERVICE, move || handle.spawn(|_| Ok(())).map(drop))
        }?;
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Contained));
        Ok(())
    })
    .unwrap();
}

/// The documented limit of budgets: a task that starts a root task pays for the spawn, and the
/// runtime for the work.
#[test]
fn a_root_task_works_at_the_cost_of_the_runtime() {
    let rt = Runtime::builder().budget(Budget::UNLIMITED.with_ops(1_000_000)).build().unwrap();
    let handle = rt.handle();
    let tenant = NurseryOpts::new().budget(Budget::UNLIMITED.with_ops(100));
    rt.nursery(tenant, |n| {
        n.spawn(move |_| handle.spawn(|cx| (0..1_000).try_for_each(|_| cx.checkpoint()))?.join())?
            .join()?;
        assert!(n.budget().spent.ops < 100, "{:?}", n.budget());
        Ok(())
    })
    .unwrap();
    assert!(rt.budget().spent.ops > 1_000, "{:?}", rt.budget());
}

/// Handles of another runtime are no way round either, whichever of the two is used and wherever.
#[test]
fn a_handle_of_another_runtime_spends_the_spawn_count_of_the_task() {
    let build = || Runtime::builder().workers(2).build().unwrap();
    let (rt, other) = (build(), build());
    let handle = other.handle();
    let spawn = || handle.spawn(|_| Ok(())).and_then(|task| task.join());
    rt.nursery(NurseryOpts::new(), |n| {
        n.spawn_with(may_spawn(3), |_| {
            assert!(is_refused(&blocking(spawn)?.unwrap_err()), "a call cannot pay");
            spawn()?;
            spawn()?;
            other.run(|_| Ok(()))?;
            assert!(is_refused(&spawn().unwrap_err()));
            assert!(is_refused(&other.run(|_| Ok(())).unwrap_err()));
            Ok(())
        })?
        .join()
    })
    .unwrap();
    // A nursery of the other runtime that a task was lent.
    other
        .nursery(NurseryOpts::new(), |lent| {
            rt.run_with(may_spawn(1), |_| {
                lent.spawn(|_| Ok(()))?;
                assert!(is_refused(&lent.spawn(|_| Ok(())).unwrap_err()));
                Ok(())
            })
        })
        .unwrap();
}

/// The budget of the other runtime pays too, and is charged for no task that was not started.
#[test]
fn both_runtimes_pay_for_a_root_task_that_a_task_of_one_starts_in_the_other() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let small = Budget::UNLIMITED.with_spawn_count(2);
    let other = Runtime::builder().workers(1).budget(small).build().unwrap();
    let start = || other.handle().spawn(|_| Ok(()))?.join();
    rt.run_with(may_spawn(1), |_| {
        start()?;
        assert!(is_refused(&start().unwrap_err()));
        Ok(())
    })
    .unwrap();
    assert_eq!(other.budget().spent.spawn_count, 1);
    rt.run_with(may_spawn(2), |cx| {
        start()?;
        assert!(is_refused(&start().unwrap_err()));
        assert_eq!(cx.budget().spawn_count, 1);
        Ok(())
    })
    .unwrap();
}
