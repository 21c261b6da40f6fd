//! Expired sleepers: tasks of a worker whose timers have fired, and that are not woken yet.
//!
//! A worker takes all timers that are due out of its wheels in one pass, the earliest first. Tokens
//! and nurseries expire at once. A task that only this worker may run is noted here, and woken when
//! its turn is near. So expired sleepers run in the order of their deadlines.
//!
//! # Why not wake all at once
//!
//! With many sleepers their records, stacks and page table entries are in no cache: each resumption
//! would wait for memory a dozen times, one time after the other. A batch is small enough to stay
//! in the cache until it has run, and large enough for its accesses to overlap: first all records
//! are prefetched, then each task is woken and its strand prefetched, then the frames on its stack.
//!
//! # When the next batch is woken
//!
//! At a look of the worker (every [`FAIRNESS`] picks, and when it is idle), if few tasks are ready,
//! or after as many picks as tasks were ready after the last batch. A batch has at least [`BATCH`]
//! tasks, and as many as are ready: beside many ready tasks, sleepers get half of the picks,
//! although they gain nothing from the cache then.
//!
//! # Correctness
//!
//! Used by the thread of the worker alone. A task in here is parked or was woken otherwise; it may
//! even have ended, and its record may belong to another task. Waking by record and generation
//! tolerates all of that (`timers::deadlines`, *firing*). A worker does not sleep while there are
//! tasks in here (`wait_for_work`). If it is stuck in a task, these tasks could not run anyway.

use super::{DueWork, Worker};
#[cfg(doc)]
use crate::sched::run_queue::FAIRNESS;
use crate::sched::run_queue::{RunQueue, UpkeepKind};
use crate::sched::task::TaskRef;
use crate::sched::task::state::Woken;
use crate::sched::timers::{Nanos, note};
use crate::stack::fiber::strand::Strand;
use crate::stack::prefetch;
use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// The most timers that are taken out of a wheel before tasks have their turn.
const DEADLINES: usize = 1024;
/// Tasks that are woken at once.
const BATCH: usize = 56;
/// Tasks for which an empty list keeps its memory.
const KEPT: usize = 4096;

/// Tasks that are due, the earliest first.
pub(super) struct Expired {
    tasks: UnsafeCell<VecDeque<TaskRef>>,
    /// Picks of the worker before which no more are woken, unless few tasks are ready.
    next_batch: Cell<u32>,
}

impl Expired {
    pub(super) fn new() -> Expired {
        Expired { tasks: UnsafeCell::new(VecDeque::new()), next_batch: Cell::new(0) }
    }

    /// Whether there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // SAFETY: one thread; the reference ends with the statement.
        unsafe { (*self.tasks.get()).is_empty() }
    }

    /// As new. There are none.
    pub(super) fn reset(&mut self) {
        self.next_batch.set(0);
    }

    fn push(&self, task: TaskRef) {
        // SAFETY: as above.
        unsafe { (*self.tasks.get()).push_back(task) };
    }

    /// Whether it is time to wake some.
    #[inline]
    pub(super) fn has_batch(&self, queue: &RunQueue) -> bool {
        let reached = || queue.picks().wrapping_sub(self.next_batch.get()) as i32 >= 0;
        !self.is_empty() && (queue.pinned_len() <= BATCH || reached())
    }

    /// The first tasks, up to a batch, which begin to come into the cache.
    fn take(&self, batch: &mut [Option<TaskRef>; BATCH]) -> usize {
        // SAFETY: as above; nothing below uses the list.
        let tasks = unsafe { &mut *self.tasks.get() };
        let taken = tasks.len().min(BATCH);
        for (place, task) in batch.iter_mut().zip(tasks.drain(..taken)) {
            prefetch(task.task.as_ptr());
            *place = Some(task);
        }
        if tasks.is_empty() && tasks.capacity() > KEPT {
            *tasks = VecDeque::new();
        }
        taken
    }
}

impl Worker {
    /// Acts on deadlines of this worker that have passed. Called in the loop, outside of any task:
    /// callbacks of tokens run here. Never inlined: its batch would lie at the base of every stack.
    #[cold]
    #[inline(never)]
    pub(super) fn fire_timers(&self, now: Nanos) {
        // If more are due than one pass takes, the next look finds them.
        self.due.clear(DueWork::DEADLINES);
        let began = self.due.has(DueWork::TENANTS).then(|| self.shared.now());
        self.events.act_for_worker();
        let note = |task| self.expired.push(task);
        self.shared.fire_own(self.index, now, DEADLINES, note);
        if self.expired.has_batch(&self.queue) {
            let wanted = self.queue.pinned_len().max(1);
            for _ in 0..wanted.div_ceil(BATCH) {
                self.wake_expired();
            }
            let ready = self.queue.pinned_len() as u32;
            self.expired.next_batch.set(self.queue.picks().wrapping_add(ready));
        }
        if let Some(began) = began {
            let took = self.shared.now().saturating_sub(began);
            self.queue.charge_upkeep(UpkeepKind::Timers, took);
        }
    }

    /// Wakes the next tasks that are due.
    fn wake_expired(&self) {
        let mut batch = [None; BATCH];
        let taken = self.expired.take(&mut batch);
        let mut strands: [Option<NonNull<Strand>>; BATCH] = [None; BATCH];
        for (task, strand) in batch.iter().flatten().zip(&mut strands) {
            *strand = self.wake_pinned(*task);
        }
        for strand in strands[..taken].iter().flatten() {
            // SAFETY: of a task in this worker's queue, which this thread alone resumes.
            unsafe { strand.as_ref() }.prefetch_frames();
        }
    }

    /// Wakes a task that is due behind those that are ready. Its strand, if it was parked here.
    fn wake_pinned(&self, task: TaskRef) -> Option<NonNull<Strand>> {
        note(&self.shared, task);
        self.wake_behind(task)
    }

    /// Wakes a task behind those that are ready. Its strand, if it was parked here.
    pub(crate) fn wake_behind(&self, task: TaskRef) -> Option<NonNull<Strand>> {
        // SAFETY: records live as long as the scheduler.
        let this = unsafe { task.task.as_ref() };
        let owner = match this.state.unpark(task.generation) {
            Woken::Enqueue { owner } if owner == self.index => owner,
            woken => {
                self.shared.follow_up(task.task, woken);
                return None;
            }
        };
        self.shared.note_woken(Some(self), this, owner);
        self.stats().woken.bump();
        // SAFETY: QUEUED, and ours to put into a queue. It has waited here, so it has started.
        let strand = unsafe { this.strand() };
        strand.inspect(|strand| prefetch(strand.as_ptr()));
        // SAFETY: as above; it may not move.
        unsafe { self.queue.push_woken_behind(task.task) };
        strand
    }
}
