//! Channels under the deterministic executor with many seeds, on worker threads, and on plain threads.

mod basics;
mod budgets;
pub(crate) mod cancelling;
mod cancelling_others;
mod causes;
mod closing;
mod mixed;
mod more;
mod ordered;
mod others;
mod patterns;
mod pools;
mod random;
mod timers;

use super::*;
use crate::Result;
use crate::prelude::*;
use std::panic::resume_unwind;

/// Runs `test` as a root task under the deterministic executor, with several numbers of workers and hundreds of
/// seeds; a failure names the seed that reproduces it.
pub(crate) fn deterministic(seeds: u64, test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    for seed in 0..seeds {
        let workers = [1, 2, 4][seed as usize % 3];
        let rt = Runtime::builder().workers(workers).deterministic(seed).build().unwrap();
        let outcome = rt.run(|cx| test(cx, seed));
        if let Err(error) = outcome {
            // Not by macro: the seed is wanted even where output is captured.
            let line = format!("{workers} workers: PARCAE_SEED={seed} reproduces it\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            fail(&error);
        }
    }
}

/// The same on threads, several times.
pub(crate) fn threads(times: u64, test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    for workers in [1, 2, 4] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        for time in 0..times {
            if let Err(error) = rt.run(|cx| test(cx, time)) {
                fail(&error);
            }
        }
    }
}

/// Both.
pub(crate) fn everywhere(test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    deterministic(300, &test);
    threads(20, &test);
}

fn fail(error: &crate::Error) -> ! {
    match error.take_panic() {
        Some(payload) => resume_unwind(payload),
        None => panic!("{error:?}"),
    }
}

/// Lets others run, a number of times.
pub(crate) fn pause(cx: &Cx, turns: u64) -> Result<()> {
    (0..turns).try_for_each(|_| cx.yield_now())
}
