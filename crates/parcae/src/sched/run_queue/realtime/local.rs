//! The ready tasks of the contexts of one worker, and the context that runs.

use super::PER_WORKER;
use super::loan::Borrower;
use super::table::ContextTable;
use crate::base::time::Nanos;
use crate::sched::queue::Chain;
use crate::sched::task::{Task, TaskRef};
use crate::sched::timers::{Expire, NEVER, STEP};
use parcae_core::context::{PartyId, Refused, Stop, Urgency};
use std::ptr::NonNull;
use std::sync::Weak;

/// The answer to a task that looks up at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookUp {
    GoOn,
    /// It goes on, for at most so many ops.
    Cut(u64),
    /// It lets others run.
    Yield,
}

/// The task that runs on a context.
pub(super) struct RealtimeRun {
    slot: usize,
    task: NonNull<Task>,
    began: Nanos,
    /// The end of the budget.
    until: Nanos,
    /// Its task has given the context back, and is to leave its stack by then.
    leaves: Nanos,
}

/// The outcome of a choice.
pub(super) enum Chosen {
    /// Nothing that may run; when there will be something.
    Nothing { earliest: Nanos },
    /// A task of a context that was revoked: it runs without one from now on.
    Revoked(NonNull<Task>),
    Task {
        task: NonNull<Task>,
        /// When it has to stop.
        until: Nanos,
        /// When another context has budget again.
        earliest: Nanos,
    },
}

/// The ready tasks of one worker that run on contexts.
pub(super) struct RealtimeWorker {
    ready: [Chain<Task>; PER_WORKER],
    /// Slots with ready tasks, as bits.
    waiting: u32,
    /// The release of the next job of each slot, told to the context when it wakes up, and the
    /// party that expects it; `None` if none is expected.
    release: [Option<(PartyId, Nanos)>; PER_WORKER],
    pub(super) run: Option<RealtimeRun>,
    /// Tasks that run on a context of others.
    pub(super) borrowers: Vec<Borrower>,
    /// Ops that were left in the turn of the running task when time last passed.
    left: u64,
    /// The time of the timer that was armed last for a context without budget.
    armed: Nanos,
}

impl RealtimeWorker {
    pub(super) fn new() -> RealtimeWorker {
        RealtimeWorker {
            ready: std::array::from_fn(|_| Chain::new()),
            waiting: 0,
            release: [None; PER_WORKER],
            run: None,
            borrowers: Vec::new(),
            left: 0,
            armed: 0,
        }
    }

    /// Whether no task is here.
    pub(super) fn is_clean(&self) -> bool {
        self.waiting == 0
    }

    /// The slots with ready tasks.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        let waiting = self.waiting;
        (0..PER_WORKER).filter(move |slot| waiting & 1 << slot != 0)
    }

    pub(super) fn has_ready(&self, slot: usize) -> bool {
        self.waiting & 1 << slot != 0
    }

    /// Adds a ready task of the context in this slot, which becomes ready with it.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, and the caller's to hand over.
    pub(super) unsafe fn add(
        &mut self,
        table: &mut ContextTable,
        slot: usize,
        task: NonNull<Task>,
        now: Nanos,
    ) {
        let runs = |task| self.run.as_ref().is_some_and(|run| run.task == task);
        // One that yields lets others run, and its borrower with them.
        let is_first = !self.borrowers.is_empty() && !runs(task) && self.is_lender(task);
        // SAFETY: as the caller says.
        unsafe {
            match is_first {
                true => self.ready[slot].push_front(task),
                false => self.ready[slot].push_back(task),
            }
        }
        if is_first && self.run.as_ref().is_some_and(|run| run.slot == slot) {
            self.run_leaves(now);
        }
        self.waiting |= 1 << slot;
        if self.run.as_ref().is_none_or(|run| run.slot != slot) {
            self.wake(table, slot, now);
        }
    }

    /// Number of ready tasks of the context in this slot.
    pub(super) fn len(&self, slot: usize) -> usize {
        self.ready[slot].len()
    }

    /// Puts a task back that was popped.
    ///
    /// # Safety
    ///
    /// As for [`add`](RealtimeWorker::add).
    pub(super) unsafe fn put_back(&mut self, slot: usize, task: NonNull<Task>) {
        // SAFETY: as the caller says.
        unsafe { self.ready[slot].push_back(task) };
        self.waiting |= 1 << slot;
    }

    pub(super) fn pop(&mut self, slot: usize) -> Option<NonNull<Task>> {
        let task = self.ready[slot].pop_front();
        if self.ready[slot].is_empty() {
            self.waiting &= !(1 << slot);
        }
        task
    }

    /// The context becomes ready: at the release of its job, if one is expected, or now.
    fn wake(&mut self, table: &mut ContextTable, slot: usize, now: Nanos) {
        let Some((_, party)) = table.live(slot) else { return };
        let at = match self.release_of(table, slot) {
            release if release <= now => {
                self.release[slot] = None;
                release
            }
            _ => now,
        };
        let _ = table.contexts.wake(party, at); // an error: it is gone
    }

    /// The next job of the context is released at this time.
    pub(super) fn expect_job(&mut self, table: &ContextTable, slot: usize, release: Nanos) {
        self.release[slot] = table.live(slot).map(|(_, party)| (party, release));
    }

    /// The release that the context in this slot expects; `NEVER` if it expects none. One that an
    /// earlier context of the slot has left is none.
    fn release_of(&self, table: &ContextTable, slot: usize) -> Nanos {
        match (self.release[slot], table.live(slot)) {
            (Some((party, release)), Some((_, live))) if party == live => release,
            _ => NEVER,
        }
    }

    // ----- runs -------------------------------------------------------------------------

    /// The run of the context has ended. Returns how long it was, and what ends the context, if it
    /// has gone too far.
    pub(super) fn end_run(
        &mut self,
        table: &mut ContextTable,
        now: Nanos,
    ) -> Option<(Nanos, Option<Weak<dyn Expire>>)> {
        let RealtimeRun { slot, began, .. } = self.run.take()?;
        let ready = self.has_ready(slot);
        // A task that yields before it waits for its release has not ended its job by that.
        let goes_on = ready && self.release_of(table, slot) > now;
        let why = if goes_on { Stop::Preempted } else { Stop::Blocked };
        let charge = table.contexts.stop(now, why); // an error: it was revoked
        if ready && !goes_on {
            self.wake(table, slot, now);
        }
        let end = charge.ok().and_then(|charge| table.ends_by(slot, charge.overrun));
        Some((now.saturating_sub(began), end))
    }

    /// The task that runs has given its context back: it is to leave its stack by then.
    pub(super) fn run_leaves(&mut self, by: Nanos) {
        if let Some(run) = &mut self.run {
            (run.leaves, run.until) = (by, run.until.min(by));
        }
    }

    /// The next task: of the most urgent context with budget.
    pub(super) fn choose(&mut self, table: &mut ContextTable, now: Nanos) -> Chosen {
        let (mut best, mut earliest): (Option<(Urgency, usize)>, _) = (None, NEVER);
        for slot in self.slots() {
            let Some((context, party)) = table.live(slot) else {
                let Some(task) = self.pop(slot) else { continue };
                return Chosen::Revoked(task);
            };
            let ready = table.contexts.ready_at(context).unwrap_or(NEVER);
            if ready > now {
                let _ = table.contexts.start(party, now); // refused: raises the timeout, once
                earliest = earliest.min(ready);
                continue;
            }
            let Some(urgency) = table.contexts.urgency(context) else { continue };
            if best.is_none_or(|(least, _)| urgency < least) && table.is_running_allowed(slot) {
                best = Some((urgency, slot));
            }
        }
        let Some((_, slot)) = best else { return Chosen::Nothing { earliest } };
        let started = match table.live(slot) {
            Some((_, party)) => table.contexts.start(party, now),
            None => Err(Refused::StaleParty),
        };
        let Ok(grant) = started else {
            debug_assert!(false, "it was ready: {started:?}");
            return Chosen::Nothing { earliest };
        };
        let Some(task) = self.pop(slot) else {
            unreachable!("a slot with a ready task");
        };
        let until = now.saturating_add(grant.limit);
        self.run = Some(RealtimeRun { slot, task, began: now, until, leaves: NEVER });
        Chosen::Task { task, until, earliest }
    }

    /// Whether the task that runs is to let another one run; and until when it may go on, if it
    /// runs on a context.
    pub(super) fn look_up(&mut self, table: &mut ContextTable, now: Nanos) -> (bool, Nanos) {
        let (mut own, mut until) = (None, NEVER);
        if let Some(run) = &mut self.run {
            if run.leaves <= now {
                return (true, now);
            }
            let Some((context, _)) = table.live(run.slot) else { return (false, NEVER) };
            match table.contexts.charge(now) {
                Ok(charge) if charge.depleted.is_some() => return (true, now),
                Ok(charge) => run.until = now.saturating_add(charge.left).min(run.leaves),
                Err(_) => return (true, now),
            }
            (own, until) = (table.contexts.urgency(context), run.until);
        }
        let goes_first = |slot: usize| {
            let Some((context, _)) = table.live(slot) else { return false };
            table.contexts.ready_at(context).is_some_and(|ready| ready <= now)
                && table.is_running_allowed(slot)
                && match (table.contexts.urgency(context), own) {
                    (Some(its), Some(own)) => its < own,
                    (its, None) => its.is_some(),
                    (None, _) => false,
                }
        };
        (self.slots().any(goes_first), until)
    }

    // ----- virtual time -----------------------------------------------------------------

    /// A run begins, with so many ops left in the turn of its task.
    pub(super) fn run_begins(&mut self, left: u64) {
        self.left = left;
    }

    /// So many ops are left now. Returns those that were used since the last time.
    pub(super) fn pass(&mut self, left: u64) -> u64 {
        std::mem::replace(&mut self.left, left).saturating_sub(left)
    }

    /// All ops of the last turn were used.
    pub(super) fn pass_all(&mut self) -> u64 {
        std::mem::take(&mut self.left)
    }

    /// Ops until the end of the budget of the context that runs.
    pub(super) fn budget_ops(&self, now: Nanos) -> u64 {
        let run = self.run.as_ref();
        run.map_or(u64::MAX, |run| run.until.saturating_sub(now).div_ceil(STEP))
    }

    /// Whether a timer has to be armed for this time.
    pub(super) fn must_arm(&mut self, earliest: Nanos, now: Nanos) -> bool {
        let must = earliest != NEVER && (self.armed <= now || earliest < self.armed);
        if must {
            self.armed = earliest;
        }
        must
    }
}

/// Tasks to wake, without the lock.
pub(super) type Wakes = [Option<TaskRef>; PER_WORKER];
