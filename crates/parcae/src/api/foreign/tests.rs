//! Nurseries that are opened and closed by calls, on tasks and on threads.

use super::*;
use crate::api::runtime::Handle;
use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(handle: &Handle, opts: NurseryOpts) -> Result<OpenNursery> {
    // SAFETY: each is closed by the flow that opens it; children own what they use and keep no
    // thread-local data.
    unsafe { OpenNursery::open(handle, opts) }
}

fn spawn(n: &OpenNursery, child: impl FnOnce(&Cx) -> Result<u64> + Send + 'static) {
    // SAFETY: the handle is dropped here.
    drop(unsafe { n.spawn(None, child) }.unwrap());
}

#[test]
fn a_thread_waits_for_its_children() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let handle = rt.handle();
    for round in 0..500 {
        let sum = Arc::new(AtomicU64::new(0));
        let n = open(&handle, NurseryOpts::new()).unwrap();
        for child in 0..round % 7 {
            let sum = Arc::clone(&sum);
            spawn(&n, move |cx| {
                if child % 2 == 0 {
                    cx.yield_now()?;
                }
                Ok(sum.fetch_add(1, Ordering::Relaxed))
            });
        }
        n.close().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), round % 7);
    }
    drop(handle);
    // The proxies end too, each when a worker gets to it.
    while rt.live_tasks() > 0 {
        std::thread::yield_now();
    }
}

/// A program that only opens nurseries on threads never spawns through the engine. Its workers are
/// monitored nevertheless: a child that blocks its worker is reported.
#[test]
fn the_workers_of_a_threads_nursery_are_watched() {
    use std::time::Duration;
    let (reports, stalls) = std::sync::mpsc::channel();
    let rt = Runtime::builder()
        .workers(1)
        .stall_after(Duration::from_millis(20))
        .on_stall(move |_| _ = reports.send(()))
        .build()
        .unwrap();
    let n = open(&rt.handle(), NurseryOpts::new()).unwrap();
    // Blocks its worker until that is reported.
    spawn(&n, move |_| {
        stalls.recv_timeout(Duration::from_secs(60))?;
        Ok(0)
    });
    n.close().unwrap();
}

#[test]
fn many_threads_open_nurseries_at_once() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let total = Arc::new(AtomicU64::new(0));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..50 {
                    let n = open(&rt.handle(), NurseryOpts::new()).unwrap();
                    for _ in 0..4 {
                        let total = Arc::clone(&total);
                        spawn(&n, move |_| Ok(total.fetch_add(1, Ordering::Relaxed)));
                    }
                    n.close().unwrap();
                }
            });
        }
    });
    assert_eq!(total.load(Ordering::Relaxed), 4 * 50 * 4);
}

#[test]
fn a_task_opens_and_closes_like_a_scope() {
    for seed in 0..50 {
        let rt = Runtime::builder().workers(3).deterministic(seed).build().unwrap();
        let handle = rt.handle();
        let outcome = rt.run(move |cx| {
            let outer =
                open(&handle, NurseryOpts::new().budget(Budget { ops: 500, ..Budget::UNLIMITED }))?;
            let inner = open(&handle, NurseryOpts::new())?;
            spawn(&inner, |cx| cx.yield_now().map(|()| 1));
            spawn(&outer, |cx| cx.checkpoint().map(|()| 2));
            inner.close()?;
            assert_eq!(outer.budget().granted.ops, 500);
            outer.close()?;
            cx.checkpoint()
        });
        outcome.unwrap();
    }
}

#[test]
fn a_failure_comes_out_of_close_and_cancels_the_rest() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let n = open(&rt.handle(), NurseryOpts::new()).unwrap();
    spawn(&n, |cx| {
        loop {
            cx.checkpoint()?;
        }
    });
    spawn(&n, |_| Err(Error::msg("broken")));
    assert!(n.close().unwrap_err().to_string().starts_with("broken"));
}

#[test]
fn a_nursery_that_is_dropped_cancels_and_waits() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let steps = Arc::new(AtomicU64::new(0));
    let n = open(&rt.handle(), NurseryOpts::new()).unwrap();
    let seen = Arc::clone(&steps);
    spawn(&n, move |cx| {
        seen.fetch_add(1, Ordering::Relaxed);
        while cx.checkpoint().is_ok() {}
        Ok(seen.fetch_add(1, Ordering::Relaxed))
    });
    while steps.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now(); // one that has not started would not start any more
    }
    drop(n);
    assert_eq!(steps.load(Ordering::Relaxed), 2);
}

#[test]
fn the_budget_of_a_thread_s_nursery_comes_from_the_runtime_and_goes_back() {
    let all = Budget { ops: 100_000, spawn_count: 50, ..Budget::UNLIMITED };
    let rt = Runtime::builder().workers(2).budget(all).build().unwrap();
    let opts = NurseryOpts::new()
        .budget(Budget { ops: 10_000, spawn_count: 5, ..Budget::UNLIMITED })
        .slice(Budget { ops: 100, ..Budget::ZERO });
    let n = open(&rt.handle(), opts.clone()).unwrap();
    assert_eq!(rt.budget().left.spawn_count, 45);
    for _ in 0..5 {
        spawn(&n, |cx| cx.checkpoint().map(|()| 0));
    }
    // SAFETY: there is no handle.
    assert!(unsafe { n.spawn(None, |_| Ok(0)) }.is_err(), "five were paid for");
    n.close().unwrap();
    let standing = rt.budget();
    assert_eq!(standing.left.spawn_count, 45);
    assert_eq!(standing.spent.spawn_count, 5);
    assert_eq!(standing.granted.ops, standing.left.ops + standing.spent.ops);
    assert!(open(&rt.handle(), opts.budget(Budget { ops: 1 << 40, ..Budget::UNLIMITED })).is_err());
    assert_eq!(rt.budget().left.ops, standing.left.ops, "what was refused went back");
}

// rule: S0-TLS-4
#[test]
fn the_word_of_a_task_goes_where_the_task_goes() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let n = open(&rt.handle(), NurseryOpts::new()).unwrap();
    for _ in 0..20 {
        spawn(&n, |cx| {
            let mine = 7_u64;
            set_local((&raw const mine).cast());
            for _ in 0..50 {
                cx.yield_now()?;
                assert_eq!(local(), Ok(Some((&raw const mine).cast())));
            }
            Ok(0)
        });
    }
    n.close().unwrap();
    assert_eq!(local(), Ok(None));
}

#[test]
fn the_meter_counts_what_checkpoints_count() {
    let rt =
        Runtime::builder().budget(Budget { ops: 50_000, ..Budget::UNLIMITED }).build().unwrap();
    rt.run(|cx| {
        let (meter, before) = (meter().unwrap(), cx.budget().ops);
        for _ in 0..3_000 {
            // SAFETY: the running task's own.
            let go_on = unsafe {
                let open = (*meter).slice > (*(*meter).limit | u64::from(*(*meter).signal));
                (*meter).slice -= u64::from(open);
                open
            };
            if !go_on {
                checkpoint_slow()?;
            }
        }
        assert_eq!(before - cx.budget().ops, 3_000);
        Ok(())
    })
    .unwrap();
}

#[test]
fn memory_of_another_heap_is_held_and_released() {
    let budget = Budget::UNLIMITED.with_memory(10_000);
    let rt = Runtime::builder().budget(budget).build().unwrap();
    rt.run(|cx| {
        let before = cx.budget().ops;
        hold_memory(6_000)?;
        let error = hold_memory(6_000).unwrap_err();
        assert!(matches!(error.kind(), crate::ErrorKind::MemoryBudgetExhausted(_)), "{error}");
        hold_memory(4_000)?; // the refused amount was not counted
        release_memory(10_000);
        hold_memory(10_000)?;
        release_memory(10_000);
        assert_eq!(cx.budget().ops, before, "no op is charged");
        Ok(())
    })
    .unwrap();
    assert_eq!(rt.budget().spent.memory, 0);
    hold_memory(1 << 40).unwrap(); // outside of tasks nothing is counted
}
