//! One task after another, each up to a given operation: a short way to many deadlocks.
//!
//! Leaving out switches of a run one by one gets stuck where the tasks go back and forth: each
//! switch is needed by the next. Here the run itself does not matter, only the operations that its
//! tasks had come to at the end. Every task goes on until it is about to do the last of them, and
//! is held there while another task can go on. That takes a switch for each task at most.

use super::op::{Op, OpKind};
use super::strategy::{Choice, Chooser};
use std::collections::HashMap;
use std::panic::Location;

/// Holds tasks before given operations.
pub(crate) struct HoldingChooser {
    /// For the path of a task: the operations after which it is held.
    holds: HashMap<u64, usize>,
    /// For each task, its path and its operations so far.
    tasks: Vec<(u64, usize)>,
}

impl HoldingChooser {
    pub(crate) fn new(holds: impl IntoIterator<Item = (u64, usize)>) -> HoldingChooser {
        HoldingChooser { holds: holds.into_iter().collect(), tasks: Vec::new() }
    }

    fn is_held(&self, task: u32) -> bool {
        let known = self.tasks.get(task as usize);
        known.is_some_and(|(path, done)| self.holds.get(path) == Some(done))
    }
}

impl Chooser for HoldingChooser {
    fn begin(&mut self, _seed: u64) {
        self.tasks.clear();
    }

    fn spawned(&mut self, _task: u32, path: u64, _parent: Option<u32>) {
        self.tasks.push((path, 0));
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let usual = choice.usual();
        if !self.is_held(choice.enabled[usual].task) {
            return usual;
        }
        let free = choice.enabled.iter().position(|one| !self.is_held(one.task));
        free.unwrap_or(usual)
    }

    fn does_at(&mut self, task: u32, op: Op, _site: Option<&'static Location<'static>>) {
        if op.kind != OpKind::Start
            && let Some((_, done)) = self.tasks.get_mut(task as usize)
        {
            *done += 1;
        }
    }

    fn number(&mut self, _: (u64, u32, u32), _below: usize) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::strategy::Enabled;
    use super::*;

    #[test]
    fn a_task_is_held_while_another_can_go_on() {
        let mut chooser = HoldingChooser::new([(10, 1)]);
        chooser.begin(0);
        chooser.spawned(0, 10, None);
        chooser.spawned(1, 11, None);
        let op = Op { kind: OpKind::Lock, object: 1 };
        let enabled = [11, 10].map(|path| Enabled { task: path as u32 - 10, path, ops: 1, op });
        let at = |enabled: &[Enabled], chooser: &mut HoldingChooser| {
            let (current, last) = (Some(enabled.len() - 1), (10, 1));
            chooser.choose(&Choice { enabled, current, yields: false, last })
        };
        assert_eq!(at(&enabled, &mut chooser), 1);
        chooser.does_at(0, op, None);
        assert_eq!(at(&enabled, &mut chooser), 0);
        assert_eq!(at(&enabled[1..], &mut chooser), 0);
    }
}
