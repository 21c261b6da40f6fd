//! Reports of stuck workers.

use super::system_call::BlockedIn;
use super::{MonitorOpts, REPORT_INTERVAL};
use crate::base::error::TaskInfo;
use crate::stack::frames::Frames;
use crate::stack::frames::Shown;
use std::fmt;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker whose task has not returned to the scheduler for long; see
/// [`Builder::on_stall`](crate::runtime::Builder::on_stall).
///
/// Its text is a line with the remedy, and a backtrace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StallReport {
    /// Index of the worker. Temporary workers come after the others.
    pub worker: usize,
    /// The running task. `None` if the worker could not be probed.
    pub task: Option<TaskInfo>,
    /// Time without a step.
    pub still_for: Duration,
    /// Kind of the stall.
    pub kind: StallKind,
    /// The system call in which it is blocked, if the system says so.
    pub blocked_in: Option<BlockedIn>,
    /// Number of queued tasks behind it that other workers, or a temporary worker, will take.
    pub stealable_behind: usize,
    /// Whether pinned tasks were woken and wait behind it. No other worker may run those.
    pub pinned_behind: Pinned,
    /// Number of descriptors with input for tasks of this worker, which no other worker may run.
    pub neglected_descriptors: usize,
    /// Its backtrace. Empty if the worker could not be probed.
    pub frames: Frames,
}

/// Whether pinned tasks wait for their worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// Some wait.
    Waiting,
    /// None were seen.
    None,
}

/// Kind of a stall.
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
    /// Unknown: the system gives no information.
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
                "it is ready to run, but the operating system gives it no processor: lower the \
                 load, or `Builder::workers`"
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
        match &self.blocked_in {
            Some(call) => {
                write!(f, "; it is blocked in {call}; or hand the call to `parcae::blocking`")?;
            }
            None => write!(f, "; {}", self.kind)?,
        }
        if self.stealable_behind > 0 {
            write!(
                f,
                "; {} tasks queued behind it are taken over by other workers",
                self.stealable_behind
            )?;
        }
        if self.pinned_behind == Pinned::Waiting {
            f.write_str("; woken tasks that cannot move wait behind it")?;
        }
        match self.neglected_descriptors {
            0 => {}
            1 => f.write_str("; 1 descriptor of its tasks has input that waits for it")?,
            n => write!(f, "; {n} descriptors of its tasks have input that waits for it")?,
        }
        f.write_str("\n")?;
        let functions = self.frames.shown(Shown::by(f));
        functions.iter().try_for_each(|function| writeln!(f, "    {function}"))
    }
}

/// The receiver of stall reports.
#[derive(Clone)]
pub(crate) struct StallHook(Arc<dyn Fn(&StallReport) + Send + Sync>);

impl StallHook {
    pub(crate) fn new(hook: impl Fn(&StallReport) + Send + Sync + 'static) -> StallHook {
        StallHook(Arc::new(hook))
    }
}

impl Default for StallHook {
    /// Writes to standard error.
    fn default() -> StallHook {
        StallHook::new(|report| {
            let text = report.to_string();
            // In one piece, so that other output does not get in between. A failure is ignored.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        })
    }
}

impl fmt::Debug for StallHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StallHook")
    }
}

/// Passes on reports, at a limited rate.
pub(super) struct Reporter {
    stall_after: Option<Duration>,
    hook: StallHook,
    last: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(opts: &MonitorOpts) -> Reporter {
        Reporter { stall_after: opts.stall_after, hook: opts.hook.clone(), last: None }
    }

    /// Whether to report a worker that has made no progress for this time.
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
