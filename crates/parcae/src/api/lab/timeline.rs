//! The steps of a run, and a timeline of those that matter.
//!
//! A timeline has a column for each task and at most [`LINES`] lines. It shows operations on
//! objects that two or more tasks use. If there are more, it leaves out the ends of guards, then
//! shows those next to a forced switch, pairs of operations of different tasks on one object, and
//! the last ones.

use crate::sched::lab::{OpKind, RunEvent, RunStep, TaskLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;

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
    /// The changes of tasks, in their order: spawns, waits, wakes, ends.
    pub events: Vec<RunEvent>,
    /// The step after which no random continuation of the run passed: what came after it could not
    /// help any more. None if it was not looked for, or if the test fails under every schedule.
    pub lost_after: Option<usize>,
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

    /// The kind of an object, as its operations show it: "mutex", "channel".
    pub fn kind(&self, object: u32) -> &'static str {
        let ops = self.steps.iter().filter(|step| step.object == object).map(|step| step.op);
        let kinds: BTreeSet<OpKind> = ops.collect();
        let has = |any: &[OpKind]| any.iter().any(|kind| kinds.contains(kind));
        match () {
            () if has(&[OpKind::ChannelSend, OpKind::ChannelReceive]) => "channel",
            () if has(&[OpKind::Load, OpKind::Store, OpKind::Update]) => "atomic",
            () if has(&[OpKind::Read]) => "rwlock",
            () if has(&[OpKind::Lock, OpKind::Unlock]) => "lock",
            () if has(&[OpKind::Acquire, OpKind::Release]) => "semaphore",
            () if has(&[OpKind::Wait, OpKind::Notify]) => "signal",
            () if has(&[OpKind::Close]) => "channel",
            () if has(&[OpKind::Join, OpKind::Spawn]) => "tasks",
            () if has(&[OpKind::Cancel]) => "cancel",
            () => "object",
        }
    }

    /// The place of a step, as `file:line`; for the end of a guard, the place that took it.
    pub fn place(&self, at: usize) -> Option<String> {
        let step = self.steps.get(at)?;
        let shown = |site: &Location<'_>| format!("{}:{}", site.file(), site.line());
        let site = step.site?;
        if !is_own(site) {
            return Some(shown(site));
        }
        if !matches!(step.op, OpKind::Unlock | OpKind::Release) {
            return None;
        }
        let takes = |other: &&RunStep| {
            let taking = matches!(other.op, OpKind::Lock | OpKind::Read | OpKind::Acquire);
            taking && other.task == step.task && other.object == step.object
        };
        let taken = self.steps[..at].iter().rev().find(takes)?.site?;
        (!is_own(taken)).then(|| format!("of {}", shown(taken)))
    }

    /// The steps that a timeline shows, as positions in [`steps`](Run::steps).
    pub fn shown(&self) -> Vec<usize> {
        let mut users: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.object != 0) {
            users.entry(step.object).or_default().insert(step.task);
        }
        let is_shared = |at: usize| {
            let step = &self.steps[at];
            match step.op {
                OpKind::Point => true,
                _ if self.lost_after == Some(at) => true,
                OpKind::Join | OpKind::Spawn | OpKind::Checkpoint => false,
                _ => {
                    step.object == 0 || users.get(&step.object).is_some_and(|tasks| tasks.len() > 1)
                }
            }
        };
        let mut all: Vec<usize> = (0..self.steps.len()).filter(|&at| is_shared(at)).collect();
        if all.len() > LINES {
            all.retain(|&at| !self.ends_guard(at) || self.is_marked(at));
        }
        if all.len() <= LINES {
            return all;
        }
        let ranks = self.ranks(&all);
        let mut wanted: Vec<(u32, usize)> = ranks.into_iter().zip((0..all.len()).rev()).collect();
        wanted.sort_unstable();
        let mut kept: Vec<usize> =
            wanted.iter().take(LINES).map(|&(_, back)| all[all.len() - 1 - back]).collect();
        kept.sort_unstable();
        kept
    }

    /// How much each of these steps matters: 0 most.
    fn ranks(&self, all: &[usize]) -> Vec<u32> {
        let mut ranks = vec![3; all.len()];
        let task = |at: usize| self.steps[all[at]].task;
        let mut last: BTreeMap<u32, usize> = BTreeMap::new();
        for at in 0..all.len() {
            if at > 0 && task(at - 1) != task(at) {
                ranks[at - 1] = ranks[at - 1].min(2);
                ranks[at] = 2;
            }
            // Two tasks, one after the other, on one object.
            let object = self.steps[all[at]].object;
            if object != 0
                && let Some(before) = last.insert(object, at)
                && task(before) != task(at)
            {
                ranks[before] = ranks[before].min(1);
                ranks[at] = 1;
            }
            if self.is_marked(all[at]) {
                ranks[at] = 0;
            }
        }
        ranks
    }

    fn is_marked(&self, at: usize) -> bool {
        self.steps[at].forced || self.lost_after == Some(at)
    }

    /// Whether the step is the end of a guard: it has no place of its own.
    fn ends_guard(&self, at: usize) -> bool {
        let step = &self.steps[at];
        matches!(step.op, OpKind::Unlock | OpKind::Release) && step.site.is_none_or(is_own)
    }

    /// The operation of a step and its object, such as `lock #1`.
    pub fn operation(&self, at: usize) -> String {
        match self.steps.get(at) {
            None => "end".to_owned(),
            Some(step) if step.object == 0 => step.op.name().to_owned(),
            Some(step) => format!("{} #{}", step.op.name(), step.object),
        }
    }
}

/// Whether a place is in this library.
pub(super) fn is_own(site: &Location<'_>) -> bool {
    let sources = file!().strip_suffix("api/lab/timeline.rs").unwrap_or(file!());
    site.file().starts_with(sources)
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
        let width = |task: &u32| {
            let own = shown.iter().filter(|&&at| self.steps[at].task == *task);
            let widest = own.map(|&at| self.operation(at).len()).max().unwrap_or(0);
            widest.max(self.name(*task).len() + 5) + 3
        };
        let widths: Vec<usize> = columns.iter().map(width).collect();
        write!(f, "   step  ")?;
        for (task, width) in columns.iter().zip(&widths) {
            write!(f, "{:width$}", format!("task {}", self.name(*task)))?;
        }
        writeln!(f)?;
        let mut last = None;
        for &at in &shown {
            let step = &self.steps[at];
            let skipped = last.is_some_and(|last| last + 1 < at);
            let mark = match () {
                () if step.forced => '>',
                () if skipped => ':',
                () => ' ',
            };
            let lost = if self.lost_after == Some(at) { '!' } else { ' ' };
            write!(f, "{mark}{lost}{at:>5}  ")?;
            for (task, &width) in columns.iter().zip(&widths) {
                let cell = if *task == step.task { self.operation(at) } else { String::new() };
                write!(f, "{cell:width$}")?;
            }
            match self.place(at) {
                Some(place) => writeln!(f, "{place}")?,
                None => writeln!(f)?,
            }
            last = Some(at);
        }
        self.legend(f, &shown, &columns)
    }
}

impl Run {
    /// The objects and tasks of a timeline, and its marks.
    fn legend(&self, f: &mut fmt::Formatter<'_>, shown: &[usize], columns: &[u32]) -> fmt::Result {
        let objects: BTreeSet<u32> = shown.iter().map(|&at| self.steps[at].object).collect();
        let objects: Vec<String> = objects
            .into_iter()
            .filter(|&object| object != 0)
            .map(|object| format!("#{object} {}", self.kind(object)))
            .collect();
        let tasks: Vec<String> = columns
            .iter()
            .filter_map(|&task| {
                let site =
                    self.tasks.get(task as usize)?.spawned_at.filter(|site| !is_own(site))?;
                Some(format!("{} at {}:{}", self.name(task), site.file(), site.line()))
            })
            .collect();
        let list = |f: &mut fmt::Formatter<'_>, name: &str, items: &[String]| match items {
            [] => Ok(()),
            items => writeln!(f, "  {name}: {}", items.join(", ")),
        };
        list(f, "objects", &objects)?;
        list(f, "spawned", &tasks)?;
        let mut marks = Vec::new();
        if shown.iter().any(|&at| self.steps[at].forced) {
            marks.push("> another task was made to go on here");
        }
        if shown.windows(2).any(|pair| pair[0] + 1 < pair[1]) {
            marks.push(": steps were left out");
        }
        if self.lost_after.is_some() {
            marks.push("! after this step no continuation passed");
        }
        match &marks[..] {
            [] => Ok(()),
            marks => writeln!(f, "  ({})", marks.join("; ")),
        }
    }
}
