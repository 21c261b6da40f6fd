//! `parcae`: the program to try the runtime with.
//!
//! One file per subcommand: `demo/` shows what the runtime does, `bench.rs` measures it. To add one, write its file,
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

mod args;
mod bench;
mod demo;
mod stage;

use args::{Args, Command};
use clap::Parser;
use stage::Stage;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Charges the running task for what it allocates; elsewhere it is the system's allocator. A tour needs it.
#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

/// How the program ends, when not with success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failed = 1,
    Missing = 3, // 2 is clap's
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
    }
}

/// Says on standard error why it goes no further.
pub(crate) fn complain(message: impl Display) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // If that is closed too there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {message}");
}
