//! `parcae bench`: hands over to the program `parcae-bench`, which has the peers and does the measuring.
//!
//! A program of its own for two reasons: who wants to see a tour need not build a dozen other runtimes first, and
//! the allocator that tours need in this one would take part in the peers' figures.
//!
//! Under `cargo run`, cargo builds and runs it from the same checkout, so that both are of one state. Otherwise it
//! is the one that lies beside this program.
//!
//! Unless told otherwise it also writes its report: into the folder that cargo builds into, or else into
//! `bench-report` here.

use crate::args::BenchArgs;
use crate::stage::Format;
use crate::{Exit, complain};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stderr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "parcae-bench";
/// Where that writes its report if no argument says so.
const OUT: &str = "PARCAE_BENCH_OUT";

/// What can be said before that program is built; it has the whole list.
const HELP: &str = "\
Measures the runtime beside its peers, by the program parcae-bench, which is not built yet.
It says more about its arguments when it is: the first `parcae bench` under `cargo run` builds it, which takes
minutes; elsewhere `cargo install --path crates/parcae-bench` does.

Usage: parcae bench [OPTIONS] [WORKLOAD]...

  --list         the workloads, their variants and their peers; measures nothing
  --quick        fewer rounds and shorter loops: some seconds in all, and noisier
  --peer NAME    compare with this peer only; may be given several times
  --rounds N     measured rounds per workload
  --out DIR      where the report goes
  --json, --tsv, --table    how figures are printed";

/// Whether only the page of help is wanted.
fn asks_for_help(args: &[OsString]) -> bool {
    matches!(args, [only] if only == "--help" || only == "-h" || only == "help")
}

/// Becomes that program; returns only if it cannot.
pub(crate) fn run(args: &BenchArgs, format: Format) -> Result<(), Exit> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let beside = beside.filter(|path| path.is_file());
    if beside.is_none() && asks_for_help(&args.rest) {
        // It is not built, which takes minutes: nobody should have to wait for a page of help.
        println!("{HELP}");
        return Ok(());
    }
    let Some(mut command) = program(under_cargo(), beside) else {
        complain(format_args!(
            "{PROGRAM} is not beside this program. In a checkout of parcae:\n  \
             cargo run --release -p {PROGRAM}            runs it\n  \
             cargo install --path crates/{PROGRAM}       puts it where `cargo install` put this one"
        ));
        return Err(Exit::Missing);
    };
    if format == Format::Json {
        command.arg("--json");
    }
    if env::var_os(OUT).is_none() {
        command.env(OUT, report_folder(under_cargo().map(|(_, package)| package)));
    }
    let error = command.args(&args.rest).exec();
    complain(format_args!("cannot run {:?}: {error}", command.get_program()));
    Err(Exit::Missing)
}

/// Cargo and the folder of this package, if it was cargo that started this program.
fn under_cargo() -> Option<(PathBuf, PathBuf)> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let ours = folder.file_name() == Some(OsStr::new(env!("CARGO_PKG_NAME")));
    ours.then_some((PathBuf::from(env::var_os("CARGO")?), folder))
}

/// The workspace that a package is in.
fn workspace(package: &Path) -> &Path {
    package.ancestors().nth(2).unwrap_or(Path::new("."))
}

/// Where the report goes, if this is part of a checkout or not.
fn report_folder(package: Option<PathBuf>) -> PathBuf {
    match package {
        Some(package) => workspace(&package).join("target/bench-report"),
        None => PathBuf::from("bench-report"),
    }
}

/// How to start it.
fn program(cargo: Option<(PathBuf, PathBuf)>, beside: Option<PathBuf>) -> Option<Command> {
    if let Some((cargo, package)) = cargo {
        let workspace = workspace(&package);
        let mut command = Command::new(cargo);
        command.args(["run", "--release", "--package", PROGRAM, "--manifest-path"]);
        command.arg(workspace.join("Cargo.toml"));
        if !stderr().is_terminal() {
            command.arg("--quiet"); // on a terminal cargo's progress shows what takes so long
        }
        command.arg("--");
        return Some(command);
    }
    let mut command = Command::new(beside?);
    command.arg0("parcae bench"); // what its help and its errors call it
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_cargo_it_is_built_from_the_same_checkout() {
        let folder = PathBuf::from("/src/parcae/crates/parcae-cli");
        let command = program(Some(("cargo".into(), folder)), Some("/bin/parcae-bench".into()));
        let command = command.unwrap();
        assert_eq!(command.get_program(), "cargo");
        let args: Vec<_> = command.get_args().collect();
        assert!(args.contains(&OsStr::new("/src/parcae/Cargo.toml")), "{args:?}");
        assert_eq!(args.last(), Some(&OsStr::new("--")));
    }

    #[test]
    fn the_report_is_no_part_of_the_sources() {
        let package = PathBuf::from("/src/parcae/crates/parcae-cli");
        assert_eq!(report_folder(Some(package)), Path::new("/src/parcae/target/bench-report"));
        assert_eq!(report_folder(None), Path::new("bench-report"));
    }

    #[test]
    fn elsewhere_it_is_the_one_beside_or_none() {
        let command = program(None, Some("/bin/parcae-bench".into())).unwrap();
        assert_eq!(command.get_program(), "/bin/parcae-bench");
        assert!(program(None, None).is_none());
    }
}
