//! Nurseries: tasks that end before the place that spawned them goes on.
//!
//! [`Cx::nursery`] works like [`std::thread::scope`]: its body spawns children, which may borrow
//! whatever outlives the call, and the call returns when the body and all children have
//! ended, however the body ends.
//!
//! # States
//!
//! ```text
//!            body returns              all children ended
//!   Open ─────────────────► Closing ────────────────────────► Closed
//!     │                        │
//!     │ cancel: by somebody, by the parent, by a failure
//!     ▼                        ▼       all children ended
//!   Cancelling ◄───────────────┘ ────────────────────────────► Cancelled
//! ```
//!
//! The state is not stored. It follows from three facts that only ever go one way, so no other
//! transition is possible: the body has returned (known to the owner), the node is
//! cancelled (`cancel`), all children have ended (the group's counter, `task::group`).
//!
//! # Who owns what
//!
//! The [`Core`] lies on the stack of the task that opened the nursery, which does not leave
//! before its group is empty. Children reach it through their record; they are counted as
//! ended when nothing of them is left that could use it, or anything that was lent to them.
//! Only the owner spawns (`Nursery` is not `Sync`), so children need no lock to be counted in.
//!
//! # Paying ahead
//!
//! Children that get what is usual are paid for several at a time, if the pool has plenty. What is paid ahead is taken back when
//! the owner waits, yields or ends the nursery, and when somebody asks how the budget stands: whoever is short of
//! budget while the owner is not running finds it in the pool. While the owner runs, a quarter of what the pool
//! had may be out of its siblings' reach.
//!
//! # Results
//!
//! A child's result stays in its record until its [`TaskHandle`] takes it; if the handle is
//! gone the child drops it itself (`task::state` has the protocol). The first failure is kept
//! in the core, the others are counted. A child that ended because it was cancelled has not
//! failed.

mod failures;
pub(crate) mod foreign;
mod handle;
mod opts;
mod spawn;

pub use handle::{TaskFuture, TaskHandle};
pub(crate) use opts::Own;
pub use opts::{NurseryOpts, OnFailure, SpawnOpts};

use crate::budget::{Budget, Pool, Shortfall, Standing};
use crate::cancel::{CancelReason, CancelToken, OnCancel};
use crate::cap::Issuer;
use crate::cx::{self, Cx, Frame, Shares, Terms};
use crate::error::{Error, ErrorKind, Result, TaskInfo};
use crate::profile::{Profile, Service, Spawns};
use crate::sched::Shared;
use crate::task::group::Group;
use crate::task::{Task, Traits};
use crate::time::Deadline;
use crate::wait::Why;
use crate::worker;
use failures::Failures;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// The five states of a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NurseryState {
    /// Children can be spawned.
    Open,
    /// The body has returned; children run.
    Closing,
    /// Children were asked to end.
    Cancelling,
    /// All have ended.
    Closed,
    /// All have ended, after they were asked to.
    Cancelled,
}

/// What a child was paid.
enum Paid {
    /// What is usual in its nursery.
    Usual,
    /// Something else.
    Other(Budget),
}

/// What a nursery is made of, on its owner's stack.
#[repr(C)]
pub(crate) struct Core {
    /// First, because a child's record points to it.
    group: Group,
    terms: Terms,
    on_failure: OnFailure,
    traits: Traits,
    /// Children that came to an end by a failure.
    failures: Failures,
    /// The body has returned; the owner's.
    closing: Cell<bool>,
    /// The rest was asked to end, but the result counts; the owner's.
    winding_down: Cell<bool>,
    /// When it is cancelled by itself. Taken back with the core.
    #[allow(dead_code)]
    deadline: Option<Deadline<Arc<Shared>>>,
    /// Cancel it when other tokens are. Taken back with the core.
    #[allow(dead_code)]
    tokens: Vec<OnCancel>,
    /// Usual children that have been paid for and not spawned; the owner's.
    prepaid: Cell<u32>,
    /// The next nursery of the same owner, further out.
    outer: Option<NonNull<Core>>,
}

// SAFETY: the cells are touched by the owner alone, which is one flow of control; the rest is
// made for sharing.
unsafe impl Sync for Core {}

impl Core {
    /// The core that a child belongs to.
    ///
    /// # Safety
    ///
    /// The task was spawned by a nursery and is not counted as ended.
    unsafe fn of<'c>(task: NonNull<Task>) -> &'c Core {
        // SAFETY: as the caller says; the group is the core's first field, and the pointer was
        // made from the core.
        unsafe {
            match task.as_ref().group.get() {
                Some(group) => group.cast::<Core>().as_ref(),
                None => unreachable!("a child without a nursery"),
            }
        }
    }

    /// The core of a nursery that the running task opens.
    fn open(frame: &Frame, opts: NurseryOpts) -> Result<(Core, Shares)> {
        if std::thread::panicking() {
            return Err(Error::new(ErrorKind::Unwinding));
        }
        frame.check_cancelled()?;
        // Of this task and no other, also if somebody carried the `Cx` to one on the same thread.
        let running = worker::current().and_then(worker::Worker::task);
        let Some(owner) = running.filter(|task| task.task == frame.task()) else {
            return Err(Error::new(ErrorKind::NurseryNotActive));
        };
        opts.open(frame, owner)
    }

    /// Takes no more children and waits for those that there are. The owner's.
    fn wait_for_children(&self, frame: &Frame) {
        self.refund();
        frame.take_back();
        self.group.close();
        while !self.group.is_empty() {
            // Not a cancel point: children that are cancelled end, and are waited for. They have
            // not heard of a request that went to this task alone.
            if frame.was_asked_to_end() && !self.terms.node.is_cancelled() {
                self.cancel(CancelReason::Parent);
            }
            frame.leave_to_others(Why::Children);
        }
        frame.seen().nursery.set(self.outer);
    }

    /// Pays for a usual child, and for some more of them if there is plenty; or for one that gets
    /// less.
    #[inline]
    fn pay(&self) -> Result<Paid> {
        match self.prepaid.get() {
            0 if self.terms.pool.is_unlimited() => Ok(Paid::Usual),
            0 => self.prepay(),
            some => {
                self.prepaid.set(some - 1);
                Ok(Paid::Usual)
            }
        }
    }

    #[inline(never)]
    fn prepay(&self) -> Result<Paid> {
        let Terms { pool, usual, grant, .. } = &self.terms;
        let (account, children) = pool.prepay(*usual, *grant).map_err(|short| self.short(short))?;
        self.prepaid.set(children - 1);
        if children > 1 {
            match cx::current().filter(|frame| frame.task() == self.group.owner().task) {
                Some(owner) => owner.has_paid_ahead(self),
                None => self.refund(), // nobody who would take it back in time
            }
        }
        Ok(if account == *usual { Paid::Usual } else { Paid::Other(account) })
    }

    /// Takes back what was paid for children that were not spawned: before the owner waits, so that others can have it. The
    /// owner's.
    pub(crate) fn refund(&self) {
        self.terms.pool.unspawn(self.terms.usual, self.prepaid.take());
    }

    #[cold]
    fn short(&self, short: Shortfall) -> Error {
        Error::short(short).bounded_by(self.terms.pool.bounded_by(short.resource))
    }

    /// The terms, for an observer of the owner.
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Children that have not ended, for an observer of the owner.
    pub(crate) fn live(&self) -> usize {
        self.group.live()
    }

    /// The next nursery of the same owner, further out.
    pub(crate) fn outer(&self) -> Option<NonNull<Core>> {
        self.outer
    }

    /// Where the nursery is in its life, for an observer of the owner.
    pub(crate) fn state(&self) -> NurseryState {
        match (self.terms.node.is_cancelled(), self.closing.get()) {
            (true, _) => NurseryState::Cancelling,
            (false, true) => NurseryState::Closing,
            (false, false) => NurseryState::Open,
        }
    }

    /// A child has failed, and nobody else will hear of it.
    fn failed(&self, error: Error) {
        self.failures.add(error, self.on_failure == OnFailure::Collect);
    }

    fn cancel(&self, reason: CancelReason) {
        self.terms.node.cancel(reason);
    }

    /// The body has returned an error.
    fn body_failed(&self, error: Error, frame: &Frame) {
        // One that came out of a child that has failed is known already.
        let told = error.is_cancelled() && self.terms.node.is_cancelled();
        if !told && !self.failures.began_with(&error) {
            self.failed(error.in_task(|| frame.info()));
        }
        self.cancel(CancelReason::Failure);
    }

    /// What the nursery comes to, when all has ended and the body has returned `value`.
    fn result<R>(&self, value: Option<R>) -> Result<R> {
        if let Some(error) = self.failures.take() {
            return Err(error);
        }
        match (value, self.terms.node.reason()) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(CancelReason::Explicit)) if self.winding_down.get() => Ok(value),
            (_, reason) => Err(Error::cancelled(reason.unwrap_or(CancelReason::Failure))),
        }
    }
}

/// An open nursery: where children are spawned. See [`Cx::nursery`].
///
/// Only the body has it. It cannot be handed to a child, and nothing that lives inside of the
/// body can be lent to one:
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
/// ```compile_fail,E0277
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// rt.run(|cx| cx.nursery(|n| {
///     n.spawn(move |_| { n.spawn(|_| Ok(()))?; Ok(()) })?; // only the owner spawns
///     Ok(())
/// })).unwrap();
/// ```
pub struct Nursery<'scope, 'env: 'scope, P: Profile = Service> {
    core: Core,
    /// The owner's frame, at the base of the stack that this is on; none if a thread owns it (`foreign`).
    owner: Option<NonNull<Frame>>,
    _profile: PhantomData<P>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

impl<P: Spawns> Cx<P> {
    /// Opens a nursery, runs `body` in it, and waits for all children.
    ///
    /// Returns what the body returned, or the first failure of a child. When a child fails, or
    /// the body does, the others are cancelled; [`nursery_with`](Cx::nursery_with) offers other
    /// ways. A panic of the body cancels the children, waits for them, and goes on.
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
    /// A child's failure comes before a cancellation, a cancellation before the body's
    /// value.
    pub fn nursery<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        self.nursery_with(NurseryOpts::new(), body)
    }

    /// As [`nursery`](Cx::nursery), with options: a name, a budget of its own, what happens when
    /// a child fails or has used up its budget.
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
        let (core, shares) = Core::open(frame, opts)?;
        let nursery = Nursery {
            core,
            owner: Some(NonNull::from(frame)),
            _profile: PhantomData,
            _scope: PhantomData,
            _env: PhantomData,
        };
        let core = &nursery.core;
        let outer = frame.enter_nursery(&core.terms, shares);
        frame.seen().nursery.set(Some(NonNull::from(core)));
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&nursery)));
        core.closing.set(true);
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
        frame.leave_nursery(&core.terms, shares, outer);
        if core.terms.tally.is_some() {
            core.terms.shared.tallies.close(core.terms.nursery);
        }
        match value {
            Ok(value) => core.result(value),
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl<P: Spawns> Nursery<'_, '_, P> {
    /// Asks the children and the body to end. The nursery then returns an error that says so,
    /// unless a child has failed.
    pub fn cancel(&self) {
        self.core.cancel(CancelReason::Explicit);
    }

    /// Asks the children to end; what the body returns counts all the same. For a race of which
    /// the first to arrive wins:
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
        self.core.winding_down.set(true);
        self.core.cancel(CancelReason::Explicit);
    }

    /// Whether somebody asked the children to end.
    pub fn is_cancelled(&self) -> bool {
        self.core.terms.node.is_cancelled()
    }

    /// What cancels this nursery, from anywhere.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.core.terms.node)
    }

    /// Where the nursery is in its life. While its body runs that is `Open` or `Cancelling`.
    pub fn state(&self) -> NurseryState {
        self.core.state()
    }

    /// How many children have not ended. One that has just ended may count for a moment.
    pub fn live(&self) -> usize {
        self.core.group.live()
    }

    /// How the nursery's budget stands.
    pub fn budget(&self) -> Standing {
        self.core.refund();
        self.core.terms.pool.standing()
    }

    /// Moves budget from the owner's account into the nursery's, and wakes children that are
    /// suspended.
    ///
    /// # Errors
    ///
    /// If the owner has not as much; nothing is moved then.
    pub fn recharge(&self, amount: Budget) -> Result<()> {
        match self.owner {
            // SAFETY: at the base of the stack that this is on.
            Some(owner) => unsafe { owner.as_ref() }.recharge(&self.core.terms.pool, amount),
            None => Err(Error::msg("a thread has no budget to give: recharge with a capability")),
        }
    }

    /// The children that wait for a recharge of the nursery's budget.
    pub fn suspended(&self) -> Vec<TaskInfo> {
        self.core.terms.pool.suspended()
    }

    /// What recharges this nursery from elsewhere, by the authority of a
    /// [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> Account {
        Account::of(&self.core.terms, &self.core.terms.pool)
    }
}

/// The budget of a nursery, for somebody who may recharge it: from any thread. After the
/// nursery has ended it does nothing.
#[derive(Clone)]
pub struct Account {
    pool: Arc<Pool>,
    issuer: Arc<Issuer>,
}

impl Account {
    pub(crate) fn of(terms: &Terms, pool: &Arc<Pool>) -> Account {
        Account { pool: Arc::clone(pool), issuer: Arc::clone(&terms.issuer) }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        self.pool.standing()
    }

    /// The tasks that wait for a recharge.
    pub fn suspended(&self) -> Vec<TaskInfo> {
        self.pool.suspended()
    }

    /// Adds as much of `amount` as the capability allows, and wakes tasks that wait for it.
    /// Returns what was added: nothing where nothing is counted.
    ///
    /// # Errors
    ///
    /// If the capability was revoked or has nothing left of what is asked for, or the nursery
    /// has ended.
    pub fn recharge(&self, cap: &crate::cap::CapBudget, amount: Budget) -> Result<Budget> {
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
        f.debug_tuple("Account").field(&self.standing()).finish()
    }
}

impl<P: Profile> fmt::Debug for Nursery<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nursery").field("name", &self.core.terms.name).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
