//! The frame of a running task.
//!
//! A [`Frame`] lies on the task's own stack, at the base, from its first to its last instruction;
//! the task's record points to it. Only the task itself uses it, so its fields are cells. Other
//! threads reach the task through atomics elsewhere: the `limit` of the node that cancels it, and
//! the `signal` of its record.
//!
//! # Checkpoints
//!
//! ```text
//! slice > limit | signal   ⇒   slice -= 1, go on        (one comparison)
//! otherwise                ⇒   checkpoint_slow: cancelled? end of the turn? out of budget?
//! ```
//!
//! `limit` is 0 until the node is cancelled, then larger than any slice. Two quantities bound the
//! work of a task before its next slow checkpoint:
//!
//! - the **turn**: ops until the task lets others run, at most `YIELD_INTERVAL`. A new turn starts
//!   in [`Frame::checkpoint_slow`], after the task has yielded, and nowhere else;
//! - the **account**: ops that are paid for.
//!
//! `slice` is the part of both that checkpoints may use without a second look:
//!
//! ```text
//! ops left in the turn = slice + turn        ops left in the account = slice + account.ops
//! ```
//!
//! A charge, a refill or a recharge puts the slice back into both and cuts it anew
//! (`set_balance`), so none of them makes a turn longer. When the slice is used up, either the turn
//! is over (`turn` is 0) or the account is empty: then the pool is asked, as the policy of the
//! nursery says.

mod access;
mod away;
mod memory;
mod nested;
#[cfg(all(test, not(loom)))]
mod tests;
mod waiting;
mod watch;
mod window;

pub(crate) use access::FrameReader;
pub(crate) use nested::{Outer, Shares};
pub(crate) use waiting::Seen;

use crate::base::error::{Error, Result, TaskId, TaskInfo};
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::sched::Shared;
use crate::sched::events::EventKind;
use crate::sched::events::spans::Span;
use crate::sched::task::waker::Waker;
use crate::sched::task::{Task, TaskRef};
use crate::sched::timers::{ArmedTimer, Due};
use crate::sched::worker::{self, Worker};
use crate::scope::budget::{
    Budget, BudgetPool, OnExhausted, Resource, Shortfall, Slice, Suspension, UNLIMITED,
    return_account,
};
use crate::scope::cancel::CancelNode;
use crate::scope::cap::Issuer;
use crate::scope::cx::parking::borrowed_waiter;
use crate::scope::nursery::{Hook, NurseryEvent};
use crate::scope::tally::Tally;
use crate::wait::Why;
use nested::gain;
use std::cell::Cell;
use std::panic::Location;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32};
use watch::CancelWatch;

/// Settings of the tasks of a nursery, or of a root task. They outlive the tasks.
pub(crate) struct TaskSettings {
    /// The nursery's number, and that of the task that opened it; 0 for the runtime itself.
    pub(crate) nursery: u64,
    pub(crate) owner: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Arc<CancelNode>,
    pub(crate) pool: Arc<BudgetPool>,
    /// Amount that a task draws at a time, of each counted resource.
    pub(crate) grant: Slice,
    /// The first slice of a task if the pool is full.
    pub(crate) default_grant: Budget,
    /// The default slice of children of its tasks.
    pub(crate) child_grant: Slice,
    /// The issuer of valid capabilities.
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) on_exhausted: OnExhausted,
    /// Called when a task runs out of budget.
    pub(crate) on_exhausted_child: Option<Hook>,
    /// Ops between two yields.
    pub(crate) interval: u64,
    pub(crate) preempt: Preempt,
    pub(crate) name: Option<Arc<str>>,
    /// Counters of times and tasks, if they are kept.
    pub(crate) tally: Option<Arc<Tally>>,
}

impl TaskSettings {
    /// A copy for a root task, which has a cancel node of its own.
    pub(crate) fn for_root(&self) -> TaskSettings {
        TaskSettings {
            shared: Arc::clone(&self.shared),
            node: self.node.child(),
            pool: Arc::clone(&self.pool),
            issuer: Arc::clone(&self.issuer),
            name: self.name.clone(),
            tally: self.tally.clone(),
            on_exhausted_child: self.on_exhausted_child.clone(),
            ..*self
        }
    }
}

/// When a task yields although its turn is not over.
///
/// Tasks switch only at checkpoints and waits. With [`Randomly`](Preempt::Randomly) the seed
/// decides at which checkpoint, operations on channels and turns of `#[budgeted]` loops included,
/// so that different seeds show different interleavings. For tests; [`explore`](crate::explore())
/// turns it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Preempt {
    /// After [`yield_interval`](crate::runtime::Builder::yield_interval) ops.
    #[default]
    Never,
    /// After a random number of ops: often one or a few, at most `yield_interval`.
    Randomly,
}

/// The name of a task, and the place where it was spawned.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) spawned_at: &'static Location<'static>,
}

/// The owner of the pool that a task draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolOwner {
    /// The nursery that waits for the task.
    Nursery,
    /// The task itself, or the runtime: the pool may be gone when the task has ended.
    Other,
}

/// The state of a running task. A checkpoint reads the first three fields; adapters expose them to
/// code that inlines its checkpoints (`foreign::Meter` has the same layout).
#[repr(C)]
pub(crate) struct Frame {
    slice: Cell<u64>,
    limit: Cell<NonNull<AtomicU64>>,
    /// The signal of the task's record. Not really `'static`: the record outlives the frame.
    signal: &'static AtomicU32,
    record: NonNull<Task>,
    /// Ops until the task yields, beside those in the slice.
    turn: Cell<u64>,
    /// The rest of the account beside the slice, and the total drawn into it.
    account: Cell<Budget>,
    drawn: Cell<Budget>,
    /// Bytes that may still be allocated; negative if more were allocated than the budget allows.
    memory: Cell<i64>,
    /// Bytes that the task has allocated and not freed.
    allocated: Cell<u64>,
    /// Node and pool of the innermost open nursery, or of the nursery that the task belongs to.
    /// Their owner outlives the frame, or restores the outer ones before it ends.
    scope: Cell<ScopeRef>,
    /// Its subscription to the node of `scope`, and its shields.
    watch: CancelWatch,
    pool_owner: PoolOwner,
    settings: NonNull<TaskSettings>,
    origin: Origin,
    /// The lowest address that the task's stack may reach; 0 until it is first needed. Has another
    /// meaning while the task runs on another stack: see `away`.
    stack_end: Cell<usize>,
    /// State for observers while the task is parked.
    seen: Seen,
    /// Data that an adapter keeps for the task, at the base of its stack; null if there is none.
    local: AtomicPtr<()>,
    /// Its span in the `tracing` crate, with the feature of that name.
    span: Span,
}

const _: () = assert!(std::mem::offset_of!(Frame, slice) == 0);
const _: () = assert!(std::mem::offset_of!(Frame, limit) == 8);
const _: () = assert!(std::mem::offset_of!(Frame, signal) == 16);

/// The node that cancels a task at present, and the pool that it draws on.
#[derive(Clone, Copy)]
struct ScopeRef {
    node: NonNull<Arc<CancelNode>>,
    pool: NonNull<Arc<BudgetPool>>,
    /// Number of shields that were open when the task entered the scope: these do not hide the
    /// node.
    shields: u32,
}

/// The end of a shield's grace period, for a node that was made in the shield.
pub(crate) type Grace = ArmedTimer<Arc<Shared>>;

/// Stack that a `#[budgeted]` call requires at least: enough for a panic with a backtrace.
pub(crate) const RED_ZONE: usize = 16 * 1024;
/// The longest slice. It is below the value of a raised `signal`, so that the comparison in `tick`
/// fails.
pub(crate) const LONGEST_SLICE: u64 = u32::MAX as u64 - 1;

/// A limit that is never reached: for shields.
static NEVER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Frame {
    /// The frame of the task that runs here. The caller calls [`enter`](Frame::enter) once the
    /// frame is at its final address.
    ///
    /// # Safety
    ///
    /// `settings` outlives the frame. `account` was drawn from its pool.
    #[inline]
    pub(crate) unsafe fn new(
        record: NonNull<Task>,
        settings: &TaskSettings,
        account: Budget,
        pool_owner: PoolOwner,
        origin: Origin,
    ) -> Frame {
        let scope = ScopeRef {
            node: NonNull::from(&settings.node),
            pool: NonNull::from(&settings.pool),
            shields: 0,
        };
        // Before the first value that has a destructor: otherwise a panic in this call would have
        // to drop those values, and the compiler would build them elsewhere and copy them into the
        // frame.
        let seen = Seen::new(settings.shared.coarse_now());
        Frame {
            slice: Cell::new(0),
            limit: Cell::new(NonNull::from(settings.node.limit())),
            // SAFETY: the record of the running task, which does not outlive it.
            signal: unsafe { &(*record.as_ptr()).signal },
            record,
            turn: Cell::new(0),
            account: Cell::new(account),
            drawn: Cell::new(account),
            memory: Cell::new(clamp(account.memory)),
            allocated: Cell::new(0),
            scope: Cell::new(scope),
            watch: CancelWatch::new(),
            pool_owner,
            settings: NonNull::from(settings),
            origin,
            stack_end: Cell::new(0),
            seen,
            local: AtomicPtr::new(std::ptr::null_mut()),
            span: Span::new(),
        }
    }

    /// Announces the frame of the running task, and takes its first slice.
    #[inline]
    pub(crate) fn enter(&self) {
        // SAFETY: called by the task itself, which has started.
        unsafe { self.record().set_frame((&raw const *self).cast()) };
        if self.origin.name.is_some() || self.settings().shared.tracer.is_on() {
            self.publish_origin();
        }
        let (origin, nursery) = (&self.origin, self.settings().name.as_deref());
        self.span.begin(self.record().id(), origin.name.as_deref(), nursery, origin.spawned_at);
        // A task without a turn yields at its first checkpoint.
        if self.settings().preempt == Preempt::Never || random_turn(2) == 1 {
            self.start_turn();
        }
    }

    /// Labels the stack with the name of the task, and records its origin in the trace.
    #[cold]
    fn publish_origin(&self) {
        let Origin { name, spawned_at } = &self.origin;
        if let Some(name) = name {
            worker::label_stack(name);
        }
        if self.settings().shared.tracer.is_on() {
            worker::with_current(|worker| {
                worker.note_origin(self.record().id(), spawned_at, name.as_ref());
            });
        }
    }

    /// Ends the frame: returns the rest of the account and unsubscribes.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.settings().tally.is_some() {
            self.flush_last_turn();
        }
        self.span.exit();
        // SAFETY: as in `enter`.
        unsafe { self.record().set_frame(std::ptr::null()) };
        if self.origin.name.is_some() {
            worker::label_stack("");
        }
        self.unsubscribe();
        if !self.pool().is_unlimited() {
            self.return_rest();
        }
    }

    /// Reports the times of the task, with those of its last turn.
    #[inline(never)]
    fn flush_last_turn(&self) {
        worker::with_current(|worker| self.seen.times.ran(worker.last_turn()));
        self.flush_times();
    }

    /// Returns the rest of the account to the pool. Out of line: most pools are unlimited.
    #[inline(never)]
    fn return_rest(&self) {
        let pool = self.pool();
        let (drawn, used) = (self.drawn.get(), self.used());
        let returned = self.pool_owner == PoolOwner::Nursery
            // SAFETY: the pool is that of the nursery, which waits for this child.
            && worker::with_current(|worker| unsafe { return_account(worker, pool, &drawn, &used) })
                .is_some();
        if !returned {
            pool.settle(drawn, self.balance());
        }
    }

    pub(crate) fn record(&self) -> &Task {
        // SAFETY: the record of the running task.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn settings(&self) -> &TaskSettings {
        // SAFETY: as `new` demands.
        unsafe { self.settings.as_ref() }
    }

    pub(super) fn node(&self) -> &Arc<CancelNode> {
        // SAFETY: as `new` demands, or of a nursery that has not ended.
        unsafe { self.scope.get().node.as_ref() }
    }

    pub(crate) fn pool(&self) -> &Arc<BudgetPool> {
        // SAFETY: as above.
        unsafe { self.scope.get().pool.as_ref() }
    }

    pub(crate) fn info(&self) -> TaskInfo {
        TaskInfo {
            id: TaskId(self.record().id()),
            name: self.origin.name.clone(),
            nursery: self.settings().name.clone(),
            spawned_at: self.origin.spawned_at,
        }
    }

    /// The span of the task in the `tracing` crate.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn task(&self) -> NonNull<Task> {
        self.record
    }

    /// Data that an adapter keeps for the task. Only the task itself asks: relaxed.
    pub(crate) fn local(&self) -> *const () {
        self.local.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sets what `local` says. By the task itself.
    pub(crate) fn set_local(&self, local: *const ()) {
        self.local.store(local.cast_mut(), std::sync::atomic::Ordering::Relaxed);
    }

    /// A node for a nursery or a token that this task makes. A node that is made inside a shield is
    /// not cancelled from outside of the shield, until its grace period is over.
    pub(crate) fn child_node(&self) -> (Arc<CancelNode>, Option<Grace>) {
        if !self.is_shielded() {
            return (self.node().child(), None);
        }
        let Some(until) = self.watch.grace() else { return (CancelNode::root(), None) };
        let node = self.node().shielded_child();
        let grace = self.settings().shared.at_for(until, Due::end_grace(&node));
        (node, Some(grace))
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.settings().shared), self.task_ref())
    }

    /// A reference to the task, with its generation: it is recognised as stale when the task has
    /// ended.
    pub(crate) fn task_ref(&self) -> TaskRef {
        TaskRef { task: self.record, generation: self.record().state.generation() }
    }

    // ----- checkpoints ------------------------------------------------------------------

    /// Charges one op. Returns false, without a charge, if the task has to take the [slow
    /// path](Frame::checkpoint_slow).
    #[inline(always)]
    pub(crate) fn tick(&self) -> bool {
        let slice = self.slice.get();
        // Relaxed, both: `checkpoint_slow` reads the requests again. SAFETY: the node is kept by
        // the nursery, or it is `NEVER`.
        let limit = unsafe { self.limit.get().as_ref() }.load(Ordering::Relaxed);
        let signal = u64::from(self.signal.load(std::sync::atomic::Ordering::Relaxed));
        let go_on = slice > (limit | signal);
        if go_on {
            self.slice.set(slice - 1);
        }
        go_on
    }

    /// Slow path of a checkpoint: cancellation, memory debt, end of the turn, refill. Then charges
    /// one op.
    #[cold]
    pub(crate) fn checkpoint_slow(&self) -> Result<()> {
        if self.is_away() {
            return Err(self.refuse_away());
        }
        // Acquire: pairs with the Release in `TaskHandle::cancel`.
        self.record().signal.swap(0, std::sync::atomic::Ordering::Acquire);
        self.try_checkpoint_slow().inspect_err(|_| self.yield_to_others())
    }

    /// Yields after a failed checkpoint, so that a task that ignores its errors does not keep its
    /// worker.
    #[cold]
    fn yield_to_others(&self) {
        worker::with_current(Worker::yield_now);
    }

    fn try_checkpoint_slow(&self) -> Result<()> {
        self.check_cancelled()?;
        self.pay_for_memory()?;
        while self.slice.get() == 0 {
            if self.turn.get() == 0 {
                self.end_turn()?;
            } else {
                self.refill(Budget::OP)?;
                self.cut_slice();
            }
        }
        self.slice.set(self.slice.get() - 1);
        Ok(())
    }

    /// Yields, and starts the next turn.
    fn end_turn(&self) -> Result<()> {
        worker::with_current(Worker::yield_now);
        self.flush_times();
        self.check_cancelled()?;
        self.start_turn();
        Ok(())
    }

    /// A new turn: the only place where a task gets one.
    #[inline]
    fn start_turn(&self) {
        let interval = self.settings().interval;
        self.turn.set(match self.settings().preempt {
            Preempt::Never => interval,
            Preempt::Randomly => random_turn(interval),
        });
        self.cut_slice();
    }

    /// Yields to other tasks. A cancel point.
    pub(crate) fn yield_now(&self) -> Result<()> {
        self.check_cancelled()?;
        if let Err(error) = self.pay_for_memory() {
            self.yield_to_others();
            return Err(error);
        }
        worker::with_current(Worker::yield_now);
        self.check_cancelled()
    }

    /// Charges up to `steps` ops at once, as many as the slice has; at least one.
    #[inline]
    pub(super) fn chunk(&self, steps: usize) -> Result<usize> {
        if !self.tick() {
            self.checkpoint_slow()?;
        }
        let more = self.slice.get().min(steps as u64 - 1);
        self.slice.set(self.slice.get() - more);
        Ok(1 + more as usize)
    }

    /// Moves ops that are paid for and belong to this turn into the slice.
    #[inline]
    fn cut_slice(&self) {
        let mut account = self.account.get();
        let slice = account.ops.min(self.turn.get());
        if account.ops != UNLIMITED {
            account.ops -= slice;
            self.account.set(account);
        }
        self.turn.set(self.turn.get() - slice);
        self.slice.set(self.slice.get() + slice);
    }

    /// The rest of the account, the slice and the memory included.
    pub(crate) fn balance(&self) -> Budget {
        let mut left = self.account.get();
        left.absorb(Budget { ops: self.slice.get(), ..Budget::ZERO });
        // A budget that is larger than any memory is not counted either.
        if left.memory != UNLIMITED && self.memory.get() != i64::MAX {
            left.memory = self.memory.get().max(0) as u64;
        }
        left
    }

    /// All that was drawn into the account and not booked as used.
    pub(crate) fn drawn(&self) -> Budget {
        self.drawn.get()
    }

    /// The part of the drawn amount that is used up. Arbitrary for components that are not counted.
    #[inline]
    fn used(&self) -> Budget {
        let (drawn, account, memory) = (self.drawn.get(), self.account.get(), self.memory.get());
        let mut used = drawn.zip(account, u64::wrapping_sub);
        used.ops = used.ops.wrapping_sub(self.slice.get());
        if memory != i64::MAX {
            used.memory = drawn.memory.wrapping_sub(memory.max(0) as u64);
        }
        used
    }

    /// A checkpoint with a cost. It counts for at least one op of the turn, so that a loop of
    /// charges yields whatever it charges.
    pub(crate) fn checkpoint_for(&self, cost: Budget) -> Result<()> {
        self.check_cancelled()?;
        // First: nothing is charged if the task turns out to be cancelled.
        if self.slice.get() == 0 && self.turn.get() == 0 {
            self.end_turn()?;
        }
        self.charge(cost).inspect_err(|_| self.yield_to_others())?;
        if cost.ops == 0 {
            self.set_balance_after(self.balance(), 1);
        }
        Ok(())
    }

    /// Takes `cost` off the account, all or nothing; draws more as the policy says.
    pub(crate) fn charge(&self, cost: Budget) -> Result<()> {
        loop {
            let mut balance = self.balance();
            match balance.charge(cost) {
                Ok(()) => {
                    self.set_balance_after(balance, cost.ops);
                    return Ok(());
                }
                Err(_) => self.refill(cost)?,
            }
        }
    }

    /// Called before an operation on a channel: a checkpoint that charges one op and ensures that
    /// the rest of [`Budget::CHANNEL_OP`] is covered.
    ///
    /// # Errors
    ///
    /// As for a checkpoint.
    #[inline]
    pub(crate) fn prepare_channel_op(&self) -> Result<()> {
        if !self.tick() {
            self.checkpoint_slow()?;
        }
        if self.account.get().channel_ops == 0 {
            self.refill(Budget { channel_ops: 1, ..Budget::ZERO })?;
        }
        Ok(())
    }

    /// Charges the rest of the cost after an operation that happened. It is still covered: only the
    /// task itself spends from its account.
    #[inline]
    pub(crate) fn charge_channel_op(&self) {
        let mut account = self.account.get();
        if account.channel_ops != UNLIMITED {
            account.channel_ops = account.channel_ops.saturating_sub(1);
            self.account.set(account);
        }
    }

    /// Sets the rest of the account. The turn goes on: a new slice is cut from it, which may be
    /// shorter.
    fn set_balance(&self, balance: Budget) {
        self.set_balance_after(balance, 0);
    }

    /// As [`set_balance`](Frame::set_balance), after ops that count towards the turn.
    fn set_balance_after(&self, balance: Budget, ops: u64) {
        // Memory beyond the budget stays owed.
        let owed = clamp(self.overdraft());
        self.memory.set(clamp(balance.memory).saturating_sub(owed));
        let turn = self.turn.get() + self.slice.take();
        self.turn.set(turn.saturating_sub(ops));
        self.account.set(balance);
        self.cut_slice();
    }

    /// Takes the whole account out: for a nursery that shares it.
    fn take_balance(&self) -> Budget {
        let balance = self.balance();
        self.set_balance(Budget::ZERO);
        balance
    }

    /// Draws more, until `cost` is covered, by the policy of the nursery.
    ///
    /// # Errors
    ///
    /// If the pool has no more, or the task was cancelled while it waited.
    #[cold]
    fn refill(&self, cost: Budget) -> Result<()> {
        let (mut asked_all, mut told) = (false, false);
        loop {
            let Err(short) = self.balance().charge(cost) else { return Ok(()) };
            self.report_spent();
            // Draws only the resource that is short: other tasks may need the rest. A task that
            // draws on a nursery of its own leaves the larger part to the children, since it can
            // draw again.
            let mut wanted = self.settings().grant.only(short.resource, cost.get(short.resource));
            if self.draws_on_its_own() {
                wanted = wanted.repeatable();
            }
            let policy = self.settings().on_exhausted;
            let drawn = match policy {
                // An amount that the task moved into a nursery of its own is not used up.
                OnExhausted::Fail if !self.draws_on_its_own() => return Err(self.exhausted(short)),
                OnExhausted::Suspend if asked_all => {
                    // The hook is called again only after a draw: a wait may end early.
                    if self.suspend(wanted, short.resource, &mut told)? {
                        told = false;
                    } else {
                        asked_all = false;
                    }
                    continue;
                }
                _ => self.pool().draw(wanted, short.resource),
            };
            self.deposit(drawn);
            if drawn.get(short.resource) > 0 {
                self.note_budget(EventKind::Recharged, short.resource);
                told = false;
                continue;
            }
            // Accounts of siblings that have ended may still be in the batch of their worker.
            self.settings().shared.flush_deferred();
            if std::mem::replace(&mut asked_all, true) {
                return Err(self.exhausted(short));
            }
        }
    }

    /// Draws more of `resource`, or waits once for a recharge. Returns whether it drew any. `told`:
    /// whether the hook was called for this shortage.
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    fn suspend(&self, wanted: Slice, resource: Resource, told: &mut bool) -> Result<bool> {
        let suspension = pin!(Suspension::new(self.pool(), self.info(), resource));
        // SAFETY: the suspension leaves every queue before this returns or unwinds.
        let waiter = || unsafe { borrowed_waiter(Some(self)) };
        loop {
            let drawn = suspension.as_ref().draw_or_wait(wanted, waiter);
            self.deposit(drawn);
            if drawn.get(resource) > 0 {
                self.note_budget(EventKind::Recharged, resource);
                return Ok(true);
            }
            // Once more, now that the task is queued: see the header of `budget::pool`.
            self.settings().shared.flush_deferred();
            if std::mem::replace(told, true) {
                break;
            }
            // The hook may wait, and so consume the wake of a recharge. The task therefore asks the
            // pool again after the hook, and parks directly after that.
            self.tell_exhausted(resource);
        }
        self.park_as_it_is(Why::Budget(resource))?; // in the state BudgetExhausted
        Ok(false)
    }

    /// The error of a task that gets no more budget.
    fn exhausted(&self, short: Shortfall) -> Error {
        self.tell_exhausted(short.resource);
        self.short(short)
    }

    /// Reports to the trace and to the host's hook that a resource is used up.
    fn tell_exhausted(&self, resource: Resource) {
        self.note_budget(EventKind::Exhausted, resource);
        if let Some(hook) = &self.settings().on_exhausted_child {
            self.run_hook(|| hook.call(&NurseryEvent::exhausted(self.info(), resource)));
        }
    }

    /// Runs a hook of the host on this task. The hook does not use the task's budget, and is
    /// shielded from its cancellation: it runs also for events that follow from a cancellation.
    pub(crate) fn run_hook(&self, hook: impl FnOnce()) {
        let (balance, memory) = (self.balance(), self.memory.get());
        let allocated = self.allocated.get();
        self.set_balance(Budget::UNLIMITED); // the turn goes on
        self.memory.set(i64::MAX);
        self.shielded(None, hook);
        self.set_balance(balance);
        self.memory.set(memory);
        self.allocated.set(allocated);
    }

    fn short(&self, short: Shortfall) -> Error {
        Error::short(short).bounded_by(self.pool().bounded_by(short.resource))
    }

    /// Books the used part of the account in the pool, which is about to be locked anyway. Memory
    /// is left out, because it may be freed. Does nothing while a nursery is open: its pool may
    /// hold the amount.
    pub(super) fn report_spent(&self) {
        if self.node_is_own() {
            let (drawn, balance) = (self.drawn.get(), self.balance());
            let used = drawn.zip(balance, u64::saturating_sub).with_memory(0);
            self.drawn.set(drawn.zip(used, |drawn, used| drawn - used));
            self.pool().spend(used);
        }
    }

    /// Whether the task has no nursery open.
    fn node_is_own(&self) -> bool {
        std::ptr::eq(self.node(), &self.settings().node)
    }

    /// Whether the task draws on a pool that it has funded itself.
    fn draws_on_its_own(&self) -> bool {
        !std::ptr::eq(self.pool(), &self.settings().pool)
    }

    fn deposit(&self, drawn: Budget) {
        let mut total = self.drawn.get();
        total.absorb(drawn);
        self.drawn.set(total);
        let mut balance = self.balance();
        gain(&mut balance, drawn);
        self.set_balance(balance);
    }

    // ----- stack -----------------------------------------------------------------------------

    /// Whether the caller runs on the task's own stack, and not on that of a
    /// [`Fiber`](crate::fiber::Fiber) which the task has resumed.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        // The frame is at the base of the task's stack, so an address on it lies between the
        // stack's end and the frame.
        let base = (&raw const *self).addr();
        let here = 0_u8;
        (&raw const here).addr() < base && self.stack_left() > 0
    }

    /// Bytes of stack left below the caller.
    #[inline]
    pub(crate) fn stack_left(&self) -> usize {
        let mut end = self.stack_end.get();
        if end == 0 {
            end = worker::stack_end();
            self.stack_end.set(end);
        }
        let here = 0_u8;
        (&raw const here).addr().saturating_sub(end)
    }
}

/// Random length of a turn, at most `longest` ops. Mostly short: most races lie between two
/// checkpoints that are close to each other. Sometimes long, so that one task gets far ahead of the
/// others.
#[cold]
fn random_turn(longest: u64) -> u64 {
    let random = |worker: &Worker| {
        let most = [1, 4, 64, longest][worker.rng.below(4)].min(longest);
        1 + worker.rng.below(most as usize) as u64
    };
    if longest == 0 { 0 } else { worker::with_current(random).unwrap_or(longest) }
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn never() -> NonNull<AtomicU64> {
    #[cfg(not(loom))]
    return NonNull::from(&NEVER);
    #[cfg(loom)]
    unreachable!("no task runs in a model")
}

/// The frame of the task that runs on this thread, if one does.
#[inline]
pub(crate) fn current() -> Option<&'static Frame> {
    // SAFETY: the frame of the running task, which exists until the task ends. It is not really
    // `'static`: callers use it only while they run on the task, and its frame is at the base of
    // their stack.
    unsafe { worker::running()?.as_ref().frame().cast::<Frame>().as_ref() }
}

/// The place where the task that runs on this thread was spawned. For signal handlers: it neither
/// allocates nor locks.
pub(crate) fn spawned_at() -> Option<&'static Location<'static>> {
    current().map(|frame| frame.origin.spawned_at)
}
