//! `parcae-bench`: measures workloads of parcae and of its peers. The library does the work.

use clap::Parser;
use parcae_bench::Args;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Errors in the arguments end here, with a list of what is known and exit code 2.
    let args = Args::parse();
    match parcae_bench::run(&args) {
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
