//! Stealing: which workers to take tasks from, and which tasks to leave alone. The header of the
//! module has the reasons.

use super::{
    FEW, GRACE, PickHooks, RunQueue, STEAL_BATCH, TaskGuard, TaskSource, VICTIMS, Victims,
};
use crate::base::time::Nanos;
use crate::sched::deque::Steal;
use crate::sched::task::Task;
use std::ptr::NonNull;

impl RunQueue {
    /// Tries to steal from up to [`VICTIMS`] workers.
    pub(super) fn steal(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if !self.all().steals() {
            return None;
        }
        let workers = self.all().active();
        for attempt in 0..VICTIMS.min(workers - 1) {
            let victim = self.victim(attempt, workers, hooks);
            if victim == self.worker {
                continue;
            }
            if let Some(task) = self.steal_from(victim, hooks) {
                return Some(task);
            }
            hooks.missed();
        }
        None
    }

    fn victim(&self, attempt: usize, workers: usize, hooks: &impl PickHooks) -> usize {
        match self.all().victims() {
            Victims::Nobody => self.worker,
            Victims::Random => hooks.random_below(workers),
            Victims::RoundRobin => {
                let next = (self.last_victim.get() + 1) % workers;
                self.last_victim.set(next);
                next
            }
            Victims::MostLoaded => {
                let others = || (0..workers).filter(|&worker| worker != self.worker);
                // The most loaded first; if that fails, others at random.
                if attempt == 0 {
                    let load = |&worker: &usize| self.all().stealable(worker);
                    others().max_by_key(load).unwrap_or(self.worker)
                } else {
                    hooks.random_below(workers)
                }
            }
        }
    }

    /// Whether this worker first saw the oldest task of a victim at least [`GRACE`] ago.
    fn is_ripe(&self, victim: usize, oldest: u64, now: Nanos) -> bool {
        let seen = &self.seen[victim];
        let (task, since) = seen.get();
        if task != oldest {
            seen.set((oldest, now));
        }
        task == oldest && now.saturating_sub(since) >= GRACE
    }

    pub(super) fn steal_from(
        &self,
        victim: usize,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        if !self.all().steals() {
            return None;
        }
        let stealer = &self.all().of(victim).stealer;
        let (oldest, tasks) = stealer.oldest()?;
        if tasks <= FEW && !self.is_ripe(victim, oldest, hooks.now()) {
            return None;
        }
        // A lost race means that another worker made progress; once more, then elsewhere.
        for _ in 0..2 {
            match stealer.steal_batch(&self.deque, STEAL_BATCH) {
                Steal::Task(task) => {
                    let guard = TaskGuard::new(self, task);
                    hooks.took(TaskSource::Worker { victim, task });
                    self.announce_rest(hooks);
                    return Some(guard.give());
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
        None
    }
}
