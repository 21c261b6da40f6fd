//! The steps of a run, and a timeline of those that matter.
//!
//! A timeline has a column for each task and at most [`LINES`] lines. It shows operations on
//! objects that two or more tasks use. If there are more, it shows those next to a forced switch
//! and the last ones.

use crate::sched::lab::{OpKind, RunStep, TaskLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most lines of a timeline.
const LINES: usize = 10;
/// The most columns.
const COLUMNS: usize = 5;

/// A recorded run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Run {
    /// The tasks, in the order of their spawns.
    pub tasks: Vec<TaskLabel>,
    /// The operations, in their order.
    pub steps: Vec<RunStep>,
}

impl Run {
    /// The name of a task: its own, or its place in the tree of tasks, such as `0.1`.
    pub fn name(&self, task: u32) -> String {
        let Some(label) = self.tasks.get(task as usize) else { return format!("?{task}") };
        if let Some(name) = &label.name {
            return name.to_string();
        }
        match label.parent {
            Some(parent) if parent < task => {
                let above = match self.tasks[parent as usize].name {
                    Some(_) => String::from("…"),
                    None => self.name(parent),
                };
                format!("{above}.{}", label.nth)
            }
            _ => label.nth.to_string(),
        }
    }

    /// The steps that a timeline shows, as positions in [`steps`](Run::steps).
    pub fn shown(&self) -> Vec<usize> {
        let mut users: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.object != 0) {
            users.entry(step.object).or_default().insert(step.task);
        }
        let is_shared = |step: &RunStep| match step.op {
            OpKind::Point => true,
            OpKind::Join | OpKind::Spawn | OpKind::Checkpoint => false,
            _ => step.object == 0 || users.get(&step.object).is_some_and(|tasks| tasks.len() > 1),
        };
        let shared = (0..self.steps.len()).filter(|&at| is_shared(&self.steps[at]));
        let all: Vec<usize> = shared.collect();
        if all.len() <= LINES {
            return all;
        }
        // Those at a change of the task, then the last ones.
        let task = |at: usize| self.steps[all[at]].task;
        let mut wanted: Vec<(u32, usize)> = (0..all.len())
            .map(|at| {
                let forced = self.steps[all[at]].forced;
                let changes = at > 0 && task(at - 1) != task(at)
                    || at + 1 < all.len() && task(at + 1) != task(at);
                let rank = if forced {
                    0
                } else if changes {
                    1
                } else {
                    2
                };
                (rank, all.len() - at)
            })
            .collect();
        wanted.sort_unstable();
        let mut kept: Vec<usize> =
            wanted.iter().take(LINES).map(|&(_, back)| all[all.len() - back]).collect();
        kept.sort_unstable();
        kept
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        if shown.is_empty() {
            return Ok(());
        }
        let mut columns: Vec<u32> = shown.iter().map(|&at| self.steps[at].task).collect();
        columns.sort_unstable();
        columns.dedup();
        columns.truncate(COLUMNS);
        let text = |step: &RunStep| {
            let object =
                if step.object == 0 { String::new() } else { format!(" #{}", step.object) };
            format!("{}{object}", step.op.name())
        };
        let width = |task: &u32| {
            let own = shown.iter().map(|&at| &self.steps[at]).filter(|step| step.task == *task);
            let widest = own.map(|step| text(step).len()).max().unwrap_or(0);
            widest.max(self.name(*task).len() + 5) + 3
        };
        let widths: Vec<usize> = columns.iter().map(width).collect();
        write!(f, "  ")?;
        for (task, width) in columns.iter().zip(&widths) {
            write!(f, "{:width$}", format!("task {}", self.name(*task)))?;
        }
        writeln!(f)?;
        let mut last = None;
        for &at in &shown {
            let step = &self.steps[at];
            let skipped = last.is_some_and(|last| last + 1 < at);
            let mark = if step.forced {
                '>'
            } else if skipped {
                ':'
            } else {
                ' '
            };
            write!(f, "{mark} ")?;
            for (task, &width) in columns.iter().zip(&widths) {
                let cell = if *task == step.task { text(step) } else { String::new() };
                write!(f, "{cell:width$}")?;
            }
            if let Some(site) = step.site {
                write!(f, "{}:{}", site.file(), site.line())?;
            }
            writeln!(f)?;
            last = Some(at);
        }
        writeln!(f, "  (> another task was made to go on here; : steps were left out)")
    }
}
