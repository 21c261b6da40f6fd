//! The command line.

use crate::demo::{DEMOS, Demo};
use crate::stage::Format;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Try, measure and inspect the parcae runtime: demos, benchmarks against other runtimes, and views
/// into a running program.
///
/// Colours are off if NO_COLOR is set or output is not a terminal.
#[derive(Debug, Parser)]
#[command(name = "parcae", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 failure; 2 wrong arguments; 3 something required is missing; \
4 the inspected program refuses, ends, or is not a parcae program.";

impl Args {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Bench(BenchArgs),
    Top(TopArgs),
    Dump(DumpArgs),
    Trace(TraceArgs),
}

/// Show all tasks of a running program: what they wait for, for how long, and where
///
/// The program has to have opened a socket: `let _attached = rt.attach(AttachOpts::new())?;`. The
/// dump is a tree of root tasks, the nurseries that they have opened, and the tasks in these, each
/// with its backtrace. No worker has to cooperate, so it also works when all of them are stuck.
#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Full backtraces, including functions of the runtime and of the standard library
    #[arg(long)]
    pub(crate) full: bool,
}

/// The program to inspect
#[derive(Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Process id, or path of the socket; not needed if only one program has a socket in the
    /// default folder
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) target: Option<OsString>,
}

/// Watch a running program: its workers, nurseries and tasks
///
/// The program has to have opened a socket: `let _attached = rt.attach(AttachOpts::new())?;`. If
/// the program allows it (`AttachOpts::allow_cancel`, `allow_recharge`), tasks can be cancelled and
/// nurseries recharged from here.
#[derive(Debug, clap::Args)]
#[command(after_long_help = TOP_KEYS)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Seconds between updates
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,

    /// Print one screen as plain text and exit; for pipes
    #[arg(long)]
    pub(crate) once: bool,
}

const TOP_KEYS: &str = "\
Keys:
  ↑ ↓ PgUp PgDn Home End   choose a row
  Enter                    details of the task, with its stack; Esc goes back
  t                        tree of nurseries, or a flat list
  s, o                     sort by the next column; reverse the order
  /                        show only rows with this text; Enter keeps the filter, Esc removes it
  c                        cancel the task, after a question
  r                        recharge the nursery with the amounts that you type
  + -                      update less or more often
  q                        leave";

/// Record a trace of a running program, or summarise one
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Record(RecordArgs),
    Summary(SummaryArgs),
}

/// Record for a given time, into a file for https://ui.perfetto.dev and for `parcae trace summary`
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Output file
    #[arg(long, short, value_name = "FILE", default_value = "parcae-trace.json")]
    pub(crate) out: PathBuf,

    /// Duration
    #[arg(long, short, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Events to keep for each worker, 32 bytes each; older events are overwritten
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 16,
        value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) events: u32,
}

/// Summarise a trace: time per worker, time per task name, and the longest waits
#[derive(Debug, clap::Args)]
pub(crate) struct SummaryArgs {
    /// A trace in the JSON that `trace record` and `Trace::write_chrome` write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Number of longest waits to list
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pub(crate) waits: usize,
}

/// Parses seconds, with an optional fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.05..=3_600.0).contains(&seconds) {
        return Err("seconds from 0.05 to 3600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Run short demos with live output; all of them in turn if none is named
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Demos to run; `--list` describes them
    #[arg(value_name = "NAME", value_parser = demo())]
    pub(crate) names: Vec<&'static Demo>,

    /// List the demos and run none
    #[arg(long)]
    pub(crate) list: bool,

    /// Run shorter versions: a second or two in total
    #[arg(long)]
    pub(crate) quick: bool,

    /// Run the demo `million` with a million fibers, which takes about 5 GiB; otherwise with a
    /// hundred thousand
    #[arg(long, conflicts_with = "quick")]
    pub(crate) million: bool,
}

/// Measure the runtime and other libraries; arguments are those of parcae-bench
///
/// Runs the program parcae-bench. Under `cargo run` it is built on first use, so that only users
/// who measure have to build the other libraries; elsewhere it has to be installed beside this
/// program. Prints a table with ratios to each library and the targets, and writes a report with
/// plots and data: into target/bench-report of the checkout, into bench-report elsewhere, or into
/// the folder given by --out.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArgs {
    /// `parcae bench --help` lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}

/// Accepts the names of demos; its error lists them.
fn demo() -> impl TypedValueParser<Value = &'static Demo> {
    let names = DEMOS.iter().map(|demo| PossibleValue::new(demo.name).help(demo.about));
    PossibleValuesParser::new(names)
        .try_map(|name| DEMOS.iter().find(|demo| demo.name == name).ok_or("no such demo"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_follows_bench_is_left_alone() {
        let args =
            Args::try_parse_from(["parcae", "bench", "--quick", "switch", "--help"]).unwrap();
        let Command::Bench(bench) = args.command else { panic!("{args:?}") };
        assert_eq!(bench.rest, ["--quick", "switch", "--help"]);
    }

    #[test]
    fn times_are_seconds_within_reason() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "NaN", "inf", "4000", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
