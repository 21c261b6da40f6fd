//! The programs of the book whose output is shown.
//!
//! `program` alone runs each of them in a child process and reports those whose output differs;
//! `program N` runs the one with that number. `tests/outputs.rs` calls it.

#![allow(unreachable_pub, missing_docs, missing_debug_implementations, unused)] // they are examples

use std::process::{Command, ExitCode};

struct Program {
    page: &'static str,
    line: usize,
    output: &'static str,
    start: fn() -> parcae::Result<()>,
}

#[allow(clippy::all, unconditional_recursion)]
mod made {
    use super::Program;
    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
    pub(super) fn programs() -> &'static [Program] {
        PROGRAMS
    }
}

fn main() -> ExitCode {
    let programs = made::programs();
    if let Some(number) = std::env::args().nth(1) {
        let program = number.parse().ok().and_then(|number: usize| programs.get(number));
        let Some(program) = program else {
            eprintln!("no program has the number {number}; there are {}", programs.len());
            return ExitCode::from(2);
        };
        return match (program.start)() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("Error: {error:?}");
                ExitCode::FAILURE
            }
        };
    }
    let mut wrong = 0;
    for (number, program) in programs.iter().enumerate() {
        if let Err(why) = check(number, program) {
            wrong += 1;
            println!("{}:{}: {why}", program.page, program.line);
        }
    }
    println!("{} programs, {wrong} wrong", programs.len());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a program in a child process and compares its output.
fn check(number: usize, program: &Program) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let child =
        Command::new(me).arg(number.to_string()).output().map_err(|error| error.to_string())?;
    if !child.status.success() {
        return Err(format!("{}\n{}", child.status, String::from_utf8_lossy(&child.stderr)));
    }
    let printed = String::from_utf8_lossy(&child.stdout);
    if printed != program.output {
        return Err(format!("it prints\n{printed}and the page says\n{}", program.output));
    }
    Ok(())
}
