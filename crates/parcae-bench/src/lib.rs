//! Measures workloads of parcae beside the same workloads of its peers, in one run.
//!
//! # How it measures
//!
//! A [`Workload`] has [`Variant`]s, a variant has one side per [`Peer`], and a side is a
//! function that does the work once and returns one number. The [`runner`] goes through
//! all sides of a workload, then again, as many rounds as asked for:
//!
//! ```text
//! warm-up   one/parcae  one/corosensei  one/generator  t1000/parcae …   thrown away
//! round 1   … t1000/parcae  one/generator  one/corosensei  one/parcae   backwards
//! round 2   one/parcae  one/corosensei  one/generator  t1000/parcae …
//! ```
//!
//! - **Interleaved**, because a virtual machine's speed drifts over seconds by more than
//!   the peers differ: what is measured minutes apart cannot be compared. Every other
//!   round runs backwards so that nobody always follows the same neighbour (what that
//!   one left in the caches, in the allocator, in the kernel's free lists).
//! - **Medians**, because disturbances only ever make a round slower and a mean would
//!   spread them over the good ones. The minimum would be steadier still, but hides
//!   costs that do not hit every round, such as unlucky page placement.
//! - **Everything is built anew in each round**: fibers, stacks, pools. Where memory
//!   happens to lie is a condition like any other, so it is sampled, not fixed.
//! - **Ratios count.** The table shows each peer's median over parcae's. The spread
//!   (worst round over best) says how much of a difference to believe.
//!
//! The sides of a variant share one generic loop wherever that is possible, so that they
//! cannot differ by accident, and check afterwards that the work was done (fibers count
//! their activations). No figure is asserted anywhere: tests only check that figures come out.
//!
//! # Limits
//!
//! One process, hence one layout of code and data in memory: a loop of two nanoseconds
//! can gain or lose a tenth by the address that the linker gave it. Compare builds by
//! more than one figure. Nothing is pinned to a core, and frequency is not controlled.

mod args;
mod case;
mod machine;
pub mod report;
pub mod runner;
mod workloads;

pub use args::Args;
pub use case::{Better, Case, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
pub use machine::Conditions;
pub use workloads::WORKLOADS;

use std::io::{self, IsTerminal, Write};

/// Does what the arguments ask for: figures on standard output, conditions and progress
/// on standard error. Returns how many cases failed; each was reported on standard error.
///
/// # Errors
///
/// If standard output or standard error cannot be written to.
pub fn run(args: &Args) -> io::Result<usize> {
    let mut out = io::stdout().lock();
    let mut err = io::stderr();
    if args.list {
        report::list(&mut out)?;
        return Ok(0);
    }
    let as_table = args.table || (!args.tsv && out.is_terminal());
    write!(err, "{}", Conditions::read())?;
    writeln!(err, "rounds    {}", rounds_line(args))?;

    let mut progress = report::Progress::new(err.is_terminal());
    let scale = Scale::new(args.quick);
    let mut all = Vec::new();
    let mut failed = 0;
    for workload in args.chosen() {
        let cases = workload.cases(|peer| args.wants(peer));
        let outcomes = runner::run(&cases, args.rounds_of(workload), &scale, &mut progress);
        progress.clear();
        for (case, failure) in outcomes.failures {
            failed += 1;
            writeln!(err, "{case}: failed: {failure}")?;
        }
        if !as_table {
            // At once: whoever reads a pipe wants to see that something happens.
            report::tsv(&outcomes.figures, &mut out)?;
        }
        all.extend(outcomes.figures);
    }
    if as_table {
        report::table(&all, &mut out)?;
    }
    out.flush()?;
    Ok(failed)
}

/// Which workload gets how many rounds: `switch 15, stack 7`.
fn rounds_line(args: &Args) -> String {
    let each: Vec<String> =
        args.chosen().map(|w| format!("{} {}", w.name, args.rounds_of(w))).collect();
    let quick = if args.quick { " (quick)" } else { "" };
    format!("{} + 1 warm-up each{quick}", each.join(", "))
}
