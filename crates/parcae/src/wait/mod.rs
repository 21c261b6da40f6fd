//! Waiting: queues of waiters, and waking them.
//!
//! All waits follow the same steps:
//!
//! 1. *try*: if the operation is possible now, it happens without a wait;
//! 2. *publish*: the waiter joins the object's [`Queue`];
//! 3. *re-check*: between 1 and 2 it may have become possible;
//! 4. *park* until woken, cancelled, or a deadline passes (`scope::cx::parking`); may return early;
//! 5. *withdraw*: the waiter leaves the queue, whatever the outcome, before the call returns.
//!
//! Most objects do 1 and 2 under one hold of their lock, which makes 3 the same as 1.
//!
//! # Why no wake-up is lost
//!
//! The thread that makes an operation possible does so first and looks for waiters afterwards,
//! under the lock (or by the same word) under which waiters are published. So it finds the waiter,
//! or the waiter's re-check comes later and succeeds. A wake that comes before the park is latched,
//! by the state word of the task or the token of the thread.
//!
//! | file | idea |
//! |---|---|
//! | `queue` | the wait queue: nodes, states, grants |
//! | `claim` | the word that decides a select |
//! | `wake` | waiters, and lists of them to be woken |
//! | `end` | the end of a task, as an object to wait for |
//! | `completions` | the ends of the tasks in a set, in their order |
//! | `why` | the reason of a wait, for observers |

mod claim;
mod completions;
mod end;
mod queue;
mod wake;
mod why;

pub(crate) use claim::Claim;
pub(crate) use completions::{Completions, Member};
pub use end::Ends;
pub(crate) use end::{End, Polled, TaskEnd};
pub(crate) use queue::{CaseClaim, Grant, NodeState, Queue, Removed, WaitNode, WaitStanding};
pub(crate) use wake::{Batch, Waiter, Wake, Wakes, wake_all};
pub(crate) use why::{ChannelStats, Channelled, Holder, Why, WhyLink};

/// An object with a wait queue. `W` is the type of its waiters: [`Waiter`], or a thread of a model.
pub(crate) trait Waitable<W> {
    /// Data of the object for each waiter.
    type Key;

    /// Tries again for a waiter that was `Called`. `None` if it waits on, with the new `waiter`.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is in the queue of this object.
    unsafe fn retry(
        &self,
        node: &WaitNode<W, Self::Key>,
        waiter: impl FnOnce() -> W,
    ) -> Option<Grant> {
        let _ = (node, waiter);
        None
    }

    /// Removes the node of a waiter that gives up. A grant that has reached the node is passed on
    /// to the next waiter, or is returned: then the wait has succeeded after all.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is used with the queue of this object only.
    unsafe fn withdraw(&self, node: &WaitNode<W, Self::Key>) -> Option<Grant>;
}
