//! Workloads, their variants, and the peers that take part.

use std::error::Error;
use std::fmt;

/// The library that is measured. The order is that of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// This project. All ratios are to it.
    Parcae,
    /// <https://docs.rs/corosensei>
    Corosensei,
    /// <https://docs.rs/generator>
    Generator,
    /// <https://docs.rs/tokio>
    Tokio,
    /// <https://docs.rs/hyper>, on tokio.
    Hyper,
    /// <https://docs.rs/async-executor>, the scheduler of smol.
    AsyncExecutor,
    /// <https://docs.rs/async-io>, the reactor and the timers of smol, on async-executor.
    AsyncIo,
    /// <https://docs.rs/may>
    May,
    /// <https://docs.rs/rayon>
    Rayon,
    /// <https://docs.rs/crossbeam-deque>, the deques of rayon.
    Crossbeam,
    /// The standard library: collections, threads, the system's allocator.
    Std,
    /// <https://docs.rs/crossbeam-channel>, on threads.
    CrossbeamChannel,
    /// <https://docs.rs/flume>, on tokio.
    Flume,
    /// <https://docs.rs/kanal>, on tokio.
    Kanal,
    /// <https://docs.rs/async-channel>, on tokio.
    AsyncChannel,
    /// <https://docs.rs/ractor>, on tokio. Only with the feature `actor-peers`, as the next two.
    Ractor,
    /// <https://docs.rs/kameo>, on tokio.
    Kameo,
    /// <https://docs.rs/actix>, on its own thread of tokio.
    Actix,
}

impl Peer {
    /// All of them, parcae first.
    pub const ALL: [Peer; 18] = [
        Peer::Parcae,
        Peer::Corosensei,
        Peer::Generator,
        Peer::Tokio,
        Peer::Hyper,
        Peer::AsyncExecutor,
        Peer::AsyncIo,
        Peer::May,
        Peer::Rayon,
        Peer::Crossbeam,
        Peer::Std,
        Peer::CrossbeamChannel,
        Peer::Flume,
        Peer::Kanal,
        Peer::AsyncChannel,
        Peer::Ractor,
        Peer::Kameo,
        Peer::Actix,
    ];

    /// The name in arguments and output.
    pub const fn name(self) -> &'static str {
        match self {
            Peer::Parcae => "parcae",
            Peer::Corosensei => "corosensei",
            Peer::Generator => "generator",
            Peer::Tokio => "tokio",
            Peer::Hyper => "hyper",
            Peer::AsyncExecutor => "async-executor",
            Peer::AsyncIo => "async-io",
            Peer::May => "may",
            Peer::Rayon => "rayon",
            Peer::Crossbeam => "crossbeam-deque",
            Peer::Std => "std",
            Peer::CrossbeamChannel => "crossbeam-channel",
            Peer::Flume => "flume",
            Peer::Kanal => "kanal",
            Peer::AsyncChannel => "async-channel",
            Peer::Ractor => "ractor",
            Peer::Kameo => "kameo",
            Peer::Actix => "actix",
        }
    }

    /// The version that is measured.
    pub const fn version(self) -> &'static str {
        match self {
            Peer::Parcae => env!("CARGO_PKG_VERSION"), // one version for the workspace
            Peer::Corosensei => "0.3.4",
            Peer::Generator => "0.8.11",
            Peer::Tokio => "1.54.1",
            Peer::Hyper => "1.12.0",
            Peer::AsyncExecutor => "1.14.1",
            Peer::AsyncIo => "2.6.0",
            Peer::May => "0.3.51",
            Peer::Rayon => "1.12.0",
            Peer::Crossbeam => "0.8.8",
            Peer::Std => "of the compiler",
            Peer::CrossbeamChannel => "0.5.17",
            Peer::Flume => "0.12.0",
            Peer::Kanal => "0.1.1",
            Peer::AsyncChannel => "2.5.0",
            Peer::Ractor => "0.16.5",
            Peer::Kameo => "0.22.2",
            Peer::Actix => "0.13.5",
        }
    }
}

/// Whether less or more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Times, bytes.
    Lower,
    /// Rates.
    Higher,
}

impl Better {
    /// An arrow in the direction of better.
    pub const fn arrow(self) -> char {
        match self {
            Better::Lower => '↓',
            Better::Higher => '↑',
        }
    }
}

/// How much work one measurement does.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// The full scale, or a tenth of it.
    pub const fn new(quick: bool) -> Scale {
        Scale { quick }
    }

    /// How many repetitions stand for `full` on this scale.
    pub const fn of(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }
}

/// Why a measurement failed, for example a limit of the system.
pub type Failure = Box<dyn Error>;

/// One peer's implementation of a variant: runs it once and returns the result, in the variant's
/// unit. Setup and cleanup are not part of the result.
#[derive(Clone, Copy)]
pub struct Side {
    /// The peer.
    pub peer: Peer,
    /// Measures once.
    pub run: fn(&Scale) -> Result<f64, Failure>,
}

impl Side {
    /// For tables of them.
    pub const fn new(peer: Peer, run: fn(&Scale) -> Result<f64, Failure>) -> Side {
        Side { peer, run }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Side").field(&self.peer).finish()
    }
}

/// One line of the table: the same work by one or more peers.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// The name in the output.
    pub name: &'static str,
    /// A description, for `--list`.
    pub about: &'static str,
    /// The unit: `ns/switch`.
    pub unit: &'static str,
    /// Whether less or more is better.
    pub better: Better,
    /// The peers, parcae first.
    pub sides: &'static [Side],
}

/// How often a workload is repeated, unless the arguments say otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Normally.
    pub full: u32,
    /// With `--quick`. Nothing is measured if it is 0.
    pub quick: u32,
}

/// Variants that are measured together, in rounds.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// The name in arguments and output.
    pub name: &'static str,
    /// How often.
    pub rounds: Rounds,
    /// The lines of the table, in order.
    pub variants: &'static [Variant],
}

impl Workload {
    /// All cases of this workload whose peers are wanted, in the order of one round.
    pub fn cases(&'static self, wanted: impl Fn(Peer) -> bool) -> Vec<Case> {
        let cases = self.variants.iter().flat_map(|variant| {
            variant.sides.iter().map(|&side| Case { workload: self, variant, side })
        });
        cases.filter(|case| wanted(case.side.peer)).collect()
    }
}

/// One number that is measured in each round.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its workload.
    pub workload: &'static Workload,
    /// The line of the table.
    pub variant: &'static Variant,
    /// The column of the table, and the function.
    pub side: Side,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.workload.name, self.variant.name, self.side.peer.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WORKLOADS;

    #[test]
    fn every_variant_has_parcae_first_and_nobody_twice() {
        for workload in WORKLOADS {
            for variant in workload.variants {
                let peers: Vec<Peer> = variant.sides.iter().map(|side| side.peer).collect();
                assert_eq!(peers[0], Peer::Parcae, "{} {}", workload.name, variant.name);
                assert!(peers.is_sorted_by(|a, b| a < b), "{} {}", workload.name, variant.name);
            }
        }
    }

    #[test]
    fn names_do_not_break_the_lines_of_the_output() {
        for workload in WORKLOADS {
            for variant in workload.variants {
                for field in [workload.name, variant.name, variant.unit] {
                    assert!(!field.is_empty() && !field.contains(char::is_whitespace), "{field:?}");
                }
            }
        }
    }

    #[test]
    fn the_versions_shown_are_those_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        let crates = |peer: &Peer| ![Peer::Parcae, Peer::Std].contains(peer);
        for peer in Peer::ALL.into_iter().filter(crates) {
            let line = format!("{} = \"={}\"", peer.name(), peer.version());
            let table = format!("{} = {{ version = \"={}\",", peer.name(), peer.version());
            let found = manifest.lines().any(|l| l == line || l.starts_with(&table));
            assert!(found, "{line}");
        }
    }

    #[test]
    fn the_quick_scale_is_a_tenth_and_never_nothing() {
        assert_eq!(Scale::new(false).of(5000), 5000);
        assert_eq!(Scale::new(true).of(5000), 500);
        assert_eq!(Scale::new(true).of(1), 1);
    }
}
