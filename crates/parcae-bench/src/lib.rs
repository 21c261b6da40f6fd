//! Measures workloads of parcae and the same workloads of its peers, in one run.
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
//! - **Interleaved**, because a virtual machine's speed drifts over seconds by more than the peers
//!   differ: results that are minutes apart cannot be compared. Every other round runs backwards,
//!   so that no side always follows the same neighbour and the caches, allocator and free lists
//!   that it leaves.
//! - **Medians**, because disturbances only ever make a round slower and a mean would
//!   spread them over the good ones. The minimum would be steadier still, but hides
//!   costs that do not hit every round, such as unlucky page placement.
//! - **Each round creates everything anew**: fibers, stacks, pools. The placement of memory is a
//!   condition like any other, so it is sampled, not fixed.
//! - **Ratios count.** The table shows each peer's median over parcae's. The spread
//!   (worst round over best) says how much of a difference to believe.
//!
//! The sides of a variant share one generic loop wherever that is possible, so that they cannot
//! differ by accident, and check afterwards that the work was done (fibers count their
//! activations). No test asserts a time: tests only check that there are results. A run with
//! `--floors` fails if a floor of the specification is missed by far ([`targets`]).
//!
//! - **The noise is measured first** ([`noise`]). A run on a machine that is not quiet shows its
//!   figures and says that ratios cannot be trusted; it gives no verdicts about targets.
//!
//! # Limits
//!
//! One process, hence one layout of code and data in memory: a loop of two nanoseconds
//! can gain or lose a tenth by the address that the linker gave it. Compare builds by
//! more than one figure. Nothing is pinned to a core, and frequency is not controlled.

mod args;
mod case;
pub mod count;
mod evidence;
mod machine;
pub mod noise;
pub mod report;
pub mod runner;
pub mod targets;
mod workloads;

pub use args::{Args, Command, CountArgs};
pub use case::{Better, Case, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
pub use evidence::{OnceArgs, Watch};
pub use machine::Conditions;
pub use workloads::WORKLOADS;

use clap::Parser;
use noise::{Noise, NoiseWatch};
use runner::Figure;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use targets::{Floors, Verdict};

/// The results of a run, for its reports.
#[derive(Debug)]
pub struct Run {
    /// The conditions.
    pub conditions: Conditions,
    /// How noisy the machine was.
    pub noise: Noise,
    /// The number of rounds of each workload.
    pub rounds: String,
    /// The result of every case that ran.
    pub figures: Vec<Figure>,
    /// The targets, with the results.
    pub verdicts: Vec<Verdict>,
    /// The cases that did not run, and why.
    pub failures: Vec<(Case, Failure)>,
}

/// The program: parses the arguments, runs, reports an error.
pub fn main() -> ExitCode {
    // Errors in the arguments end here, with a list of what is known and exit code 2.
    let args = Args::parse();
    match run(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE, // each failure has been reported where it happened
        Err(error) => {
            // A reader that had enough (`| head`) needs no message.
            if error.kind() != io::ErrorKind::BrokenPipe {
                let _ = writeln!(io::stderr(), "parcae-bench: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs with these arguments: results on standard output, conditions and progress on standard
/// error. Returns how many cases failed; with `--floors`, how many of parcae's, plus the broken
/// floors. Each was reported on standard error.
///
/// # Errors
///
/// If standard output, standard error or the report cannot be written to.
pub fn run(args: &Args) -> io::Result<usize> {
    match &args.command {
        Some(Command::Count(args)) => return count::run(args),
        Some(Command::CountOnce { operation, times }) => {
            operation.run(*times).map_err(|failure| io::Error::other(failure.to_string()))?;
            return Ok(0);
        }
        Some(Command::EvidenceOnce(args)) => {
            evidence::once(args, &mut io::stdout().lock())?;
            return Ok(0);
        }
        None => {}
    }
    let mut out = anstream::stdout().lock(); // colours, on a terminal
    if args.list {
        if args.json {
            writeln!(out, "{:#}", report::json::list())?;
        } else {
            report::list(&mut out)?;
        }
        return Ok(0);
    }
    if args.evidence {
        return evidence::run(args, &mut out);
    }
    let run = measure(args, &mut out)?;
    if args.json {
        writeln!(out, "{:#}", report::json::document(&run))?;
    } else if args.wants_table() {
        report::table(&run.figures, &mut out)?;
        report::targets(&run.verdicts, &run.noise, &mut out)?;
    }
    out.flush()?;
    if let Some(folder) = args.out_dir() {
        let page = write_report(&run, &folder)?;
        writeln!(io::stderr(), "report    {}", page.display())?;
    }
    let floors = args.floors.then(|| Floors::of(&run.verdicts));
    if let Some(floors) = &floors {
        write!(io::stderr(), "{floors}")?;
    }
    // Again, where the end of a long log shows them.
    for (case, failure) in &run.failures {
        writeln!(io::stderr(), "failed    {case}: {failure}")?;
    }
    Ok(failures(&run.failures, floors.as_ref()))
}

/// How many failures make a run fail: all of them, or with `--floors` those of parcae and the
/// broken floors. That check is about parcae: a peer that fails is reported and not measured.
fn failures(cases: &[(Case, Failure)], floors: Option<&Floors>) -> usize {
    let Some(floors) = floors else { return cases.len() };
    let own = cases.iter().filter(|(case, _)| case.side.peer == Peer::Parcae).count();
    own + floors.failures()
}

/// Measures the chosen workloads. Lines for programs are written immediately, so that the reader of
/// a pipe sees progress.
fn measure(args: &Args, out: &mut dyn Write) -> io::Result<Run> {
    let mut err = io::stderr();
    let (conditions, rounds) = (Conditions::read(), rounds_line(args));
    write!(err, "{conditions}")?;
    let watch = NoiseWatch::start();
    writeln!(err, "noise     {}", watch.calibration())?;
    writeln!(err, "rounds    {rounds}")?;

    let wanted = |workload: &'static Workload| workload.cases(|peer| args.wants(peer));
    let measurements = |workload| wanted(workload).len() * (args.rounds_of(workload) as usize + 1);
    let total = args.chosen().map(measurements).sum();
    let mut progress = report::Progress::new(err.is_terminal(), total);
    let scale = Scale::new(args.quick);
    let (mut figures, mut failures) = (Vec::new(), Vec::new());
    for workload in args.chosen() {
        let outcomes =
            runner::run(&wanted(workload), args.rounds_of(workload), &scale, &mut progress);
        progress.clear();
        for (case, failure) in &outcomes.failures {
            writeln!(err, "{case}: failed: {failure}")?;
        }
        if !args.json && !args.wants_table() {
            report::tsv(&outcomes.figures, out)?;
        }
        figures.extend(outcomes.figures);
        failures.extend(outcomes.failures);
    }
    let verdicts = targets::verdicts(&figures);
    let noise = watch.finish();
    writeln!(err, "noise     {noise}")?;
    Ok(Run { conditions, noise, rounds, figures, verdicts, failures })
}

/// The page and the raw data beside it. Returns the path of the page.
fn write_report(run: &Run, folder: &Path) -> io::Result<PathBuf> {
    let create = |name: &str| -> io::Result<BufWriter<File>> {
        let path = folder.join(name);
        let file = File::create(&path);
        file.map(BufWriter::new)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    fs::create_dir_all(folder)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
    report::html::page(run, &mut create("report.html")?)?;
    report::tsv(&run.figures, &mut create("figures.tsv")?)?;
    let mut document = create("figures.json")?;
    writeln!(document, "{:#}", report::json::document(run))?;
    document.flush()?;
    Ok(folder.join("report.html"))
}

/// The number of rounds of each workload: `switch 15, stack 7`.
fn rounds_line(args: &Args) -> String {
    let each: Vec<String> =
        args.chosen().map(|w| format!("{} {}", w.name, args.rounds_of(w))).collect();
    let quick = if args.quick { " (quick)" } else { "" };
    format!("{} + 1 warm-up each{quick}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORKLOAD: Workload = Workload {
        name: "test",
        rounds: Rounds { full: 1, quick: 1 },
        variants: &[Variant {
            name: "only",
            about: "",
            unit: "ns",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, |_| Err("out of luck".into())),
                Side::new(Peer::May, |_| Err("out of luck".into())),
            ],
        }],
    };

    #[test]
    fn the_check_of_floors_fails_for_parcae_and_not_for_its_peers() {
        let failed = |wanted: fn(Peer) -> bool| -> Vec<(Case, Failure)> {
            WORKLOAD.cases(wanted).into_iter().map(|case| (case, "out of luck".into())).collect()
        };
        let held = Floors { held: 1, broken: vec![] };
        assert_eq!(failures(&failed(|_| true), None), 2);
        assert_eq!(failures(&failed(|_| true), Some(&held)), 1);
        assert_eq!(failures(&failed(|peer| peer != Peer::Parcae), Some(&held)), 0);
        assert_eq!(failures(&[], Some(&Floors { held: 0, broken: vec![] })), 1);
    }
}
