//! Cancellation: a tree of tokens.
//!
//! A [`CancelToken`] is a node. Cancelling one cancels everything below it, at once and in one
//! pass: each node is marked under its lock, and its subscribers (child nodes, waiters, callbacks)
//! are removed and notified after the lock was released. No two locks are ever held, nothing
//! recurses, and every node is kept alive by a count, so the pass needs no help from the tasks that
//! it meets.
//!
//! Every nursery has a node, below that of the task that opened it. Its children and its body
//! look at that node wherever they may be cancelled:
//!
//! | where | how it is noticed |
//! |---|---|
//! | a checkpoint | `limit` becomes so large that the checkpoint's one comparison fails |
//! | a wait | the task subscribes to the node at its first wait, and is unparked |
//! | before its first run | the task looks before it calls its closure |
//!
//! # Why no cancelled task waits for ever
//!
//! A task subscribes under the node's lock and looks at the mark in the same critical section: its
//! frame has a wait-queue node, which joins the node's queue of waiters. `cancel` sets the mark
//! under the lock, and removes the waiters after that; no waiter joins a queue whose node is
//! marked. So the task sees the mark, or `cancel` finds the task and unparks it; the state word
//! latches an unpark that comes before the park. A task that has subscribed stays in the queue
//! until it enters or leaves a nursery, or ends: later waits look at the mark and need no lock.
//!
//! # Why a consequence never comes before its cause
//!
//! A pass marks one node after another. A task below a marked node may end, and its end may break
//! something for a task below a node that the pass has not reached. That task would find its own
//! node unmarked and take the consequence for a cause. So a nursery that classifies a failure asks
//! [`CancelNode::reason_now`], which looks at the nodes above as well. The first mark of the pass
//! was set before any task could learn of the cancellation, and a task that is affected by the end
//! of such a task (through a channel's lock or a state word) sees that mark.
//!
//! # Shields with a grace period
//!
//! A nursery that a task opens inside of a shield is not cancelled from above while the shield
//! holds. Its node is in the tree all the same, marked as shielded, and a pass that arrives there
//! stops. [`CancelNode::unshield`], called at the end of the grace period, clears the mark under
//! the node's lock and then looks at the nodes above. No cancellation is missed: the pass marks the
//! parent before it takes the lock of the shielded node. If it takes that lock first, `unshield`
//! takes it later and sees the parent's mark. If `unshield` is first, the pass finds no shield.

mod own;
mod registry;
mod token;
mod waiting;

pub(crate) use own::OwnNode;
pub use token::{CancelToken, OnCancel};

use crate::base::error::{Detail, discard};
use crate::base::lock::{Guard, Lock};
pub use crate::base::reason::CancelReason;
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::sched::timers::Expire;
use crate::wait::{Batch, CaseClaim, Grant, Queue, WaitNode, WaitStanding, Waitable, Waiter, Wake};
use registry::Registry;
use std::panic::Location;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A node of the tree. In the models, which have no scheduler, a waiter is a flag.
pub(crate) struct CancelNode<W = Waiter> {
    /// 0, or [`u64::MAX`] once it is cancelled. Checkpoints compare their slice with it.
    limit: AtomicU64,
    /// 0, or the code of the reason.
    reason: AtomicU64,
    /// The node above, and the key of this node in its registry. None if the parent was cancelled
    /// before.
    parent: Option<(Arc<CancelNode<W>>, Option<u64>)>,
    /// The time limit that cancels it, in nanoseconds plus one; 0 if there is none, `u64::MAX` if
    /// it is not known. For error texts and the search for deadlocks: no part of the protocol.
    expires: std::sync::atomic::AtomicU64,
    /// The name of the nursery that it belongs to, for error texts.
    label: OnceLock<Arc<str>>,
    /// The place in the program that cancelled it, for error texts.
    at: OnceLock<&'static Location<'static>>,
    subscribers: Lock<Subscribers<W>>,
}

/// Subscribers of a node: they are notified when it is cancelled.
struct Subscribers<W> {
    listed: Listed<W>,
    /// Tasks, threads and cases of selects. No more join once the node is cancelled.
    waiters: Queue<W>,
    /// Cancellations of nodes above do not reach this node: see the header.
    shielded: bool,
}

impl<W> Subscribers<W> {
    fn new(shielded: bool) -> Subscribers<W> {
        Subscribers { listed: Listed::default(), waiters: Queue::new(), shielded }
    }
}

/// Subscribers that are kept in registries.
struct Listed<W> {
    children: Registry<Weak<CancelNode<W>>>,
    callbacks: Registry<Box<dyn FnOnce(CancelReason) + Send>>,
}

impl<W> Default for Listed<W> {
    fn default() -> Listed<W> {
        Listed { children: Registry::new(), callbacks: Registry::new() }
    }
}

/// Where a cancellation comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// It was asked for at this node.
    Here,
    /// A node above was cancelled.
    Above,
}

impl<W> CancelNode<W> {
    fn lock(&self) -> Guard<'_, Subscribers<W>> {
        self.subscribers.lock()
    }
}

impl<W: Wake> CancelNode<W> {
    pub(crate) fn root() -> Arc<CancelNode<W>> {
        Arc::new(CancelNode::new(None, None))
    }

    fn new(
        parent: Option<(Arc<CancelNode<W>>, Option<u64>)>,
        cancelled: Option<CancelReason>,
    ) -> CancelNode<W> {
        let limit = if cancelled.is_some() { u64::MAX } else { 0 };
        CancelNode {
            limit: AtomicU64::new(limit),
            reason: AtomicU64::new(cancelled.map_or(0, CancelReason::code)),
            parent,
            expires: std::sync::atomic::AtomicU64::new(0),
            label: OnceLock::new(),
            at: OnceLock::new(),
            subscribers: Lock::new(Subscribers::new(false)),
        }
    }

    /// A deadline was set that cancels this node: after `limit`, if that is known.
    pub(crate) fn set_expires(&self, limit: Option<Duration>) {
        let nanos = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        let code = nanos.map_or(u64::MAX, |nanos| nanos.saturating_add(1));
        // Relaxed: a hint, pairs with nothing.
        self.expires.store(code, std::sync::atomic::Ordering::Relaxed);
    }

    /// The time limit of this node itself, and its length if that is known.
    fn time_limit(&self) -> Option<Option<Duration>> {
        match self.expires.load(std::sync::atomic::Ordering::Relaxed) {
            // as above
            0 => None,
            u64::MAX => Some(None),
            code => Some(Some(Duration::from_nanos(code - 1))),
        }
    }

    /// Names the nursery that the node belongs to.
    pub(crate) fn set_label(&self, name: &Arc<str>) {
        let _ = self.label.set(Arc::clone(name)); // once, by its nursery
    }

    /// Whether there is a deadline that cancels it, or one above it. The end of a grace period
    /// counts as one.
    pub(crate) fn expires(&self) -> bool {
        let mut node = self;
        loop {
            if node.time_limit().is_some() || node.is_shielded() {
                return true;
            }
            match &node.parent {
                Some((above, _)) => node = above,
                None => return false,
            }
        }
    }

    /// A node below this one. Cancelled if this one is.
    pub(crate) fn child(self: &Arc<CancelNode<W>>) -> Arc<CancelNode<W>> {
        let mut subscribers = self.lock();
        if let Some(reason) = self.reason() {
            // The parent is for error texts; the child is in no registry.
            let parent = Some((Arc::clone(self), None));
            return Arc::new(CancelNode::new(parent, Some(reason.below())));
        }
        // Locked until the child is there: until then its weak reference leads nowhere, and a pass
        // would miss it.
        Arc::new_cyclic(|child| {
            let key = subscribers.listed.children.insert(Weak::clone(child));
            CancelNode::new(Some((Arc::clone(self), Some(key))), None)
        })
    }

    /// A node below this one that cancellations from above do not reach before
    /// [`unshield`](CancelNode::unshield).
    pub(crate) fn shielded_child(self: &Arc<CancelNode<W>>) -> Arc<CancelNode<W>> {
        let mut subscribers = self.lock();
        let cancelled = self.is_cancelled();
        // Locked until the child is there, as in `child`.
        Arc::new_cyclic(|child| {
            let listed = &mut subscribers.listed;
            let key = (!cancelled).then(|| listed.children.insert(Weak::clone(child)));
            let mut node = CancelNode::new(Some((Arc::clone(self), key)), None);
            node.subscribers = Lock::new(Subscribers::new(true));
            node
        })
    }

    /// Lets cancellations from above through, also those that came while the shield held.
    pub(crate) fn unshield(self: &Arc<CancelNode<W>>) {
        self.lock().shielded = false;
        if let Some(reason) = self.reason_now() {
            self.cancel(reason);
        }
    }

    fn is_shielded(&self) -> bool {
        self.lock().shielded
    }

    /// The limit that a checkpoint compares its counter with.
    #[inline]
    pub(crate) fn limit(&self) -> &AtomicU64 {
        &self.limit
    }

    /// Whether it was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release in `mark`: a thread that sees the mark finds the reason.
        self.limit.load(Ordering::Acquire) != 0
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        // Acquire: pairs with the Release in `mark`: what made the caller cancel is seen.
        CancelReason::from_code(self.reason.load(Ordering::Acquire))
    }

    /// As [`reason`](CancelNode::reason), and looks at the nodes above it too, whose pass may not
    /// have come down here yet: see the module's header. For the slow path of a failure.
    pub(crate) fn reason_now(&self) -> Option<CancelReason> {
        if let Some(reason) = self.reason() {
            return Some(reason);
        }
        let mut node = self;
        while let Some((above, _)) = &node.parent
            && !node.is_shielded()
        {
            if let Some(reason) = above.reason() {
                return Some(reason.below());
            }
            node = above;
        }
        None
    }

    /// More about why this node was cancelled, in as far as it is known.
    pub(crate) fn detail(&self) -> Option<Detail> {
        match self.reason()? {
            CancelReason::Timeout => Some(Detail::After(self.time_limit().flatten())),
            CancelReason::Explicit => self.at.get().map(|at| Detail::At(at)),
            CancelReason::Parent => {
                let mut node = &*self.parent.as_ref()?.0;
                while node.reason() == Some(CancelReason::Parent) {
                    node = &node.parent.as_ref()?.0;
                }
                let within = Detail::Above {
                    nursery: node.label.get().map(Arc::clone),
                    reason: node.reason()?,
                    detail: node.detail().map(Box::new),
                };
                Some(within)
            }
            CancelReason::Failure | CancelReason::Shutdown => None,
        }
    }

    /// Marks the node; the subscribers to be notified, beside its waiters, if this was the first
    /// time.
    fn mark(&self, reason: CancelReason, source: Source) -> Option<Listed<W>> {
        let mut subscribers = self.lock();
        if self.is_cancelled() || (subscribers.shielded && source == Source::Above) {
            return None;
        }
        // Release: pairs with the Acquire in `reason`.
        self.reason.store(reason.code(), Ordering::Release);
        // Release: pairs with the Acquire in `is_cancelled`: a thread that sees the mark finds the
        // reason.
        self.limit.store(u64::MAX, Ordering::Release);
        Some(std::mem::take(&mut subscribers.listed))
    }

    /// As [`cancel`](CancelNode::cancel), explicitly, and notes the place for error texts.
    pub(crate) fn cancel_at(self: &Arc<CancelNode<W>>, at: &'static Location<'static>) -> bool {
        if !self.is_cancelled() {
            // Before the mark, so that a reader of the mark finds it. Of two racing cancels, the
            // place of either is kept.
            let _ = self.at.set(at);
        }
        self.cancel(CancelReason::Explicit)
    }

    /// Cancels this node and all below it. True for the first call.
    pub(crate) fn cancel(self: &Arc<CancelNode<W>>, reason: CancelReason) -> bool {
        let Some(listed) = self.mark(reason, Source::Here) else { return false };
        let mut below = Vec::new();
        self.notify(listed, reason, &mut below);
        let reason = reason.below();
        while let Some(node) = below.pop() {
            if let Some(listed) = node.mark(reason, Source::Above) {
                node.notify(listed, reason, &mut below);
            }
        }
        true
    }

    /// Notifies the subscribers of a node that was marked; adds the nodes below it.
    fn notify(&self, listed: Listed<W>, reason: CancelReason, below: &mut Vec<Arc<CancelNode<W>>>) {
        below.extend(listed.children.into_values().filter_map(|child| child.upgrade()));
        self.wake_waiters();
        for callback in listed.callbacks.into_values() {
            // A callback that panics keeps no other subscriber from being notified.
            let called =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(reason)));
            if let Err(payload) = called {
                discard(payload);
            }
        }
    }

    /// Ends the wait of all waiters of a node that was marked: no more will come. In batches, so
    /// that the lock is held for a few instructions at a time.
    fn wake_waiters(&self) {
        loop {
            let mut batch = Batch::new();
            let mut subscribers = self.lock();
            while !batch.is_full()
                && let Some(waiter) = subscribers.waiters.grant(Grant::All)
            {
                batch.push(waiter);
            }
            drop(subscribers);
            let more = batch.is_full();
            batch.wake();
            if !more {
                return;
            }
        }
    }

    /// Queues a node, to be woken when this one is cancelled; false if it is already. A select
    /// comes with its claim.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    pub(crate) unsafe fn subscribe(
        &self,
        node: &WaitNode<W>,
        waiter: W,
        claim: Option<CaseClaim>,
    ) -> bool {
        let mut subscribers = self.lock(); // the mark and the queue in one critical section
        if self.is_cancelled() {
            return false;
        }
        // SAFETY: as the caller says.
        unsafe { subscribers.waiters.push(node, waiter, claim) };
        true
    }
}

impl<W: Wake> Waitable<W> for CancelNode<W> {
    type Key = ();

    unsafe fn withdraw(&self, node: &WaitNode<W>) -> Option<Grant> {
        // SAFETY: as the caller says.
        let removed = unsafe { self.lock().waiters.remove(node) };
        match removed.standing {
            WaitStanding::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

impl Expire for CancelNode {
    fn expire(self: Arc<CancelNode>) {
        self.cancel(CancelReason::Timeout);
    }

    fn end_grace(self: Arc<CancelNode>) {
        self.unshield();
    }
}

impl<W> Drop for CancelNode<W> {
    fn drop(&mut self) {
        if let Some((parent, key)) = self.parent.take() {
            // Gone already if the parent was cancelled.
            let _ = key.and_then(|key| parent.lock().listed.children.remove(key));
            // A long chain of tokens is not dropped by recursion.
            let mut above = Arc::into_inner(parent);
            while let Some(mut node) = above {
                above = node.parent.take().and_then(|(parent, key)| {
                    let _ = key.and_then(|key| parent.lock().listed.children.remove(key));
                    Arc::into_inner(parent)
                });
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
