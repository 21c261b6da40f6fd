//! The queue of one tenant that all workers share (`run_queue::tenants`): a lane for each
//! priority, and one word that says whether they are empty.

use super::inject::Inject;
use super::link::Linked;
use crate::base::shim::atomic::{AtomicU32, Ordering};
use std::ptr::NonNull;

/// Slots of the ring of a tenant's queue; further tasks are in its list.
const RING: usize = if cfg!(loom) { 2 } else { 16 };

/// The tasks of one tenant that any worker may run, in a lane for each priority.
///
/// `waiting` is raised before a task is pushed and lowered after it was taken, so it is not below
/// the number of tasks for any observer of an earlier push. The idle protocol asks it alone.
pub(crate) struct TenantQueue<T: Linked> {
    waiting: AtomicU32,
    lanes: [Inject<T>; 3],
}

impl<T: Linked> TenantQueue<T> {
    pub(crate) fn new() -> TenantQueue<T> {
        let lane = || Inject::with_capacity(RING);
        TenantQueue { waiting: AtomicU32::new(0), lanes: [lane(), lane(), lane()] }
    }

    /// Adds a task. The caller then announces it to the idle protocol.
    ///
    /// # Safety
    ///
    /// As for [`Inject::push`].
    pub(crate) unsafe fn push(&self, lane: usize, task: NonNull<T>) {
        // Release: pairs with the Acquire of `waiting`. A worker that sees it sees the slot of the
        // tenant.
        self.waiting.fetch_add(1, Ordering::Release);
        // SAFETY: as the caller says.
        unsafe { self.lanes[lane].push(task) };
    }

    pub(crate) fn pop(&self, lane: usize) -> Option<NonNull<T>> {
        let task = self.lanes[lane].pop()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed); // behind the pop; its partner is `push`
        Some(task)
    }

    /// The number of tasks, and of those that are about to be pushed.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire) // pairs with the Release of `push`
    }

    /// About how many tasks of this lane there are.
    pub(crate) fn len_hint(&self, lane: usize) -> usize {
        self.lanes[lane].len_hint()
    }
}
