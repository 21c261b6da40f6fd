//! The command line.

use crate::demo::{DEMOS, Demo};
use crate::lang::args::{CheckArgs, FmtArgs, IrArgs, RunArgs};
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
    Run(RunArgs),
    Check(CheckArgs),
    Ir(IrArgs),
    Fmt(FmtArgs),
    Bench(BenchArgs),
    Top(TopArgs),
    Dump(DumpArgs),
    Policy(PolicyArgs),
    Trace(TraceArgs),
    Replay(ReplayArgs),
    Shrink(ShrinkArgs),
    Explain(ExplainArgs),
}

/// Step through the run of a token, forwards and backwards
///
/// A test under the lab that fails prints a token. This runs the test again with that token, and
/// shows each step: the operation, the states of all tasks, the object that each waits for. Without
/// a terminal, or with `--until`, it prints the steps up to there, and all tasks with backtraces.
#[derive(Debug, clap::Args)]
#[command(after_long_help = REPLAY_KEYS)]
pub(crate) struct ReplayArgs {
    /// The token, or a file that a test has written with PARCAE_RECORD
    #[arg(value_name = "TOKEN|FILE")]
    pub(crate) run: OsString,

    /// Print the run up to this step, and all tasks before it with their backtraces
    #[arg(long, value_name = "STEP")]
    pub(crate) until: Option<usize>,

    /// Write a picture of the run, a page of HTML, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "until")]
    pub(crate) html: Option<PathBuf>,

    /// The command that runs the test: cargo test NAME -- --exact
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
}

const REPLAY_KEYS: &str = "\
Keys:
  ← → ↑ ↓ n p              previous or next step; PgUp PgDn ten steps, Home End
  Tab, Shift-Tab           choose a task
  t, T                     next or previous step of that task
  f, F                     next or previous switch that the lab forced
  !                        the step after which the failure could not be avoided
  g, or a number           go to a step
  d                        all tasks at this step, with backtraces; runs the test again
  q                        leave";

/// Reduce a run to the switches that matter, and print its new token
///
/// Failures are shrunk before they are printed. This is for other tokens: those of runs that ended
/// the process, or that were kept from an earlier version of the test.
#[derive(Debug, clap::Args)]
pub(crate) struct ShrinkArgs {
    /// The token
    #[arg(value_name = "TOKEN")]
    pub(crate) token: OsString,

    /// The command that runs the test: cargo test NAME -- --exact
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Explain a failure: a timeline, and the step after which it could not be avoided
///
/// The run is shrunk. Then it is repeated up to each of some steps, and goes on at random from
/// there. The step after which no such continuation passes has decided the failure.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The token
    #[arg(value_name = "TOKEN")]
    pub(crate) token: OsString,

    /// Random continuations for each step that is tried [default: 500]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) samples: Option<u64>,

    /// The command that runs the test: cargo test NAME -- --exact
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
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

/// Show and change the policy of a running program: shares, admission, the service
///
/// The program has to have a policy and to allow this on its socket:
/// `rt.attach(AttachOpts::new().allow_policy(&policy))`. Changes are in the memory of the program;
/// the file of `load` is where they are kept.
#[derive(Debug, clap::Args)]
#[command(after_long_help = POLICY_FILE)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,

    /// The program: process id, or path of the socket; not needed if only one program has a socket
    /// in the default folder
    #[arg(long, global = true, value_name = "PID|SOCKET")]
    pub(crate) on: Option<OsString>,
}

const POLICY_FILE: &str = "\
A policy file:
  [tenant.\"web/search\"]      the tenant `search` inside of `web`
  weight = 4096               1024 is normal
  latency = \"2ms\"            sensitive, normal, batch, or the length of a slice
  [profile.batch]             tenants with this hint: normal, latency-sensitive, batch, driver,
  weight = 256                poller, agent
  [contexts]                  admission: thousandths of a worker for one context, for all of a
  each = 300                  worker (together), the highest band
  [context.audio]             terms of contexts that the program admits by this name
  budget = \"2ms\"
  period = \"10ms\"";

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// The policy in force, its service, and the shares of all tenants
    Show,
    /// Check a policy file: its rules, and whether its contexts fit on the workers together
    Check {
        /// The file
        file: PathBuf,
        /// Number of workers that contexts are admitted to
        #[arg(long, default_value = "2", value_parser = clap::value_parser!(u16).range(1..=256))]
        workers: u16,
    },
    /// Replace the rules of the operator by those of a file
    Load {
        /// The file
        file: PathBuf,
        /// Stay, and load the file again whenever it changes; a wrong file changes nothing
        #[arg(long)]
        follow: bool,
    },
    /// Set a rule of the operator, which goes before the service and the program
    Set {
        /// The address of the tenant: names from the outermost tenant on, with `/` between them
        tenant: String,
        /// weight=2048, latency=2ms
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
    },
    /// Remove a rule of the operator
    Unset {
        /// The address of the tenant
        tenant: String,
    },
    /// A tenant: its weight and why, the shares that it wants, could have and got
    Explain {
        /// The address of the tenant
        tenant: String,
    },
    /// The last decisions, changes and refusals
    History,
    /// Put the built-in policy in force and refuse decisions of the service, until `lift`
    Fallback,
    /// Let the service decide again
    Lift,
    /// Print decisions, changes and refusals as they happen
    Watch,
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
