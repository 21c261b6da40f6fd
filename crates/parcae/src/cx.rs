//! What a running task has of its own: its account, its place in the tree of cancellation, and
//! [`Cx`], through which it opens nurseries and looks around.
//!
//! # The frame
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
//! `slice` is what is left of the current slice of ops, at most `YIELD_INTERVAL`; it was taken off the
//! account beforehand. `limit` is 0 until somebody cancels, then larger than any slice. At
//! the end of a slice the task lets others run and takes the next one from its account; when that is
//! empty, from its pool, as its nursery's policy says.

use crate::budget::{Budget, Closed, More, OnExhausted, Pool, UNLIMITED};
use crate::cancel::{CancelReason, CancelToken, Node, Slot};
use crate::engine::Waker;
use crate::error::{Error, ErrorKind, Result, Stop, TaskInfo};
use crate::profile::{Profile, Service};
use crate::sched::Shared;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::task::{Task, TaskRef};
use crate::worker;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// What the tasks of a nursery, or a root task, run under. Outlives them.
pub(crate) struct Terms {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Arc<Node>,
    pub(crate) pool: Arc<Pool>,
    /// How much a task draws at a time, of what is counted.
    pub(crate) grant: Budget,
    pub(crate) on_exhausted: OnExhausted,
    /// Ops between two yields.
    pub(crate) interval: u64,
    pub(crate) name: Option<Arc<str>>,
}

/// What a task is called, and where it comes from.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) spawned_at: &'static Location<'static>,
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
    terms: NonNull<Terms>,
    origin: Origin,
    /// The lowest address that the task's stack may reach.
    stack_end: usize,
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
const LONGEST_SLICE: u64 = u32::MAX as u64 - 1;

/// A limit that is never reached: for shields.
static NEVER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Frame {
    /// The frame of the task that runs here. It must be announced with
    /// [`enter`](Frame::enter) once it has its place.
    ///
    /// # Safety
    ///
    /// `terms` outlives the frame. `account` was drawn from its pool.
    pub(crate) unsafe fn new(
        record: NonNull<Task>,
        terms: &Terms,
        account: Budget,
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
            terms: NonNull::from(terms),
            origin,
            stack_end: worker::stack_end(),
        }
    }

    /// Announces the frame of the running task, and takes its first slice.
    pub(crate) fn enter(&self) {
        // SAFETY: called by the task itself, which has started.
        unsafe { self.record().set_frame(self) };
        self.cut_slice();
    }

    /// Ends the frame: gives back what is left of the account, and tells nobody any more.
    pub(crate) fn leave(&self) {
        // SAFETY: as in `enter`.
        unsafe { self.record().set_frame(std::ptr::null()) };
        self.stop_waiting();
        self.pool().settle(self.drawn.get(), self.balance());
    }

    pub(crate) fn record(&self) -> &Task {
        // SAFETY: the record of the running task.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn terms(&self) -> &Terms {
        // SAFETY: as `new` demands.
        unsafe { self.terms.as_ref() }
    }

    fn node(&self) -> &Arc<Node> {
        // SAFETY: as `new` demands, or of a nursery that has not ended.
        unsafe { self.scope.get().node.as_ref() }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        // SAFETY: as above.
        unsafe { self.scope.get().pool.as_ref() }
    }

    pub(crate) fn info(&self) -> TaskInfo {
        TaskInfo {
            id: self.record().id.get(),
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
        let generation = self.record().state.generation();
        let task = TaskRef { task: self.record, generation };
        Waker::new(Arc::clone(&self.terms().shared), task)
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
        self.record().signal.store(0, std::sync::atomic::Ordering::Relaxed);
        self.check_cancelled()?;
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
    fn strip(&self, steps: usize) -> Result<usize> {
        if !self.tick() {
            self.attend()?;
        }
        let more = self.slice.get().min(steps as u64 - 1);
        self.slice.set(self.slice.get() - more);
        Ok(1 + more as usize)
    }

    /// Takes the next slice off the account; false if there is none.
    fn cut_slice(&self) -> bool {
        let mut account = self.account.get();
        let wanted = Budget { ops: self.terms().interval.min(LONGEST_SLICE), ..Budget::ZERO };
        let slice = account.split(wanted).ops;
        self.account.set(account);
        self.slice.set(self.slice.get() + slice);
        slice > 0
    }

    /// What is left of the account, the slice and the memory included.
    pub(crate) fn balance(&self) -> Budget {
        let mut left = self.account.get();
        left.absorb(Budget { ops: self.slice.get(), ..Budget::ZERO });
        if left.memory != UNLIMITED {
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

    fn set_balance(&self, balance: Budget) {
        // The balance does not show what was allocated beyond it: that stays owed.
        let owed = if balance.memory == UNLIMITED { 0 } else { self.memory.get().min(0) };
        self.memory.set(clamp(balance.memory).saturating_add(owed));
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
            let wanted = cost.max(self.terms().grant);
            let drawn = match self.terms().on_exhausted {
                // In a nursery that shares it, the account is in the nursery's pool.
                OnExhausted::Fail if self.scope.get().pool == NonNull::from(&self.terms().pool) => {
                    return Err(Error::short(short));
                }
                OnExhausted::Fail | OnExhausted::Refill => self.pool().draw(wanted, short.resource),
                OnExhausted::Suspend => {
                    let drawn = self.pool().draw_or_wait(wanted, short.resource, self.waker());
                    if drawn.get(short.resource) == 0 {
                        self.deposit(drawn);
                        self.suspend()?;
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

    fn deposit(&self, drawn: Budget) {
        self.drawn.set(together(self.drawn.get(), drawn));
        self.set_balance(together(self.balance(), drawn));
    }

    /// Waits for a recharge, as BudgetExhausted.
    fn suspend(&self) -> Result<()> {
        self.park()
    }

    // ----- memory -----------------------------------------------------------------------

    /// The task has allocated. Looks at its budget at the next checkpoint if this was too much.
    #[inline]
    pub(crate) fn allocated(&self, bytes: usize) {
        self.allocated.set(self.allocated.get().wrapping_add(bytes as u64));
        let left = self.memory.get();
        if left == i64::MAX {
            return; // not counted
        }
        let left = left.saturating_sub(bytes as i64);
        self.memory.set(left);
        if left < 0 {
            self.record().signal.store(u32::MAX, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The task has freed memory. It is credited with no more than it has allocated itself.
    #[inline]
    pub(crate) fn freed(&self, bytes: usize) {
        let own = self.allocated.get();
        let credit = own.min(bytes as u64);
        self.allocated.set(own - credit);
        if self.memory.get() != i64::MAX {
            self.memory.set(self.memory.get().saturating_add(credit as i64));
        }
    }

    /// How far beyond its budget the task has allocated.
    pub(crate) fn overdraft(&self) -> u64 {
        self.memory.get().min(0).unsigned_abs()
    }

    /// Waits as long as the task is beyond its memory budget by more than `hard` times what it was
    /// given, and was not cancelled. Neither allocates nor unwinds, for it runs in the allocator.
    #[cold]
    pub(crate) fn wait_for_memory(&self, hard: u64) {
        let given = self.drawn.get().memory;
        while self.overdraft() > given.saturating_mul(hard.saturating_sub(1))
            && self.cancel_reason().is_none()
            && !std::thread::panicking()
        {
            let Some(worker) = worker::current() else { return };
            // Somebody has to notice that it waits here: the pool does not know it.
            worker.yield_now();
            let wanted = Budget { memory: self.overdraft(), ..Budget::ZERO };
            let drawn = self.pool().try_draw(wanted);
            self.deposit_memory(drawn);
        }
    }

    fn deposit_memory(&self, drawn: Budget) {
        let mut total = self.drawn.get();
        total.absorb(drawn);
        self.drawn.set(total);
        self.memory.set(self.memory.get().saturating_add(clamp(drawn.memory)));
    }

    /// Draws what was allocated beyond the budget, or fails.
    fn pay_for_memory(&self) -> Result<()> {
        let overdraft = self.overdraft();
        if overdraft == 0 {
            return Ok(());
        }
        let cost = Budget { memory: overdraft, ..Budget::ZERO };
        self.memory.set(0);
        let paid = self.charge(cost);
        if paid.is_err() {
            // What cannot be paid stays owed, for a task that goes on all the same.
            self.memory.set(self.memory.get().saturating_sub(clamp(overdraft)));
        }
        paid
    }

    // ----- cancelling and waiting --------------------------------------------------------

    /// Why the task is to end, if it is.
    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        if self.shields.get() > 0 {
            return None;
        }
        let own = || self.record().state.is_cancelled().then_some(CancelReason::Explicit);
        self.node().reason().or_else(own)
    }

    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.cancel_reason().map_or(Ok(()), |reason| Err(Error::cancelled(reason)))
    }

    /// Waits to be woken, or cancelled; may return early.
    pub(crate) fn park(&self) -> Result<()> {
        self.start_waiting()?;
        if let Some(worker) = worker::current() {
            worker.wait();
        }
        self.check_cancelled()
    }

    /// Makes sure that a cancellation wakes the task.
    fn start_waiting(&self) -> Result<()> {
        self.check_cancelled()?;
        let mut scope = self.scope.get();
        if scope.waiter.is_none() && self.shields.get() == 0 {
            scope.waiter = self.node().register(self.waker());
            self.scope.set(scope);
            self.check_cancelled()?;
        }
        Ok(())
    }

    fn stop_waiting(&self) {
        let mut scope = self.scope.get();
        if let Some(slot) = scope.waiter.take() {
            self.node().unregister(slot);
            self.scope.set(scope);
        }
    }

    /// Lets the closure run as if nobody had cancelled.
    fn shielded<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Unshield<'f>(&'f Frame, NonNull<AtomicU64>);
        impl Drop for Unshield<'_> {
            fn drop(&mut self) {
                self.0.shields.set(self.0.shields.get() - 1);
                self.0.limit.set(self.1);
            }
        }
        self.shields.set(self.shields.get() + 1);
        let _unshield = Unshield(self, self.limit.replace(never()));
        body()
    }

    // ----- nurseries ----------------------------------------------------------------------

    /// Fills a pool for a nursery that this task opens: with a budget of its own, or with all
    /// that the task has.
    pub(crate) fn fund(&self, budget: Option<Budget>) -> Result<Arc<Pool>> {
        if let Some(budget) = budget {
            // What is asked for without limit is all that there is.
            let cost = budget.min(self.balance().max(countable(budget)));
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
        // Memory that was allocated before the nursery and freed in it: not from its pool.
        let mut freed = Budget::ZERO;
        if let Shares::All = shares
            && !terms.pool.is_unlimited()
        {
            let (drawn, balance) = (self.drawn.get(), self.take_balance());
            terms.pool.settle(drawn, balance.min(drawn));
            freed.memory = balance.memory.saturating_sub(drawn.memory);
        }
        self.scope.set(outer.scope);
        if self.shields.get() == 0 {
            self.limit.set(outer.limit);
        }
        let mut drawn = match shares {
            Shares::All => outer.drawn,
            // The body has drawn on where the task drew before.
            Shares::Nothing => self.drawn.get(),
        };
        if !(terms.pool.is_unlimited() && matches!(shares, Shares::All)) {
            let Closed { left, topped_up } = terms.pool.close();
            drawn.absorb(topped_up);
            self.set_balance(together(self.balance(), together(left, freed)));
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

    /// How much stack is left below the caller.
    #[inline]
    pub(crate) fn stack_left(&self) -> usize {
        let here = 0_u8;
        (&raw const here).addr().saturating_sub(self.stack_end)
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

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The components that have a limit; 0 for the others.
fn countable(budget: Budget) -> Budget {
    budget
        .zip(Budget::ZERO, |component, zero| if component == UNLIMITED { zero } else { component })
}

/// Both together. What is not counted in the other is not counted in the sum: a pool hands out
/// such a component unlimited, and takes it back so.
fn together(one: Budget, other: Budget) -> Budget {
    let mut sum = one;
    sum.absorb(other);
    sum.zip(other, |sum, other| if other == UNLIMITED { UNLIMITED } else { sum })
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
    unsafe { worker::current()?.task()?.task.as_ref().frame().as_ref() }
}

/// The running task, as it sees itself: what it may do, and how it stands.
///
/// Every task is handed a `&Cx`. It cannot leave the task: not to another thread, and not to a
/// child, which has its own. What may be done with it depends on the profile `P`, see
/// [`profile`](crate::profile).
pub struct Cx<P: Profile = Service> {
    frame: Frame,
    /// The profile; and neither `Send` nor `Sync`.
    _profile: PhantomData<(P, *const ())>,
}

impl<P: Profile> Cx<P> {
    pub(crate) fn new(frame: Frame) -> Cx<P> {
        Cx { frame, _profile: PhantomData }
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Charges one op of the task's budget, lets others run when it is their turn, and ends
    /// the task if somebody asked for that.
    ///
    /// A loop that may take long calls this in every round: it costs about a nanosecond. For
    /// short loop bodies see [`strips`](Cx::strips).
    ///
    /// # Errors
    ///
    /// If the task was cancelled, or has used up its budget and gets no more. Pass it on with
    /// `?`.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().budget(Budget { ops: 1_000, ..Budget::UNLIMITED }).build()?;
    /// let error = rt.run(|cx| loop { cx.checkpoint()? } as parcae::Result<()>).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[inline]
    pub fn checkpoint(&self) -> Result<()> {
        if self.frame.tick() { Ok(()) } else { self.frame.attend() }
    }

    /// Charges any cost to the task's budget, all of it or nothing: for operations that cost
    /// more than an op, such as memory that the allocator does not see.
    ///
    /// # Errors
    ///
    /// As for [`checkpoint`](Cx::checkpoint).
    pub fn charge(&self, cost: Budget) -> Result<()> {
        self.frame.check_cancelled()?;
        self.frame.charge(cost)
    }

    /// What the task has left, beside what its nursery would still give it.
    pub fn budget(&self) -> Budget {
        self.frame.balance()
    }

    /// Lets others run that are ready. Costs no budget. A cancel point.
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    pub fn yield_now(&self) -> Result<()> {
        self.frame.check_cancelled()?;
        if let Some(worker) = worker::current() {
            worker.yield_now();
        }
        self.frame.check_cancelled()
    }

    /// Waits until the task's [`waker`](Cx::waker) is used. May return early: look at what you
    /// wait for, and call it again.
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    pub fn park(&self) -> Result<()> {
        self.frame.park()
    }

    /// What wakes this task from a [`park`](Cx::park), from any thread, before, during or after it.
    pub fn waker(&self) -> Waker {
        self.frame.waker()
    }

    /// Whether somebody asked the task to end.
    pub fn is_cancelled(&self) -> bool {
        self.frame.cancel_reason().is_some()
    }

    /// The token that this task is cancelled by: that of the innermost nursery that it has open, or
    /// else of the nursery that it belongs to.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(self.frame.node())
    }

    /// Runs a closure that is not to be interrupted, such as cleaning up: in it nothing is a
    /// cancel point. A request that came meanwhile is noticed at the first cancel point after it.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     cx.token().cancel();
    ///     assert!(cx.checkpoint().is_err());
    ///     cx.shield(|| cx.checkpoint())?; // goes on
    ///     assert!(cx.checkpoint().is_err());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn shield<R>(&self, cleanup: impl FnOnce() -> R) -> R {
        self.frame.shielded(cleanup)
    }

    /// Who this task is.
    pub fn info(&self) -> TaskInfo {
        self.frame.info()
    }

    /// Bytes of stack that are left.
    pub fn stack_left(&self) -> usize {
        self.frame.stack_left()
    }

    /// Cuts a range into strips of at most `YIELD_INTERVAL` steps, with a checkpoint before
    /// each, which charges all its steps at once. The inner loop has nothing in it that keeps the compiler from
    /// unrolling and vectorising.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let numbers: Vec<u64> = (0..100_000).collect();
    /// let rt = Runtime::builder().build()?;
    /// let sum = rt.run(|cx| {
    ///     let mut sum = 0;
    ///     for strip in cx.strips(0..numbers.len()) {
    ///         sum += numbers[strip?].iter().sum::<u64>();
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 4_999_950_000);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn strips(&self, range: std::ops::Range<usize>) -> Strips<'_> {
        Strips { frame: &self.frame, rest: range }
    }

    /// An iterator with a checkpoint before each item.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let words = rt.run(|cx| {
    ///     let mut words = 0;
    ///     for line in cx.each("one\ntwo three".lines()) {
    ///         words += line?.split_whitespace().count();
    ///     }
    ///     Ok(words)
    /// })?;
    /// assert_eq!(words, 3);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn each<I: IntoIterator>(&self, items: I) -> Each<'_, I::IntoIter> {
        Each { frame: &self.frame, items: items.into_iter() }
    }
}

impl<P: Profile> fmt::Debug for Cx<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("task", &self.info()).finish_non_exhaustive()
    }
}

/// Strips of a range; see [`Cx::strips`].
pub struct Strips<'c> {
    frame: &'c Frame,
    rest: std::ops::Range<usize>,
}

impl Iterator for Strips<'_> {
    type Item = Result<std::ops::Range<usize>>;

    #[inline]
    fn next(&mut self) -> Option<Result<std::ops::Range<usize>>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.frame.strip(self.rest.len()).map(|len| {
            let strip = self.rest.start..self.rest.start + len;
            self.rest.start = strip.end;
            strip
        }))
    }
}

impl fmt::Debug for Strips<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strips").field("rest", &self.rest).finish_non_exhaustive()
    }
}

/// Items with a checkpoint before each; see [`Cx::each`].
pub struct Each<'c, I> {
    frame: &'c Frame,
    items: I,
}

impl<I: Iterator> Iterator for Each<'_, I> {
    type Item = Result<I::Item>;

    #[inline]
    fn next(&mut self) -> Option<Result<I::Item>> {
        if !self.frame.tick()
            && let Err(error) = self.frame.attend()
        {
            return Some(Err(error));
        }
        self.items.next().map(Ok)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I> fmt::Debug for Each<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Each")
    }
}

/// What code that was instrumented by `#[budgeted]` counts with.
#[derive(Clone, Copy)]
pub struct Meter {
    frame: Option<NonNull<Frame>>,
}

impl Meter {
    /// At the entry of a function: one op, and a look at the stack. Outside of a task nothing is counted.
    #[inline]
    pub fn enter() -> Meter {
        let frame = current();
        if let Some(frame) = frame {
            let left = frame.stack_left();
            if left < RED_ZONE {
                Stop::unwind(Error::new(ErrorKind::StackOverflow { left, needed: RED_ZONE }));
            }
        }
        let meter = Meter { frame: frame.map(NonNull::from) };
        meter.tick();
        meter
    }

    /// At each back-edge of a loop: one op. Unwinds the task if it is to end.
    #[inline(always)]
    pub fn tick(self) {
        // SAFETY: the frame of the running task is at the base of its stack, below the function
        // that holds this; and it is not `Send`.
        if let Some(frame) = self.frame.map(|frame| unsafe { frame.as_ref() })
            && !frame.tick()
        {
            Meter::attend(frame);
        }
    }

    #[cold]
    fn attend(frame: &Frame) {
        if std::thread::panicking() {
            return; // cleaning up: neither waits nor panics again
        }
        if let Err(error) = frame.attend() {
            Stop::unwind(error);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}
