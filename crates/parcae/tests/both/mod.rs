//! Runs a test under the deterministic executor with many seeds, and on threads.

#![allow(dead_code, unreachable_pub)] // each test file uses a part

use parcae::Result;
use parcae::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Seeds for each number of workers.
pub const SEEDS: u64 = 60;

/// Runs `test` with a new runtime each time: on 1, 2 and 4 workers, under the deterministic executor
/// with many seeds, and several times on threads. A failure names the seed that reproduces it.
pub fn with_runtimes(test: impl Fn(Runtime)) {
    for workers in [1, 2, 4] {
        for seed in 0..SEEDS {
            let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| test(rt))) {
                println!("{workers} workers: PARCAE_SEED={seed} reproduces it");
                resume_unwind(payload);
            }
        }
        for _ in 0..5 {
            test(Runtime::builder().workers(workers).build().unwrap());
        }
    }
}

/// The same for a test that is a root task.
pub fn everywhere(test: impl Fn(&Cx) -> Result<()> + Sync) {
    with_runtimes(|rt| succeed(rt.run(|cx| test(cx))));
}

/// Panics as the task did, or with its error.
pub fn succeed(outcome: Result<()>) {
    if let Err(error) = outcome {
        match error.take_panic() {
            Some(payload) => resume_unwind(payload),
            None => panic!("{error:?}"),
        }
    }
}

pub fn kind_of<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind().clone()
}

/// Only ops are counted.
pub fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

/// Does so many ops.
pub fn work(cx: &Cx, ops: u64) -> Result<()> {
    (0..ops).try_for_each(|_| cx.checkpoint())
}

/// Goes on until it is cancelled, or has used up its budget.
pub fn forever(cx: &Cx) -> Result<()> {
    loop {
        cx.checkpoint()?;
    }
}

/// Waits until it is cancelled.
pub fn asleep(cx: &Cx) -> Result<()> {
    loop {
        cx.park()?;
    }
}
