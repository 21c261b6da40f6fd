//! Joiners that are woken a little after the end of a child.
//!
//! A task that joins its children one after the other waits for the first, is woken by its end,
//! waits for the second, and so on. If each end woke it at once, every join would cost two
//! switches. So a worker that has run a child whose joiner is parked on the same worker keeps the
//! wake back ([`LateJoiner`]), and runs further children of the group that are queued here. The
//! joiner then finds several of them ended.
//!
//! # When the joiner is woken
//!
//! - Before the worker turns to anything else than an unstarted child of the same group: another
//!   task, a search for work, sleep. That is where those children are counted
//!   (`Worker::count_ended`).
//! - Before a pick, if no unstarted task is in the worker's deque: no child that is there is likely
//!   to be next, and the pick may come to tasks of Low priority, which go behind the joiner.
//! - After [`MOST`] children, or once [`LONG`] ticks have passed, which is looked at before the
//!   2nd, 4th, 8th and 16th child starts. So a joiner waits for one child more than it has to, or
//!   for several that were short.
//! - At once, for [`PROMPT`] joins after a child that took long; if another worker could run the
//!   joiner meanwhile; if the joiner is not a task, or not of Normal priority: a High one goes
//!   before the children; under the deterministic executor.
//!
//! # Not done: calling a child on the stack of its joiner
//!
//! A joiner that finds its child unstarted could call it as a function, as rayon does, and save two
//! switches. Queues and records do not allow that yet:
//!
//! - A task leaves the middle of a deque only by the hands of the worker that takes it. A child
//!   that was called would stay there as a stale entry. Such an entry has to own a share of the
//!   record, so that the record is not recycled beneath it, or has to be trimmed at the bottom of
//!   the deque before the record is freed.
//! - `dispatch` and the picks read cells of a record (its traits, its strand) before they claim it.
//!   With stale entries the claim has to come first, as one CAS that fails for a called child.
//! - The state word needs a phase for the joiner: it is owned, and its stack is in use, but beneath
//!   that of its child. A wake of the joiner is latched in that phase, a cancel reaches it after
//!   the child, and observers show the child as the running task and the joiner as one that waits.
//! - A child that waits would suspend the joiner with it. Its deadline, its budget and the end of
//!   its turn are then those of both.
//! - The child needs as much stack as its options say; less is left beneath a joiner. Below a bound
//!   the join has to switch as it does now.
//!
//! It would gain little now that a joiner waits once for several children. Instructions for each
//! leaf of a tree with ten children per task, spawned and joined on one worker (`callgrind`): 1066,
//! of which about 50 are waits and wakes of joiners and 64 are picks. The life of the tasks takes
//! 210, their spawns 170, and the nurseries, one for ten leaves, about 250. (Since then the state
//! of a nursery is built in place. `parcae-bench count nursery` counts ten children and a nursery.)
//!
//! # Correctness
//!
//! Used by the thread of the worker alone. A joiner in here is parked on this worker, which alone
//! can resume it, and does not look for other work or sleep before it has woken it: the wake is
//! late, and not lost. It may be woken otherwise meanwhile, and even end: then the wake is a
//! spurious one for the task that has its record, as it is for any joiner.

use super::Worker;
use crate::sched::task::Lane;
use crate::sched::task::group::Group;
use crate::sched::task::joiner::Joiner;
use std::cell::Cell;
use std::ptr::NonNull;

/// Children that end before a joiner is woken. As many as come from the global queue at once.
const MOST: u32 = 32;
/// Ticks after which a joiner is woken: about 10 µs of a counter at 2.5 GHz.
const LONG: u64 = 25_000;
/// Joins whose joiner is woken at once, after a child that took long.
const PROMPT: u32 = 64;

/// A wake that is kept back.
pub(super) struct LateJoiner {
    joiner: Cell<Option<Joiner>>,
    /// The time at which it was due.
    since: Cell<u64>,
    /// Children that were started since then.
    children: Cell<u32>,
    /// Joins whose joiner is woken at once.
    prompt: Cell<u32>,
}

impl LateJoiner {
    pub(super) fn new() -> LateJoiner {
        LateJoiner {
            joiner: Cell::new(None),
            since: Cell::new(0),
            children: Cell::new(0),
            prompt: Cell::new(0),
        }
    }

    /// Whether a wake is kept back.
    #[inline(always)]
    pub(super) fn is_some(&self) -> bool {
        self.joiner.get().is_some()
    }

    /// Whether a wake may be kept back: children were short of late.
    fn may_keep(&self) -> bool {
        let prompt = self.prompt.get();
        self.prompt.set(prompt.saturating_sub(1));
        prompt == 0
    }

    /// Keeps a wake back that is due now.
    fn keep(&self, joiner: Joiner, now: u64) {
        self.joiner.set(Some(joiner));
        self.since.set(now);
        self.children.set(0);
    }

    /// Another child is about to start: whether the joiner has waited for long enough.
    fn has_waited(&self, now: impl FnOnce() -> u64) -> bool {
        let children = self.children.get() + 1;
        self.children.set(children);
        if children == 1 || !children.is_power_of_two() {
            return false;
        }
        let is_long = now().saturating_sub(self.since.get()) > LONG;
        if is_long {
            self.prompt.set(PROMPT);
        }
        is_long || children >= MOST
    }
}

impl Worker {
    /// Tells the joiner of a task that has just ended here: now, or later if the task is a child
    /// of a group, whose end is about to be noted in `ended`.
    ///
    /// # Safety
    ///
    /// The end of the task has taken JOIN out of its state word.
    pub(super) unsafe fn tell(&self, joiner: Joiner, group: Option<NonNull<Group>>) {
        self.tell_kept(); // at most one is kept
        let waits_here = joiner.as_task().is_some_and(|task| {
            // SAFETY: records live as long as the scheduler.
            let task = unsafe { task.as_ref() };
            // Parked here, so only this thread could end it: its traits stay as they are.
            task.state.is_parked_on(self.index) && task.traits.get().lane == Lane::Normal
        });
        let may_wait = group.is_some()
            && waits_here
            && self.queue.has_unstarted()
            && !self.shared.config.deterministic;
        if may_wait && self.late_joiner.may_keep() {
            self.late_joiner.keep(joiner, self.shared.tracer.clock.ticks());
        } else {
            // SAFETY: as the caller says.
            unsafe { joiner.tell(&self.shared) };
        }
    }

    /// Wakes the joiner that was kept waiting, if there is one. Does not unwind.
    #[inline]
    pub(super) fn tell_kept(&self) {
        if let Some(joiner) = self.late_joiner.joiner.take() {
            // SAFETY: JOIN was taken out by the end of the child for which it was kept.
            unsafe { joiner.tell(&self.shared) };
        }
    }

    /// Called before a pick: wakes the joiner if no child of its group is likely to be next.
    #[inline]
    pub(super) fn tell_before_pick(&self) {
        if self.late_joiner.is_some() && !self.queue.has_unstarted() {
            self.count_ended();
        }
    }

    /// Called before another child of the group starts while a wake is kept back: wakes the joiner
    /// if it has waited for long enough.
    pub(super) fn look_after_joiner(&self) {
        if self.late_joiner.has_waited(|| self.shared.tracer.clock.ticks()) {
            self.count_ended();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Children before one of which the joiner is woken, if each takes so long.
    fn children_until_woken(late: &LateJoiner, ticks: u64) -> u32 {
        assert!(late.may_keep());
        late.keep(Joiner::task(NonNull::dangling()), 1_000);
        let mut started = 1;
        while !late.has_waited(|| 1_000 + ticks * u64::from(started)) {
            started += 1;
        }
        started
    }

    #[test]
    fn a_joiner_waits_for_many_short_children_or_one_long_one() {
        let late = LateJoiner::new();
        assert_eq!(children_until_woken(&late, 1), MOST);
        assert_eq!(children_until_woken(&late, LONG / 32), MOST);
        assert_eq!(children_until_woken(&late, LONG / 7), 8);
        for _ in 0..PROMPT {
            assert!(!late.may_keep());
        }
        assert_eq!(children_until_woken(&late, LONG + 1), 2);
        assert!(!late.may_keep());
    }
}
