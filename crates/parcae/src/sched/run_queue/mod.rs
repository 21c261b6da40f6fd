//! Run queues: every place where a runnable task waits for a worker, and the order in which a
//! worker looks at them. Scheduling policy plugs in here.
//!
//! | type | holds | used by |
//! |---|---|---|
//! | [`RunQueue`] | the private queues of one worker; picks its next task | that worker |
//! | [`RunQueues`] | the inboxes and deques of all workers, the global queues | all threads |
//!
//! # Queues
//!
//! | queue | holds | pushed by | taken by |
//! |---|---|---|---|
//! | `lifo` | the pinned task that was woken last | its worker | its worker |
//! | `pinned` | started tasks that may not move, and new ones placed near their spawner; by priority | its worker | its worker |
//! | `deque` | unstarted tasks, and started ones that may move | its worker | its worker (newest), thieves (oldest) |
//! | `inbox_pinned` | pinned tasks woken on other threads | all threads | its worker |
//! | `inbox_shared` | movable tasks woken on other threads | all threads | its worker, and any worker about to sleep |
//! | `global` | tasks spawned outside, yielded movable tasks, overflow; by priority | all threads | all workers |
//!
//! A task is in at most one queue (`sched::queue`, `sched::deque`). `lifo` and `pinned` have one
//! user and need no atomic operation; a started task that may not move is never in a queue that
//! another worker takes from.
//!
//! # Order
//!
//! A pick looks at, in this order: High tasks; `lifo`, at most [`LIFO_STREAK`] times in a row; then
//! `pinned` and `deque` by turns, so that started and unstarted tasks do not starve each other; the
//! inboxes; the global Normal queue; Low tasks; the deques of at most [`VICTIMS`] other workers.
//!
//! A task that yields goes to the back of `pinned`, or of the global queue if it may move. If it
//! may not, it also goes behind the unstarted tasks of its priority: the children that it has
//! spawned on this worker start before it goes on (`round`).
//!
//! # Which tasks are stolen
//!
//! A started task stays on its worker, so the thread that takes a task first decides how it talks
//! to others: by a switch, or from one processor to another at ten times the cost. A task that is
//! spawned as the partner of its spawner runs when the spawner waits, a fraction of a microsecond
//! later. Therefore a thief passes over a task until it has seen it at the top of the same deque
//! for [`GRACE`] ([`RunQueue::is_ripe`]). Partners stay together unless one of them computes for
//! longer than that; then the other one is better off elsewhere. More than [`FEW`] tasks are no
//! pair, and are taken at once.
//!
//! A program that knows better says so by a `Placement`. A task near its spawner goes to `pinned`,
//! where no thief looks; it takes turns with started tasks. A task to be spread goes to the global
//! queue, where the first idle worker finds it at once, and its own worker after all others.
//!
//! Index `top` of a deque names one task and never another one, so a thief recognises a task
//! without touching its record.
//!
//! No work is stranded by that. A thief that passes over a task has found none, but the last look
//! before sleep knows no grace: it finds the deque not empty, and the worker stays awake and
//! searches again. So a worker that left a task alone is awake until it or another worker has taken
//! the task, and time passes: it is a searcher for at most `GRACE` longer than without this rule.
//!
//! # Fairness
//!
//! Two rules bound the wait of a task behind queues that never become empty:
//!
//! - every [`INBOX_INTERVAL`] picks `inbox_pinned` is emptied into `pinned`;
//! - every [`FAIRNESS`] picks the pick begins with a queue that the order reaches last. There are
//!   six such places ([`RunQueue::pick_neglected`]) and each is first in turn, so a task at the
//!   head of any queue is picked after at most 6 × `FAIRNESS` picks of its worker.
//!
//! # The last look before sleep
//!
//! A worker that found nothing announces its sleep, then looks again at every queue that it may
//! take from and that other threads push to ([`RunQueues::has_work_for`]): its `inbox_pinned`, the
//! `inbox_shared` and deque of every active worker, and the global queues. Each of them answers
//! *not empty* for every push that happened before. The proof in `sched::idle` needs exactly this.
//! `lifo` and `pinned` are not among them: the worker itself is the only one to fill them, and it
//! found them empty.
//!
//! Moving tasks between queues must not break this. A batch in hand is in no queue, and another
//! worker may look at that moment and fall asleep. Therefore tasks that were moved to the deque are
//! announced again ([`PickHooks::announce`]).
//!
//! # Policy
//!
//! The interface is small so that another policy can stand behind it: push pinned, woken or
//! stealable; push global or to an inbox; pick; is there work. A policy decides *which* queue is
//! looked at, in `pick`; pushes and pops stay as they are. Whatever the order, a policy owes the
//! idle protocol the last look, and each queue a bound on its wait.
//!
//! # Panics
//!
//! A panic of the runtime must not lose a task that is between two queues. [`TaskGuard`] and
//! [`ChainGuard`] put such tasks back while it unwinds (`worker::faults`).

mod guards;
mod pick;
mod realtime;
mod round;
mod running;
mod shared;
mod steal;
mod tenants;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use guards::{ChainGuard, TaskGuard};
pub(crate) use realtime::{
    ContextLoan, ContextNotice, JobPlan, LeaseTerms, LookUp, NotLent, SealFigures,
};
pub use shared::Victims;
pub(crate) use shared::{RunQueues, TaskSource};
pub(crate) use tenants::{
    BlockingAccount, TenantReading, TenantRequest, TenantRule, TenantRules, TenantShares,
    TenantWish, UpkeepKind, UpkeepReading,
};
pub use tenants::{Charging, DecidedBy, Suggestion};

use crate::base::time::Nanos;
use crate::sched::deque::DequeOwner;
use crate::sched::queue::Chain;
use crate::sched::task::{Lane, Priority, Task, TaskRef};
use crate::sched::timers::Expire;
use round::{PickRound, PickShares};
use shared::WorkerQueues;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Weak;

/// Picks between two looks at the queues that come last. A prime, so that it does not fall in step
/// with a loop of the program; the number is Go's.
pub(crate) const FAIRNESS: u32 = 61;
/// How many times in a row the task that was woken last may go before those that waited.
pub(crate) const LIFO_STREAK: u32 = 3;
/// Picks between two looks at the pinned inbox. Not measured: small, and a power of two.
const INBOX_INTERVAL: u32 = 8;
/// The most victims of one attempt to steal. The specification's number.
const VICTIMS: usize = 4;
/// The most tasks that are taken from the global queue at once.
const GLOBAL_BATCH: usize = 32;
/// The most tasks that are stolen at once; at most half of the victim's.
const STEAL_BATCH: usize = 256;

/// How long a thief leaves a task alone that it sees in the deque of another worker: longer than a
/// task takes from a spawn to its next wait. A steal takes about as long, a wake-up tens of times.
const GRACE: Nanos = 2_000;
/// A deque with more tasks than this has enough for both, and a thief takes them at once.
const FEW: u64 = 3;

/// The worker's part in a pick: it records the origin of tasks, and wakes other workers.
pub(crate) trait PickHooks {
    /// Called every [`FAIRNESS`] picks, with no task in hand: the worker looks at its clock. A
    /// poller with descriptors would be asked here, without waiting.
    fn periodic(&self);
    /// Tasks were taken from a queue that other threads push to. They are in a guard.
    fn took(&self, from: TaskSource);
    /// A victim had nothing to steal.
    fn missed(&self);
    /// The deque has tasks that others may take and that no queue showed for a moment.
    fn announce(&self);
    /// The time of the scheduler's clock.
    fn now(&self) -> Nanos;
    /// A random number below `bound`, from the worker's seed.
    fn random_below(&self, bound: usize) -> usize;
    /// There are tenants or contexts: the worker has to count the ops of its tasks.
    fn has_tenants(&self);
    /// Whether a deadline of the worker has passed, which its loop has to act on first. Never under
    /// the deterministic executor.
    fn is_due(&self) -> bool;
    /// On threads: the task that was picked has to look up at this time, or at the worker's first
    /// deadline.
    fn look_up_at(&self, at: Nanos);
    /// The worker has to pick again at this time.
    fn arm_release(&self, at: Nanos);
    /// The object ends as soon as the worker's loop gets to it.
    fn expire_now(&self, end: Weak<dyn Expire>);
    /// Wakes a task.
    fn wake(&self, task: TaskRef);
    /// Under the deterministic executor: so many ops have taken time.
    fn pass(&self, ops: u64);
    /// Under the deterministic executor: ops until the next deadline of any worker.
    fn ops_until_deadline(&self) -> u64;
    /// Ops that are left in the turn of a task; 0 if it has not started.
    fn ops_left(&self, task: &Task) -> u64;
    /// Tasks that have waited on the worker, cannot move, and run on no context.
    fn strangers(&self) -> u32;
    /// Whether descriptors are registered with the worker.
    fn is_watching(&self) -> bool;
    /// A task that has waited here, and cannot move, runs on no context from now on.
    fn becomes_stranger(&self);
    /// Such a task runs on a context from now on.
    fn gets_context(&self);
}

/// The queues of one worker. Used by its thread alone.
pub(crate) struct RunQueue {
    worker: usize,
    /// All queues of the scheduler, and this worker's entry there.
    all: NonNull<RunQueues>,
    own: NonNull<WorkerQueues>,
    deque: DequeOwner<Task>,
    /// By lane. Tasks of tenants are on their way to the chain of their tenant.
    pinned: UnsafeCell<[Chain<Task>; Lane::COUNT]>,
    lifo: Cell<Option<NonNull<Task>>>,
    lifo_streak: Cell<u32>,
    /// Number of tasks in the deque after the last pick, plus one; 0 if the deque or `pinned` was
    /// empty then. Reset together with `lifo_streak`, by one store.
    left: Cell<u32>,
    /// The order of Normal tasks in `pinned` and `deque`, unless `left` is 0.
    round: Cell<PickRound>,
    /// Whether tasks went from the deque to the global queue since the last round began.
    overflowed: Cell<bool>,
    /// The order of High and of Low tasks, by priority.
    shares: [Cell<PickShares>; 3],
    /// Counts picks, downwards: the pick that makes it 0 begins with the queues that come last, see
    /// [`FAIRNESS`].
    tick: Cell<u32>,
    /// Counts such picks: each begins with another queue.
    fairness_turn: Cell<u32>,
    /// The last victim of [`Victims::RoundRobin`].
    last_victim: Cell<usize>,
    /// For each worker, the oldest task that was last seen in its deque, and when it was seen
    /// first.
    seen: Box<[Cell<(u64, Nanos)>]>,
}

impl RunQueue {
    /// The queues of worker `worker`, whose deque is `deque`.
    ///
    /// # Safety
    ///
    /// `all` stays where it is for as long as the result is used. The stealer of `deque` is the one
    /// of this worker in `all`.
    pub(crate) unsafe fn new(worker: usize, all: &RunQueues, deque: DequeOwner<Task>) -> RunQueue {
        RunQueue {
            worker,
            all: NonNull::from(all),
            own: NonNull::from(all.of(worker)),
            deque,
            pinned: UnsafeCell::new(Default::default()),
            lifo: Cell::new(None),
            lifo_streak: Cell::new(0),
            left: Cell::new(0),
            round: Cell::new(PickRound::default()),
            overflowed: Cell::new(false),
            shares: Default::default(),
            tick: Cell::new(FAIRNESS),
            fairness_turn: Cell::new(0),
            last_victim: Cell::new(worker),
            seen: (0..all.slots()).map(|_| Cell::new((u64::MAX, 0))).collect(),
        }
    }

    /// Whether the queues that only this worker uses are empty.
    pub(crate) fn is_clean(&self) -> bool {
        // SAFETY: as in `pinned`: one thread.
        let pinned = unsafe { self.pinned() };
        pinned.iter().all(Chain::is_empty)
            && self.lifo.get().is_none()
            && self.deque.is_empty()
            && !self.has_inbox()
            && self.has_clean_tenants()
            && self.has_clean_contexts()
    }

    /// As new. It is [clean](RunQueue::is_clean).
    pub(crate) fn reset(&mut self) {
        let RunQueue { worker, all: _, own: _, deque: _, pinned: _, lifo: _, .. } = self;
        let RunQueue { lifo_streak, left, round, overflowed, shares, .. } = self;
        let RunQueue { tick, fairness_turn, last_victim, seen, .. } = self;
        (*lifo_streak, *left) = (Cell::new(0), Cell::new(0));
        (*round, *overflowed, *shares) = Default::default();
        (*tick, *fairness_turn) = (Cell::new(FAIRNESS), Cell::new(0));
        *last_victim = Cell::new(*worker);
        seen.iter().for_each(|seen| seen.set((u64::MAX, 0)));
    }

    #[inline]
    fn all(&self) -> &RunQueues {
        // SAFETY: as `new` demands; only ever shared.
        unsafe { self.all.as_ref() }
    }

    #[inline]
    fn own(&self) -> &WorkerQueues {
        // SAFETY: an entry of `all`.
        unsafe { self.own.as_ref() }
    }

    /// # Safety
    ///
    /// The reference is not kept over anything that uses the queues.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn pinned(&self) -> &mut [Chain<Task>; Lane::COUNT] {
        // SAFETY: one thread, and no other reference at the same time (caller).
        unsafe { &mut *self.pinned.get() }
    }

    /// Number of Normal tasks that only this worker may run, without the one that was woken last.
    #[inline]
    pub(crate) fn pinned_len(&self) -> usize {
        // SAFETY: the reference ends with the statement.
        unsafe { self.pinned()[Priority::Normal as usize].len() }
    }

    /// Number of picks so far; wraps around.
    #[inline]
    pub(crate) fn picks(&self) -> u32 {
        let looks = self.fairness_turn.get();
        looks.wrapping_mul(FAIRNESS).wrapping_add(FAIRNESS - self.tick.get())
    }

    /// Adds a task that only this worker may run, behind those of its priority.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, and the caller's to hand over.
    #[inline]
    pub(crate) unsafe fn push_pinned(&self, task: NonNull<Task>, lane: Lane) {
        // SAFETY: as the caller says; the reference ends with the statement.
        unsafe { self.pinned()[lane as usize].push_back(task) };
    }

    /// Adds a new task that only this worker may run, behind the started ones of its priority.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    pub(crate) unsafe fn push_near(&self, task: NonNull<Task>, lane: Lane) {
        self.all().expect(lane);
        // SAFETY: as the caller says.
        unsafe { self.push_pinned(task, lane) };
    }

    /// Adds a task that was just woken and that only this worker may run. It goes before others if
    /// its priority is Normal: the data of its waker is probably still in the cache. A High or Low
    /// task does not overtake others of its priority.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    #[inline]
    pub(crate) unsafe fn push_woken(&self, task: NonNull<Task>, lane: Lane) {
        let behind = match lane {
            Lane::Normal => self.lifo.replace(Some(task)),
            Lane::Low | Lane::High => Some(task),
            // SAFETY: as the caller says.
            _ => return unsafe { self.push_of_tenant(task, lane) },
        };
        if let Some(task) = behind {
            // SAFETY: as the caller says, or out of the slot.
            unsafe { self.push_woken_behind(task) };
        }
    }

    /// Adds a task that was just woken and that only this worker may run, behind those of its
    /// priority.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    #[inline]
    pub(crate) unsafe fn push_woken_behind(&self, task: NonNull<Task>) {
        // SAFETY: as the caller says.
        unsafe {
            task.as_ref().clear_yielded();
            self.push_pinned(task, task.as_ref().traits.get().lane);
        }
    }

    /// Adds a task that any worker may run. The caller then announces it to the idle protocol.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned); the task has not started, or may move.
    #[inline]
    pub(crate) unsafe fn push_stealable(&self, task: NonNull<Task>) {
        if let Err(task) = self.deque.push(task) {
            self.overflow(task);
        }
    }

    /// The deque is full: its older half and the task go to the global queue.
    #[cold]
    fn overflow(&self, task: NonNull<Task>) {
        let mut batch = ChainGuard::new(self, Chain::new());
        // SAFETY: taken out of the deque, hence ours to put elsewhere.
        self.deque.take_half(|task| unsafe { batch.chain.push_back(task) });
        // SAFETY: never was in the deque.
        unsafe { batch.chain.push_back(task) };
        let global = self.all().global(Priority::Normal);
        global.push_chain(batch.give());
        self.overflowed.set(true);
        if self.left.get() > 0 {
            self.left.set(1); // the deque has fewer tasks, and one of them is new
            let mut round = self.round.get();
            round.overflowed(global.len_hint());
            self.round.set(round);
        }
    }

    /// The running task yields, and is the last one in `pinned`: unstarted tasks that were spawned
    /// before go first.
    pub(crate) fn yielded(&self, task: &Task) {
        let (len, left) = (self.deque.len() as u64, self.left.get());
        task.set_yielded();
        // A task that was just woken may have spawned before it waited.
        let was_woken = self.lifo_streak.get() > 0;
        let old = if was_woken { 0 } else { u64::from(left.saturating_sub(1)) };
        if len <= old {
            return; // none was spawned
        }
        let mut round = self.round.get();
        if left > 0 && round.is_on() {
            round.again();
        } else {
            self.left.set(left.max(1));
            round = self.new_round(len - old);
        }
        self.round.set(round);
    }

    /// A round that begins with so many of the newest tasks.
    fn new_round(&self, newest: u64) -> PickRound {
        let overflowed = self.overflowed.take();
        let global = if overflowed { self.all().global(Priority::Normal).len_hint() } else { 0 };
        PickRound::new(global, newest, self.deque.end(), self.pinned_len())
    }
}
