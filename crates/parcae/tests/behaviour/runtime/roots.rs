//! Root tasks: started by handles with options, joined by plain threads.

use crate::nursery::spawning::allocations;
use crate::support::*;
use parcae::prelude::*;
use parcae::sync::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn handles_start_root_tasks_with_options() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let opts = SpawnOpts::new().name("beat").priority(Priority::High).budget(ops(1 << 20));
    let task = rt.handle().spawn_with(opts.clone(), |cx| {
        work(cx, 5_000)?;
        Ok(cx.info().to_string())
    });
    assert!(task.unwrap().join().unwrap().starts_with("task `beat`, spawned at "));
    let small = opts.stack_size(parcae::stack::StackSize::CORE);
    let left = rt.run_with(small, |cx| Ok(cx.stack_left())).unwrap();
    assert!(left <= 64 << 10, "{left}");
}

// rule: S1-AWAIT-5, S2-API-4
#[test]
fn a_plain_thread_waits_for_a_root_task_and_for_a_child() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let root = rt.handle().spawn(|cx| {
        for _ in 0..100 {
            cx.yield_now()?;
        }
        Ok(7)
    });
    assert_eq!(root.unwrap().join().unwrap(), 7);
    let value = rt.run(|cx| {
        cx.nursery(|n| {
            let child = n.spawn(|_| Ok(8))?;
            std::thread::scope(|s| s.spawn(|| child.join()).join().unwrap())
        })
    });
    assert_eq!(value.unwrap(), 8);
}

/// Waits when it is dropped.
struct Waits(Arc<Mutex<()>>);

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

/// A result without a taker is dropped by its task, which may wait.
#[test]
fn a_root_result_that_waits_in_its_drop_holds_up_nobody() {
    must_end(|| {
        let rt = Runtime::builder().workers(1).temporary_workers(0).build().unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (held, handle) = (Arc::clone(&lock), rt.handle());
        let root = rt.handle().spawn(move |cx| {
            let guard = held.lock()?;
            let result = Waits(Arc::clone(&held));
            drop(handle.spawn(move |_| Ok(result))?);
            cx.sleep(Duration::from_millis(50))?; // the other has ended, but for its result
            drop(guard);
            Ok(())
        });
        root.unwrap().join().unwrap();
    });
}

/// Beside the record, which is one of the scheduler's, there is one allocation: what the task
/// shares with its handle.
#[test]
fn a_root_task_costs_one_allocation() {
    const TASKS: usize = 100;
    let rt = Runtime::builder().workers(1).build().unwrap();
    let mut tasks = Vec::with_capacity(10_000);
    // More records than a worker keeps to itself.
    tasks.extend((0..10_000).map(|_| rt.spawn(|_| Ok(0)).unwrap()));
    tasks.drain(..).for_each(|task| assert_eq!(task.join().unwrap(), 0));
    let before = allocations();
    for index in 0..TASKS {
        tasks.push(rt.spawn(move |_| Ok(index)).unwrap());
    }
    assert_eq!(allocations() - before, TASKS);
    for (index, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.join().unwrap(), index);
    }
}

/// The node of a root task is made on first use, by its handle or by the task: they get the same
/// one, also if the task has been cancelled before.
#[test]
fn the_token_of_a_root_task_is_that_of_its_handle() {
    parcae::explore(0..200, |rt| {
        let handle = rt.handle();
        rt.run(|cx| {
            let task = handle.spawn(|cx| {
                let early = cx.token();
                let error = cx.forever(|| Ok(())).map(drop).unwrap_err();
                assert!(error.is_cancelled() && cx.token().is_cancelled());
                Ok(early.is_cancelled())
            })?;
            cx.yield_now()?;
            task.token().cancel();
            match task.join() {
                Ok(cancelled) => assert!(cancelled),
                Err(error) => assert!(error.is_cancelled(), "{error}"), // before its first run
            }
            let task = handle.spawn(|cx| {
                cx.token().cancel(); // itself, and neither the runtime nor its siblings
                cx.forever(|| Ok(()))
            })?;
            assert!(task.join().map(drop).unwrap_err().is_cancelled());
            cx.checkpoint()
        })?;
        assert!(!rt.token().is_cancelled());
        Ok(())
    })
    .unwrap();
}

/// A nursery of a root task is below the task, whose token is below the runtime's.
#[test]
fn the_reason_of_a_tokens_cancellation_reaches_the_task() {
    parcae::explore(0..100, |rt| {
        let handle = rt.handle();
        rt.run(|cx| {
            let plain = handle.spawn(|cx| cx.forever(|| Ok(())).map(drop))?;
            let nested = handle.spawn(|cx| {
                cx.nursery(|n| n.spawn(|cx| cx.park())?.join()).map_err(|error| {
                    assert!(error.is_cancelled(), "{error}");
                    error
                })
            })?;
            for _ in 0..5 {
                cx.yield_now()?;
            }
            for task in [plain, nested] {
                task.token().cancel_because(CancelReason::Timeout);
                let kind = task.join().unwrap_err().kind().clone();
                let below = matches!(
                    kind,
                    ErrorKind::Cancelled(CancelReason::Timeout | CancelReason::Parent)
                );
                assert!(below, "{kind:?}");
            }
            let plain = handle.spawn(|cx| cx.forever(|| Ok(())).map(drop))?;
            plain.token().cancel_because(CancelReason::Timeout);
            let kind = plain.join().unwrap_err().kind().clone();
            assert!(matches!(kind, ErrorKind::Cancelled(CancelReason::Timeout)), "{kind:?}");
            Ok(())
        })
    })
    .unwrap();
}
