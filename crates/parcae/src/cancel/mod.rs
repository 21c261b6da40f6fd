//! Cancellation: a tree of tokens.
//!
//! A [`CancelToken`] is a node. Cancelling one cancels everything below it, at once and in one
//! pass: each node is marked under its lock, and whoever was registered there (child
//! nodes, waiting tasks, callbacks) is taken out and told after the lock was released. No
//! two locks are ever held, nothing recurses, and every node is kept alive by a count, so
//! the pass needs no help from the tasks that it meets.
//!
//! Every nursery has a node, below that of the task that opened it. Its children and its body
//! look at that node wherever they may be cancelled:
//!
//! | where | how it is noticed |
//! |---|---|
//! | a checkpoint | `limit` becomes so large that the checkpoint's one comparison fails |
//! | a wait | the task registers with the node before its first wait, and is unparked |
//! | before its first run | the task looks before it calls its closure |
//!
//! # Why no cancelled task waits for ever
//!
//! A task registers under the node's lock and looks at the mark in the same critical section.
//! `cancel` sets the mark and reads the list in one critical section. So the task sees the mark, or `cancel` sees the
//! task and unparks it; the state word latches an unpark that comes before the park. A task
//! that registered once stays registered until it or the nursery ends: later
//! waits look at the mark and need no lock.

mod slots;
mod waiting;

use crate::engine::{Wake, Waker};
use crate::error::{Error, Result, discard};
use crate::lock::{Guard, Lock};
use crate::shim::atomic::{AtomicU64, Ordering};
pub(crate) use slots::Slot;
use slots::Slots;
use std::fmt;
use std::sync::{Arc, Weak};

/// Why something was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// Somebody asked for it.
    Explicit,
    /// A deadline has passed.
    Timeout,
    /// What it belongs to was cancelled.
    Parent,
    /// A sibling failed, or the body of the nursery did.
    Failure,
    /// The runtime is shutting down.
    Shutdown,
}

impl CancelReason {
    fn code(self) -> u64 {
        match self {
            CancelReason::Explicit => 1,
            CancelReason::Timeout => 2,
            CancelReason::Parent => 3,
            CancelReason::Failure => 4,
            CancelReason::Shutdown => 5,
        }
    }

    /// What it is for those below. The end of the runtime is everybody's.
    fn below(self) -> CancelReason {
        match self {
            CancelReason::Shutdown => self,
            _ => CancelReason::Parent,
        }
    }

    fn from_code(code: u64) -> Option<CancelReason> {
        Some(match code {
            1 => CancelReason::Explicit,
            2 => CancelReason::Timeout,
            3 => CancelReason::Parent,
            4 => CancelReason::Failure,
            5 => CancelReason::Shutdown,
            _ => return None,
        })
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelReason::Explicit => "somebody asked for it",
            CancelReason::Timeout => "a deadline has passed",
            CancelReason::Parent => "what it belongs to was cancelled",
            CancelReason::Failure => "a sibling failed",
            CancelReason::Shutdown => "the runtime is shutting down",
        })
    }
}

/// A switch that can be turned once, from any thread, and that turns all switches derived from it.
///
/// ```
/// use parcae::CancelToken;
///
/// let all = CancelToken::new();
/// let some = all.child();
/// some.cancel();
/// assert!(some.is_cancelled() && !all.is_cancelled());
/// all.cancel();
/// assert_eq!(all.child().reason(), Some(parcae::CancelReason::Parent)); // born cancelled
/// ```
#[derive(Clone)]
pub struct CancelToken {
    node: Arc<Node>,
}

/// A node of the tree. Who waits is a task; in the models, which have no scheduler, a flag.
pub(crate) struct Node<W = Waker> {
    /// 0, or [`u64::MAX`] once it is cancelled: what a checkpoint compares with.
    limit: AtomicU64,
    /// 0, or the code of the reason.
    reason: AtomicU64,
    /// The node above, and our place in it.
    parent: Option<(Arc<Node<W>>, Slot)>,
    /// Whether a deadline was set that cancels it. For whoever looks for deadlocks: a hint, no part of the protocol.
    expires: std::sync::atomic::AtomicBool,
    told: Lock<Told<W>>,
}

/// Who is told when a node is cancelled.
struct Told<W> {
    children: Slots<Weak<Node<W>>>,
    waiters: Slots<W>,
    callbacks: Slots<Box<dyn FnOnce(CancelReason) + Send>>,
}

impl<W> Default for Told<W> {
    fn default() -> Told<W> {
        Told { children: Slots::default(), waiters: Slots::default(), callbacks: Slots::default() }
    }
}

impl<W> Node<W> {
    fn lock(&self) -> Guard<'_, Told<W>> {
        self.told.lock()
    }
}

impl<W: Wake + Clone> Node<W> {
    pub(crate) fn root() -> Arc<Node<W>> {
        Arc::new(Node::new(None, None))
    }

    fn new(parent: Option<(Arc<Node<W>>, Slot)>, cancelled: Option<CancelReason>) -> Node<W> {
        let limit = if cancelled.is_some() { u64::MAX } else { 0 };
        Node {
            limit: AtomicU64::new(limit),
            reason: AtomicU64::new(cancelled.map_or(0, CancelReason::code)),
            parent,
            expires: std::sync::atomic::AtomicBool::new(false),
            told: Lock::new(Told::default()),
        }
    }

    /// A deadline was set that cancels this node.
    pub(crate) fn set_expires(&self) {
        self.expires.store(true, std::sync::atomic::Ordering::Relaxed); // a hint: pairs with nothing
    }

    /// Whether there is a deadline that cancels it, or one above it.
    pub(crate) fn expires(&self) -> bool {
        let mut node = self;
        loop {
            // Relaxed: as above.
            if node.expires.load(std::sync::atomic::Ordering::Relaxed) {
                return true;
            }
            match &node.parent {
                Some((above, _)) => node = above,
                None => return false,
            }
        }
    }

    /// A node below this one. Cancelled if this one is.
    pub(crate) fn child(self: &Arc<Node<W>>) -> Arc<Node<W>> {
        let mut told = self.lock();
        if let Some(reason) = self.reason() {
            return Arc::new(Node::new(None, Some(reason.below())));
        }
        // Locked until the child is there: until then its weak reference leads nowhere, and
        // who cancels would pass it by.
        Arc::new_cyclic(|child| {
            let slot = told.children.insert(Weak::clone(child));
            Node::new(Some((Arc::clone(self), slot)), None)
        })
    }

    /// What a checkpoint compares its counter with.
    #[inline]
    pub(crate) fn limit(&self) -> &AtomicU64 {
        &self.limit
    }

    /// Whether it was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release in `mark`: whoever sees the mark finds the reason.
        self.limit.load(Ordering::Acquire) != 0
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        // Acquire: pairs with the Release in `mark`: what made the caller cancel is seen.
        CancelReason::from_code(self.reason.load(Ordering::Acquire))
    }

    /// Marks the node; what there is to tell, if this was the first time.
    fn mark(&self, reason: CancelReason) -> Option<Told<W>> {
        let mut told = self.lock();
        if self.is_cancelled() {
            return None;
        }
        // Release: pairs with the Acquire in `reason`.
        self.reason.store(reason.code(), Ordering::Release);
        // Release: pairs with the Acquire in `is_cancelled`: whoever sees the mark finds the
        // reason.
        self.limit.store(u64::MAX, Ordering::Release);
        let waiters = told.waiters.clone();
        Some(Told {
            children: std::mem::take(&mut told.children),
            waiters,
            callbacks: std::mem::take(&mut told.callbacks),
        })
    }

    /// Cancels this node and all below it. True for whoever was first.
    pub(crate) fn cancel(self: &Arc<Node<W>>, reason: CancelReason) -> bool {
        let Some(told) = self.mark(reason) else { return false };
        let mut below = Vec::new();
        Node::tell(told, reason, &mut below);
        let reason = reason.below();
        while let Some(node) = below.pop() {
            if let Some(told) = node.mark(reason) {
                Node::tell(told, reason, &mut below);
            }
        }
        true
    }

    fn tell(told: Told<W>, reason: CancelReason, below: &mut Vec<Arc<Node<W>>>) {
        below.extend(told.children.into_values().filter_map(|child| child.upgrade()));
        told.waiters.into_values().for_each(|waiter| waiter.wake());
        for callback in told.callbacks.into_values() {
            // A callback that panics keeps nobody else from being told.
            let called =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(reason)));
            if let Err(payload) = called {
                discard(payload);
            }
        }
    }

    /// Has a task unparked when this node is cancelled; none if it is already.
    pub(crate) fn register(&self, waiter: W) -> Option<Slot> {
        let mut told = self.lock();
        if self.is_cancelled() { None } else { Some(told.waiters.insert(waiter)) }
    }

    pub(crate) fn unregister(&self, slot: Slot) {
        let waiter = self.lock().waiters.remove(slot);
        drop(waiter); // outside of the lock
    }
}

impl<W> Drop for Node<W> {
    fn drop(&mut self) {
        if let Some((parent, slot)) = self.parent.take() {
            // Gone already if the parent was cancelled.
            let _ = parent.lock().children.remove(slot);
            // A long chain of tokens is not dropped by recursion.
            let mut above = Arc::into_inner(parent);
            while let Some(mut node) = above {
                above = node.parent.take().and_then(|(parent, slot)| {
                    let _ = parent.lock().children.remove(slot);
                    Arc::into_inner(parent)
                });
            }
        }
    }
}

impl CancelToken {
    /// A token of its own.
    pub fn new() -> CancelToken {
        CancelToken { node: Node::root() }
    }

    /// Whether a deadline cancels it.
    pub(crate) fn expires(&self) -> bool {
        self.node.expires()
    }

    pub(crate) fn of(node: &Arc<Node>) -> CancelToken {
        CancelToken { node: Arc::clone(node) }
    }

    /// A token that is cancelled with this one, and can be cancelled by itself.
    #[must_use]
    pub fn child(&self) -> CancelToken {
        CancelToken { node: self.node.child() }
    }

    /// Cancels this token and all that are derived from it. Later calls do nothing.
    pub fn cancel(&self) {
        self.node.cancel(CancelReason::Explicit);
    }

    /// As [`cancel`](CancelToken::cancel), with a reason of the caller's choice.
    pub fn cancel_because(&self, reason: CancelReason) {
        self.node.cancel(reason);
    }

    /// Whether it was cancelled. Not a checkpoint: a loop around it needs one; better is [`wait`](CancelToken::wait).
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Why it was cancelled; none if it was not.
    pub fn reason(&self) -> Option<CancelReason> {
        self.node.reason()
    }

    /// An error if it was cancelled: for `token.check()?`. Not a checkpoint: a loop around it needs one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| Err(Error::cancelled(reason)))
    }

    /// Calls `callback` once when the token is cancelled, on the thread that cancels it; at
    /// once, on this one, if it is already. Dropping the guard takes the callback back.
    pub fn on_cancel(&self, callback: impl FnOnce(CancelReason) + Send + 'static) -> OnCancel {
        let mut told = self.node.lock();
        if let Some(reason) = self.node.reason() {
            drop(told);
            callback(reason);
            return OnCancel { place: None };
        }
        let slot = told.callbacks.insert(Box::new(callback));
        drop(told);
        OnCancel { place: Some((Arc::clone(&self.node), slot)) }
    }
}

impl Default for CancelToken {
    fn default() -> CancelToken {
        CancelToken::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("reason", &self.reason()).finish_non_exhaustive()
    }
}

/// Takes a callback of a [`CancelToken`] back when it is dropped.
#[must_use = "dropping it takes the callback back"]
pub struct OnCancel {
    place: Option<(Arc<Node>, Slot)>,
}

impl OnCancel {
    /// Leaves the callback in place for good.
    pub fn forget(mut self) {
        self.place = None;
    }
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        if let Some((node, slot)) = self.place.take() {
            let callback = node.lock().callbacks.remove(slot);
            drop(callback); // outside of the lock
        }
    }
}

impl fmt::Debug for OnCancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCancel")
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
