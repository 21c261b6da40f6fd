//! `--evidence`: where the time of each workload goes, and whether a figure is one of the scheduler
//! or of something else: logging, memory, the kernel, the hypervisor, the layout of cache lines.
//!
//! Every measurement is a process of its own ([`mod@once`]). For each workload and variant of
//! parcae:
//!
//! ```text
//! round 1   plain   recorded   unpadded     nothing is watched: clean figures, compared in pairs
//! round 2   unpadded   recorded   plain
//! …
//! counters  plain, with counters of kernel and processor        diagnostic: perturbed
//! samples   plain, with samples of instructions                 diagnostic: perturbed
//! ```
//!
//! - **recorded**: all schedulers write events into their rings, from their start. The difference
//!   is the cost of logging each switch, spawn and end.
//! - **unpadded**: the program `parcae-bench-unpadded`, built with the feature `unpadded`: words of
//!   different writers share cache lines. Under cargo it is built first. Two programs also differ
//!   in the placement of their code, so small differences mean nothing.
//!
//! Clean figures come from processes in which nothing is watched. All others are *diagnostic*: a
//! counter costs time at each switch of threads, a sample is an interrupt, and rows of the whole
//! machine contain other programs. They explain a figure and are none. The kernel may refuse
//! counters and samples, and a virtual machine often has no counters of the processor: what is
//! absent is listed with the reason, and replaced by `getrusage` and `/proc` where they have it.
//!
//! The output of every process is kept, as it was, in the folder `raw` of the report.

mod kernel;
mod once;
mod perf;
mod report;
mod symbols;

pub use once::{OnceArgs, Watch};

use crate::args::Args;
use crate::case::{Better, Case, Failure, Peer};
use crate::machine::Conditions;
use crate::noise::{Noise, NoiseWatch};
use serde_json::{Map, Value, json};
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The second program.
const UNPADDED: &str = "parcae-bench-unpadded";
/// Rounds, unless the arguments say otherwise; with `--quick` one.
const ROUNDS: u32 = 3;

/// The child.
pub(crate) fn once(args: &OnceArgs, out: &mut dyn Write) -> io::Result<()> {
    let document = once::measure(args).map_err(|failure| io::Error::other(failure.to_string()))?;
    writeln!(out, "{document:#}")
}

/// Measures and writes the report: to `out` and into the folder `evidence` of the report. Returns
/// the number of cases that failed.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> io::Result<usize> {
    let folder = args.out_dir().unwrap_or_else(|| PathBuf::from("bench-report")).join("evidence");
    let raw = folder.join("raw");
    // Logs of an earlier run must not pass for those of this one.
    match fs::remove_dir_all(&raw) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&raw, &error)),
        _ => fs::create_dir_all(&raw).map_err(|error| at(&raw, &error))?,
    }
    let mut err = io::stderr();
    let conditions = Conditions::read();
    write!(err, "{conditions}")?;
    let programs = Programs { padded: env::current_exe()?, unpadded: unpadded(args) };
    let watch = NoiseWatch::start();
    writeln!(err, "noise     {}", watch.calibration())?;
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { ROUNDS });
    let cases: Vec<Case> =
        args.chosen().flat_map(|w| w.cases(|peer| peer == Peer::Parcae)).collect();
    let (mut found, mut failed) = (Vec::new(), 0);
    for (number, case) in cases.iter().enumerate() {
        writeln!(err, "evidence  {} of {}: {case}", number + 1, cases.len())?;
        let study = Study { case, programs: &programs, raw: &raw, quick: args.quick };
        let (document, failures) = study.run(rounds);
        failures.iter().try_for_each(|failure| writeln!(err, "failed    {case}: {failure}"))?;
        failed += usize::from(!failures.is_empty());
        found.push(document);
    }
    // The children's time counts as that of others: only the hypervisor's share is a sign here.
    let noise = Noise { others: None, ..watch.finish() };
    let document = document(&conditions, &noise, &programs, rounds, found);
    let text = report::text(&document);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| at(&path, &error))
    };
    write("evidence.json", &format!("{document:#}\n"))?;
    write("evidence.txt", &text)?;
    if args.json {
        writeln!(out, "{document:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    writeln!(err, "report    {}", folder.join("evidence.txt").display())?;
    Ok(failed)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The programs that measure.
struct Programs {
    padded: PathBuf,
    /// Or why there is none.
    unpadded: Result<PathBuf, String>,
}

/// The program without padding: the one that was named, the one that cargo builds, the one beside
/// this program.
fn unpadded(args: &Args) -> Result<PathBuf, String> {
    let beside = || Some(env::current_exe().ok()?.with_file_name(UNPADDED));
    let path = match (&args.unpadded, cargo()) {
        (Some(path), _) => path.clone(),
        (None, Some(mut build)) => {
            let _ = writeln!(io::stderr(), "building  {UNPADDED}, for the comparison of padding");
            let status = build.status().map_err(|error| format!("cargo: {error}"))?;
            if !status.success() {
                return Err(format!("cargo cannot build {UNPADDED}: {status}"));
            }
            beside().ok_or("the folder of this program is unknown")?
        }
        (None, None) => beside().ok_or("the folder of this program is unknown")?,
    };
    if path.is_file() { Ok(path) } else { Err(format!("there is no {}", path.display())) }
}

/// The build, if cargo has started this program.
fn cargo() -> Option<Command> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    if folder.file_name()? != env!("CARGO_PKG_NAME") {
        return None;
    }
    let mut cargo = Command::new(env::var_os("CARGO")?);
    cargo.args(["build", "--package", env!("CARGO_PKG_NAME"), "--bin", UNPADDED]);
    cargo.args(["--features", "unpadded", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.stdout(Stdio::null());
    Some(cargo)
}

/// How a child measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Plain,
    Recorded,
    Unpadded,
    Counters,
    Samples,
}

impl Condition {
    const fn name(self) -> &'static str {
        match self {
            Condition::Plain => "plain",
            Condition::Recorded => "recorded",
            Condition::Unpadded => "unpadded",
            Condition::Counters => "counters",
            Condition::Samples => "samples",
        }
    }
}

/// One case.
struct Study<'s> {
    case: &'s Case,
    programs: &'s Programs,
    raw: &'s Path,
    quick: bool,
}

impl Study<'_> {
    /// All that was found, and what failed.
    fn run(&self, rounds: u32) -> (Value, Vec<String>) {
        use Condition::{Counters, Plain, Recorded, Samples, Unpadded};
        let mut failures = Vec::new();
        let mut child = |condition: Condition, round: u32| -> Option<Value> {
            let found = self.child(condition, round);
            found.map_err(|failure| failures.push(format!("{}: {failure}", condition.name()))).ok()
        };
        let mut order = vec![Plain, Recorded];
        if self.programs.unpadded.is_ok() {
            order.push(Unpadded);
        }
        let (mut values, mut bytes) = (Map::new(), 0);
        for round in 1..=rounds {
            for &condition in &order {
                let Some(found) = child(condition, round) else { continue };
                if condition == Recorded {
                    bytes = found["runtime"]["event_bytes"].as_u64().unwrap_or(0);
                }
                let list = values.entry(condition.name()).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(found["value"].clone()));
            }
            order.reverse();
        }
        let (counted, sampled) = (child(Counters, 1), child(Samples, 1));
        let part = |found: &Option<Value>, name: &str| {
            found.as_ref().map_or(Value::Null, |found| found[name].clone())
        };
        let variant = self.case.variant;
        let document = json!({
            "workload": self.case.workload.name,
            "variant": variant.name,
            "about": variant.about,
            "unit": variant.unit,
            "better": if variant.better == Better::Lower { "lower" } else { "higher" },
            "clean": values,
            "event_bytes": bytes,
            "diagnostic": {
                "value": part(&counted, "value"),
                "wall_nanos": part(&counted, "wall_nanos"),
                "steal": part(&counted, "steal"),
                "runtime": part(&counted, "runtime"),
                "process": part(&counted, "process"),
                "machine": part(&counted, "machine"),
                "samples": part(&sampled, "samples"),
            },
            "failures": failures,
        });
        (document, failures)
    }

    /// Runs a child. Keeps what it printed, whatever it is.
    fn child(&self, condition: Condition, round: u32) -> Result<Value, Failure> {
        let unpadded = || self.programs.unpadded.as_ref().map_err(String::as_str);
        let program = match condition {
            Condition::Unpadded => unpadded()?,
            _ => &self.programs.padded,
        };
        let mut command = Command::new(program);
        let (workload, variant) = (self.case.workload.name, self.case.variant.name);
        command.args(["evidence-once", workload, variant]);
        let watched: &[&str] = match condition {
            Condition::Plain | Condition::Unpadded => &[],
            Condition::Recorded => &["--record"],
            Condition::Counters => &["--watch", "counters"],
            Condition::Samples => &["--watch", "samples"],
        };
        command.args(watched);
        if self.quick {
            command.arg("--quick");
        }
        let output = command.stdin(Stdio::null()).output()?;
        let name = format!("{workload}.{variant}.{}.{round}", condition.name());
        fs::write(self.raw.join(format!("{name}.json")), &output.stdout)?;
        if !output.stderr.is_empty() {
            fs::write(self.raw.join(format!("{name}.log")), &output.stderr)?;
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default().to_owned();
            return Err(format!("{}, {last}", output.status).into());
        }
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let padded = condition != Condition::Unpadded;
        if document["padded"] != padded {
            return Err(format!("{} has the wrong padding", program.display()).into());
        }
        Ok(document)
    }
}

fn document(
    conditions: &Conditions,
    noise: &Noise,
    programs: &Programs,
    rounds: u32,
    cases: Vec<Value>,
) -> Value {
    let conditions: Map<String, Value> = conditions
        .lines()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    json!({
        "conditions": conditions,
        "noise": { "text": noise.to_string(), "trusted": noise.is_quiet(), "steal": noise.steal },
        "rounds": rounds,
        "unpadded": programs.unpadded.as_ref().err().map(|why| json!({ "absent": why })),
        "cases": cases,
    })
}
