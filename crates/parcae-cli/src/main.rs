//! `parcae`: the command-line program.
//!
//! One file per subcommand: `demo/` shows the runtime at work, `bench.rs` measures it; `top/`,
//! `dump.rs`, `trace/` and `policy/` inspect a running program through the connection of
//! `target.rs`; `replay/` shows a run that the lab has found; `lang/` runs and checks programs of
//! the language. To add a subcommand, write its file, put its arguments into [`args::Command`] and
//! its call into [`run`].
//! All of them print through `stage.rs`.
//!
//! # Exit codes
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | failure: a demo broke its promise, a measurement failed, output could not be written |
//! | 2 | wrong arguments; standard error has the correct usage |
//! | 3 | something required is missing; standard error says how to get it |
//! | 4 | the inspected program refuses, ends, or is not a parcae program |

mod allocator;
mod args;
mod bench;
mod demo;
mod dump;
mod lang;
mod policy;
mod replay;
mod stage;
mod target;
mod top;
mod trace;

use args::{Args, Command, TraceArgs, TraceCommand};
use clap::Parser;
use stage::Stage;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use target::Trouble;

/// Charges allocations to the running task; elsewhere it is the system's allocator. A demo needs
/// it.
#[global_allocator]
static ALLOCATOR: allocator::Switched = allocator::Switched::new();

/// Exit codes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failed = 1,
    /// Most of these are clap's.
    Usage = 2,
    Missing = 3,
    Target = 4,
}

fn main() -> ExitCode {
    // Wrong arguments end here, with code 2.
    let args = Args::parse();
    if let Command::Run(chosen) = &args.command {
        return match lang::run(chosen) {
            // The value of `main`, as far as an exit code can have it.
            Ok(value) => ExitCode::from(u8::try_from(value).unwrap_or(1)),
            Err(exit) => ExitCode::from(exit as u8),
        };
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => ExitCode::from(exit as u8),
    }
}

fn run(args: &Args) -> Result<(), Exit> {
    match &args.command {
        Command::Demo(demo) => demo::run(demo, &Stage::new(args.format())),
        Command::Run(chosen) => lang::run(chosen).map(|_| ()),
        Command::Check(chosen) => lang::check(chosen),
        Command::Ir(chosen) => lang::ir(chosen),
        Command::Fmt(chosen) => lang::fmt(chosen),
        Command::Bench(bench) => bench::run(bench, args.format()),
        Command::Top(top) => told(top::run(top, args.format())),
        Command::Dump(dump) => told(dump::run(dump, args.format())),
        Command::Policy(chosen) => policy::run(chosen, args.format()),
        Command::Trace(TraceArgs { command: TraceCommand::Record(record) }) => {
            told(trace::record::run(record, args.format()))
        }
        Command::Trace(TraceArgs { command: TraceCommand::Summary(summary) }) => {
            trace::summary::run(summary, args.format())
        }
        Command::Replay(chosen) => replay::replay(chosen, args.format()),
        Command::Shrink(chosen) => replay::shrink(chosen, args.format()),
        Command::Explain(chosen) => replay::explain(chosen, args.format()),
    }
}

/// Reports a problem with the inspected program.
fn told(outcome: Result<(), Trouble>) -> Result<(), Exit> {
    outcome.map_err(|trouble| {
        complain(&trouble);
        trouble.exit()
    })
}

/// Prints an error to standard error.
pub(crate) fn complain(message: impl Display) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // If standard error is closed too, the message is lost.
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {message}");
}
