//! The node of one task, made on first use.
//!
//! A child is cancelled by itself through the CANCEL bit of its state word, and has no node. A root
//! task has a token of its own ([`RootTask::token`](crate::RootTask::token), `Cx::token`), below
//! the runtime's. Most are never asked for it, and a node costs two allocations and two turns at
//! the lock of the runtime's node. So the task waits at the runtime's node, and its own is made by
//! the first of its handle or the task itself that needs it: to cancel, to hand out the token, or
//! to put a nursery below it.
//!
//! # Why no cancellation is missed
//!
//! The node has a callback that sets the CANCEL bit of the task and wakes it, as
//! `TaskHandle::cancel` does. It is subscribed when the node is made, under the node's lock: if the
//! node was born cancelled, or is cancelled in between, the callback is called at once. A
//! `OnceLock` makes the node once, for the handle and the task alike. A task that has ended is not
//! affected: its generation has changed.

use super::{CancelNode, CancelReason, CancelToken};
use crate::sched::Shared;
use crate::sched::task::TaskRef;
use std::sync::{Arc, OnceLock};

/// The node of a task that is cancelled by itself.
#[derive(Default)]
pub(crate) struct OwnNode(OnceLock<Arc<CancelNode>>);

impl OwnNode {
    /// The node, below `above`. Its cancellation ends the task.
    pub(crate) fn of(
        &self,
        task: TaskRef,
        shared: &Shared,
        above: &Arc<CancelNode>,
    ) -> &Arc<CancelNode> {
        self.0.get_or_init(|| {
            let node = above.child();
            let shared = shared.me.clone();
            let end = move |_| {
                if let Some(shared) = shared.upgrade() {
                    shared.ask_to_end(task);
                }
            };
            CancelToken::of(&node).on_cancel(end).forget();
            node
        })
    }

    /// The node, if it was needed yet.
    pub(crate) fn get(&self) -> Option<&Arc<CancelNode>> {
        self.0.get()
    }

    /// Why the node was cancelled, if it was.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        self.get()?.reason()
    }
}
