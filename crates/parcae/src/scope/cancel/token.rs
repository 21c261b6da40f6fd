//! Tokens: the handle of a node that programs hold, and callbacks on cancel.

use super::{CancelNode, CancelReason};
use crate::base::error::{Error, Result};
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::hold_order_of;
use crate::sched::worker::point_at;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

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
    pub(super) node: Arc<CancelNode>,
}

impl CancelToken {
    /// A token of its own.
    pub fn new() -> CancelToken {
        CancelToken { node: CancelNode::root() }
    }

    /// Whether a deadline cancels it.
    pub(crate) fn expires(&self) -> bool {
        self.node.expires()
    }

    /// The node of the token.
    pub(crate) fn node(&self) -> &CancelNode {
        &self.node
    }

    pub(crate) fn of(node: &Arc<CancelNode>) -> CancelToken {
        CancelToken { node: Arc::clone(node) }
    }

    /// A token that is cancelled with this one, and can be cancelled by itself.
    #[must_use]
    pub fn child(&self) -> CancelToken {
        CancelToken { node: self.node.child() }
    }

    /// Cancels this token and all that are derived from it. Later calls do nothing.
    #[track_caller]
    pub fn cancel(&self) {
        point_at(OpKind::Cancel, &*self.node);
        drop(hold_order_of(&*self.node)); // what follows may take locks
        self.node.cancel_at(Location::caller());
    }

    /// As [`cancel`](CancelToken::cancel), with a reason of the caller's choice.
    #[track_caller]
    pub fn cancel_because(&self, reason: CancelReason) {
        point_at(OpKind::Cancel, &*self.node);
        drop(hold_order_of(&*self.node)); // as above
        self.node.cancel(reason);
    }

    /// Whether it was cancelled. Not a checkpoint: a loop around it needs one; better is
    /// [`wait`](CancelToken::wait).
    #[track_caller]
    pub fn is_cancelled(&self) -> bool {
        point_at(OpKind::Load, &*self.node);
        let _order = hold_order_of(&*self.node);
        self.node.is_cancelled()
    }

    /// Why it was cancelled; none if it was not.
    pub fn reason(&self) -> Option<CancelReason> {
        self.node.reason()
    }

    /// An error if it was cancelled: for `token.check()?`. Not a checkpoint: a loop around it needs
    /// one.
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
        let mut subscribers = self.node.lock();
        if let Some(reason) = self.node.reason() {
            drop(subscribers);
            callback(reason);
            return OnCancel { registered: None };
        }
        let key = subscribers.listed.callbacks.insert(Box::new(callback));
        drop(subscribers);
        OnCancel { registered: Some((Arc::clone(&self.node), key)) }
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
    /// The node, and the key of the callback in its registry.
    registered: Option<(Arc<CancelNode>, u64)>,
}

impl OnCancel {
    /// Leaves the callback in place for good.
    pub fn forget(mut self) {
        self.registered = None;
    }

    /// Why the token was cancelled, also if the callback was not called yet.
    pub(crate) fn reason_now(&self) -> Option<CancelReason> {
        self.registered.as_ref()?.0.reason_now()
    }
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        if let Some((node, key)) = self.registered.take() {
            let callback = node.lock().listed.callbacks.remove(key);
            drop(callback); // outside of the lock
        }
    }
}

impl fmt::Debug for OnCancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCancel")
    }
}
