//! What is said about a worker that is stuck.

use super::{MonitorOpts, REPORT_INTERVAL};
use crate::base::error::TaskInfo;
use crate::stack::frames::Frames;
use crate::stack::frames::Shown;
use std::fmt;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that has not come back from a task for long; see [`Builder::on_stall`](crate::runtime::Builder::on_stall).
///
/// Printed, it is a line that names the remedy, and a backtrace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StallReport {
    /// Which worker. Temporary ones have the numbers after those of the others.
    pub worker: usize,
    /// The task that it runs. None if the worker could not be asked.
    pub task: Option<TaskInfo>,
    /// How long it has been seen without a step.
    pub still_for: Duration,
    /// What it does.
    pub kind: StallKind,
    /// How many tasks others may take wait behind it. They are taken by others, or by a temporary worker.
    pub stealable_behind: usize,
    /// Whether tasks that may not move were woken and wait behind it. Nobody can help those.
    pub pinned_behind: Pinned,
    /// Where it is. Empty if the worker could not be asked.
    pub frames: Frames,
}

/// Whether tasks wait that only a certain worker may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// Some do.
    Waiting,
    /// None were seen.
    None,
}

/// What a worker does that is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// It computes without a checkpoint. See [`Cx::checkpoint`](crate::Cx::checkpoint) and
    /// [`budgeted`](macro@crate::budgeted).
    Computing,
    /// It waits in a system call that blocks its thread. See [`blocking`](crate::blocking()).
    Blocked,
    /// It wants to run, but the machine gives it no processor: the fault is not the task's.
    Starved,
    /// The system does not tell.
    Unknown,
}

impl fmt::Display for StallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallKind::Computing => {
                "it computes without a checkpoint: call `Cx::checkpoint` in its loops, or put \
                 `#[budgeted]` on its functions"
            }
            StallKind::Blocked => {
                "it is blocked in a system call: hand such calls to `parcae::blocking`, or wait by \
                 `parcae::sync`, `parcae::channel` and `parcae::time`"
            }
            StallKind::Starved => {
                "it wants to run, but the machine gives it no processor: lower the load, or \
                 `Builder::workers`"
            }
            StallKind::Unknown => {
                "it computes without a checkpoint (`Cx::checkpoint`), or blocks its thread \
                 (`parcae::blocking`)"
            }
        })
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parcae: worker {} has been stuck for {:.1?}", self.worker, self.still_for)?;
        if let Some(task) = &self.task {
            write!(f, " in {task}")?;
        }
        write!(f, "; {}", self.kind)?;
        if self.stealable_behind > 0 {
            write!(f, "; {} tasks behind it go to others", self.stealable_behind)?;
        }
        if self.pinned_behind == Pinned::Waiting {
            f.write_str("; tasks that were woken wait behind it")?;
        }
        f.write_str("\n")?;
        let functions = self.frames.shown(Shown::by(f));
        functions.iter().try_for_each(|function| writeln!(f, "    {function}"))
    }
}

/// Who is told.
#[derive(Clone)]
pub(crate) struct StallHook(Arc<dyn Fn(&StallReport) + Send + Sync>);

impl StallHook {
    pub(crate) fn new(hook: impl Fn(&StallReport) + Send + Sync + 'static) -> StallHook {
        StallHook(Arc::new(hook))
    }
}

impl Default for StallHook {
    /// Writes to the standard error.
    fn default() -> StallHook {
        StallHook::new(|report| {
            let text = report.to_string();
            // In one piece, so that others do not write in between. There is nobody to tell if it fails.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        })
    }
}

impl fmt::Debug for StallHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StallHook")
    }
}

/// Passes reports on, not too many.
pub(super) struct Reporter {
    stall_after: Option<Duration>,
    hook: StallHook,
    last: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(opts: &MonitorOpts) -> Reporter {
        Reporter { stall_after: opts.stall_after, hook: opts.hook.clone(), last: None }
    }

    /// Whether a worker that has been still for so long is to be reported now.
    pub(super) fn wants(&self, age: Duration, now: Instant) -> bool {
        let interval = self.stall_after.unwrap_or_default().min(REPORT_INTERVAL);
        self.stall_after.is_some_and(|after| age >= after)
            && self.last.is_none_or(|last| now.duration_since(last) >= interval)
    }

    pub(super) fn report(&mut self, report: &StallReport, now: Instant) {
        self.last = Some(now);
        // A hook that panics does not end the monitor.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.hook.0)(report))) {
            crate::base::error::discard(payload);
        }
    }
}
