//! A recorded run: its deviations from the default policy.
//!
//! The default policy goes on with the running task while it can, and else with the task that is
//! ready for the longest time; every number is 0. A run is then a short list of exceptions. An
//! exception is keyed by a task and the count of its own operations, not by a step of the whole
//! run, so that leaving out one exception moves no other.

use super::strategy::{Choice, Chooser};
use std::collections::HashMap;

/// When a choice is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ChoicePhase {
    /// Before an operation of the acting task.
    Before,
    /// The acting task waits, yields or has ended.
    Left,
    /// The number that is drawn at this count.
    Number(u32),
}

/// A choice other than the default policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Deviation {
    /// The path of the acting task; 0 for the executor.
    pub(crate) path: u64,
    /// The count of its operations.
    pub(crate) ops: u32,
    pub(crate) phase: ChoicePhase,
    /// The path of the task that goes on, or the number.
    pub(crate) target: u64,
}

/// Repeats a run.
pub(crate) struct Script {
    choices: HashMap<(u64, u32, ChoicePhase), u64>,
}

impl Script {
    pub(crate) fn new(deviations: &[Deviation]) -> Script {
        let choices = deviations.iter().map(|d| ((d.path, d.ops, d.phase), d.target)).collect();
        Script { choices }
    }
}

impl Chooser for Script {
    fn begin(&mut self, _seed: u64) {}

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let phase = if choice.current.is_some() { ChoicePhase::Before } else { ChoicePhase::Left };
        let target = self.choices.get(&(choice.last.0, choice.last.1, phase));
        let found = target.and_then(|&path| choice.enabled.iter().position(|e| e.path == path));
        found.unwrap_or(choice.usual())
    }

    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        let (path, ops, nth) = at;
        let number = self.choices.get(&(path, ops, ChoicePhase::Number(nth))).copied().unwrap_or(0);
        (number as usize).min(below - 1)
    }
}
