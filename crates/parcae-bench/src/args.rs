//! The command line. In the library, so that another tool can offer it as a subcommand.

use crate::case::{Peer, Workload};
use crate::count::Operation;
use crate::evidence::OnceArgs;
use crate::workloads::WORKLOADS;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Measures workloads of parcae and of its peers, interleaved, in one run.
///
/// Results go to standard output: a table on a terminal, otherwise one line per result (workload,
/// peer, variant, value, unit, separated by tabs). Conditions and progress go to standard error.
#[derive(Debug, Clone, Parser)]
#[command(name = "parcae-bench", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// A command other than measuring time
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Workloads to measure; all if none is named
    #[arg(value_name = "WORKLOAD", value_parser = workload())]
    pub workloads: Vec<&'static Workload>,

    /// Fewer rounds and shorter loops: takes seconds, and is noisier
    #[arg(long)]
    pub quick: bool,

    /// Compare with this peer only; may be given several times. Parcae always runs
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<Peer>,

    /// List the workloads, their variants and their peers, and measure nothing
    #[arg(long)]
    pub list: bool,

    /// Measured rounds per workload, instead of the workload's default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,

    /// Write report.html, figures.tsv and figures.json into this folder, which is created if
    /// necessary; default: the folder in PARCAE_BENCH_OUT, if set
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Fail if a floor of the specification is missed by far, or if no measured variant has a
    /// floor; a peer that cannot be measured is reported and does not fail the run
    #[arg(long)]
    pub floors: bool,

    /// Report where the time of parcae goes instead of comparing it with its peers: counters of the
    /// scheduler, the kernel and the processor, samples by function, and each figure again with a
    /// recording and without the padding of cache lines. Written into the folder `evidence` of the
    /// report, with the output of every process
    #[arg(long, conflicts_with_all = ["floors", "peers", "table", "tsv"])]
    pub evidence: bool,

    /// The program parcae-bench-unpadded for --evidence; default: built by cargo, or beside this
    /// program
    #[arg(long, value_name = "FILE", requires = "evidence")]
    pub unpadded: Option<PathBuf>,

    /// Print one JSON document instead of a table: conditions, results of all rounds, targets,
    /// failures
    #[arg(long, conflicts_with_all = ["table", "tsv"])]
    pub json: bool,

    /// Print one line per result, even on a terminal
    #[arg(long, conflicts_with = "table")]
    pub tsv: bool,

    /// Print a table, even if standard output is not a terminal
    #[arg(long)]
    pub table: bool,
}

/// Other commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Count the instructions of single operations under valgrind, and compare them with a baseline
    Count(CountArgs),
    /// Repeat one of the operations, and do nothing else: the process that `count` counts
    #[command(hide = true)]
    CountOnce {
        #[allow(missing_docs)]
        operation: Operation,
        #[allow(missing_docs)]
        times: usize,
    },
    /// Measure one variant, and print what was found: a process of `--evidence`
    #[command(hide = true)]
    EvidenceOnce(OnceArgs),
}

/// The arguments of `count`.
#[derive(Debug, Clone, clap::Args)]
pub struct CountArgs {
    /// Operations to count; all if none is named
    #[arg(value_name = "OPERATION")]
    pub operations: Vec<Operation>,

    /// Write the counts into the baseline instead of comparing with it
    #[arg(long)]
    pub accept: bool,

    /// The baseline
    #[arg(long, value_name = "FILE", default_value = "crates/parcae-bench/instructions.tsv")]
    pub baseline: PathBuf,
}

impl Args {
    /// Whether results are printed as a table.
    pub(crate) fn wants_table(&self) -> bool {
        self.table || (!self.tsv && !self.json && io::stdout().is_terminal())
    }

    /// The folder of the report, if any.
    pub(crate) fn out_dir(&self) -> Option<PathBuf> {
        self.out.clone().or_else(|| std::env::var_os("PARCAE_BENCH_OUT").map(PathBuf::from))
    }

    /// The workloads to run: each once, in the order of `--list`. Not those that have no
    /// rounds.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = &'static Workload> {
        let named = |workload: &&Workload| {
            self.workloads.is_empty() || self.workloads.iter().any(|w| w.name == workload.name)
        };
        let all = WORKLOADS.iter().copied();
        all.filter(named).filter(|workload| self.rounds_of(workload) > 0)
    }

    /// Whether this peer takes part.
    pub(crate) fn wants(&self, peer: Peer) -> bool {
        peer == Peer::Parcae || self.peers.is_empty() || self.peers.contains(&peer)
    }

    /// How many rounds of this workload are measured.
    pub(crate) fn rounds_of(&self, workload: &Workload) -> u32 {
        let own = if self.quick { workload.rounds.quick } else { workload.rounds.full };
        self.rounds.unwrap_or(own)
    }
}

/// Accepts the names of workloads; its error lists them.
fn workload() -> impl TypedValueParser<Value = &'static Workload> {
    PossibleValuesParser::new(WORKLOADS.iter().map(|workload| workload.name)).try_map(|name| {
        WORKLOADS.iter().copied().find(|workload| workload.name == name).ok_or("unknown workload")
    })
}

impl ValueEnum for Peer {
    fn value_variants<'a>() -> &'a [Peer] {
        &Peer::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("parcae-bench").chain(args.iter().copied()))
    }

    fn refusal(args: &[&str]) -> clap::Error {
        parse(args).expect_err("accepted")
    }

    #[test]
    fn nothing_named_means_everything() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.chosen().count(), WORKLOADS.len());
        assert!(Peer::ALL.iter().all(|&peer| args.wants(peer)));
    }

    #[test]
    fn workloads_run_once_and_in_the_order_of_the_list() {
        let args = parse(&["stack", "switch", "stack"]).unwrap();
        let names: Vec<_> = args.chosen().map(|workload| workload.name).collect();
        assert_eq!(names, ["switch", "stack"]);
    }

    #[test]
    fn the_large_ones_are_left_out_of_quick_runs_unless_rounds_are_given() {
        let count = |args: &[&str]| parse(args).unwrap().chosen().count();
        assert!(WORKLOADS.iter().all(|workload| workload.rounds.full > 0));
        assert_eq!(count(&["--quick", "million"]), 0);
        assert_eq!(count(&["--quick", "--rounds", "1", "million"]), 1);
    }

    #[test]
    fn parcae_runs_whatever_the_filter_says() {
        let args = parse(&["--peer", "generator"]).unwrap();
        assert!(args.wants(Peer::Parcae));
        assert!(args.wants(Peer::Generator));
        assert!(!args.wants(Peer::Corosensei));
    }

    #[test]
    fn an_unknown_workload_is_answered_with_the_known_ones() {
        let error = refusal(&["swich"]);
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        for workload in WORKLOADS {
            assert!(text.contains(workload.name), "{text}");
        }
    }

    #[test]
    fn an_unknown_peer_is_answered_with_the_known_ones() {
        let error = refusal(&["--peer", "boost"]);
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        for peer in Peer::ALL {
            assert!(text.contains(peer.name()), "{text}");
        }
    }

    #[test]
    fn no_rounds_and_two_formats_are_refused() {
        assert_eq!(refusal(&["--rounds", "0"]).kind(), ErrorKind::ValueValidation);
        assert_eq!(refusal(&["--tsv", "--table"]).kind(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn rounds_come_from_the_flag_or_from_the_workload() {
        let switch = WORKLOADS[0];
        assert_eq!(parse(&[]).unwrap().rounds_of(switch), switch.rounds.full);
        assert_eq!(parse(&["--quick"]).unwrap().rounds_of(switch), switch.rounds.quick);
        assert_eq!(parse(&["--quick", "--rounds", "4"]).unwrap().rounds_of(switch), 4);
    }
}
