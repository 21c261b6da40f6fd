//! The figures of an island.

use crate::base::error::IslandRefused;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How an island fares. Prints a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IslandTelemetry {
    /// Its name.
    pub name: Arc<str>,
    /// Its stages, in the order of the plan.
    pub stages: Vec<StageTelemetry>,
    /// The first breach, and its stage.
    pub first_breach: Option<(Arc<str>, IslandRefused)>,
}

/// How a stage of an island fares.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageTelemetry {
    /// Its name.
    pub name: Arc<str>,
    /// The worker that it runs on.
    pub worker: usize,
    /// Jobs that have begun.
    pub jobs: u64,
    /// Jobs that have ended after their deadline.
    pub missed: u64,
    /// By how much at worst.
    pub worst_miss: Duration,
    /// The longest time from a release to the begin of its job.
    pub worst_delay: Duration,
    /// The mean of these times.
    pub mean_delay: Duration,
    /// The processor time of all jobs, up to the last wait.
    pub used: Duration,
    /// How often more than the budget was used.
    pub overruns: u64,
    /// By how much at worst.
    pub worst_overrun: Duration,
    /// Allocations while it was sealed, as seen by [`parcae::Allocator`](crate::Allocator).
    pub allocations: u64,
    /// Operations that were refused, and missed deadlines that have stopped the island.
    pub refused: u64,
    /// Bytes of its stack that were touched before it started.
    pub stack: usize,
    /// Whether they were locked in memory.
    pub locked: bool,
}

impl fmt::Display for IslandTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12}{:>7}{:>8}{:>8}{:>12}{:>12}{:>12}{:>12}{:>9}{:>8}",
            self.name,
            "worker",
            "jobs",
            "missed",
            "worst miss",
            "mean delay",
            "worst delay",
            "time/job",
            "overruns",
            "allocs"
        )?;
        for stage in &self.stages {
            let mean = stage.used / u32::try_from(stage.jobs.max(1)).unwrap_or(u32::MAX);
            let time = |time: Duration| format!("{:.1} us", time.as_nanos() as f64 / 1000.0);
            writeln!(
                f,
                "{:<12}{:>7}{:>8}{:>8}{:>12}{:>12}{:>12}{:>12}{:>9}{:>8}",
                stage.name,
                stage.worker,
                stage.jobs,
                stage.missed,
                time(stage.worst_miss),
                time(stage.mean_delay),
                time(stage.worst_delay),
                time(mean),
                stage.overruns,
                stage.allocations
            )?;
        }
        match &self.first_breach {
            Some((stage, what)) => writeln!(f, "first breach, by {stage}: {what}"),
            None => Ok(()),
        }
    }
}
