//! The wait-for graph: which tasks are deadlocked.
//!
//! A *greatest fixpoint*: start with all tasks that wait without a timeout for known tasks. Then
//! remove, again and again, tasks whose wait can be ended by a task outside of the set. The rest is
//! deadlocked, and no deadlocked task was removed. Each round visits each task once and removes at
//! least one, so it ends; in practice after a few rounds.
//!
//! A task whose wait is not understood is removed: lack of knowledge is no deadlock. The caller
//! decides which guesses count as knowledge ([`Trust`]); `deadlock.rs` has the rules.

use super::{EndedBy, TaskSnapshot, TaskState};
use std::collections::HashMap;

/// The edges of the graph that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Waits that only known tasks can end: joins and the ends of nurseries.
    Proof,
    /// Locks as well: a lock is held by the task that took it.
    Held,
    /// Guesses as well: the ends of a channel are with the task that made it or with its
    /// descendants ([`EndedBy::Family`]), and a lock is held by the task that took it
    /// ([`EndedBy::Stack`]). Both are wrong where an end or a guard was given away.
    Guess,
}

/// Tasks, and how to find them.
pub(super) struct Graph<'t> {
    tasks: &'t [TaskSnapshot],
    by_id: HashMap<u64, usize>,
    /// Children by nursery, as far as they are known.
    by_nursery: HashMap<u64, Vec<usize>>,
}

impl<'t> Graph<'t> {
    pub(super) fn new(tasks: &'t [TaskSnapshot]) -> Graph<'t> {
        let by_id = tasks.iter().enumerate().map(|(at, task)| (task.id.as_u64(), at)).collect();
        let mut by_nursery: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, task) in tasks.iter().enumerate().filter(|(_, task)| task.nursery != 0) {
            by_nursery.entry(task.nursery).or_default().push(at);
        }
        Graph { tasks, by_id, by_nursery }
    }

    /// For each task, whether it is deadlocked.
    pub(super) fn in_vain(&self, trust: Trust) -> Vec<bool> {
        let may = |task| may_wait_in_vain(task, trust);
        let mut vain: Vec<bool> = self.tasks.iter().map(may).collect();
        loop {
            let mut changed = false;
            for at in 0..self.tasks.len() {
                if vain[at] && !self.is_vain(at, &vain) {
                    vain[at] = false;
                    changed = true;
                }
            }
            if !changed {
                return vain;
            }
        }
    }

    /// Whether all tasks wait, none of them in `Cx::external`.
    pub(super) fn all_asleep(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(is_asleep)
    }

    /// Whether all tasks wait, none with a timeout, and apparently none for the outside.
    pub(super) fn all_seem_asleep(&self) -> bool {
        let seems = |wait: &super::Wait| !wait.timed && wait.holder != EndedBy::Outside;
        self.all_asleep() && self.tasks.iter().all(|task| task.wait.as_ref().is_some_and(seems))
    }

    /// The task whose stack has this address.
    fn on_stack(&self, address: usize) -> Option<usize> {
        self.tasks.iter().position(|task| task.has(address))
    }

    /// The tasks that a task waits for, as far as they are known.
    pub(super) fn waits_for(&self, at: usize) -> Vec<usize> {
        let Some(wait) = &self.tasks[at].wait else { return Vec::new() };
        match wait.holder {
            EndedBy::Task(id) => self.by_id.get(&id).copied().into_iter().collect(),
            EndedBy::Children(nursery) => {
                self.by_nursery.get(&nursery).cloned().unwrap_or_default()
            }
            EndedBy::Stack(address) => self.on_stack(address).into_iter().collect(),
            EndedBy::Family(_)
            | EndedBy::Anybody
            | EndedBy::Clock
            | EndedBy::Outside
            | EndedBy::Call => Vec::new(),
        }
    }

    fn is_vain(&self, at: usize, vain: &[bool]) -> bool {
        match self.tasks[at].wait.as_ref().map(|wait| wait.holder) {
            Some(EndedBy::Family(maker)) => {
                self.by_id.get(&maker).is_some_and(|&maker| self.is_family_vain(maker, vain))
            }
            // One child that never ends is enough; so is the holder of the lock.
            _ => self.waits_for(at).iter().any(|&other| vain[other]),
        }
    }

    /// Whether a task and all its descendants are deadlocked; false if one of them is not known.
    fn is_family_vain(&self, at: usize, vain: &[bool]) -> bool {
        let mut family = vec![at];
        while let Some(at) = family.pop() {
            if !vain[at] {
                return false;
            }
            for nursery in &self.tasks[at].children {
                let known = self.by_nursery.get(&nursery.nursery).map_or(&[][..], Vec::as_slice);
                if known.len() != nursery.live {
                    return false;
                }
                family.extend(known);
            }
        }
        true
    }
}

/// Whether a task waits without a timeout for tasks that may be known.
fn may_wait_in_vain(task: &TaskSnapshot, trust: Trust) -> bool {
    let known = |holder| match holder {
        EndedBy::Anybody | EndedBy::Clock | EndedBy::Outside | EndedBy::Call => false,
        EndedBy::Family(_) => trust == Trust::Guess,
        EndedBy::Stack(_) => trust != Trust::Proof,
        EndedBy::Task(_) | EndedBy::Children(_) => true,
    };
    is_asleep(task) && task.wait.as_ref().is_some_and(|wait| !wait.timed && known(wait.holder))
}

/// Whether a task waits, but not in `Cx::external`.
fn is_asleep(task: &TaskSnapshot) -> bool {
    matches!(task.state, TaskState::Waiting | TaskState::Exhausted)
        && task.wait.as_ref().is_some_and(|wait| {
            !wait.external && !matches!(wait.holder, EndedBy::Clock | EndedBy::Call)
        })
}
