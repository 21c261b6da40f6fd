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
//! | `pinned` | started tasks that may not move, by priority | its worker | its worker |
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
mod round;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use guards::{ChainGuard, TaskGuard};
pub use shared::Victims;
pub(crate) use shared::{RunQueues, TaskSource};

use crate::base::time::Nanos;
use crate::sched::deque::{DequeOwner, Steal};
use crate::sched::queue::Chain;
use crate::sched::task::{Priority, Task};
use round::{First, PickRound, PickShares};
use shared::WorkerQueues;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;

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
}

/// The queues of one worker. Used by its thread alone.
pub(crate) struct RunQueue {
    worker: usize,
    /// All queues of the scheduler, and this worker's entry there.
    all: NonNull<RunQueues>,
    own: NonNull<WorkerQueues>,
    deque: DequeOwner<Task>,
    pinned: UnsafeCell<[Chain<Task>; 3]>,
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
    }

    /// As new. It is [clean](RunQueue::is_clean).
    pub(crate) fn reset(&mut self) {
        let RunQueue { worker, lifo_streak, tick, fairness_turn, last_victim, seen, .. } = self;
        let RunQueue { all: _, own: _, deque: _, pinned: _, lifo: _, .. } = self;
        (*lifo_streak, *tick) = (Cell::new(0), Cell::new(FAIRNESS));
        (*fairness_turn, *last_victim) = (Cell::new(0), Cell::new(*worker));
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
    unsafe fn pinned(&self) -> &mut [Chain<Task>; 3] {
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

    // ----- push -------------------------------------------------------------------------

    /// Adds a task that only this worker may run, behind those of its priority.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, and the caller's to hand over.
    #[inline]
    pub(crate) unsafe fn push_pinned(&self, task: NonNull<Task>, priority: Priority) {
        // SAFETY: as the caller says; the reference ends with the statement.
        unsafe { self.pinned()[priority as usize].push_back(task) };
    }

    /// Adds a task that was just woken and that only this worker may run. It goes before others if
    /// its priority is Normal: the data of its waker is probably still in the cache. A High or Low
    /// task does not overtake others of its priority.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    #[inline]
    pub(crate) unsafe fn push_woken(&self, task: NonNull<Task>, priority: Priority) {
        let behind = match priority {
            Priority::Normal => self.lifo.replace(Some(task)),
            Priority::Low | Priority::High => Some(task),
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
            self.push_pinned(task, task.as_ref().traits.get().priority);
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

    // ----- pick -------------------------------------------------------------------------

    /// The next task, in the order of the module header.
    #[inline]
    pub(crate) fn pick(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let tick = self.tick.get() - 1;
        self.tick.set(tick);
        if tick == 0
            && let Some(task) = self.pick_fairly(hooks)
        {
            return Some(task);
        }
        if tick.is_multiple_of(INBOX_INTERVAL) {
            self.empty_inbox_pinned(hooks);
        }
        self.pick_own(tick, hooks)
            .or_else(|| self.pick_inboxes(hooks))
            .or_else(|| self.pick_global(Priority::Normal, hooks))
            .or_else(|| self.pick_low(hooks))
            .or_else(|| self.steal(hooks))
    }

    /// The next task, if it is one that only this worker may run: what [`pick`](RunQueue::pick)
    /// would return, found without a look at the queues that come later. Cannot panic.
    ///
    /// `None` if another task may come first, or there is no such task. Then nothing has changed,
    /// and the caller picks. Also `None` if a task `yields` while unstarted tasks are ready: the
    /// caller tells that first ([`yielded`](RunQueue::yielded)).
    #[inline(always)]
    pub(crate) fn pick_private(&self, yields: bool) -> Option<NonNull<Task>> {
        let tick = self.tick.get() - 1;
        if self.must_look_further(tick) || yields && !self.deque.is_empty() {
            return None;
        }
        let streak = self.lifo_streak.get();
        if streak < LIFO_STREAK
            && let Some(task) = self.lifo.get()
        {
            self.lifo.set(None);
            self.lifo_streak.set(streak + 1);
            self.tick.set(tick);
            return Some(task);
        }
        if !yields && !self.deque.is_empty() {
            return None;
        }
        // SAFETY: the reference ends with the statement.
        let first = unsafe { self.pinned()[Priority::Normal as usize].pop_front() };
        let task = first.or_else(|| self.lifo.take())?;
        self.nothing_to_order();
        self.tick.set(tick);
        Some(task)
    }

    /// `pinned` or the deque is empty.
    #[inline(always)]
    fn nothing_to_order(&self) {
        self.lifo_streak.set(0);
        self.left.set(0);
    }

    /// A pick that finds no other task: true if [`pick_private`](RunQueue::pick_private) would
    /// return a Normal task that was just put behind the others. False if not; then nothing has
    /// changed.
    #[inline(always)]
    pub(crate) fn pick_nobody(&self) -> bool {
        let tick = self.tick.get() - 1;
        let nobody = !self.must_look_further(tick)
            && self.lifo.get().is_none()
            && self.deque.is_empty()
            && self.pinned_len() == 0;
        if nobody {
            self.nothing_to_order();
            self.tick.set(tick);
        }
        nobody
    }

    /// Whether the pick with this number looks at more than `lifo`, `deque` and the Normal tasks in
    /// `pinned`.
    #[inline(always)]
    fn must_look_further(&self, tick: u32) -> bool {
        tick == 0
            || tick.is_multiple_of(INBOX_INTERVAL) && !self.own().inbox_pinned.is_empty()
            || self.all().may_have_high() && self.has_high()
    }

    /// Whether there is a High task to be picked.
    #[cold]
    fn has_high(&self) -> bool {
        // SAFETY: the reference ends with the statement.
        let pinned = unsafe { !self.pinned()[Priority::High as usize].is_empty() };
        pinned || !self.all().global(Priority::High).is_empty()
    }

    /// The look that is due every [`FAIRNESS`] picks.
    #[cold]
    fn pick_fairly(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.tick.set(FAIRNESS);
        hooks.periodic();
        let turn = self.fairness_turn.get().wrapping_add(1);
        self.fairness_turn.set(turn);
        self.pick_neglected(turn, hooks)
    }

    /// The next task out of any queue that this worker may take from: as [`pick`](RunQueue::pick),
    /// and then every other worker's deque and shared inbox.
    pub(crate) fn pick_anywhere(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.pick(hooks).or_else(|| {
            (0..self.all().active()).filter(|&other| other != self.worker).find_map(|other| {
                self.steal_from(other, hooks).or_else(|| self.empty_inbox_of(other, hooks))
            })
        })
    }

    /// Whether there are tasks in the deque, which thieves may take at any time.
    pub(crate) fn has_unstarted(&self) -> bool {
        !self.deque.is_empty()
    }

    /// Whether other threads have put tasks into this worker's inboxes.
    pub(crate) fn has_inbox(&self) -> bool {
        let own = self.own();
        !own.inbox_pinned.is_empty() || !own.inbox_shared.is_empty()
    }

    /// High tasks, then Normal ones.
    #[inline]
    fn pick_own(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.all().may_have_high()
            && let Some(task) = self.pick_at(Priority::High, hooks)
        {
            return Some(task);
        }
        self.pick_normal(tick, hooks)
    }

    /// A task of High or Low priority. Started and unstarted tasks take turns: otherwise a task
    /// that yields until another has run could wait for ever.
    #[inline]
    fn pick_at(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        match unsafe { self.pinned()[priority as usize].len() } {
            0 => self.pick_global(priority, hooks),
            started => Some(self.pick_share(priority, started, hooks)),
        }
    }

    /// As [`pick_at`](RunQueue::pick_at), if there are so many started tasks.
    #[cold]
    fn pick_share(
        &self,
        priority: Priority,
        started: usize,
        hooks: &impl PickHooks,
    ) -> NonNull<Task> {
        let mut shares = self.shares[priority as usize].get();
        let unstarted = self.all().global(priority).len_hint();
        if !shares.is_started_next(unstarted, started) {
            if let Some(task) = self.pick_global(priority, hooks) {
                self.shares[priority as usize].set(shares);
                return task;
            }
            shares.is_started_next(0, started);
        }
        self.shares[priority as usize].set(if started == 1 {
            PickShares::default()
        } else {
            shares
        });
        // SAFETY: the reference ends with the statement.
        match unsafe { self.pinned()[priority as usize].pop_front() } {
            Some(task) => task,
            None => unreachable!("this thread alone takes started tasks"),
        }
    }

    /// A Normal task: just woken, then started and unstarted ones in the order of `round`.
    #[inline]
    fn pick_normal(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.lifo_streak.get() < LIFO_STREAK
            && let Some(task) = self.lifo.take()
        {
            self.lifo_streak.set(self.lifo_streak.get() + 1);
            return Some(task);
        }
        // The look saves the fence in `pop`, most of the time.
        let task = match (self.pinned_len() > 0, !self.deque.is_empty()) {
            (true, true) => return self.pick_in_order(tick, hooks),
            (true, false) => self.pop_pinned(),
            (false, true) => self.deque.pop(),
            (false, false) => None,
        };
        self.nothing_to_order();
        task.or_else(|| self.lifo.take())
    }

    #[inline]
    fn pop_pinned(&self) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        unsafe { self.pinned()[Priority::Normal as usize].pop_front() }
    }

    /// A Normal task, if there are started and unstarted ones.
    #[inline(never)]
    fn pick_in_order(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.lifo_streak.set(0);
        let mut round = if self.left.get() > 0 { self.round.get() } else { PickRound::default() };
        let mut task = None;
        while let Some((top, _)) = self.own().stealer.oldest()
            && let Some(first) = round.first(top)
        {
            task = match first {
                First::Global => self.pop_global(hooks),
                First::Newest => {
                    let newest = self.deque.pop();
                    round.popped(self.deque.end());
                    newest
                }
                First::Oldest => match self.own().stealer.steal() {
                    Steal::Task(task) => Some(task),
                    Steal::Empty | Steal::Retry => None, // a thief was faster
                },
            };
            match first {
                _ if task.is_some() => break,
                First::Global => round.no_global(),
                First::Newest | First::Oldest => {}
            }
        }
        if task.is_none() && tick.is_multiple_of(2) && !round.has_next() {
            task = self.deque.pop();
        }
        if task.is_none() {
            task = self.pop_pinned();
            if round.picked_started() {
                round = self.new_round(self.deque.len() as u64);
            }
        }
        self.round.set(round);
        // SAFETY: picked, hence ours.
        let owns_none = task.is_none_or(|task| unsafe { task.as_ref() }.has_no_new_children());
        self.left.set(if owns_none { self.deque.len() as u32 } else { 0 } + 1);
        task
    }

    /// A task of the global Normal queue.
    fn pop_global(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let task = TaskGuard::new(self, self.all().global(Priority::Normal).pop()?);
        hooks.took(TaskSource::Global { tasks: 1 });
        Some(task.give())
    }

    fn pick_low(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.pick_at(Priority::Low, hooks)
    }

    /// Empties both inboxes, and looks at the own queues again.
    fn pick_inboxes(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.empty_inbox_pinned(hooks);
        let inbox = &self.own().inbox_shared;
        if !inbox.is_empty() {
            self.adopt(inbox.drain(), hooks);
        }
        self.pick_own(self.tick.get(), hooks)
    }

    /// Moves the pinned inbox to the back of `pinned`.
    #[inline]
    fn empty_inbox_pinned(&self, hooks: &impl PickHooks) {
        let inbox = &self.own().inbox_pinned;
        if inbox.is_empty() {
            return;
        }
        let mut batch = ChainGuard::new(self, inbox.drain());
        hooks.took(TaskSource::InboxPinned);
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the inbox, hence ours.
            unsafe { self.push_woken_behind(task) };
        }
    }

    /// Takes over the tasks in the shared inbox of another worker, if there are any.
    fn empty_inbox_of(&self, other: usize, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let inbox = &self.all().of(other).inbox_shared;
        if inbox.is_empty() {
            return None;
        }
        self.adopt(inbox.rescue(), hooks);
        self.deque.pop()
    }

    /// Puts movable tasks into the deque, or the global queue if they do not fit.
    fn adopt(&self, chain: Chain<Task>, hooks: &impl PickHooks) {
        let mut batch = ChainGuard::new(self, chain);
        hooks.took(TaskSource::InboxShared);
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the chain, hence ours; movable.
            unsafe { self.push_stealable(task) };
        }
        self.announce_rest(hooks);
    }

    fn announce_rest(&self, hooks: &impl PickHooks) {
        if self.all().steals() && !self.deque.is_empty() {
            hooks.announce();
        }
    }

    #[inline]
    fn pick_global(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.all().global(priority).is_empty() {
            return None;
        }
        self.take_global(priority, hooks)
    }

    #[inline(never)]
    fn take_global(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let global = self.all().global(priority);
        if priority != Priority::Normal {
            // One at a time: the deque does not distinguish it from Normal tasks.
            let one = global.pop().map(|task| TaskGuard::new(self, task));
            hooks.took(TaskSource::Global { tasks: usize::from(one.is_some()) });
            return one.map(TaskGuard::give);
        }
        // A share for each worker.
        let share = (global.len_hint() / self.all().active() + 1).min(GLOBAL_BATCH);
        let mut chain = global.pop_batch(share);
        let tasks = chain.len();
        let first = chain.pop_front().map(|task| TaskGuard::new(self, task));
        let rest = ChainGuard::new(self, chain);
        hooks.took(TaskSource::Global { tasks });
        let rest = rest.give();
        if !rest.is_empty() {
            // The deque is last in, first out: backwards, so that the oldest is picked next.
            self.adopt(rest.reversed(), hooks);
        }
        first.map(TaskGuard::give)
    }

    /// The places that the order reaches last. All are looked at until one has a task, and `turn`
    /// says which is the first.
    #[cold]
    fn pick_neglected(&self, turn: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        (0..6).find_map(|i| match (turn + i) % 6 {
            0 => self.pick_global(Priority::Normal, hooks),
            1 => self.pick_inboxes(hooks),
            // Past High tasks that never end.
            2 => self.pick_normal(turn, hooks),
            3 => self.pick_low(hooks),
            // Movable tasks of a worker that is stuck, while no worker is idle.
            4 => {
                self.empty_inbox_of((self.worker + 1 + turn as usize) % self.all().active(), hooks)
            }
            // The oldest of the own deque, as a thief would take it.
            _ => {
                if self.left.get() > 1 {
                    self.left.set(self.left.get() - 1);
                }
                match self.own().stealer.steal() {
                    Steal::Task(task) => Some(task),
                    Steal::Empty | Steal::Retry => None,
                }
            }
        })
    }

    // ----- steal ------------------------------------------------------------------------

    /// Tries to steal from up to [`VICTIMS`] workers.
    fn steal(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
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

    fn steal_from(&self, victim: usize, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
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
