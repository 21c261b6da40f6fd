//! Targets: the floors of the specification and parcae's own goals.
//!
//! Goals are shown, and never decide whether a run succeeds: a busy machine misses some of them.
//! Floors are an order of magnitude or more below usual results. With `--floors` a run fails if it
//! misses one by more than [`MARGIN`], which no load explains.
//!
//! S0 asks for a switch in less than 1 µs, more than a million spawns in a second, tasks of less
//! than 16 KB, and a steal in less than 10 µs. A steal is measured from the push on a busy worker
//! to the start on one that is awake (`spinning`). Waking a sleeping worker (`asleep`) depends on
//! the kernel: it has a goal and no floor.

use crate::case::{Better, Peer};
use crate::report::significant;
use crate::runner::Figure;
use std::fmt;

/// The origin of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The specification (S0).
    Floor,
    /// This project.
    Goal,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Floor => "floor",
            Kind::Goal => "goal",
        })
    }
}

/// The limit of a target. Its variant says whether less or more is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A number, in the variant's unit.
    Number(f64),
    /// A multiple of a peer's result in the same run.
    Of(Peer),
}

/// A target for a variant of parcae.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The workload's name.
    pub workload: &'static str,
    /// The variant's name.
    pub variant: &'static str,
    /// The origin of a target.
    pub kind: Kind,
    /// The limit.
    pub limit: Limit,
}

const fn floor(workload: &'static str, variant: &'static str, limit: f64) -> Target {
    Target { workload, variant, kind: Kind::Floor, limit: Limit::Number(limit) }
}

const fn goal(workload: &'static str, variant: &'static str, limit: f64) -> Target {
    Target { workload, variant, kind: Kind::Goal, limit: Limit::Number(limit) }
}

const fn beside(workload: &'static str, variant: &'static str, peer: Peer) -> Target {
    Target { workload, variant, kind: Kind::Goal, limit: Limit::Of(peer) }
}

/// A run fails only if it misses a floor by more than this factor: a virtual machine that gets half
/// a processor is slower by two, one with busy neighbours by three.
pub const MARGIN: f64 = 3.0;

/// The result of `--floors`: the floors that were checked, and those that are broken.
#[derive(Debug)]
pub struct Floors {
    /// How many floors were checked.
    pub held: usize,
    /// Those that are missed by more than [`MARGIN`].
    pub broken: Vec<Verdict>,
}

impl Floors {
    /// Of a run.
    pub fn of(verdicts: &[Verdict]) -> Floors {
        let floors = || verdicts.iter().filter(|verdict| verdict.target.kind == Kind::Floor);
        let broken = floors().filter(|verdict| verdict.breaks_floor()).copied().collect();
        Floors { held: floors().count(), broken }
    }

    /// The number of failures. A run that checked no floor counts as one.
    pub fn failures(&self) -> usize {
        if self.held == 0 { 1 } else { self.broken.len() }
    }
}

impl fmt::Display for Floors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.held == 0 {
            return f.write_str(
                "floors    none of the measured variants has one; name workloads that do\n",
            );
        }
        for verdict in &self.broken {
            let Target { workload, variant, .. } = verdict.target;
            let (value, limit) = (verdict.value_text(), verdict.limit_text());
            writeln!(f, "floors    {workload}/{variant} is broken: {value}, asked for is {limit}")?;
        }
        let (held, broken) = (self.held, self.broken.len());
        writeln!(f, "floors    {broken} of {held} broken (missed by more than {MARGIN} times)")
    }
}

/// All of them, floors first.
pub static TARGETS: &[Target] = &[
    floor("switch", "one", 1_000.0),
    floor("spawn_join", "many_w1", 1.0),
    floor("spawn_join", "round1k_w1", 1.0),
    floor("steal", "spinning_p50", 10_000.0),
    floor("parked", "queued_100k", 16_384.0),
    floor("parked", "parked_100k", 16_384.0),
    // A result means that a million tasks were live at once.
    floor("million", "parked", 16_384.0),
    beside("switch", "one", Peer::Corosensei),
    beside("switch", "t1000", Peer::Corosensei),
    goal("yield", "t1", 30.0),
    goal("yield", "t1000", 45.0),
    goal("spawn_join", "many_w1", 10.0),
    goal("spawn_join", "round1k_w1", 12.0),
    goal("spawn_join", "many_w2", 10.0),
    goal("nursery", "joined_w1", 9.0),
    goal("outside", "joined_w1", 3.0),
    goal("outside", "joined_w2", 3.0),
    goal("skynet", "w2", 54.0),          // 60 ms for the tree
    goal("skynet", "channel_w2", 225.0), // 250 ms for the tree
    goal("cancel", "ended_w2", 1_000.0),
    goal("million_woken", "w2", 1_000.0),
    goal("pingpong", "capacity1_1", 80.0),
    goal("pingpong", "capacity1_2", 10_000.0),
    goal("pingpong", "apart_0", 500.0),
    goal("pingpong", "apart_1", 700.0),
    goal("timers", "wall_short", 1_100.0),
    goal("timers", "late_short_p99", 40_000.0),
    goal("timers", "cpu_short", 1_700.0),
    // 60 million values in a second on one worker, 40 million on two.
    goal("channel", "spsc_1", 16.7),
    goal("channel", "mpmc4_1", 16.7),
    goal("channel", "spsc_2", 25.0),
    goal("channel", "mpmc4_2", 25.0),
    beside("select", "ready4", Peer::CrossbeamChannel),
    beside("select", "idle4", Peer::Tokio),
    beside("herd", "one", Peer::Tokio),
    beside("blocking", "call", Peer::Tokio),
    goal("wake", "asleep_p50", 9_000.0),
    goal("wake", "spinning_p50", 1_000.0),
    goal("steal", "asleep_p50", 9_000.0),
    goal("steal", "spinning_p50", 1_000.0),
    goal("deque", "last", 10.0),
    goal("deque", "steal", 20.0),
    goal("mutex", "free", 15.0),
    goal("mutex", "c2", 60.0),
    goal("scale", "work_1us", 1.9),
    goal("parked", "queued_100k", 256.0),
    goal("parked", "parked_100k", 4_600.0),
    goal("parked", "event_100k", 4_600.0),
    goal("shares", "hogs_100ms", 2.0),
    goal("shares", "sleepers_100ms", 2.0),
    goal("shares", "yielders_100ms", 2.0),
    goal("interactive", "slowdown_p99", 2.0),
    goal("policy", "yield", 3.0),
    goal("policy", "turn", 60.0),
    goal("realtime", "simulated_late", 0.0),
    goal("checkpoint", "not_taken", 1.0),
    goal("checkpoint", "sum_strips", 1.01),
    goal("checkpoint", "hash_strips", 1.01),
    goal("checkpoint", "matrix_strips", 1.01),
];

/// A target and the result.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// The target.
    pub target: Target,
    /// The limit in the variant's unit; for a peer, its result.
    pub limit: f64,
    /// Parcae's result.
    pub value: f64,
    better: Better,
    unit: &'static str,
}

impl Verdict {
    /// Whether the target is met.
    pub fn holds(&self) -> bool {
        match self.better {
            Better::Lower => self.value <= self.limit,
            Better::Higher => self.value >= self.limit,
        }
    }

    /// Whether this is a floor that is missed by more than load explains.
    pub fn breaks_floor(&self) -> bool {
        let by = match self.better {
            Better::Lower => self.value / self.limit,
            Better::Higher => self.limit / self.value,
        };
        // Not `by > MARGIN`: NaN counts as missed, too.
        self.target.kind == Kind::Floor && !matches!(by, by if by <= MARGIN)
    }

    /// The limit, with its unit.
    pub fn limit_text(&self) -> String {
        let sign = match self.better {
            Better::Lower => '≤',
            Better::Higher => '≥',
        };
        match self.target.limit {
            Limit::Number(number) => format!("{sign} {number} {}", self.unit),
            Limit::Of(peer) => format!("{sign} {} of {}", significant(self.limit, 3), peer.name()),
        }
    }

    /// The result, with its unit.
    pub fn value_text(&self) -> String {
        format!("{} {}", significant(self.value, 3), self.unit)
    }
}

/// The targets for which there are results.
pub fn verdicts(figures: &[Figure]) -> Vec<Verdict> {
    let verdict = |target: &Target| {
        let of = |peer: Peer| {
            figures.iter().find(|figure| {
                let case = &figure.case;
                let name = (case.workload.name, case.variant.name, case.side.peer);
                name == (target.workload, target.variant, peer)
            })
        };
        let figure = of(Peer::Parcae)?;
        let limit = match target.limit {
            Limit::Number(number) => number,
            Limit::Of(peer) => of(peer)?.median(),
        };
        let (better, unit) = (figure.case.variant.better, figure.case.variant.unit);
        Some(Verdict { target: *target, limit, value: figure.median(), better, unit })
    };
    TARGETS.iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WORKLOADS;

    fn measured(workload: &str, variant: &str, values: &[(Peer, f64)]) -> Vec<Figure> {
        let workload = WORKLOADS.iter().find(|w| w.name == workload).expect("a workload");
        let cases = workload.cases(|peer| values.iter().any(|value| value.0 == peer));
        let of = |case: &crate::Case| values.iter().find(|v| v.0 == case.side.peer).unwrap().1;
        let cases = cases.into_iter().filter(|case| case.variant.name == variant);
        cases.filter_map(|case| Figure::new(case, vec![of(&case)])).collect()
    }

    #[test]
    fn every_target_is_of_something_that_is_measured() {
        for target in TARGETS {
            let mut peers = vec![(Peer::Parcae, 1.0)];
            if let Limit::Of(peer) = target.limit {
                peers.push((peer, 1.0));
            }
            let figures = measured(target.workload, target.variant, &peers);
            assert_eq!(figures.len(), peers.len(), "{target:?}");
            assert!(!verdicts(&figures).is_empty(), "{target:?}");
        }
    }

    #[test]
    fn less_is_better_or_more_is_as_the_variant_says() {
        let holds = |figures: &[Figure]| -> Vec<bool> {
            verdicts(figures).iter().map(Verdict::holds).collect()
        };
        assert_eq!(holds(&measured("yield", "t1", &[(Peer::Parcae, 29.0)])), [true]);
        assert_eq!(holds(&measured("yield", "t1", &[(Peer::Parcae, 31.0)])), [false]);
        // A floor of 1 and a goal of 10.
        let rate = |value| measured("spawn_join", "many_w1", &[(Peer::Parcae, value)]);
        assert_eq!(holds(&rate(0.5)), [false, false]);
        assert_eq!(holds(&rate(5.0)), [true, false]);
        assert_eq!(holds(&rate(50.0)), [true, true]);
    }

    /// Results for all floors of S0, each worse than the floor by a factor.
    fn all_floors(times_as_bad: f64) -> Vec<Figure> {
        let floors = TARGETS.iter().filter(|target| target.kind == Kind::Floor);
        floors
            .flat_map(|target| {
                let Limit::Number(limit) = target.limit else { panic!("{target:?}") };
                let figure =
                    |value| measured(target.workload, target.variant, &[(Peer::Parcae, value)]);
                let better = figure(1.0)[0].case.variant.better;
                figure(match better {
                    Better::Lower => limit * times_as_bad,
                    Better::Higher => limit / times_as_bad,
                })
            })
            .collect()
    }

    // rule: S0-PERF-1, S0-PERF-2, S0-PERF-4
    #[test]
    fn there_is_a_floor_for_switch_spawn_steal_and_size() {
        let floors = |workload| {
            let of = |target: &&Target| target.workload == workload && target.kind == Kind::Floor;
            TARGETS.iter().filter(of).map(|target| target.limit).collect::<Vec<_>>()
        };
        assert_eq!(floors("switch"), [Limit::Number(1_000.0)]); // ns
        assert_eq!(floors("spawn_join"), [Limit::Number(1.0); 2]); // millions in a second
        assert_eq!(floors("steal"), [Limit::Number(10_000.0)]); // ns
        assert_eq!(floors("parked"), [Limit::Number(16_384.0); 2]); // bytes
    }

    // rule: S0-PERF-1, S0-PERF-2, S0-PERF-4
    #[test]
    fn a_floor_is_broken_by_what_misses_it_by_far() {
        let failures = |times_as_bad| Floors::of(&verdicts(&all_floors(times_as_bad))).failures();
        let floors = TARGETS.iter().filter(|target| target.kind == Kind::Floor).count();
        assert_eq!(failures(0.01), 0); // as it is
        assert_eq!(failures(1.0), 0);
        assert_eq!(failures(2.0), 0); // a busy machine
        assert_eq!(failures(5.0), floors);
        assert_eq!(failures(f64::NAN), floors);
        let told = Floors::of(&verdicts(&all_floors(5.0))).to_string();
        assert!(told.contains("switch/one is broken: 5000 ns"), "{told}");
        assert!(told.contains(&format!("{floors} of {floors} broken")), "{told}");
    }

    #[test]
    fn goals_break_nothing_and_nothing_measured_is_a_failure() {
        let goal = verdicts(&measured("yield", "t1", &[(Peer::Parcae, 1e9)]));
        assert!(!goal[0].holds() && !goal[0].breaks_floor());
        assert_eq!(Floors::of(&goal).failures(), 1, "no floor was looked at");
        let both = verdicts(&measured("spawn_join", "many_w1", &[(Peer::Parcae, 5.0)]));
        assert_eq!(both.iter().filter(|verdict| !verdict.holds()).count(), 1);
        assert_eq!(Floors::of(&both).failures(), 0, "a goal of 10 is missed, a floor of 1 is not");
    }

    #[test]
    fn a_peer_counts_as_it_was_in_the_same_run_or_not_at_all() {
        let both = [(Peer::Parcae, 2.0), (Peer::Corosensei, 1.5)];
        let found = verdicts(&measured("switch", "t1000", &both));
        assert_eq!(found.len(), 1);
        assert!(!found[0].holds());
        assert_eq!(found[0].limit_text(), "≤ 1.50 of corosensei");
        assert!(verdicts(&measured("switch", "t1000", &both[..1])).is_empty());
    }
}
