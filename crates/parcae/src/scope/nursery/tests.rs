//! Nurseries under the deterministic executor with many seeds, and on threads.

mod budgets;
mod cancelling;
mod causes;
mod conservation;
mod failures;
mod results;
mod waiting;

use crate::prelude::*;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `test` as a root task under the deterministic executor, with several numbers of workers and many
/// seeds; a failure names the seed that reproduces it.
fn deterministic(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        for seed in 0..40 {
            let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
            let outcome = catch_unwind(AssertUnwindSafe(|| rt.run(|cx| test(cx))));
            if !matches!(outcome, Ok(Ok(()))) {
                // Not by macro: the seed is wanted even where output is captured.
                let line = format!("{workers} workers: PARCAE_SEED={seed} reproduces it\n");
                let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            }
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => match error.take_panic() {
                    Some(payload) => resume_unwind(payload),
                    None => panic!("{error:?}"),
                },
                Err(payload) => resume_unwind(payload),
            }
        }
    }
}

/// The same on threads, several times.
fn threads(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        for _ in 0..5 {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            match rt.run(|cx| test(cx)) {
                Ok(()) => {}
                Err(error) => match error.take_panic() {
                    Some(payload) => resume_unwind(payload),
                    None => panic!("{error:?}"),
                },
            }
        }
    }
}

/// Both.
fn everywhere(test: impl Fn(&Cx) -> Result<()> + Sync) {
    deterministic(&test);
    threads(&test);
}

fn kind_of<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind().clone()
}

/// A task that goes on until it is cancelled.
fn forever(cx: &Cx) -> Result<()> {
    loop {
        cx.checkpoint()?;
    }
}

/// A task that waits until it is cancelled.
fn asleep(cx: &Cx) -> Result<()> {
    loop {
        cx.park()?;
    }
}

fn oops() -> Error {
    Error::msg("oops")
}
