//! The first step at which a repeated run went another way.
//!
//! A *trace* is the operations of a run: the task, the kind and the object of each. A token in the
//! choice form has the trace of its run, up to [`LONGEST`] steps; the hash of the token covers the
//! rest.

use super::timeline::Run;
use crate::sched::lab::{OpKind, RunStep};
use std::fmt;

/// The most steps in the trace of a token. Shrunk runs have a few dozen.
pub(super) const LONGEST: usize = 192;

/// A step of a trace: the numbers of the task and of the object, and the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceStep {
    pub(super) task: u32,
    pub(super) op: OpKind,
    /// 0 for none, and for atomics and cancel tokens: see `sched::lab::numbers`.
    pub(super) object: u32,
}

impl TraceStep {
    fn of(step: &RunStep) -> TraceStep {
        TraceStep { task: step.task, op: step.op, object: step.identity }
    }
}

/// The operations of a run.
pub(super) type Trace = Vec<TraceStep>;

/// The trace of the first steps of a run.
pub(super) fn trace(steps: &[RunStep]) -> Trace {
    whole_trace(steps.get(..LONGEST).unwrap_or(steps))
}

/// The trace of all steps of a run.
pub(super) fn whole_trace(steps: &[RunStep]) -> Trace {
    steps.iter().map(TraceStep::of).collect()
}

/// An operation of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedOp {
    /// The name of the task, or its place in the tree of tasks.
    pub task: String,
    /// The operation.
    pub op: OpKind,
    /// The object: locks, channels and other objects with waiters are numbered in the order of
    /// their first use; 0 if there is none, and for atomics.
    pub object: u32,
}

impl fmt::Display for TracedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object {
            0 => write!(f, "`{}` of task {}", self.op.name(), self.task),
            object => write!(f, "`{}` of task {} on object {object}", self.op.name(), self.task),
        }
    }
}

/// The first step at which a repeated run went another way.
///
/// ```
/// use parcae::lab::Explore;
/// use parcae::sync::atomic::{AtomicBool, Ordering::SeqCst};
///
/// let is_changed = AtomicBool::new(false); // survives the schedule: it should not
/// let test = |rt: &parcae::Runtime| {
///     rt.run(|cx| match is_changed.load(SeqCst) {
///         true => (0..3).try_for_each(|_| cx.checkpoint()),
///         false => Err(parcae::Error::msg("fails")),
///     })
/// };
/// let found = Explore::new().run(test).unwrap_err();
/// is_changed.store(true, SeqCst);
/// let report = Explore::new().replay(found.token(), test)?.unwrap();
/// let diverged = report.diverged.unwrap();
/// assert_eq!(diverged.found.unwrap().op.name(), "checkpoint");
/// # Ok::<(), parcae::lab::TokenError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The number of the step, from 0; `None` if it is after the part of the run that a token
    /// describes.
    pub step: Option<usize>,
    /// The operation of the recorded run; `None` if it had ended, or is not known.
    pub expected: Option<TracedOp>,
    /// The operation of the repeated run; `None` if it had ended, or is not known.
    pub found: Option<TracedOp>,
}

impl Divergence {
    /// Compares the trace of a recorded run with a repeated one. `is_whole`: the trace has all
    /// steps. `None` if they agree as far as they are known.
    pub(super) fn of(expected: &[TraceStep], is_whole: bool, run: &Run) -> Option<Divergence> {
        let named = |TraceStep { task, op, object }| TracedOp { task: run.name(task), op, object };
        let found = |at: usize| run.steps.get(at).map(TraceStep::of);
        let length = if is_whole { expected.len().max(run.steps.len()) } else { expected.len() };
        let step = (0..length).find(|&at| expected.get(at).copied() != found(at))?;
        let expected = expected.get(step).copied().map(named);
        Some(Divergence { step: Some(step), expected, found: found(step).map(named) })
    }

    /// The runs differ, and it is not known where.
    pub(super) fn somewhere() -> Divergence {
        Divergence { step: None, expected: None, found: None }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |op: &Option<TracedOp>| match op {
            Some(op) => op.to_string(),
            None => String::from("the end"),
        };
        match self.step {
            Some(step) => write!(
                f,
                "the repeated run went another way at step {step}: {} instead of {}",
                shown(&self.found),
                shown(&self.expected)
            )?,
            None => f.write_str("the repeated run went another way")?,
        }
        f.write_str(
            "; the program has changed, or it uses a clock, a hash map's order, addresses, \
             threads, or statics that survive a schedule",
        )
    }
}
