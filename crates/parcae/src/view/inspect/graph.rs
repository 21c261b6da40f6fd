//! The wait-for graph: who waits in vain.
//!
//! A *greatest fixpoint*: suppose that every task waits in vain that waits without end for somebody who is known;
//! then take back, again and again, those of whom somebody who could end the wait does not. What is
//! left waits in vain, and nothing that waits in vain was taken back. Each round looks at each
//! task once, and takes back at least one, so it ends; in practice after a few rounds.
//!
//! Where something is not known, a task is taken back: nothing is called a deadlock for lack of knowledge.
//! How much counts as known is up to the caller ([`Trust`]); `deadlock.rs` says who may trust what.

use super::{EndedBy, TaskSnapshot, TaskState};
use std::collections::HashMap;

/// Which edges of the graph count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those that nobody but the tasks named can resolve: joins and the ends of nurseries.
    Proof,
    /// Guesses as well: the ends of a channel are with the task that made it or with its descendants
    /// ([`EndedBy::Family`]), and a lock is held by the task that took it ([`EndedBy::Stack`]). Both are
    /// wrong where an end or a guard was given away.
    Guess,
}

/// Tasks, and how to find them.
pub(super) struct Graph<'t> {
    tasks: &'t [TaskSnapshot],
    by_id: HashMap<u64, usize>,
    /// Of tasks that are known to belong to a nursery.
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

    /// For each task, whether it waits in vain.
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

    /// Whether all tasks wait, and none has said that the outside ends its wait.
    pub(super) fn all_asleep(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(is_asleep)
    }

    /// Whether all tasks wait, none for a time, and as far as it seems none for the outside.
    pub(super) fn all_seem_asleep(&self) -> bool {
        let seems = |wait: &super::Wait| !wait.timed && wait.holder != EndedBy::Outside;
        self.all_asleep() && self.tasks.iter().all(|task| task.wait.as_ref().is_some_and(seems))
    }

    /// The one whose stack has an address.
    fn on_stack(&self, address: usize) -> Option<usize> {
        self.tasks.iter().position(|task| task.has(address))
    }

    /// The tasks that one waits for, as far as they are known.
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
            // One child that never ends is enough; so is the one who has the lock.
            _ => self.waits_for(at).iter().any(|&other| vain[other]),
        }
    }

    /// Whether a task and all its descendants wait in vain; false if one of them is not known.
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

/// Whether a task waits for somebody, without end, and who that is may be known.
fn may_wait_in_vain(task: &TaskSnapshot, trust: Trust) -> bool {
    let known = |holder| match holder {
        EndedBy::Anybody | EndedBy::Clock | EndedBy::Outside | EndedBy::Call => false,
        EndedBy::Family(_) | EndedBy::Stack(_) => trust == Trust::Guess,
        EndedBy::Task(_) | EndedBy::Children(_) => true,
    };
    is_asleep(task) && task.wait.as_ref().is_some_and(|wait| !wait.timed && known(wait.holder))
}

/// Whether a task waits, and did not say that the outside ends it.
fn is_asleep(task: &TaskSnapshot) -> bool {
    matches!(task.state, TaskState::Waiting | TaskState::Exhausted)
        && task.wait.as_ref().is_some_and(|wait| {
            !wait.external && !matches!(wait.holder, EndedBy::Clock | EndedBy::Call)
        })
}
