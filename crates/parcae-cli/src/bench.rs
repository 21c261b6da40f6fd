//! `parcae bench`: runs the program `parcae-bench`, which links the peers and measures.
//!
//! It is a separate program for two reasons: running a demo must not require building a dozen other
//! runtimes, and the allocator that the demos need in this program would influence the peers'
//! results.
//!
//! Under `cargo run`, cargo builds and runs it from the same checkout, so that both are of the same
//! version. Otherwise it is the executable beside this program.
//!
//! By default it also writes a report: into cargo's target folder, or else into `bench-report` in
//! the current folder.

use crate::args::BenchArgs;
use crate::stage::Format;
use crate::{Exit, complain};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write, stderr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "parcae-bench";
/// The default output folder of `parcae-bench`.
const OUT: &str = "PARCAE_BENCH_OUT";

/// Help that is available before that program is built; it has the complete list.
const HELP: &str = "\
Measures the runtime and other libraries with the program parcae-bench, which is not built yet.
Its own help is longer. The first `parcae bench` under `cargo run` builds it, which takes minutes;
elsewhere `cargo install --path crates/parcae-bench` does.

Usage: parcae bench [OPTIONS] [WORKLOAD]...

  --list         the workloads, their variants and their peers; measures nothing
  --quick        fewer rounds and shorter loops: takes seconds, and is noisier
  --peer NAME    compare with this peer only; may be given several times
  --rounds N     measured rounds per workload
  --evidence     counters, samples, recording and padding instead of peers
  --out DIR      folder for the report
  --json, --tsv, --table    output format";

/// Whether an argument asks for help.
fn asks_for_help(args: &[OsString]) -> bool {
    let help = |arg: &OsString| arg == "--help" || arg == "-h";
    args.iter().any(help) || matches!(args, [only] if only == "help")
}

/// Replaces this process by that program; returns only on failure.
pub(crate) fn run(args: &BenchArgs, format: Format) -> Result<(), Exit> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let beside = beside.filter(|path| path.is_file());
    if beside.is_none() && asks_for_help(&args.rest) {
        // Help must not wait for the build, which takes minutes.
        println!("{HELP}");
        return Ok(());
    }
    let first = beside.is_none();
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
    if under_cargo().is_some() && first {
        // Not `complain`: nothing is wrong.
        let _ = writeln!(stderr(), "building {PROGRAM} and its peers, which takes minutes once");
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

/// The workspace of a package.
fn workspace(package: &Path) -> &Path {
    package.ancestors().nth(2).unwrap_or(Path::new("."))
}

/// The folder for the report, inside or outside of a checkout.
fn report_folder(package: Option<PathBuf>) -> PathBuf {
    match package {
        Some(package) => workspace(&package).join("target/bench-report"),
        None => PathBuf::from("bench-report"),
    }
}

/// The command that starts it.
fn program(cargo: Option<(PathBuf, PathBuf)>, beside: Option<PathBuf>) -> Option<Command> {
    if let Some((cargo, package)) = cargo {
        let workspace = workspace(&package);
        let mut command = Command::new(cargo);
        command.args(["run", "--release", "--package", PROGRAM, "--manifest-path"]);
        command.arg(workspace.join("Cargo.toml"));
        if !stderr().is_terminal() && beside.is_some() {
            command.arg("--quiet"); // but cargo shows the progress of the first build
        }
        command.arg("--");
        return Some(command);
    }
    let mut command = Command::new(beside?);
    command.arg0("parcae bench"); // its name in help and errors
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
