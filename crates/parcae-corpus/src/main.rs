//! Measures the lab on the corpus; see the crate's documentation for the figures.
//!
//! ```sh
//! cargo run --release -p parcae-corpus                            # all programs, a table
//! cargo run --release -p parcae-corpus -- --tsv > figures.tsv     # a figure a line
//! cargo run --release -p parcae-corpus -- --quick din_phil        # less of some
//! cargo run --release -p parcae-corpus -- fixed                   # many schedules of each repair
//! cargo run --release -p parcae-corpus -- feedback                # strategies, side by side
//! cargo run --release -p parcae-corpus --features shuttle 2>/dev/null     # beside Shuttle
//! ```
//!
//! Shuttle writes a line to standard error for each failure.

mod figures;

use clap::{Parser, ValueEnum};
use figures::Figures;
use parcae::lab::Strategy;
use parcae_corpus::measure::{self, Bounds, median};
use parcae_corpus::{CORPUS, Entry};
use std::process::ExitCode;
use std::time::Duration;

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Schedules and time until each bug is found, the share of failing schedules, and more.
    Buggy,
    /// Many schedules of each fixed program: none may fail.
    Fixed,
    /// The price of a schedule: ten tasks that yield four times.
    Yields,
    /// Schedules until each bug is found, for each strategy alone: feedback beside the others.
    Feedback,
    /// The same for Shuttle, where it has the program.
    Shuttle,
}

/// Measures the lab of Parcae on known concurrency bugs.
#[derive(Debug, Parser)]
struct Options {
    /// Measurements, and parts of the names of programs. Default: all but `fixed` and `feedback`.
    words: Vec<String>,
    /// Hunts for the first failure, each with a seed of its own.
    #[arg(long, default_value_t = 20)]
    hunts: u64,
    /// Schedules for each share of failing ones.
    #[arg(long, default_value_t = 2_000)]
    schedules: u64,
    /// Schedules of each fixed program.
    #[arg(long, default_value_t = 100_000)]
    fixed: u64,
    /// A tenth of the schedules, and three hunts.
    #[arg(long)]
    quick: bool,
    /// Lines for programs to read: program, tool, strategy, figure, value.
    #[arg(long)]
    tsv: bool,
}

/// The longest time of a hunt for a first failure, and of a share.
const HUNT: Duration = Duration::from_secs(60);
const SHARE: Duration = Duration::from_secs(10);

/// The strategies, with the names of their columns.
const STRATEGIES: [(Strategy, &str); 9] = [
    (Strategy::RandomWalk, "random"),
    (Strategy::RandomSlices, "slices"),
    (Strategy::Pct, "pct"),
    (Strategy::Pos, "pos"),
    (Strategy::Urw, "urw"),
    (Strategy::RoundRobin, "robin"),
    (Strategy::Starvation, "starve"),
    (Strategy::Exhaustive, "dfs"),
    (Strategy::Feedback, "feedback"),
];

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        options.hunts = 3;
        options.schedules /= 10;
        options.fixed /= 10;
    }
    let (parts, names): (Vec<_>, Vec<_>) =
        options.words.iter().partition(|word| Part::from_str(word, true).is_ok());
    let parts: Vec<Part> = match parts.is_empty() {
        true => vec![Part::Buggy, Part::Yields, Part::Shuttle],
        false => parts.iter().flat_map(|word| Part::from_str(word, true)).collect(),
    };
    let chosen = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(*part));
    let programs: Vec<&Entry> = CORPUS.iter().filter(|entry| chosen(entry.name)).collect();
    if programs.is_empty() {
        eprintln!("no program has such a name; the names are in the table of the corpus");
        return ExitCode::FAILURE;
    }
    measure::quiet_panics();
    let mut figures = Figures::new(options.tsv);
    for part in parts {
        match part {
            Part::Buggy => buggy(&options, &programs, &mut figures),
            Part::Fixed => fixed(&options, &programs, &mut figures),
            Part::Yields => yields(&options, &mut figures),
            Part::Feedback => feedback(&options, &programs, &mut figures),
            Part::Shuttle => shuttle(&options, &programs, &mut figures),
        }
    }
    ExitCode::from(u8::from(figures.failed()))
}

fn buggy(options: &Options, programs: &[&Entry], figures: &mut Figures) {
    figures.title("buggy programs: the lab at its defaults, then each strategy alone");
    let few = Bounds { schedules: options.schedules, time: SHARE };
    for entry in programs {
        let bounds = Bounds { schedules: u64::MAX, time: HUNT };
        let seeds = (0..options.hunts).map(|hunt| hunt << 40);
        let firsts = measure::first_failures(entry.buggy, seeds, bounds);
        let mut row = figures.row(entry.name, "parcae");
        row.word("failure", entry.failing.name());
        let found = firsts.iter().flatten();
        row.number("defaults", "found", found.clone().count() as f64);
        row.number(
            "defaults",
            "other",
            found.filter(|first| first.kind != entry.failing).count() as f64,
        );
        row.maybe(
            "defaults",
            "schedules",
            median(firsts.iter().map(|first| Some(first.as_ref()?.schedules as f64))),
        );
        row.maybe(
            "defaults",
            "ms",
            median(firsts.iter().map(|first| Some(first.as_ref()?.time.as_secs_f64() * 1e3))),
        );
        row.maybe(
            "defaults",
            "switches",
            median(firsts.iter().map(|first| Some(first.as_ref()?.switches as f64))),
        );
        row.maybe(
            "defaults",
            "most switches",
            firsts.iter().flatten().map(|first| first.switches as f64).reduce(f64::max),
        );
        row.maybe(
            "defaults",
            "shrink ms",
            median(firsts.iter().map(|first| Some(first.as_ref()?.shrinking.as_secs_f64() * 1e3))),
        );
        row.maybe("fifo", "%", measure::fifo_share(entry, 200).percent());
        for (strategy, name) in STRATEGIES {
            row.maybe(name, "%", measure::share(entry, strategy, few).percent());
        }
        row.number("defaults", "fixed/s", measure::rate(entry.fixed, few).per_second());
        row.end();
    }
}

fn feedback(options: &Options, programs: &[&Entry], figures: &mut Figures) {
    figures.title("schedules until a bug is found, medians; a hunt without one counts as the most");
    let bounds = Bounds { schedules: options.schedules, time: HUNT };
    let compared = [
        (None, "defaults"),
        (Some(Strategy::RandomWalk), "random"),
        (Some(Strategy::Pct), "pct"),
        (Some(Strategy::Urw), "urw"),
        (Some(Strategy::Feedback), "feedback"),
    ];
    for entry in programs {
        let mut row = figures.row(entry.name, "parcae");
        for (strategy, name) in compared {
            let seeds = (0..options.hunts).map(|hunt| hunt << 40);
            let found = measure::schedules_to_first(entry.buggy, strategy, seeds, bounds);
            let missed = found.iter().filter(|first| first.is_none()).count();
            let counted = found.iter().map(|first| Some(first.unwrap_or(bounds.schedules) as f64));
            row.maybe(name, "schedules", median(counted));
            row.number(name, "missed", missed as f64);
        }
        row.end();
    }
}

fn fixed(options: &Options, programs: &[&Entry], figures: &mut Figures) {
    figures.title("fixed programs: no schedule may fail");
    for entry in programs {
        let bounds = Bounds { schedules: options.fixed, time: Duration::from_secs(600) };
        let rate = measure::rate(entry.fixed, bounds);
        let mut row = figures.row(entry.name, "parcae");
        row.number("defaults", "schedules", rate.schedules as f64);
        row.number("defaults", "alarms", f64::from(u8::from(rate.failure.is_some())));
        row.number("defaults", "per second", rate.per_second());
        row.end();
        if let Some(failure) = rate.failure {
            figures.false_alarm(entry.name, &failure);
        }
    }
}

fn yields(options: &Options, figures: &mut Figures) {
    figures.title("ten tasks that yield four times: schedules per second, medians of nine");
    let some = Bounds { schedules: options.schedules, time: HUNT };
    let ours = || Some(measure::rate(measure::yields, some).per_second());
    let mut rates = vec![("parcae", "defaults".to_string(), Vec::new())];
    #[cfg(feature = "shuttle")]
    for strategy in parcae_corpus::peer::PeerStrategy::ALL {
        rates.push(("shuttle", strategy.name(), Vec::new()));
    }
    for _ in 0..9 {
        rates[0].2.push(ours()); // rounds of all, so that noise meets all
        #[cfg(feature = "shuttle")]
        for (at, strategy) in parcae_corpus::peer::PeerStrategy::ALL.into_iter().enumerate() {
            use parcae_corpus::peer;
            rates[at + 1].2.push(Some(peer::rate(peer::yields, strategy, some).per_second()));
        }
    }
    for (tool, strategy, rates) in rates {
        let mut row = figures.row("10 x 4 yields", tool);
        row.word("strategy", &strategy);
        row.maybe(&strategy, "per second", median(rates));
        row.end();
    }
}

#[cfg(feature = "shuttle")]
fn shuttle(options: &Options, programs: &[&Entry], figures: &mut Figures) {
    use parcae_corpus::peer::{self, PEERS, PeerStrategy};

    figures.title("the same programs under Shuttle");
    let few = Bounds { schedules: options.schedules, time: SHARE };
    let first = Bounds { schedules: 100_000, time: SHARE };
    for entry in programs {
        let Some(peer) = PEERS.iter().find(|peer| peer.name == entry.name) else { continue };
        let mut row = figures.row(entry.name, "shuttle");
        for strategy in PeerStrategy::ALL {
            let name = strategy.name();
            row.maybe(&name, "%", peer::share(peer.buggy, strategy, few).percent());
            let seeds = 0..options.hunts.min(5);
            let firsts = peer::first_failures(peer.buggy, strategy, seeds, first);
            row.maybe(
                &name,
                "schedules",
                median(firsts.iter().map(|first| Some((*first)?.0 as f64))),
            );
            row.maybe(
                &name,
                "ms",
                median(firsts.iter().map(|first| Some((*first)?.1.as_secs_f64() * 1e3))),
            );
        }
        row.end();
    }
}

#[cfg(not(feature = "shuttle"))]
fn shuttle(_: &Options, _: &[&Entry], figures: &mut Figures) {
    figures.title("Shuttle is not built in: --features shuttle");
}
