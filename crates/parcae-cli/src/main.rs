//! `parcae`: the program to try the runtime with.
//!
//! One file per subcommand: `demo/` shows what the runtime does, `bench.rs` measures it; `top/`, `dump.rs` and `trace/`
//! look into a running program, which `target.rs` finds and asks. To add one, write its file,
//! put its arguments into [`args::Command`] and its call into [`run`]. `stage.rs` is what all of them print with.
//!
//! # Exit codes
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done, and everything was as it should be |
//! | 1 | something was not: a tour did not show what it promises, a measurement failed, output could not be written |
//! | 2 | the arguments were wrong; standard error says what would be right |
//! | 3 | something that is needed is not there; standard error says how to get it |
//! | 4 | the program to look into is there, but denies it, says no, ends meanwhile, or is none of parcae's |

mod args;
mod bench;
mod demo;
mod dump;
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

/// Charges the running task for what it allocates; elsewhere it is the system's allocator. A tour needs it.
#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

/// How the program ends, when not with success.
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
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => ExitCode::from(exit as u8),
    }
}

fn run(args: &Args) -> Result<(), Exit> {
    match &args.command {
        Command::Demo(demo) => demo::run(demo, &Stage::new(args.format())),
        Command::Bench(bench) => bench::run(bench, args.format()),
        Command::Top(top) => told(top::run(top, args.format())),
        Command::Dump(dump) => told(dump::run(dump, args.format())),
        Command::Trace(TraceArgs { command: TraceCommand::Record(record) }) => {
            told(trace::record::run(record, args.format()))
        }
        Command::Trace(TraceArgs { command: TraceCommand::Summary(summary) }) => {
            trace::summary::run(summary, args.format())
        }
    }
}

/// Says what is wrong with the program that was looked into.
fn told(outcome: Result<(), Trouble>) -> Result<(), Exit> {
    outcome.map_err(|trouble| {
        complain(&trouble);
        trouble.exit()
    })
}

/// Says on standard error why it goes no further.
pub(crate) fn complain(message: impl Display) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // If that is closed too there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {message}");
}
