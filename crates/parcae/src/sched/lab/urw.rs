//! URW: each task in proportion to the operations that it has left.
//!
//! H. Zhao, D. Wolff, U. Mathur, A. Roychoudhury: Selectively uniform concurrency testing (ASPLOS
//! 2025). If the numbers of operations are right, all interleavings are equally likely. The
//! operations of tasks that are not spawned yet count for the task that will spawn them.
//!
//! The numbers come from the last schedule, by the paths of tasks. They go into the token with 16
//! bits of each path: two tasks with the same bits only make the estimate worse.

use super::op::Op;
use super::strategy::{Choice, Chooser, rng};
use crate::base::rng::Rng;
use std::collections::BTreeMap;

pub(super) struct UrwChooser {
    rng: Rng,
    /// Operations of a task and of all tasks below it, by path.
    totals: BTreeMap<u16, u32>,
    /// Of each task of this schedule: its path, its parent, what it has left, what it has done.
    tasks: Vec<Progress>,
}

struct Progress {
    path: u64,
    parent: Option<u32>,
    left: i64,
    done: u32,
}

/// Operations of a task about which nothing is known.
const UNKNOWN: u32 = 8;

fn short(path: u64) -> u16 {
    (path >> 48) as u16
}

impl UrwChooser {
    pub(super) fn new() -> UrwChooser {
        UrwChooser { rng: rng(0), totals: BTreeMap::new(), tasks: Vec::new() }
    }

    fn learn(&mut self) {
        // Children come after their parents.
        let mut sums: Vec<u32> = self.tasks.iter().map(|task| task.done).collect();
        for at in (0..self.tasks.len()).rev() {
            if let Some(parent) = self.tasks[at].parent {
                sums[parent as usize] += sums[at];
            }
        }
        for (task, sum) in self.tasks.iter().zip(sums) {
            let total = self.totals.entry(short(task.path)).or_insert(sum);
            *total = (*total).max(sum);
        }
    }
}

impl Chooser for UrwChooser {
    fn begin(&mut self, seed: u64) {
        self.rng = rng(seed);
        self.tasks.clear();
    }

    fn spawned(&mut self, _task: u32, path: u64, parent: Option<u32>) {
        let total = self.totals.get(&short(path)).copied().unwrap_or(UNKNOWN);
        self.tasks.push(Progress { path, parent, left: i64::from(total), done: 0 });
        if let Some(parent) = parent.and_then(|parent| self.tasks.get_mut(parent as usize)) {
            parent.left -= i64::from(total);
        }
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let left = |at: usize| {
            let task = choice.enabled[at].task as usize;
            self.tasks.get(task).map_or(1, |task| task.left.max(1)) as usize
        };
        let sum: usize = (0..choice.enabled.len()).map(left).sum();
        let mut drawn = self.rng.below(sum);
        for at in 0..choice.enabled.len() {
            let weight = left(at);
            if drawn < weight {
                return at;
            }
            drawn -= weight;
        }
        0
    }

    fn does(&mut self, task: u32, _: Op) {
        if let Some(task) = self.tasks.get_mut(task as usize) {
            task.left -= 1;
            task.done += 1;
        }
    }

    fn number(&mut self, _: (u64, u32, u32), below: usize) -> usize {
        self.rng.below(below)
    }

    fn end(&mut self) -> bool {
        self.learn();
        true
    }

    fn memory(&self) -> Vec<u64> {
        self.totals.iter().map(|(&path, &sum)| u64::from(path) << 32 | u64::from(sum)).collect()
    }

    fn remember(&mut self, memory: &[u64]) {
        self.totals = memory.iter().map(|&word| ((word >> 32) as u16, word as u32)).collect();
    }
}
