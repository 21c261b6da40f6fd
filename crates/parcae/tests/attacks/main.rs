//! Attacks on the public API: programs that no careful author would write, and what must be true
//! whatever they do.
//!
//! None of them may leave a frame that others still use, stop a worker, lose a failure, make or
//! lose budget, or end the process.

mod budgets;
mod help;
mod random;
mod results;
mod runtimes;
mod spawning;
mod stacks;
mod unwinding;
mod waiting;

use parcae::Result;
use parcae::prelude::*;

/// So many ops; the rest is not counted.
fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

/// A nursery with so many ops, whose tasks wait when these are used up.
fn suspending(budget: u64) -> NurseryOpts {
    NurseryOpts::new().budget(ops(budget)).on_exhausted(OnExhausted::Suspend)
}

/// Waits until it is cancelled.
fn asleep(cx: &Cx) -> Result<()> {
    loop {
        cx.park()?;
    }
}
