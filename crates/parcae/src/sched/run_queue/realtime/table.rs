//! The contexts of a scheduler, as all threads see them: admission, revocation, jobs, events.

use super::{LeaseTable, PER_WORKER, RealtimeWorker, Seal, capacity};
use crate::base::error::ContextRefused;
use crate::base::lock::{Guard, Lock};
use crate::base::time::Nanos;
use crate::sched::task::{Binding, ContextIndex, TaskRef};
use crate::sched::timers::Expire;
use parcae_core::WorkerSet;
use parcae_core::admission::{self, Demand};
use parcae_core::context::{ContextId, ContextSlot, Contexts, EventKind, PartyId, PartySlot};
use parcae_core::context::{Params, Usage};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An event of a context: how often it happened since it was last asked for, when last, and the
/// worst amount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextNotice {
    pub(crate) kind: EventKind,
    pub(crate) at: Nanos,
    pub(crate) amount: u64,
    pub(crate) count: u32,
}

/// The figures of a context.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ContextFigures {
    pub(crate) usage: Usage,
    pub(crate) left: Nanos,
    /// Jobs that have ended, those of them that were late, and the worst lateness.
    pub(crate) jobs: u64,
    pub(crate) late: u64,
    pub(crate) worst: Nanos,
    /// Releases that passed while an earlier job ran.
    pub(crate) skipped: u64,
    /// How often it was lent to the task that answers a call.
    pub(crate) lent: u64,
}

/// The next job of a periodic task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPlan {
    pub(crate) number: u64,
    pub(crate) release: Nanos,
    pub(crate) deadline: Nanos,
}

/// A context that was admitted.
pub(super) struct Admitted {
    context: ContextId,
    party: PartyId,
    /// False once it was revoked.
    live: bool,
    /// An overrun has ended it: it does not start again, and is about to be revoked.
    ended: bool,
    /// How much beyond the budget is too much, if that ends it.
    tolerance: Option<u64>,
    /// The job that was handed out last.
    job: Option<JobPlan>,
    figures: ContextFigures,
    /// A place for each kind of event.
    notices: [Option<ContextNotice>; 4],
    /// The task to wake when there is an event.
    waiter: Option<TaskRef>,
    /// Ends the context for good.
    end: Weak<dyn Expire>,
}

/// The contexts of one worker.
pub(super) struct ContextTable {
    pub(super) contexts: Contexts<Box<[ContextSlot]>, Box<[PartySlot]>>,
    slots: Vec<Option<Admitted>>,
}

impl ContextTable {
    fn new(worker: usize) -> ContextTable {
        let contexts = (0..PER_WORKER).map(|_| ContextSlot::EMPTY).collect::<Box<[_]>>();
        let parties = (0..PER_WORKER).map(|_| PartySlot::EMPTY).collect::<Box<[_]>>();
        let slots = (0..PER_WORKER).map(|_| None).collect();
        ContextTable { contexts: Contexts::new(worker as u8, contexts, parties), slots }
    }

    /// Context and party in this slot; `None` if it was revoked.
    pub(super) fn live(&self, slot: usize) -> Option<(ContextId, PartyId)> {
        let admitted = self.slots[slot].as_ref().filter(|admitted| admitted.live)?;
        Some((admitted.context, admitted.party))
    }

    /// Whether the context in this slot may run when it has budget: it was not ended by an overrun.
    pub(super) fn is_running_allowed(&self, slot: usize) -> bool {
        self.slots[slot].as_ref().is_some_and(|admitted| !admitted.ended)
    }

    /// Counts a loan of the context with this node. False if it was revoked, or the node is that of
    /// another runtime.
    pub(super) fn count_loan(&mut self, slot: usize, node: &Arc<dyn Expire>) -> bool {
        let Some(admitted) = &mut self.slots[slot] else { return false };
        let is_its = std::ptr::addr_eq(admitted.end.as_ptr(), Arc::as_ptr(node));
        let lends = admitted.live && is_its;
        admitted.figures.lent += u64::from(lends);
        lends
    }

    /// A charge has gone so far beyond the budget: what ends the context, if that was too much.
    pub(super) fn ends_by(&mut self, slot: usize, overrun: u64) -> Option<Weak<dyn Expire>> {
        let admitted = self.slots[slot].as_mut()?;
        if admitted.ended || overrun <= admitted.tolerance? {
            return None;
        }
        admitted.ended = true;
        Some(Weak::clone(&admitted.end))
    }

    /// Sorts the events of all contexts into their places. Returns the tasks to wake, after the
    /// lock was given back.
    pub(super) fn collect(&mut self) -> [Option<TaskRef>; PER_WORKER] {
        let mut wakes = [None; PER_WORKER];
        while let Some(event) = self.contexts.take_event() {
            let of = |slot: &Option<Admitted>| {
                slot.as_ref().is_some_and(|admitted| admitted.context == event.context)
            };
            let Some(slot) = self.slots.iter().position(of) else { continue };
            let Some(admitted) = &mut self.slots[slot] else { continue };
            let place = &mut admitted.notices[event.kind as usize];
            let (amount, count) = place.map_or((0, 0), |old| (old.amount, old.count));
            *place = Some(ContextNotice {
                kind: event.kind,
                at: event.at,
                amount: event.amount.max(amount),
                count: event.count.saturating_add(count),
            });
            // Another event of the same context may have taken the waiter.
            wakes[slot] = wakes[slot].or(admitted.waiter.take());
        }
        wakes
    }
}

/// Both parts of a worker.
pub(super) struct WorkerContexts {
    /// The worker has to look at its contexts again, although no task was pushed: one was revoked,
    /// or has budget again. To the idle protocol it is a queue: set before it is announced, seen by
    /// the last look before sleep, and taken at the next pick.
    nudged: AtomicBool,
    table: Lock<ContextTable>,
    local: UnsafeCell<RealtimeWorker>,
}

// SAFETY: `local` is used by the thread of the worker alone (`RealtimeTable::local`).
unsafe impl Sync for WorkerContexts {}
// SAFETY: made by the thread that admits the first context, before any worker uses it; the tasks in
// it may be handed to other threads.
unsafe impl Send for WorkerContexts {}

/// All contexts of a scheduler.
pub(crate) struct RealtimeTable {
    pub(super) deterministic: bool,
    workers: Box<[WorkerContexts]>,
    /// Worker and slot of each context. Relaxed: written under the lock of `taken`, before the
    /// context is known to any task.
    homes: Box<[AtomicU32]>,
    /// The indices in use. Its lock makes admissions one.
    taken: Mutex<[bool; Binding::CONTEXTS]>,
    pub(super) leases: LeaseTable,
    /// The seal of each context.
    seals: Box<[Seal]>,
}

impl RealtimeTable {
    /// Of so many workers, in `slots` with temporary ones.
    pub(in crate::sched::run_queue) fn new(
        workers: usize,
        slots: usize,
        deterministic: bool,
    ) -> RealtimeTable {
        let leases = LeaseTable::new(workers, slots);
        let worker = |worker| WorkerContexts {
            nudged: AtomicBool::new(false),
            table: Lock::new(ContextTable::new(worker)),
            local: UnsafeCell::new(RealtimeWorker::new()),
        };
        RealtimeTable {
            deterministic,
            workers: (0..slots).map(worker).collect(),
            homes: (0..Binding::CONTEXTS).map(|_| AtomicU32::new(0)).collect(),
            taken: Mutex::new([false; Binding::CONTEXTS]),
            leases,
            seals: (0..Binding::CONTEXTS).map(|_| Seal::new()).collect(),
        }
    }

    /// The seal of a context.
    pub(super) fn seal(&self, context: ContextIndex) -> &Seal {
        &self.seals[context.get()]
    }

    /// Ends a context for good, if it was not revoked.
    pub(super) fn context_end(&self, context: ContextIndex) -> Option<Weak<dyn Expire>> {
        let (worker, slot) = self.home(context);
        self.of(worker).slots[slot].as_ref().map(|admitted| Weak::clone(&admitted.end))
    }

    /// The budget that a context has left; `None` if it was revoked.
    pub(super) fn budget_left(&self, context: ContextIndex, now: Nanos) -> Option<Nanos> {
        let (worker, slot) = self.home(context);
        let table = self.of(worker);
        let (context, _) = table.live(slot)?;
        table.contexts.left(context, now)
    }

    /// No context is admitted while this is held.
    pub(super) fn admissions(&self) -> MutexGuard<'_, [bool; Binding::CONTEXTS]> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Worker and slot of a context.
    pub(in crate::sched::run_queue) fn home(&self, context: ContextIndex) -> (usize, usize) {
        let home = self.homes[context.get()].load(Ordering::Relaxed) as usize; // see the field
        (home / PER_WORKER, home % PER_WORKER)
    }

    pub(super) fn nudge(&self, worker: usize) {
        // Release: pairs with the Acquire in `take_nudge`. Ordered against the last look before
        // sleep by the fence of the announcement that follows.
        self.workers[worker].nudged.store(true, Ordering::Release);
    }

    pub(super) fn is_nudged(&self, worker: usize) -> bool {
        self.workers[worker].nudged.load(Ordering::Relaxed) // see `nudge`
    }

    /// The worker looks at its contexts now.
    pub(super) fn take_nudge(&self, worker: usize) {
        let nudged = &self.workers[worker].nudged;
        // Relaxed: a hint; the swap decides.
        if nudged.load(Ordering::Relaxed) {
            nudged.swap(false, Ordering::Acquire); // pairs with the Release in `nudge`
        }
    }

    /// The task that waits for events of a context.
    pub(super) fn take_waiter(&self, context: ContextIndex) -> Option<TaskRef> {
        let (worker, slot) = self.home(context);
        self.of(worker).slots[slot].as_mut()?.waiter.take()
    }

    /// The contexts of a worker.
    pub(super) fn of(&self, worker: usize) -> Guard<'_, ContextTable> {
        self.workers[worker].table.lock()
    }

    /// The part of a worker.
    ///
    /// # Safety
    ///
    /// Called on the thread of this worker. The reference is not kept over another call.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn local(&self, worker: usize) -> &mut RealtimeWorker {
        // SAFETY: one thread, and no other reference at the same time (caller).
        unsafe { &mut *self.workers[worker].local.get() }
    }

    /// Admits a context on one of the first `workers`, or says why none of them can take it.
    pub(in crate::sched::run_queue) fn admit(
        &self,
        params: Params,
        workers: usize,
        end: Weak<dyn Expire>,
        now: Nanos,
    ) -> Result<ContextIndex, ContextRefused> {
        let capacity = capacity(self.deterministic);
        params.check(2 * capacity.dispatch).map_err(ContextRefused::Terms)?;
        // No other thread adds contexts meanwhile; contexts that end only make room.
        let mut taken = self.admissions();
        let index = taken.iter().position(|taken| !taken);
        let index = index.ok_or(ContextRefused::Full { most: Binding::CONTEXTS })?;
        let named = |worker: &usize| {
            u8::try_from(*worker).is_ok_and(|worker| params.workers.contains(worker))
        };
        let is_open = |worker: &usize| self.leases.closed_by(*worker) == 0;
        if (0..workers).any(|worker| named(&worker))
            && !(0..workers).any(|worker| named(&worker) && is_open(&worker))
        {
            return Err(ContextRefused::Leased);
        }
        let sets: Vec<(usize, Vec<Demand>)> = (0..workers)
            .filter(|worker| named(worker) && is_open(worker) && self.of(*worker).has_room())
            .map(|worker| (worker, self.of(worker).contexts.demands().collect()))
            .collect();
        if sets.is_empty() {
            return Err(ContextRefused::Full { most: PER_WORKER });
        }
        let candidates =
            sets.iter().map(|(worker, set)| (*worker as u8, set.iter().copied(), capacity));
        let placed = admission::place(candidates, Demand::from(&params));
        let worker = usize::from(placed.map_err(ContextRefused::Rejected)?.0);
        let params = Params { workers: WorkerSet::of(worker as u8), ..params };
        let slot = self.of(worker).insert(params, end, now)?;
        // Relaxed: see the field.
        self.homes[index].store((worker * PER_WORKER + slot) as u32, Ordering::Relaxed);
        taken[index] = true;
        self.seals[index].reset(false);
        Ok(ContextIndex::new(index))
    }

    /// The part of each of the first `workers` that is promised to contexts, in thousandths.
    pub(in crate::sched::run_queue) fn promised(&self, workers: usize) -> Vec<u64> {
        let part = |demand: Demand| demand.budget.saturating_mul(1000) / demand.period.max(1);
        (0..workers).map(|worker| self.of(worker).contexts.demands().map(part).sum()).collect()
    }

    /// Ends a context: its tasks have none from now on. Returns the task that waits for its events,
    /// to be woken; `None` if it had ended before.
    pub(in crate::sched::run_queue) fn revoke(
        &self,
        context: ContextIndex,
        now: Nanos,
    ) -> Option<Option<TaskRef>> {
        let (worker, slot) = self.home(context);
        let mut table = self.of(worker);
        let ended = table.end(slot, now);
        ended.then(|| table.slots[slot].as_mut().and_then(|admitted| admitted.waiter.take()))
    }

    /// Takes the slot of a context back, to which no task is bound any more.
    pub(in crate::sched::run_queue) fn release(&self, context: ContextIndex, now: Nanos) {
        let (worker, slot) = self.home(context);
        {
            let mut table = self.of(worker);
            table.end(slot, now);
            table.slots[slot] = None;
        }
        self.admissions()[context.get()] = false;
    }

    /// The figures of a context, up to the last charge.
    pub(in crate::sched::run_queue) fn figures(
        &self,
        context: ContextIndex,
        now: Nanos,
    ) -> ContextFigures {
        let (worker, slot) = self.home(context);
        let table = self.of(worker);
        let Some(admitted) = &table.slots[slot] else { return ContextFigures::default() };
        let mut figures = admitted.figures;
        if let Some(usage) = table.contexts.usage(admitted.context) {
            figures.usage = usage;
            figures.left = table.contexts.left(admitted.context, now).unwrap_or(0);
        }
        figures
    }

    /// The next event of a context; if there is none, `waiter` is woken by the next one. The last
    /// waiter counts.
    pub(in crate::sched::run_queue) fn take_notice(
        &self,
        context: ContextIndex,
        waiter: Option<TaskRef>,
    ) -> Option<ContextNotice> {
        let (worker, slot) = self.home(context);
        let mut table = self.of(worker);
        let admitted = table.slots[slot].as_mut()?;
        let notice = admitted.notices.iter_mut().find_map(Option::take);
        if notice.is_none() && waiter.is_some() {
            admitted.waiter = waiter;
        }
        notice
    }

    /// The present job of the context has ended: the next one. `None` if it was revoked.
    pub(in crate::sched::run_queue) fn next_job(
        &self,
        context: ContextIndex,
        now: Nanos,
    ) -> Option<JobPlan> {
        let (worker, slot) = self.home(context);
        self.of(worker).next_job(slot, now)
    }
}

impl ContextTable {
    /// The slots of contexts that were not revoked, as bits.
    pub(super) fn live_slots(&self) -> u32 {
        (0..PER_WORKER).fold(
            0,
            |slots, slot| {
                if self.live(slot).is_some() { slots | 1 << slot } else { slots }
            },
        )
    }

    /// Whether there is room for another context. One that was revoked keeps its slot until the
    /// last task that was bound to it has ended.
    fn has_room(&self) -> bool {
        self.contexts.vacant() > 0 && self.slots.iter().any(Option::is_none)
    }

    /// Adds a context; there is room for it.
    fn insert(
        &mut self,
        params: Params,
        end: Weak<dyn Expire>,
        now: Nanos,
    ) -> Result<usize, ContextRefused> {
        let full = ContextRefused::Full { most: PER_WORKER };
        let slot = self.slots.iter().position(Option::is_none).ok_or(full.clone())?;
        let context = self.contexts.create(params, now).map_err(|_| full.clone())?;
        let bound = self.contexts.register(None).and_then(|party| {
            self.contexts.bind(context, party)?;
            Ok(party)
        });
        let Ok(party) = bound else {
            let _ = self.contexts.destroy(context, now); // it was just made
            return Err(full);
        };
        let tolerance = match params.overrun {
            parcae_core::context::Overrun::Halt { tolerance } => Some(tolerance),
            _ => None,
        };
        self.slots[slot] = Some(Admitted {
            context,
            party,
            live: true,
            ended: false,
            tolerance,
            job: None,
            figures: ContextFigures::default(),
            notices: [None; 4],
            waiter: None,
            end,
        });
        Ok(slot)
    }

    /// Ends the context in a slot.
    fn end(&mut self, slot: usize, now: Nanos) -> bool {
        let Some((context, party)) = self.live(slot) else { return false };
        let usage = self.contexts.usage(context).unwrap_or_default();
        let _ = self.contexts.destroy(context, now); // it lives
        let _ = self.contexts.unregister(party, now); // as above
        if let Some(admitted) = &mut self.slots[slot] {
            admitted.live = false;
            admitted.figures.usage = usage;
        }
        true
    }

    fn next_job(&mut self, slot: usize, now: Nanos) -> Option<JobPlan> {
        let (context, _) = self.live(slot)?;
        let &Params { period, deadline, .. } = self.contexts.params(context)?;
        let due = self.contexts.urgency(context)?.deadline();
        let admitted = self.slots[slot].as_mut()?;
        let next = match admitted.job {
            None => {
                let release = due.saturating_sub(deadline).min(now);
                JobPlan { number: 0, release, deadline: release + deadline }
            }
            Some(last) => {
                let figures = &mut admitted.figures;
                let late = now.saturating_sub(last.deadline);
                figures.jobs += 1;
                figures.late += u64::from(late > 0);
                figures.worst = figures.worst.max(late);
                // A job that was late by whole periods is not caught up with.
                let periods = (now.saturating_sub(last.release) / period).max(1);
                figures.skipped += periods - 1;
                let release = last.release + periods * period;
                JobPlan { number: last.number + periods, release, deadline: release + deadline }
            }
        };
        admitted.job = Some(next);
        Some(next)
    }
}
