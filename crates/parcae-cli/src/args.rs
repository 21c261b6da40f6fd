//! The command line.

use crate::demo::{DEMOS, Demo};
use crate::stage::Format;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Look at the parcae runtime: tours of what it does, measurements beside its peers.
///
/// Colours go away where NO_COLOR is set or output is not a terminal.
#[derive(Debug, Parser)]
#[command(name = "parcae", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// One JSON document on standard output instead of text
    #[arg(long, global = true)]
    json: bool,
}

const EXIT_CODES: &str = "\
Exit codes: 0 all is well; 1 something is not as it should be; 2 wrong arguments; \
3 something needed is missing.";

impl Args {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Bench(BenchArgs),
}

/// Short tours with live output; all of them in turn if none is named
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Which ones; `--list` says what they show
    #[arg(value_name = "NAME", value_parser = demo())]
    pub(crate) names: Vec<&'static Demo>,

    /// List the tours and run none
    #[arg(long)]
    pub(crate) list: bool,

    /// Less of everything: a second or two in all
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Measure the runtime beside its peers; arguments are those of parcae-bench
///
/// Runs the program parcae-bench, which is built on first use where this one was started by `cargo run`, so that
/// nobody who does not measure has to build the peers. Elsewhere it has to be installed beside this program. Shows a
/// table with ratios to each peer and the targets, and writes a page with plots and the figures beside it: into
/// target/bench-report of the checkout or bench-report, or where --out says.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArgs {
    /// `parcae bench --help` lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}

/// Accepts the names of tours; its error lists them.
fn demo() -> impl TypedValueParser<Value = &'static Demo> {
    let names = DEMOS.iter().map(|demo| PossibleValue::new(demo.name).help(demo.about));
    PossibleValuesParser::new(names)
        .try_map(|name| DEMOS.iter().find(|demo| demo.name == name).ok_or("no such tour"))
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
}
