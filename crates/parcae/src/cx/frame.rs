//! The frame of a running task.
//!
//! A [`Frame`] lies on the task's own stack, at the base, from its first to its last instruction;
//! the task's record points to it. Only the task itself uses it, so it is made of cells. What
//! others have to say to a task goes through atomics elsewhere: the `limit` of the node
//! that it is cancelled by, and the `signal` of its record.
//!
//! # Checkpoints
//!
//! ```text
//! slice > limit | signal   ⇒   slice -= 1, go on        (one comparison)
//! otherwise                ⇒   attend: cancelled? out of slice? out of budget?
//! ```
//!
//! `slice` is what is left of the current slice of ops, at most `YIELD_INTERVAL`; it was taken
//! off the account beforehand. `limit` is 0 until somebody cancels, then larger than any
//! slice. At the end of a slice the task lets others run and takes the next one from its
//! account; when that is empty, from its pool, as its nursery's policy says.

mod memory;
mod waiting;

pub(crate) use waiting::Seen;

use crate::budget::{Budget, Closed, More, OnExhausted, Pool, Resource, Sleeper, UNLIMITED};
use crate::cancel::{Node, Slot};
use crate::cap::Issuer;
use crate::engine::Waker;
use crate::error::{Error, Result, TaskInfo};
use crate::sched::Shared;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::task::{Task, TaskRef};
use crate::time::Nanos;
use crate::wait::Why;
use crate::worker;
use std::cell::Cell;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// What the tasks of a nursery, or a root task, run under. Outlives them.
pub(crate) struct Terms {
    /// The nursery's number, and that of the task that opened it; 0 for the runtime itself.
    pub(crate) nursery: u64,
    pub(crate) owner: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Arc<Node>,
    pub(crate) pool: Arc<Pool>,
    /// How much a task draws at a time, of what is counted.
    pub(crate) grant: Budget,
    /// What that comes to if the pool has enough.
    pub(crate) usual: Budget,
    /// What the children of its tasks draw, if nobody says otherwise.
    pub(crate) child_grant: Budget,
    /// Whose capabilities count.
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) on_exhausted: OnExhausted,
    /// Ops between two yields.
    pub(crate) interval: u64,
    pub(crate) name: Option<Arc<str>>,
}

impl Terms {
    /// The same, for a task that is cancelled by itself.
    pub(crate) fn for_root(&self) -> Terms {
        Terms {
            shared: Arc::clone(&self.shared),
            node: self.node.child(),
            pool: Arc::clone(&self.pool),
            issuer: Arc::clone(&self.issuer),
            name: self.name.clone(),
            ..*self
        }
    }
}

/// What a task is called, and where it comes from.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) spawned_at: &'static Location<'static>,
}

/// Whose pool a task draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinship {
    /// That of the nursery which waits for it.
    Child,
    /// Another, which may be gone when the task has ended: its own, or the runtime's.
    Apart,
}

/// What a running task has of its own.
pub(crate) struct Frame {
    slice: Cell<u64>,
    limit: Cell<NonNull<AtomicU64>>,
    record: NonNull<Task>,
    /// The account: what is left of it beside the slice, and all that was drawn into it.
    account: Cell<Budget>,
    drawn: Cell<Budget>,
    /// Bytes that may still be allocated; below 0 if they were allocated all the same.
    memory: Cell<i64>,
    /// What the task has allocated and not freed.
    allocated: Cell<u64>,
    /// Of the innermost open nursery, or of the nursery that the task belongs to. Their owner outlives
    /// the frame, or takes itself out again.
    scope: Cell<ScopeRef>,
    /// How many shields are open.
    shields: Cell<u32>,
    /// When they cease to hold; none if they do not.
    grace: Cell<Option<Nanos>>,
    terms: NonNull<Terms>,
    kinship: Kinship,
    origin: Origin,
    /// The lowest address that the task's stack may reach; 0 until somebody asks.
    stack_end: Cell<usize>,
    /// What others may see of it while it is parked.
    seen: Seen,
}

/// What a task is cancelled by and draws on, at the moment.
#[derive(Clone, Copy)]
struct ScopeRef {
    node: NonNull<Arc<Node>>,
    pool: NonNull<Arc<Pool>>,
    /// Its place among those who are told when the node is cancelled, after its first wait.
    waiter: Option<Slot>,
}

/// A call should find at least so much stack: enough for a panic with a backtrace.
pub(crate) const RED_ZONE: usize = 16 * 1024;
/// No slice is longer: what a raised `signal` compares with is larger.
pub(crate) const LONGEST_SLICE: u64 = u32::MAX as u64 - 1;

/// A limit that is never reached: for shields.
static NEVER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Frame {
    /// The frame of the task that runs here. It must be announced with
    /// [`enter`](Frame::enter) once it has its place.
    ///
    /// # Safety
    ///
    /// `terms` outlives the frame. `account` was drawn from its pool.
    #[inline]
    pub(crate) unsafe fn new(
        record: NonNull<Task>,
        terms: &Terms,
        account: Budget,
        kinship: Kinship,
        origin: Origin,
    ) -> Frame {
        let scope = ScopeRef {
            node: NonNull::from(&terms.node),
            pool: NonNull::from(&terms.pool),
            waiter: None,
        };
        Frame {
            slice: Cell::new(0),
            limit: Cell::new(NonNull::from(terms.node.limit())),
            record,
            account: Cell::new(account),
            drawn: Cell::new(account),
            memory: Cell::new(clamp(account.memory)),
            allocated: Cell::new(0),
            scope: Cell::new(scope),
            shields: Cell::new(0),
            grace: Cell::new(None),
            terms: NonNull::from(terms),
            kinship,
            origin,
            stack_end: Cell::new(0),
            seen: Seen::new(terms.shared.coarse_now()),
        }
    }

    /// Announces the frame of the running task, and takes its first slice.
    #[inline]
    pub(crate) fn enter(&self) {
        // SAFETY: called by the task itself, which has started.
        unsafe { self.record().set_frame(self) };
        if let Some(name) = &self.origin.name {
            worker::label_stack(name);
        }
        self.cut_slice();
    }

    /// Ends the frame: gives back what is left of the account, and tells nobody any more.
    #[inline]
    pub(crate) fn leave(&self) {
        // SAFETY: as in `enter`.
        unsafe { self.record().set_frame(std::ptr::null()) };
        if self.origin.name.is_some() {
            worker::label_stack("");
        }
        if self.scope.get().waiter.is_some() {
            self.stop_waiting();
        }
        let pool = self.pool();
        if pool.is_unlimited() {
            return;
        }
        let (drawn, left) = (self.drawn.get(), self.balance());
        match (self.kinship, worker::current()) {
            (Kinship::Child, Some(worker)) => worker.return_account(pool, drawn, left),
            _ => pool.settle(drawn, left),
        }
    }

    pub(crate) fn record(&self) -> &Task {
        // SAFETY: the record of the running task.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn terms(&self) -> &Terms {
        // SAFETY: as `new` demands.
        unsafe { self.terms.as_ref() }
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        // SAFETY: as `new` demands, or of a nursery that has not ended.
        unsafe { self.scope.get().node.as_ref() }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        // SAFETY: as above.
        unsafe { self.scope.get().pool.as_ref() }
    }

    pub(crate) fn info(&self) -> TaskInfo {
        TaskInfo {
            id: self.record().id(),
            name: self.origin.name.clone(),
            nursery: self.terms().name.clone(),
            spawned_at: self.origin.spawned_at,
        }
    }

    pub(crate) fn task(&self) -> NonNull<Task> {
        self.record
    }

    /// A node for a nursery that this task opens.
    pub(crate) fn child_node(&self) -> Arc<Node> {
        // In a shield the task is not cancelled, and neither is what it opens there.
        if self.shields.get() > 0 { Node::root() } else { self.node().child() }
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.terms().shared), self.task_ref())
    }

    /// The task, as others know it.
    pub(crate) fn task_ref(&self) -> TaskRef {
        TaskRef { task: self.record, generation: self.record().state.generation() }
    }

    // ----- checkpoints ------------------------------------------------------------------

    /// Charges one op; false if the task has to [`attend`](Frame::attend) to something, and
    /// nothing was charged.
    #[inline(always)]
    pub(crate) fn tick(&self) -> bool {
        let slice = self.slice.get();
        // Relaxed, both: requests that are looked at again in `attend`.
        // SAFETY: the node is kept by the nursery, or it is `NEVER`.
        let limit = unsafe { self.limit.get().as_ref() }.load(Ordering::Relaxed);
        let signal = u64::from(self.record().signal.load(std::sync::atomic::Ordering::Relaxed));
        let go_on = slice > (limit | signal);
        if go_on {
            self.slice.set(slice - 1);
        }
        go_on
    }

    /// What a checkpoint does that cannot simply go on; then charges the op.
    #[cold]
    pub(crate) fn attend(&self) -> Result<()> {
        // Acquire: pairs with the Release in `TaskHandle::cancel`.
        self.record().signal.swap(0, std::sync::atomic::Ordering::Acquire);
        if let Err(cancelled) = self.check_cancelled() {
            // One that does not care lets others run all the same.
            if let Some(worker) = worker::current() {
                worker.yield_now();
            }
            return Err(cancelled);
        }
        self.pay_for_memory()?;
        if self.slice.get() == 0 {
            if let Some(worker) = worker::current() {
                worker.yield_now();
            }
            self.check_cancelled()?;
            if !self.cut_slice() {
                self.refill(Budget::OP)?;
                self.cut_slice();
            }
        }
        self.slice.set(self.slice.get().saturating_sub(1));
        Ok(())
    }

    /// Charges up to `steps` ops at once, as many as the slice has; at least one.
    #[inline]
    pub(super) fn strip(&self, steps: usize) -> Result<usize> {
        if !self.tick() {
            self.attend()?;
        }
        let more = self.slice.get().min(steps as u64 - 1);
        self.slice.set(self.slice.get() - more);
        Ok(1 + more as usize)
    }

    /// Takes the next slice off the account; false if there is none.
    #[inline]
    fn cut_slice(&self) -> bool {
        let mut account = self.account.get();
        let slice = account.ops.min(self.terms().interval);
        if account.ops != UNLIMITED {
            account.ops -= slice;
            self.account.set(account);
        }
        self.slice.set(self.slice.get() + slice);
        slice > 0
    }

    /// What is left of the account, the slice and the memory included.
    pub(crate) fn balance(&self) -> Budget {
        let mut left = self.account.get();
        left.absorb(Budget { ops: self.slice.get(), ..Budget::ZERO });
        // A budget that is larger than any memory is not counted either.
        if left.memory != UNLIMITED && self.memory.get() != i64::MAX {
            left.memory = self.memory.get().max(0) as u64;
        }
        left
    }

    /// Takes `cost` off the account, all or nothing; draws more as the policy says.
    pub(crate) fn charge(&self, cost: Budget) -> Result<()> {
        loop {
            let mut balance = self.balance();
            match balance.charge(cost) {
                Ok(()) => {
                    self.set_balance(balance);
                    return Ok(());
                }
                Err(_) => self.refill(cost)?,
            }
        }
    }

    /// Before an operation on a channel: a checkpoint, which charges one op, and makes sure that the rest of
    /// [`Budget::CHANNEL_OP`] is covered.
    ///
    /// # Errors
    ///
    /// As for a checkpoint.
    #[inline]
    pub(crate) fn prepare_channel_op(&self) -> Result<()> {
        if !self.tick() {
            self.attend()?;
        }
        if self.account.get().channel_ops == 0 {
            self.refill(Budget { channel_ops: 1, ..Budget::ZERO })?;
        }
        Ok(())
    }

    /// Charges the rest for an operation that happened. Only the task itself spends from its account, so
    /// it is still covered.
    #[inline]
    pub(crate) fn charge_channel_op(&self) {
        let mut account = self.account.get();
        if account.channel_ops != UNLIMITED {
            account.channel_ops = account.channel_ops.saturating_sub(1);
            self.account.set(account);
        }
    }

    fn set_balance(&self, balance: Budget) {
        // What was allocated beyond the budget stays owed.
        let owed = clamp(self.overdraft());
        self.memory.set(clamp(balance.memory).saturating_sub(owed));
        self.slice.set(0);
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
    /// If there is none to be had, or the task was cancelled while it waited.
    #[cold]
    fn refill(&self, cost: Budget) -> Result<()> {
        loop {
            let Err(short) = self.balance().charge(cost) else { return Ok(()) };
            if let Some(worker) = worker::current() {
                worker.count_ended(); // what siblings have left may be just here
            }
            // Only what is short: the rest is for those who need it.
            let wanted = only(short.resource, cost.max(self.terms().grant));
            let drawn = match self.terms().on_exhausted {
                // What it put into the pool of a nursery of its own it has not used up.
                OnExhausted::Fail if !self.draws_on_its_own() => return Err(Error::short(short)),
                OnExhausted::Fail | OnExhausted::Refill => self.pool().draw(wanted, short.resource),
                OnExhausted::Suspend => {
                    let sleeper = Sleeper { waker: self.waker(), task: self.info() };
                    let drawn = self.pool().draw_or_wait(wanted, short.resource, sleeper);
                    if drawn.get(short.resource) == 0 {
                        self.deposit(drawn);
                        self.park_as_it_is(Why::Budget(short.resource))?; // as BudgetExhausted
                        continue;
                    }
                    drawn
                }
            };
            self.deposit(drawn);
            if drawn.get(short.resource) == 0 {
                return Err(Error::short(short));
            }
        }
    }

    /// Whether the task draws on a pool that it has filled itself.
    fn draws_on_its_own(&self) -> bool {
        !std::ptr::eq(self.pool(), &self.terms().pool)
    }

    fn deposit(&self, drawn: Budget) {
        let mut total = self.drawn.get();
        total.absorb(drawn);
        self.drawn.set(total);
        let mut balance = self.balance();
        gain(&mut balance, drawn);
        self.set_balance(balance);
    }

    // ----- nurseries ----------------------------------------------------------------------

    /// Fills a pool for a nursery that this task opens: with a budget of its own, or with all
    /// that the task has.
    pub(crate) fn fund(&self, budget: Option<Budget>) -> Result<Arc<Pool>> {
        if let Some(budget) = budget {
            // What is asked for without limit is all that there is.
            let cost = budget.min(self.balance().max(budget.counted()));
            self.charge(cost)?;
            return Ok(Arc::new(Pool::new(cost, None)));
        }
        if self.pool().is_unlimited() {
            return Ok(Arc::clone(self.pool()));
        }
        let more = (self.terms().on_exhausted != OnExhausted::Fail)
            .then(|| More { pool: Arc::clone(self.pool()), grant: self.terms().grant });
        Ok(Arc::new(Pool::new(self.take_balance(), more)))
    }

    /// Enters a nursery that this task has opened: from now on its node is what cancels the task.
    /// Returns what [`leave_nursery`](Frame::leave_nursery) needs.
    pub(crate) fn enter_nursery(&self, terms: &Terms, shares: Shares) -> Outer {
        let outer =
            Outer { scope: self.scope.get(), limit: self.limit.get(), drawn: self.drawn.get() };
        let pool = match shares {
            Shares::All => {
                self.drawn.set(Budget::ZERO);
                NonNull::from(&terms.pool)
            }
            Shares::Nothing => outer.scope.pool,
        };
        self.scope.set(ScopeRef { node: NonNull::from(&terms.node), pool, waiter: None });
        if self.shields.get() == 0 {
            self.limit.set(NonNull::from(terms.node.limit()));
        }
        outer
    }

    /// Leaves a nursery whose children have all ended, and takes back what its pool has left.
    pub(crate) fn leave_nursery(&self, terms: &Terms, shares: Shares, outer: Outer) {
        self.stop_waiting();
        let mut surplus = Budget::ZERO;
        if let Shares::All = shares
            && !terms.pool.is_unlimited()
        {
            // More than was drawn here: memory that the task had allocated before, and freed.
            surplus = self.take_balance();
            let back = surplus.split(self.drawn.get());
            terms.pool.settle(self.drawn.get(), back);
        }
        self.scope.set(outer.scope);
        if self.shields.get() == 0 {
            self.limit.set(outer.limit);
        }
        let mut drawn = match shares {
            Shares::All => outer.drawn,
            Shares::Nothing => self.drawn.get(), // it went on drawing on the same pool
        };
        let mut balance = self.balance();
        gain(&mut balance, surplus);
        if !(terms.pool.is_unlimited() && matches!(shares, Shares::All)) {
            let Closed { left, topped_up } = terms.pool.close();
            drawn.absorb(topped_up);
            gain(&mut balance, left);
            self.set_balance(balance);
        }
        self.drawn.set(drawn);
    }

    /// Moves budget from the account into the pool of a nursery that this task owns.
    pub(crate) fn recharge(&self, pool: &Pool, amount: Budget) -> Result<()> {
        self.charge(amount)?;
        pool.recharge_from_owner(amount);
        Ok(())
    }

    // ----- stack -----------------------------------------------------------------------------

    /// Whether the caller runs on the task's own stack, and not on that of a [`Fiber`](crate::fiber::Fiber)
    /// which the task has resumed.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        // The frame is at the base of that stack: below it, down to the stack's end.
        let base = (&raw const *self).addr();
        let here = 0_u8;
        (&raw const here).addr() < base && self.stack_left() > 0
    }

    /// How much stack is left below the caller.
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

/// Which part of its account a task gives to a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shares {
    All,
    Nothing,
}

/// What a task was cancelled by and drew on before it entered a nursery.
pub(crate) struct Outer {
    scope: ScopeRef,
    limit: NonNull<AtomicU64>,
    drawn: Budget,
}

/// Adds what a task was given. What its giver does not count is not counted by the task either.
fn gain(balance: &mut Budget, part: Budget) {
    let mut sum = *balance;
    sum.absorb(part);
    *balance = sum.zip(part, |sum, part| if part == UNLIMITED { UNLIMITED } else { sum });
}

/// One component; 0 for the others.
fn only(resource: Resource, budget: Budget) -> Budget {
    let mut one = Budget::ZERO;
    match resource {
        Resource::Ops => one.ops = budget.ops,
        Resource::Memory => one.memory = budget.memory,
        Resource::SpawnCount => one.spawn_count = budget.spawn_count,
        Resource::ChannelOps => one.channel_ops = budget.channel_ops,
        Resource::Syscalls => one.syscalls = budget.syscalls,
    }
    one
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
pub(crate) fn current() -> Option<&'static Frame> {
    // SAFETY: of the running task, which is here until it switches or ends. The lifetime is a
    // lie: callers use it for as long as they run on the task, whose frame is at the base of its stack.
    // Before it starts, and once its result is in the record, there is something else in its place.
    unsafe {
        let task = worker::current()?.task()?.task;
        if !task.as_ref().has_started() {
            return None;
        }
        task.as_ref().frame().as_ref()
    }
}
