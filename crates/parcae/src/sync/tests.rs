//! Locks and signals under the deterministic executor with many seeds, on threads, and shared by both.

mod closing;
mod guards;
mod locks;
mod signals;

use crate::Result;
use crate::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `test` as a root task; a panic of it fails the test.
fn run(rt: &Runtime, test: impl Fn(&Cx) -> Result<()> + Sync) {
    match rt.run(|cx| test(cx)) {
        Ok(()) => {}
        Err(error) => match error.take_panic() {
            Some(payload) => resume_unwind(payload),
            None => panic!("{error:?}"),
        },
    }
}

/// Under the deterministic executor, with several numbers of workers and many seeds; a failure names the seed
/// that reproduces it.
fn deterministic(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        for seed in 0..40 {
            let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(&rt, &test))) {
                // Not by macro: the seed is wanted even where output is captured.
                let line = format!("{workers} workers: PARCAE_SEED={seed} reproduces it\n");
                let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
                resume_unwind(payload);
            }
        }
    }
}

/// There, and on threads, several times.
fn everywhere(test: impl Fn(&Cx) -> Result<()> + Sync) {
    deterministic(&test);
    for workers in [1, 2, 4] {
        for _ in 0..5 {
            run(&Runtime::builder().workers(workers).build().unwrap(), &test);
        }
    }
}

/// Cancels a task after so many yields, for all numbers up to one at which it has surely ended: each of its wait
/// points is hit. `body` is what others do meanwhile, beside the victim; `check` looks at what is left.
fn cancelled_at_every_point(
    victim: impl Fn(&Cx) -> Result<()> + Sync,
    others: impl Fn(&Cx) -> Result<()> + Sync,
    check: impl Fn() + Sync,
) {
    let hits = std::sync::atomic::AtomicUsize::new(0);
    deterministic(|cx| {
        for point in 0..24 {
            let outcome = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let other = n.spawn(&others)?;
                let task = n.spawn(&victim)?;
                for _ in 0..point {
                    cx.yield_now()?;
                }
                task.cancel();
                match task.join() {
                    Ok(()) => {}
                    Err(error) if error.is_cancelled() => {
                        hits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    Err(error) => return Err(error),
                }
                other.join()
            });
            outcome?;
            check();
        }
        Ok(())
    });
    assert!(hits.into_inner() > 100, "hardly anybody was cancelled");
}
