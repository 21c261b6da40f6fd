//! Nurseries: tasks that end before the call that spawned them returns.
//!
//! [`Cx::nursery`] works like [`std::thread::scope`]: its body spawns children, which may borrow
//! anything that outlives the call, and the call returns when the body and all children have ended,
//! however the body ends.
//!
//! # States
//!
//! ```text
//!            body returns              all children ended
//!   Open ─────────────────► Closing ────────────────────────► Closed
//!     │                        │
//!     │ cancel: explicit, by the parent, by a failure
//!     ▼                        ▼       all children ended
//!   Cancelling ◄───────────────┘ ────────────────────────────► Cancelled
//! ```
//!
//! The state is not stored. It follows from three facts that only ever go one way, so no other
//! transition is possible: the body has returned (`closing`), the node is cancelled (`cancel`), all
//! children have ended (the group's counter, `task::group`).
//!
//! # Who owns what
//!
//! The [`NurseryCore`] lies on the stack of the task that opened the nursery, which does not leave
//! before its group is empty. Children reach it through their record; they are counted as
//! ended when nothing of them is left that could use it, or anything that was lent to them.
//!
//! `Nursery` is `Sync`: its children may spawn siblings, and so may threads that the body waits
//! for. All of them end before the owner can find its group empty, so the core outlives them. The
//! owner counts its children without atomics, all other threads with one.
//!
//! # Results
//!
//! A child's result stays in its record until its [`TaskHandle`] takes it; if the handle is
//! gone the child drops it itself (`task::state` has the protocol). The first failure is kept
//! in the core, the others are counted. A child that ended because it was cancelled has not
//! failed.

mod event;
mod failures;
#[cfg_attr(
    not(feature = "foreign"),
    allow(dead_code, unreachable_pub, reason = "public with that feature")
)]
mod handle;
mod join_set;
mod opts;
mod spawn;

pub(crate) use event::Hook;
pub use event::NurseryEvent;
pub use handle::{TaskFuture, TaskHandle};
pub use join_set::{InOrder, JoinSet};
pub(crate) use opts::NamedBudget;
pub use opts::{NurseryOpts, OnFailure, SpawnOpts};

use crate::base::error::{Error, ErrorKind, Rank, Result};
use crate::base::lock::Lock;
use crate::sched::Shared;
use crate::sched::task::group::Group;
use crate::sched::task::{Task, Traits};
use crate::sched::timers::ArmedTimer;
use crate::sched::worker;
use crate::scope::budget::{Budget, BudgetPool, Shortfall, Standing, Suspended};
use crate::scope::cancel::{CancelReason, CancelToken, OnCancel};
use crate::scope::cap::Issuer;
use crate::scope::cx::{self, Cx, Frame, Grace, Shares, TaskSettings};
use crate::scope::profile::{Profile, Service, Spawns};
use crate::scope::tally::Tallies;
use crate::wait::Why;
use failures::{FailureSum, Failures, Keep};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The five states of a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NurseryState {
    /// Children can be spawned.
    Open,
    /// The body has returned; children run.
    Closing,
    /// The children were cancelled.
    Cancelling,
    /// All children have ended.
    Closed,
    /// All children have ended, after a cancellation.
    Cancelled,
}

/// The payment for a child.
enum Paid {
    /// The default of its nursery.
    Default,
    /// Something else.
    Other(Budget),
    /// Nothing yet: it gets a budget that is named.
    Named,
}

/// The state of a nursery, on its owner's stack.
#[repr(C)]
pub(crate) struct NurseryCore {
    /// First, because a child's record points to it.
    pub(crate) group: Group,
    pub(crate) settings: TaskSettings,
    on_failure: OnFailure,
    pub(crate) traits: Traits,
    /// Failures of children.
    failures: Failures,
    /// Whether the body has returned. Written by the owner. Relaxed throughout: others read it for
    /// reports.
    pub(crate) closing: AtomicBool,
    /// Whether the children were cancelled and the body's value counts. Relaxed throughout: the
    /// owner reads it when all children have ended, which the group's counter orders.
    winding_down: AtomicBool,
    /// Cancels the nursery at its deadline. Disarmed with the core.
    #[allow(dead_code)]
    deadline: Option<ArmedTimer<Arc<Shared>>>,
    /// End of the grace period of the shield that it was opened in. Disarmed with the core.
    #[allow(dead_code)]
    grace: Option<Grace>,
    /// Cancel the nursery when other tokens are cancelled. Disarmed with the core.
    #[allow(dead_code)]
    tokens: Vec<OnCancel>,
    /// The total budget of each child, if the options name one.
    child_budget: Option<Budget>,
    /// A child with default options costs nothing.
    free: bool,
    /// Called when a child fails, and at the end.
    on_event: Option<Hook>,
    /// Children that were cancelled individually, and where: for error texts.
    cancelled_at: Lock<Vec<(u64, &'static Location<'static>)>>,
    /// Reason of the cancellation, or `None`, at the end of the last child: reports and results
    /// after that do not change any more.
    pub(crate) ended: OnceLock<Option<CancelReason>>,
    /// The next nursery of the same owner, further out.
    outer: Option<NonNull<NurseryCore>>,
}

// SAFETY: `outer` points to a core further out on the owner's stack, and is read by the owner and
// by observers that hold the owner still. The rest is made for sharing.
unsafe impl Sync for NurseryCore {}

impl fmt::Display for NurseryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NurseryState::Open => "open",
            NurseryState::Closing => "closing",
            NurseryState::Cancelling => "cancelling",
            NurseryState::Closed => "closed",
            NurseryState::Cancelled => "cancelled",
        })
    }
}

impl NurseryCore {
    /// The core that a child belongs to.
    ///
    /// # Safety
    ///
    /// The task was spawned by a nursery and is not counted as ended.
    #[inline]
    unsafe fn of<'c>(task: NonNull<Task>) -> &'c NurseryCore {
        // SAFETY: as the caller says; the group is the core's first field, and the pointer was
        // made from the core.
        unsafe {
            match task.as_ref().group.get() {
                Some(group) => group.cast::<NurseryCore>().as_ref(),
                None => unreachable!("a child without a nursery"),
            }
        }
    }

    /// The core of a nursery that the running task opens.
    pub(crate) fn open(frame: &Frame, opts: NurseryOpts) -> Result<(NurseryCore, Shares)> {
        if std::thread::panicking() {
            return Err(Error::new(ErrorKind::Unwinding));
        }
        frame.check_cancelled()?;
        // This task and no other, even if the `Cx` was smuggled to another task on the same thread.
        let running = worker::with_current(worker::Worker::task).flatten();
        let Some(owner) = running.filter(|task| task.task == frame.task()) else {
            return Err(Error::new(ErrorKind::NurseryNotActive));
        };
        opts.open(frame, owner)
    }

    /// Closes the nursery and waits for its children. Called by the owner.
    pub(crate) fn wait_for_children(&self, frame: &Frame) {
        self.group.close();
        while !self.group.is_empty() {
            // Not a cancel point: children that are cancelled end, and are waited for. They have
            // not heard of a request that went to this task alone.
            if frame.was_asked_to_end() && !self.settings.node.is_cancelled() {
                self.cancel(CancelReason::Parent);
            }
            frame.leave_to_others(Why::Children);
        }
        frame.seen().nursery.set(self.outer);
        let _ = self.ended.set(self.settings.node.reason());
        if self.on_event.is_some() {
            frame.run_hook(|| self.announce_end());
        }
    }

    /// Reports the final state to the hook. Called when no child is left.
    pub(crate) fn announce_end(&self) {
        if let Some(hook) = &self.on_event {
            hook.call(&NurseryEvent::Ended { state: self.state() });
        }
    }

    /// Pays for a child.
    #[inline]
    fn pay(&self) -> Result<Paid> {
        if self.free || self.settings.pool.take_prepaid() {
            Ok(Paid::Default)
        } else {
            self.pay_pool()
        }
    }

    #[inline(never)]
    fn pay_pool(&self) -> Result<Paid> {
        if self.child_budget.is_some() {
            return Ok(Paid::Named);
        }
        let TaskSettings { pool, default_grant, grant, .. } = &self.settings;
        let account = self.or_ask_all(|| pool.spawn_default(*default_grant, *grant))?;
        Ok(if account == *default_grant { Paid::Default } else { Paid::Other(account) })
    }

    /// Tries to draw. If there is not enough, siblings that have ended may have left some with the
    /// worker that they ended on: asks for that and tries again.
    fn or_ask_all<R>(&self, draw: impl Fn() -> Result<R, Shortfall>) -> Result<R> {
        let again = |_| {
            self.settings.shared.flush_deferred();
            draw()
        };
        draw().or_else(again).map_err(|short| self.short(short))
    }

    #[cold]
    fn short(&self, short: Shortfall) -> Error {
        Error::short(short).bounded_by(self.settings.pool.bounded_by(short.resource))
    }

    /// The terms, for an observer of the owner.
    pub(crate) fn settings(&self) -> &TaskSettings {
        &self.settings
    }

    /// Children that have not ended, for an observer of the owner.
    pub(crate) fn live(&self) -> usize {
        self.group.live()
    }

    /// The next nursery of the same owner, further out.
    pub(crate) fn outer(&self) -> Option<NonNull<NurseryCore>> {
        self.outer
    }

    /// State of the nursery.
    pub(crate) fn state(&self) -> NurseryState {
        if let Some(reason) = self.ended.get() {
            let cancelled = reason.is_some();
            return if cancelled { NurseryState::Cancelled } else { NurseryState::Closed };
        }
        // Relaxed: a snapshot, for reports.
        let closing = self.closing.load(Ordering::Relaxed);
        let ended = closing && self.group.live() == 0;
        match (self.settings.node.is_cancelled(), closing) {
            (true, _) if ended => NurseryState::Cancelled,
            (true, _) => NurseryState::Cancelling,
            (false, true) if ended => NurseryState::Closed,
            (false, true) => NurseryState::Closing,
            (false, false) => NurseryState::Open,
        }
    }

    /// Which failures are kept.
    fn keep(&self) -> Keep {
        if self.on_failure == OnFailure::Collect { Keep::All } else { Keep::First }
    }

    /// Notes the failure of a child whose handle is not there to report it.
    fn failed(&self, error: Error) {
        self.failures.add(error, self.keep());
    }

    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.settings.node.cancel(reason);
    }

    /// Why the nursery is being cancelled, if it is. One whose parent or token is cancelled is
    /// cancelled too, even if the pass that cancels has not come here yet: see `cancel`.
    fn why_cancelled(&self) -> Option<CancelReason> {
        let node = &self.settings.node;
        if let Some(reason) = node.reason() {
            return Some(reason);
        }
        let tokens = || self.tokens.iter().find_map(OnCancel::reason_now);
        self.cancel(node.reason_now().or_else(tokens)?);
        node.reason()
    }

    /// An error with which a child or the body ends, signed: whether it came too late to be the
    /// cause of anything. `failures` has the rule.
    fn is_late(&self, error: &Error, frame: &Frame) -> bool {
        match self.why_cancelled() {
            None => frame.was_told() && !frame.was_sentenced() && !error.is_panic(),
            Some(CancelReason::Failure) => frame.was_told(),
            Some(_) => true,
        }
    }

    /// Signs a child's error.
    #[cold]
    fn sign(&self, error: Error, frame: &Frame) -> Error {
        let error = frame.sign(error);
        if self.is_late(&error, frame) { error.ranked(Rank::Late) } else { error }
    }

    /// Notes that the body has returned an error.
    fn body_failed(&self, error: Error, frame: &Frame) {
        let reason = self.why_cancelled();
        let asked = reason.is_none() && frame.was_asked_to_end() && !frame.was_sentenced();
        // Its own cancellation is known, and so is the error of a child that has failed.
        let known = (error.is_cancelled() && reason.is_some()) || self.failures.knows(&error);
        if !known {
            let error = frame.sign(error);
            let speaks = self.winds_down() || (error.rank() == Rank::Own && !frame.was_told());
            let late = match reason {
                Some(CancelReason::Explicit) => !speaks,
                _ => self.is_late(&error, frame),
            };
            if late && asked && !error.is_cancelled() {
                self.failed(Error::cancelled(CancelReason::Explicit).in_task(|| frame.info()));
            }
            let is_reason = asked && error.is_cancelled();
            self.failed(if late && !is_reason { error.ranked(Rank::Late) } else { error });
        }
        self.cancel(CancelReason::Failure);
    }

    fn winds_down(&self) -> bool {
        // Relaxed: as at the field. A child reads it after the reason of the `cancel` that follows
        // the store.
        self.winding_down.load(Ordering::Relaxed)
    }

    /// The result of the nursery, when all has ended and the body has returned `value`.
    pub(crate) fn result<R>(&self, value: Option<R>) -> Result<R> {
        let FailureSum { failure, late } = self.failures.take(self.keep());
        if let Some(error) = failure {
            return Err(error);
        }
        let reason = self.ended.get().copied().unwrap_or_else(|| self.settings.node.reason());
        match (value, reason) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(CancelReason::Explicit)) if self.winds_down() => Ok(value),
            (_, reason) => Err(self.cancelled(reason.unwrap_or(CancelReason::Failure), late)),
        }
    }

    #[cold]
    fn cancelled(&self, reason: CancelReason, late: usize) -> Error {
        Error::cancelled(reason).detailed(self.settings.node.detail()).with_others(late)
    }
}

/// An open nursery, in which children are spawned. See [`Cx::nursery`].
///
/// The body may lend it to children, which then spawn siblings as in [`std::thread::scope`]. The
/// nursery's budget pays for them:
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let visited = AtomicUsize::new(0);
/// let rt = Runtime::builder().workers(2).build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         n.spawn(|_| {
///             for _ in 0..3 {
///                 n.spawn(|_| Ok(visited.fetch_add(1, Ordering::Relaxed)))?; // a sibling
///             }
///             Ok(())
///         })?;
///         Ok(())
///     }) // waits for all four
/// })?;
/// assert_eq!(visited.into_inner(), 3);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Locals of the body cannot be lent to a child:
///
/// ```compile_fail,E0373
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// rt.run(|cx| cx.nursery(|n| {
///     let local = 1;
///     n.spawn(|_| Ok(local == 1))?; // ends before the child
///     Ok(())
/// })).unwrap();
/// ```
///
/// A child has a [`Cx`] of its own; that of its parent stays with the parent:
///
/// ```compile_fail,E0277
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// rt.run(|cx| cx.nursery(|n| {
///     n.spawn(|_| cx.checkpoint())?; // write `|cx| cx.checkpoint()`
///     Ok(())
/// })).unwrap();
/// ```
pub struct Nursery<'scope, 'env: 'scope, P: Profile = Service> {
    pub(crate) core: NurseryCore,
    /// The owner's frame, at the base of the stack that this is on; none if a thread owns it
    /// (`foreign`).
    owner: Option<NonNull<Frame>>,
    _profile: PhantomData<P>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

// SAFETY: `owner` is used by the owner alone, as `recharge` checks; the rest is made for sharing.
unsafe impl<P: Profile> Sync for Nursery<'_, '_, P> {}

impl<P: Profile> Nursery<'_, '_, P> {
    /// The nursery of a core. The frame is the owner's; none if a thread owns it.
    #[inline]
    pub(crate) fn of(core: NurseryCore, owner: Option<NonNull<Frame>>) -> Self {
        Nursery { core, owner, _profile: PhantomData, _scope: PhantomData, _env: PhantomData }
    }
}

impl<P: Spawns> Cx<P> {
    /// Opens a nursery, runs `body` in it, and waits for all children.
    ///
    /// Returns the body's value, or the first failure of a child. When a child or the body fails,
    /// the others are cancelled; [`nursery_with`](Cx::nursery_with) offers other policies. A panic
    /// of the body cancels the children, waits for them, and is resumed.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let text = String::from("the thread of life");
    /// let longest = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let mut lengths = Vec::new();
    ///         for word in text.split(' ') {
    ///             lengths.push(n.spawn(move |_| Ok(word.len()))?); // borrows from outside
    ///         }
    ///         let mut longest = 0;
    ///         for length in lengths {
    ///             longest = longest.max(length.join()?);
    ///         }
    ///         Ok(longest)
    ///     })
    /// })?;
    /// assert_eq!(longest, 6);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A child's failure takes precedence over a cancellation, a cancellation over the body's
    /// value.
    pub fn nursery<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        self.nursery_with(NurseryOpts::new(), body)
    }

    /// Like [`nursery`](Cx::nursery), with options: a name, a budget of its own, policies for
    /// failure and exhaustion.
    ///
    /// # Errors
    ///
    /// As for [`nursery`](Cx::nursery), and if the task has less than the budget that the
    /// options name.
    pub fn nursery_with<'env, R>(
        &self,
        opts: NurseryOpts,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        let frame = self.frame();
        let (core, shares) = NurseryCore::open(frame, opts)?;
        let nursery = Nursery::of(core, Some(NonNull::from(frame)));
        let core = &nursery.core;
        let outer = frame.enter_nursery(&core.settings, shares);
        frame.seen().nursery.set(Some(NonNull::from(core)));
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&nursery)));
        core.closing.store(true, Ordering::Relaxed); // as at the field
        let value = match outcome {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) => {
                // Whatever happens there: children are waited for first.
                catch_unwind(AssertUnwindSafe(|| core.body_failed(error, frame))).map(|()| None)
            }
            Err(payload) => {
                core.cancel(CancelReason::Failure);
                Err(payload)
            }
        };
        core.wait_for_children(frame);
        frame.leave_nursery(&core.settings, shares, outer);
        if core.settings.tally.is_some()
            && let Some(tallies) = core.settings.shared.part::<Tallies>()
        {
            tallies.close(core.settings.nursery);
        }
        match value {
            Ok(value) => core.result(value),
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl<P: Spawns> Nursery<'_, '_, P> {
    /// Cancels the children and the body. The nursery then returns the cancellation as an error,
    /// unless a child has failed before, or the body returns an error of its own.
    #[track_caller]
    pub fn cancel(&self) {
        self.core.settings.node.cancel_at(Location::caller());
    }

    /// Cancels the children and keeps the body's value. For a race that the first to arrive wins:
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let winner = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let fast = n.spawn(|_| Ok("hare"))?;
    ///         n.spawn(|cx| cx.forever(|| Ok(())))?; // the tortoise
    ///         let winner = fast.join()?;
    ///         n.wind_down();
    ///         Ok(winner)
    ///     })
    /// })?;
    /// assert_eq!(winner, "hare");
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn wind_down(&self) {
        self.core.winding_down.store(true, Ordering::Relaxed);
        self.core.cancel(CancelReason::Explicit);
    }

    /// Whether the nursery is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.core.settings.node.is_cancelled()
    }

    /// A token that cancels this nursery, from anywhere.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.core.settings.node)
    }

    /// State of the nursery. While its body runs, that is `Open` or `Cancelling`. A child that was
    /// lent the nursery sees `Closing` too. `Closed` and `Cancelled` are reported to the hook of
    /// [`NurseryOpts::on_event`].
    pub fn state(&self) -> NurseryState {
        self.core.state()
    }

    /// Number of children that have not ended. A child that has just ended may count for a moment.
    pub fn live(&self) -> usize {
        self.core.group.live()
    }

    /// Standing of the nursery's budget.
    pub fn budget(&self) -> Standing {
        cx::live_standing(&self.core.settings.shared, &self.core.settings.pool)
    }

    /// Moves budget from the owner's account into the nursery's, and wakes suspended children. Only
    /// the task that opened the nursery can do that; others recharge its
    /// [`account`](Nursery::account) under a capability.
    ///
    /// # Errors
    ///
    /// If the owner has less, or the caller is another task. Nothing is moved then.
    pub fn recharge(&self, amount: Budget) -> Result<()> {
        let here = cx::Here::new();
        let owner = here.frame().filter(|frame| self.owner == Some(NonNull::from(*frame)));
        match owner {
            Some(owner) => owner.recharge(&self.core.settings.pool, amount),
            None => Err(Error::msg(
                "only the task that opened a nursery recharges it from its own budget; elsewhere \
                 use `account().recharge` with a `CapBudget`",
            )),
        }
    }

    /// The tasks that wait for a recharge of the nursery's budget, and the resource they lack.
    /// Includes children that wait for a recharge of their own budget by [`TaskHandle::recharge`].
    pub fn suspended(&self) -> Vec<Suspended> {
        let mut tasks = self.core.settings.pool.suspended();
        tasks.extend(cx::suspended_on_own_budget(&self.core.settings));
        tasks
    }

    /// The account of this nursery, to be recharged from elsewhere under a
    /// [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> Account {
        Account::of(&self.core.settings, &self.core.settings.pool)
    }
}

/// The budget of a nursery, to be read and recharged from any thread. Has no effect after the
/// nursery has ended.
#[derive(Clone)]
pub struct Account {
    pool: Arc<BudgetPool>,
    issuer: Arc<Issuer>,
    shared: Weak<Shared>,
}

impl Account {
    pub(crate) fn of(settings: &TaskSettings, pool: &Arc<BudgetPool>) -> Account {
        let shared = Weak::clone(&settings.shared.me);
        Account { pool: Arc::clone(pool), issuer: Arc::clone(&settings.issuer), shared }
    }

    /// Its standing. After the runtime has ended, the last known one.
    pub fn standing(&self) -> Standing {
        match self.shared.upgrade() {
            Some(shared) => cx::live_standing(&shared, &self.pool),
            None => self.pool.standing(),
        }
    }

    /// The tasks that wait for a recharge, and the resource they lack.
    pub fn suspended(&self) -> Vec<Suspended> {
        self.pool.suspended()
    }

    /// Adds as much of `amount` as the capability allows, and wakes tasks that wait for it. Returns
    /// the amount added, which is zero for resources that are not counted.
    ///
    /// # Errors
    ///
    /// If the capability is revoked or has nothing left of `amount`, or the nursery has ended.
    pub fn recharge(&self, cap: &crate::scope::cap::CapBudget, amount: Budget) -> Result<Budget> {
        cap.check_issuer(&self.issuer)?;
        if self.pool.is_unlimited() {
            return Ok(Budget::ZERO); // nothing is counted
        }
        let granted = cap.take(amount)?;
        if !self.pool.recharge(granted) {
            cap.give_back(granted);
            return Err(Error::new(ErrorKind::NurseryNotActive));
        }
        Ok(granted)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.pool.standing()).finish()
    }
}

impl<P: Profile> fmt::Debug for Nursery<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nursery").field("name", &self.core.settings.name).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
