//! The metrics of a snapshot by name, in one list for exporters.

use super::{Histogram, NurseryFigures, Snapshot, Which, WorkerFigures};
use crate::scope::budget::Resource;
use std::time::Duration;

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One metric, with all its samples.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: &'static str,
    pub(super) kind: FamilyKind,
    /// Labels with their values, and the sample.
    pub(super) samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// The histograms, which have another form.
pub(super) fn histograms(snapshot: &Snapshot) -> [(&'static str, &'static str, &Histogram); 2] {
    [
        ("parcae_wake_to_run_seconds", "Time from being ready to running.", &snapshot.wake_to_run),
        ("parcae_run_seconds", "Length of turns.", &snapshot.run_length),
    ]
}

/// Fixed, so that they are the same for every scrape: a microsecond, doubled 24 times.
pub(super) fn bounds() -> impl Iterator<Item = Duration> {
    (0..25).map(|power| Duration::from_micros(1 << power))
}

/// Budget that a nursery has used, by resource.
pub(super) fn spent(nursery: &NurseryFigures) -> impl Iterator<Item = (Resource, u64)> + '_ {
    Resource::ALL.into_iter().map(|resource| (resource, nursery.spent.get(resource)))
}

pub(super) fn all(snapshot: &Snapshot) -> Vec<Family> {
    let mut families = vec![
        one("parcae_tasks_live", "Tasks that have not ended.", snapshot.live as f64),
        one("parcae_queue_length", "Tasks in the shared queue.", snapshot.queued as f64),
        one(
            "parcae_stacks_quarantined",
            "Stacks that overflowed and are never used again.",
            snapshot.quarantined_stacks as f64,
        ),
    ];
    workers(snapshot, &mut families);
    nurseries(snapshot, &mut families);
    super::tenants::families(snapshot, &mut families);
    parts(snapshot, &mut families);
    families
}

/// The figures of the program's own parts.
fn parts(snapshot: &Snapshot, families: &mut Vec<Family>) {
    if snapshot.parts.is_empty() {
        return;
    }
    let samples = snapshot.parts.iter().flat_map(|part| {
        let sample = |&(figure, value): &(&str, u64)| {
            (vec![("part", part.title.clone()), ("figure", figure.to_owned())], value as f64)
        };
        part.figures.iter().map(sample)
    });
    families.push(Family {
        name: "parcae_part".into(),
        help: "A figure of a part of the program that describes itself.",
        kind: FamilyKind::Gauge,
        samples: samples.collect(),
    });
}

fn one(name: &str, help: &'static str, value: f64) -> Family {
    Family { name: name.into(), help, kind: FamilyKind::Gauge, samples: vec![(Vec::new(), value)] }
}

fn workers(snapshot: &Snapshot, families: &mut Vec<Family>) {
    let mut add = |name: String, help, kind, value: &dyn Fn(&WorkerFigures) -> f64| {
        let sample = |(index, worker): (usize, &WorkerFigures)| {
            (vec![("worker", index.to_string())], value(worker))
        };
        let samples = snapshot.workers.iter().enumerate().map(sample).collect();
        families.push(Family { name, help, kind, samples });
    };
    let first = snapshot.workers.first().map(|worker| worker.counters.named()).unwrap_or_default();
    for (at, (name, _)) in first.into_iter().enumerate() {
        let name = format!("parcae_worker_{name}_total");
        let value = |worker: &WorkerFigures| worker.counters.named()[at].1 as f64;
        add(name, "A counter of a worker; see WorkerStats.", FamilyKind::Counter, &value);
    }
    let length = |worker: &WorkerFigures| worker.queued as f64;
    add(
        "parcae_worker_queue_length".into(),
        "Tasks that other workers may steal.",
        FamilyKind::Gauge,
        &length,
    );
    if snapshot.nurseries.is_empty() {
        return; // no times are measured
    }
    let busy = |worker: &WorkerFigures| worker.busy.as_secs_f64();
    add(
        "parcae_worker_busy_seconds_total".into(),
        "Time that tasks ran.",
        FamilyKind::Counter,
        &busy,
    );
    let asleep = |worker: &WorkerFigures| worker.asleep.as_secs_f64();
    add("parcae_worker_asleep_seconds_total".into(), "Time asleep.", FamilyKind::Counter, &asleep);
}

/// Nurseries without a name count as one: their ids would make an unbounded number of labels.
fn nurseries(snapshot: &Snapshot, families: &mut Vec<Family>) {
    let mut known: Vec<(String, NurseryFigures)> = Vec::new();
    for nursery in &snapshot.nurseries {
        let unnamed = matches!(nursery.which, Which::Number(_) | Which::Unnamed);
        let label = if unnamed { Which::Unnamed.label() } else { nursery.which.label() };
        match known.last_mut().filter(|known| known.0 == label) {
            Some((_, sum)) => {
                sum.open += nursery.open;
                sum.live += nursery.live;
                sum.finished += nursery.finished;
                sum.failed += nursery.failed;
                sum.ran += nursery.ran;
                sum.waited += nursery.waited;
                sum.starved += nursery.starved;
                sum.spent.absorb(nursery.spent);
            }
            None => known.push((label, nursery.clone())),
        }
    }
    if known.is_empty() {
        return;
    }
    let mut add = |name: &str, help, kind, value: &dyn Fn(&NurseryFigures) -> f64| {
        let sample = |(label, nursery): &(String, NurseryFigures)| {
            (vec![("nursery", label.clone())], value(nursery))
        };
        let samples = known.iter().map(sample).collect();
        families.push(Family { name: format!("parcae_nursery_{name}"), help, kind, samples });
    };
    add("open", "Nurseries that have not ended.", FamilyKind::Gauge, &|n| n.open as f64);
    add("live", "Tasks that have not ended.", FamilyKind::Gauge, &|n| n.live as f64);
    add("finished_total", "Tasks that succeeded.", FamilyKind::Counter, &|n| n.finished as f64);
    add("failed_total", "Tasks that failed.", FamilyKind::Counter, &|n| n.failed as f64);
    let seconds = FamilyKind::Counter;
    add("run_seconds_total", "Time that tasks ran.", seconds, &|n| n.ran.as_secs_f64());
    add("wait_seconds_total", "Time that tasks waited.", seconds, &|n| n.waited.as_secs_f64());
    let help = "Time that tasks were ready and not running.";
    add("starve_seconds_total", help, seconds, &|n| n.starved.as_secs_f64());
    let sample = |(label, nursery): &(String, NurseryFigures)| {
        let labels = |resource: Resource| {
            vec![("nursery", label.clone()), ("resource", resource.to_string())]
        };
        spent(nursery).map(move |(r, n)| (labels(r), n as f64)).collect::<Vec<_>>()
    };
    families.push(Family {
        name: "parcae_nursery_spent_total".into(),
        help: "Budget used by tasks, of each counted resource.",
        kind: FamilyKind::Counter,
        samples: known.iter().flat_map(sample).collect(),
    });
}
