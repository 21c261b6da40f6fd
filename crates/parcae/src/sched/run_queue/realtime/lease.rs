//! Leases: workers that run the tasks of named contexts only.
//!
//! `parcae_core::lease` decides who has which worker, until when, and that one is left for
//! housekeeping. This module keeps all other work off a leased worker.
//!
//! # States of a worker
//!
//! | state | `closed` | it runs |
//! |---|---|---|
//! | open | 0 | everything |
//! | closed | the number of the lease | tasks of its contexts; tasks of others that began there, to their ends |
//!
//! A worker is closed by the thread that grants the lease, before the lease is in force. From its
//! next pick on the worker takes no task that has not started, forwards those that come into its
//! own queues to the global one, and reports how many tasks of others are left: those that began
//! there and have waited, since they cannot move. The number only shrinks. When it is 0 the lease
//! can be put into force ([`RunQueues::activate_lease`]): then no task of others is there, and none
//! will come.
//!
//! ```text
//! who grants                                the worker
//!   1. closed := number                       1. picks: reads closed
//!   2. nudges and wakes the worker            2. takes no work of others, forwards what it has
//!   3. reads the report: for this lease?      3. report := number, tasks of others
//! ```
//!
//! A report names the lease that it answers, so an old one is not mistaken for a new one. The
//! Release of a store and the Acquire of the load on the other side order the rest, both ways.
//!
//! # Why no work is stranded
//!
//! The idle protocol relies on workers that search, and a closed worker finds no work for others.
//! So it never searches for long, and never sleeps as a searcher:
//!
//! - A closed worker does not become a searcher by itself. One that was a searcher when it was
//!   closed, or was chosen as a sleeper, stops being one before it sleeps; if it was the last, it
//!   looks behind a fence whether there is work for others, and has one of them chosen
//!   (`Worker::stop_searching_for_others`).
//! - A sleeper that is closed is passed over (`Idle::set_away`), so that work of others does not
//!   disturb it. A publisher that finds no other sleeper need not wake one: each other worker is
//!   awake, and looks at the queues after its own fence before it sleeps. The mark is a hint; if
//!   it is late, the first rule holds.
//! - Its last look before sleep is at its own inbox alone. A worker that is opened again is nudged
//!   and woken after `closed` was set to 0, and so is another worker: work that waited is found.
//! - Tasks in the deque of a closed worker are forwarded at its next pick, and stolen before that.
//!
//! Timers: no worker fires those of others, except that the timer thread fires those of a worker
//! that is late. Timers that tasks had armed on a worker before it was closed fire there.

use super::RealtimeTable;
use crate::base::error::LeaseRefused;
use crate::base::time::Nanos;
use crate::sched::queue::Chain;
use crate::sched::run_queue::{ChainGuard, PickHooks, RunQueue, RunQueues};
use crate::sched::task::{ContextIndex, Lane, Priority, Task};
use parcae_core::WorkerSet;
use parcae_core::context::Endpoint;
use parcae_core::lease::{
    Cause, Chores, Host, LeaseId, LeaseSlot, Leases, Mode, Notice, Owner, Proof, Terms,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most leases of a scheduler.
const LEASES: usize = 32;
/// The bit of a report that says that descriptors are registered; above the number of tasks.
const WATCHING: u64 = 1 << 31;

/// The terms of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTerms {
    pub(crate) owner: u64,
    pub(crate) max_latency: Nanos,
    /// How long it takes at worst until the owner's task comes to a checkpoint.
    pub(crate) latency: Nanos,
    pub(crate) host: Host,
}

/// The report of a closed worker about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClosedReport {
    /// Tasks of others that began there and have not ended.
    tasks: u32,
    /// Whether descriptors are registered there.
    watching: bool,
}

/// One worker.
struct LeasedWorker {
    /// The number of the lease that closes it; 0 while it is open.
    closed: AtomicU32,
    /// The number of a lease in the upper half, a report in the lower.
    report: AtomicU64,
}

/// All leases of a scheduler.
pub(super) struct LeaseTable {
    leases: Mutex<Leases<Box<[LeaseSlot]>>>,
    workers: Box<[LeasedWorker]>,
    /// The number of the last lease.
    last: AtomicU32,
}

impl LeaseTable {
    /// Of so many workers, and slots for more, which are never leased.
    pub(super) fn new(workers: usize, slots: usize) -> LeaseTable {
        let memory = (0..LEASES).map(|_| LeaseSlot::EMPTY).collect::<Box<[_]>>();
        let worker = |_| LeasedWorker { closed: AtomicU32::new(0), report: AtomicU64::new(0) };
        LeaseTable {
            leases: Mutex::new(Leases::new(WorkerSet::first(workers), memory)),
            workers: (0..slots).map(worker).collect(),
            last: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Leases<Box<[LeaseSlot]>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the lease that closes this worker; 0 if it is open.
    #[inline]
    pub(super) fn closed_by(&self, worker: usize) -> u32 {
        // Acquire: pairs with the Release in `close` and `open`.
        self.workers[worker].closed.load(Ordering::Acquire)
    }

    fn close(&self, worker: usize) -> u32 {
        // Relaxed: only its uniqueness counts; 0 is no number.
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        // Release: pairs with the Acquire in `closed_by`.
        self.workers[worker].closed.store(number, Ordering::Release);
        number
    }

    fn open(&self, worker: usize) {
        // Release: pairs with the Acquire in `closed_by`.
        self.workers[worker].closed.store(0, Ordering::Release);
    }

    /// Called by the worker itself.
    fn report(&self, worker: usize, number: u32, report: ClosedReport) {
        let watching = if report.watching { WATCHING } else { 0 };
        let word = u64::from(number) << 32 | watching | u64::from(report.tasks & !(1 << 31));
        // Release: pairs with the Acquire in `answer`.
        self.workers[worker].report.store(word, Ordering::Release);
    }

    /// The last report of a worker about the lease that closes it now.
    fn answer(&self, worker: usize) -> Option<ClosedReport> {
        // Acquire: pairs with the Release in `report`.
        let word = self.workers[worker].report.load(Ordering::Acquire);
        let is_new = (word >> 32) as u32 == self.closed_by(worker);
        let tasks = (word & (WATCHING - 1)) as u32;
        is_new.then_some(ClosedReport { tasks, watching: word & WATCHING != 0 })
    }
}

impl LeaseTable {
    /// Says what a closed worker still has of others, if anything.
    fn is_drained(&self, worker: usize) -> Result<(), LeaseRefused> {
        match self.answer(worker) {
            None => Err(LeaseRefused::Unanswered { worker }),
            Some(ClosedReport { tasks: 0, watching: false }) => Ok(()),
            Some(ClosedReport { tasks: 0, .. }) => Err(LeaseRefused::Descriptors { worker }),
            Some(ClosedReport { tasks, .. }) => Err(LeaseRefused::Busy { worker, tasks }),
        }
    }
}

impl RealtimeTable {
    /// Grants a lease of the worker of these contexts, and closes the worker. The first of them is
    /// the account.
    fn grant(
        &self,
        contexts: &[ContextIndex],
        terms: LeaseTerms,
    ) -> Result<(LeaseId, usize), LeaseRefused> {
        // No context is admitted meanwhile.
        let _admissions = self.admissions();
        let Some(&first) = contexts.first() else { return Err(LeaseRefused::Revoked) };
        let (worker, slot) = self.home(first);
        let mut named = 0_u32;
        for &context in contexts {
            let (other, slot) = self.home(context);
            if other != worker {
                return Err(LeaseRefused::Apart { worker, other });
            }
            named |= 1 << slot;
        }
        let (account, live) = {
            let table = self.of(worker);
            (table.live(slot), table.live_slots())
        };
        let (account, _) = account.ok_or(LeaseRefused::Revoked)?;
        if live & named != named {
            return Err(LeaseRefused::Revoked);
        }
        if live != named {
            let contexts = (live & !named).count_ones() as usize;
            return Err(LeaseRefused::Occupied { worker, contexts });
        }
        let terms = Terms {
            owner: Owner { service: terms.owner, session: 0 },
            workers: WorkerSet::of(worker as u8),
            mode: Mode::Exclusive,
            excludes: Chores::ALL,
            account,
            max_latency: terms.max_latency,
            revoked: Endpoint { port: 0, badge: 0 },
        };
        let mut leases = self.leases.lock();
        let lease = leases.grant(terms).map_err(LeaseRefused::Rules)?;
        self.leases.close(worker);
        Ok((lease, worker))
    }

    /// Puts a granted lease into force, if its worker is free of others.
    fn activate(
        &self,
        lease: LeaseId,
        worker: usize,
        terms: LeaseTerms,
    ) -> Result<(), LeaseRefused> {
        self.leases.is_drained(worker)?;
        let proof =
            Proof { pinned: Chores::NONE, consumers: 0, latency: terms.latency, host: terms.host };
        let mut leases = self.leases.lock();
        let activated = leases.activate(lease, proof, &self.of(worker).contexts);
        activated.map(|_ring| ()).map_err(LeaseRefused::Rules)
    }
}

impl RunQueues {
    /// Whether the worker is closed to the work of others.
    pub(crate) fn is_closed(&self, worker: usize) -> bool {
        self.realtime().is_some_and(|table| table.leases.closed_by(worker) != 0)
    }

    /// How many workers are closed.
    pub(crate) fn closed(&self) -> usize {
        let Some(table) = self.realtime() else { return 0 };
        (0..self.slots()).filter(|&worker| table.leases.closed_by(worker) != 0).count()
    }

    /// Grants a lease of the worker of these contexts. The caller wakes the worker.
    pub(crate) fn grant_lease(
        &self,
        contexts: &[ContextIndex],
        terms: LeaseTerms,
    ) -> Result<(LeaseId, usize), LeaseRefused> {
        let table = self.realtime().ok_or(LeaseRefused::Revoked)?;
        let granted = table.grant(contexts, terms)?;
        self.nudge(granted.1);
        Ok(granted)
    }

    /// Puts a lease into force, or says why it cannot be yet.
    pub(crate) fn activate_lease(
        &self,
        lease: LeaseId,
        worker: usize,
        terms: LeaseTerms,
    ) -> Result<(), LeaseRefused> {
        let table = self.realtime().ok_or(LeaseRefused::Revoked)?;
        table.activate(lease, worker, terms)
    }

    /// Asks the owner of a lease to leave; `None` if the lease has ended. One that was not in force
    /// ends by that: then the notice is due now.
    pub(crate) fn revoke_lease(&self, lease: LeaseId, now: Nanos, why: Cause) -> Option<Notice> {
        self.realtime()?.leases.lock().revoke(lease, now, why).ok()
    }

    /// Ends a lease that its owner gives back. Returns how long its revocation took.
    pub(crate) fn release_lease(&self, lease: LeaseId, now: Nanos) -> Option<Nanos> {
        self.realtime()?.leases.lock().release(lease, now, None).ok()
    }

    /// Ends a lease whose owner did not leave in time. Returns how long its revocation took.
    pub(crate) fn force_lease(&self, lease: LeaseId, now: Nanos) -> Option<Nanos> {
        self.realtime()?.leases.lock().force(lease, now).ok()
    }

    /// Opens a worker whose lease has ended. The caller wakes it, and another one.
    pub(crate) fn open_worker(&self, worker: usize) {
        if let Some(table) = self.realtime() {
            table.leases.open(worker);
            self.nudge(worker);
        }
    }

    /// Says what a closed worker still has of others, if anything.
    pub(crate) fn is_drained(&self, worker: usize) -> Result<(), LeaseRefused> {
        self.realtime().ok_or(LeaseRefused::Revoked)?.leases.is_drained(worker)
    }
}

impl RunQueue {
    /// Whether this worker is closed to the work of others.
    #[inline]
    pub(in crate::sched::run_queue) fn is_closed(&self) -> bool {
        self.all().is_closed(self.worker)
    }

    /// The next task of a closed worker that runs on no context: one of others that began here. All
    /// other work is handed on.
    pub(in crate::sched::run_queue) fn pick_closed(
        &self,
        table: &RealtimeTable,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        self.hand_on(hooks);
        let task = match self.all().tenants() {
            Some(tenants) => self.pick_of_tenants(tenants, hooks),
            None => self.pick_leftover(),
        };
        let (tasks, watching) = (hooks.strangers(), hooks.is_watching());
        let number = table.leases.closed_by(self.worker);
        table.leases.report(self.worker, number, ClosedReport { tasks, watching });
        task
    }

    /// A task without a tenant that began here: High, Normal, Low.
    pub(in crate::sched::run_queue) fn pick_leftover(&self) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        let pop = |priority: Priority| unsafe { self.pinned()[priority as usize].pop_front() };
        pop(Priority::High)
            .or_else(|| pop(Priority::Normal))
            .or_else(|| self.lifo.take())
            .or_else(|| pop(Priority::Low))
    }

    /// Moves the tasks that other workers may run to the global queue: those of the deque and of
    /// the shared inbox, and new ones that were placed near their spawner.
    fn hand_on(&self, hooks: &impl PickHooks) {
        let mut batch = ChainGuard::new(self, Chain::new());
        let inbox = &self.own().inbox_shared;
        if !inbox.is_empty() {
            batch.chain = inbox.drain();
        }
        while let Some(task) = self.deque.pop() {
            // SAFETY: popped, hence ours.
            unsafe { batch.chain.push_back(task) };
        }
        for lane in [Lane::High, Lane::Normal, Lane::Low] {
            // SAFETY: the reference ends with the statement.
            let all = unsafe { std::mem::take(&mut self.pinned()[lane as usize]) };
            let mut all = ChainGuard::new(self, all);
            while let Some(task) = all.chain.pop_front() {
                // SAFETY: popped, hence ours.
                unsafe {
                    let this = task.as_ref();
                    let stays = this.has_started() || this.is_pinned();
                    if stays && !this.traits.get().is_migratable() {
                        self.push_pinned(task, lane);
                    } else {
                        batch.chain.push_back(task);
                    }
                }
            }
        }
        if batch.chain.is_empty() {
            return;
        }
        self.nothing_to_order();
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the chain, hence ours; any worker may run it.
            unsafe { self.all().push_global(task.as_ref().traits.get().lane, task) };
        }
        hooks.announce();
    }
}
