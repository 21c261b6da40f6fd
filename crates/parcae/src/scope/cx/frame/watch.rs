//! Notifying a task of its cancellation: its subscription to a cancel node, and its shields.
//!
//! # A cancellable wait
//!
//! The node that cancels a task wakes its subscribers. So a task that parks is subscribed, and
//! [`CancelWatch::wait`] has four steps:
//!
//! 1. *check*: a task that is cancelled already does not wait;
//! 2. *subscribe*, if the task is not subscribed since an earlier wait at the same node;
//! 3. *check again*, after subscribing: a cancellation between steps 1 and 2 has woken no
//!    subscriber, and the node refuses the subscription;
//! 4. *park*, and check once more.
//!
//! No cancellation is missed: `CancelNode::subscribe` reads the mark under the lock under which it
//! is set. If it finds the mark, step 3 finds it as well. If not, the subscription is in the queue
//! when the node is marked, and the pass wakes the task; a wake before the park is latched. Only a
//! `Queued` subscription spares step 2: one that a pass has `Granted` is in no queue, and the pass
//! may have been that of another node.
//!
//! The subscription stays in the queue when the wait is over, so that later waits take no lock.
//! [`CancelWatch::unsubscribe`] removes it before the task changes its node, or ends.
//!
//! For the same reason a task whose subscription is `Queued` may leave step 1 out: the pass that
//! marks the node has not come to the subscription yet, so it wakes the task later. That wake finds
//! the task running or parked, never in a queue, and is latched or ends the park; then step 1
//! follows. (A wake that found the task in a queue would be cleared when the task is taken out, but
//! it has `Granted` the subscription before.) A request to end this task alone has no subscription:
//! it may have come while the task was in a queue, so that the task looks at it before each park.
//!
//! # Shields
//!
//! An open shield hides the mark of the nodes around it from the task, until the shield is closed
//! or its grace period is over. A shield within a shield holds for no longer than the outer one.
//! A nursery that is opened inside of a shield has its own node, which the shield does not hide: a
//! task remembers how many shields were open when it entered its scope, and only later ones count.
//!
//! In a shield without a grace period a wait does not subscribe: no cancellation could end it. In
//! one with a grace period it does, since the cancellation may come when the period is over. If the
//! cancellation comes first, it wakes the task, which finds the shield and waits again, now without
//! a subscription. A timer wakes it at the end of the period.

use crate::base::reason::CancelReason;
use crate::sched::timers::Nanos;
use crate::scope::cancel::CancelNode;
use crate::wait::{WaitNode, WaitStanding, Waitable, Waiter, Wake};
use std::cell::Cell;

/// The subscription and the shields of a task, used by the task alone. In the models, which have no
/// scheduler, the waiter is a thread.
pub(super) struct CancelWatch<W = Waiter> {
    /// Queued at the node of the task's scope from the first wait in that scope on.
    subscription: WaitNode<W>,
    /// How many shields are open.
    shields: Cell<u32>,
    /// When they cease to hold; none if they do not.
    grace: Cell<Option<Nanos>>,
}

/// The part of a task that its watch uses.
pub(super) trait Cancellable<W> {
    type Error;

    /// The node that cancels the task: that of its innermost scope.
    fn node(&self) -> &CancelNode<W>;

    /// How many shields were open when the task entered that scope.
    fn entered(&self) -> u32;

    /// Fails if the task is cancelled.
    fn check(&self) -> Result<(), Self::Error>;

    /// Wakes the task.
    fn waiter(&self) -> W;
}

/// The grace period around a shield, which is restored when the shield is closed.
#[must_use = "the shield is closed with it"]
#[derive(Clone, Copy)]
pub(super) struct OuterGrace(Option<Nanos>);

impl<W: Wake> CancelWatch<W> {
    #[inline(always)]
    pub(super) fn new() -> CancelWatch<W> {
        CancelWatch {
            subscription: WaitNode::new(()),
            shields: Cell::new(0),
            grace: Cell::new(None),
        }
    }

    /// A cancellable wait of the task that this watch belongs to: see the header. `park` returns
    /// after a wake of the task's waiter, or early.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Cancellable::check).
    ///
    /// # Safety
    ///
    /// The watch does not move, and the task's waiter stays valid, until
    /// [`unsubscribe`](CancelWatch::unsubscribe) is called. That is before the task changes its
    /// node, and before the watch is dropped.
    #[inline(always)]
    pub(super) unsafe fn wait<T: Cancellable<W>>(
        &self,
        task: &T,
        park: impl FnOnce(),
    ) -> Result<(), T::Error> {
        // SAFETY: as the caller says.
        unsafe { self.begin(task) }?;
        park();
        task.check()
    }

    /// Steps 1 to 3 of a wait.
    ///
    /// # Errors
    ///
    /// As for [`wait`](CancelWatch::wait).
    ///
    /// # Safety
    ///
    /// As for [`wait`](CancelWatch::wait).
    #[inline(always)]
    pub(super) unsafe fn begin<T: Cancellable<W>>(&self, task: &T) -> Result<(), T::Error> {
        task.check()?;
        // Not so if it was granted: see the header.
        let spared = self.is_subscribed();
        // SAFETY: as the caller says.
        if spared { Ok(()) } else { unsafe { self.subscribe(task) } }
    }

    /// Whether the task is in the queue of its node.
    #[inline(always)]
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscription.standing() == WaitStanding::Queued
    }

    /// Subscribes to the task's node, unless no cancellation can end the wait.
    ///
    /// # Safety
    ///
    /// As for [`wait`](CancelWatch::wait). Not queued.
    #[cold]
    unsafe fn subscribe<T: Cancellable<W>>(&self, task: &T) -> Result<(), T::Error> {
        if self.shields.get() > task.entered() && self.grace.get().is_none() {
            return Ok(());
        }
        // SAFETY: not queued, and the task's own; the rest as the caller says.
        unsafe {
            self.subscription.reset();
            task.node().subscribe(&self.subscription, task.waiter(), None);
        }
        task.check() // again: see the header
    }

    /// Leaves the queue of the task's node, if the task is in it.
    ///
    /// # Safety
    ///
    /// The task has not changed its node since it has waited.
    #[inline(always)]
    pub(super) unsafe fn unsubscribe(&self, task: &impl Cancellable<W>) {
        if self.is_subscribed() {
            // SAFETY: the task's own, queued at this node.
            unsafe { task.node().withdraw(&self.subscription) };
        }
    }

    /// Why the task's node cancels it, if it does and no shield holds that off.
    pub(super) fn reason(
        &self,
        task: &impl Cancellable<W>,
        now: impl FnOnce() -> Nanos,
    ) -> Option<CancelReason> {
        if self.holds(task.entered(), now) { None } else { task.node().reason() }
    }

    /// Whether a shield holds that was opened after the first `entered` ones.
    #[inline]
    pub(super) fn holds(&self, entered: u32, now: impl FnOnce() -> Nanos) -> bool {
        self.shields.get() > entered && self.grace.get().is_none_or(|until| now() < until)
    }

    /// How many shields are open.
    pub(super) fn shields(&self) -> u32 {
        self.shields.get()
    }

    /// When the open shields cease to hold; none if they do not.
    pub(super) fn grace(&self) -> Option<Nanos> {
        self.grace.get()
    }

    /// Opens a shield that holds until it is closed, or until the time that is given.
    pub(super) fn shield(&self, asked: Option<Nanos>) -> OuterGrace {
        let outer = self.grace.get();
        self.shields.set(self.shields.get() + 1);
        // A shield within a shield does not hold for longer.
        self.grace.set(match (asked, outer) {
            (Some(until), Some(outer)) => Some(until.min(outer)),
            (until, outer) => until.or(outer),
        });
        OuterGrace(outer)
    }

    /// Closes the shield that was opened last.
    pub(super) fn unshield(&self, outer: OuterGrace) {
        self.shields.set(self.shields.get() - 1);
        self.grace.set(outer.0);
    }
}

#[cfg(all(test, loom))]
mod models;
