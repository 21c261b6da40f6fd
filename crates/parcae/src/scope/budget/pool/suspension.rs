//! Suspended tasks: the wait queue of a pool, and the nodes of a task that waits.
//!
//! A task waits at several pools at once: at its own, and at each pool above that its own draws on.
//! A [`Suspension`] owns one node for each of them. The first lies in the suspension itself, which
//! is pinned on the stack of the task. The others share one box, which is allocated before any lock
//! is taken; a pool that draws on no other needs none.
//!
//! # Life of a node
//!
//! ```text
//!          draw_or_wait, `left` is 0          any addition to `left`
//!   Idle ────────────────────────────► Queued ──────────────────────► Granted
//!                                        ▲   draw_or_wait, `left` is 0   │
//!                                        └───────────────────────────────┘
//! ```
//!
//! A node that is still queued keeps its place when the task asks again. The drop of the suspension
//! withdraws every queued node under the lock of its pool. A granted node belongs to its owner
//! again and needs no lock. A grant moves no budget, so a task that gives up has nothing to pass
//! on.
//!
//! # Memory
//!
//! The allocator draws on a pool too, so nothing is allocated under a pool's lock. A thread that
//! needs a list of all waiters reserves its room before it takes the lock
//! ([`lock_with_room`](BudgetPool::lock_with_room)).

use super::state::{Access, PoolState};
use super::{BudgetPool, More};
use crate::base::error::TaskInfo;
use crate::base::shim::atomic::Ordering;
use crate::scope::budget::slice::Slice;
use crate::scope::budget::{Budget, Resource, Suspended};
use crate::wait::{Grant, WaitNode, WaitStanding, Waiter, Wake};
use std::iter;
use std::pin::Pin;

/// A place in the wait queue of a pool.
type Place<W> = WaitNode<W, Suspended>;

/// A task that draws on a pool and waits for a recharge if there is nothing left.
pub(crate) struct Suspension<'p, W = Waiter> {
    pool: &'p BudgetPool<W>,
    resource: Resource,
    /// The place in the queue of `pool`.
    own: Place<W>,
    /// The places in the queues of the pools above, the nearest first.
    above: Box<[Place<W>]>,
}

impl<'p, W> Suspension<'p, W> {
    /// A task that needs more of `resource` and does not wait yet.
    pub(crate) fn new(
        pool: &'p BudgetPool<W>,
        task: TaskInfo,
        resource: Resource,
    ) -> Suspension<'p, W> {
        let suspended = Suspended { task, resource };
        let above = pool.all_above().map(|_| WaitNode::new(suspended.clone())).collect();
        Suspension { pool, resource, own: WaitNode::new(suspended), above }
    }
}

impl<W: Wake> Suspension<'_, W> {
    /// As [`BudgetPool::draw`]. If none of the resource comes, the next recharge wakes the waiter,
    /// also one of a pool above.
    pub(crate) fn draw_or_wait(
        self: Pin<&Self>,
        wanted: impl Into<Slice>,
        waiter: impl Fn() -> W,
    ) -> Budget {
        let (pool, resource, wanted) = (self.pool, self.resource, wanted.into());
        let drawn = pool.draw(wanted, resource);
        if drawn.get(resource) > 0 {
            return drawn;
        }
        let waiting = waiter();
        let mut state = pool.lock();
        // A recharge may have come since, or a child that was not spawned after all.
        pool.reclaim(&mut state); // what is prepaid here
        let again = state.draw(wanted);
        if again.get(resource) == 0 {
            // SAFETY: pinned, and withdrawn when the suspension is dropped.
            unsafe { pool.enqueue(&mut state, &self.own, waiting) };
            drop(state);
            self.wait_above(waiter);
        }
        let mut both = drawn;
        both.absorb(again);
        both
    }

    /// Draws all that is left of the resource, and joins the queue of the pool, as a task does
    /// that has found nothing. The caller gives the drawn part back.
    pub(crate) fn empty_and_wait(self: Pin<&Self>, waiter: W) -> Budget {
        let mut state = self.pool.lock();
        self.pool.reclaim(&mut state); // what is prepaid
        let all = Budget::ZERO.with(self.resource, state.left.get(self.resource));
        let drawn = state.draw_bounded(all);
        // SAFETY: pinned, and withdrawn when the suspension is dropped.
        unsafe { self.pool.enqueue(&mut state, &self.own, waiter) };
        drawn
    }

    /// Joins the queues of the pools above. Wakes the waiter at once if there is budget in one of
    /// them: it came after the pool was asked.
    fn wait_above(self: Pin<&Self>, waiter: impl Fn() -> W) {
        let (mut below, resource) = (self.pool, self.resource);
        for (more @ More { pool, .. }, node) in self.pool.all_above().zip(&self.get_ref().above) {
            if below.lock().portion(more).most().get(resource) == 0 {
                return;
            }
            let waiting = waiter();
            let mut state = pool.lock();
            pool.reclaim(&mut state); // what is prepaid there
            if state.left.get(resource) > 0 {
                drop(state);
                return waiting.wake();
            }
            // SAFETY: boxed, and withdrawn when the suspension is dropped.
            unsafe { pool.enqueue(&mut state, node, waiting) };
            drop(state);
            below = pool;
        }
    }
}

impl<W> Drop for Suspension<'_, W> {
    fn drop(&mut self) {
        let above = self.pool.all_above().map(|more| &*more.pool).zip(&self.above);
        for (pool, node) in iter::once((self.pool, &self.own)).chain(above) {
            // SAFETY: the node was enqueued in this pool only.
            unsafe { pool.withdraw(node) };
        }
    }
}

impl<W> BudgetPool<W> {
    /// The pools above that this one draws on, directly or through another, the nearest first.
    fn all_above(&self) -> impl Iterator<Item = &More<W>> {
        iter::successors(self.more.as_ref(), |more| more.pool.more.as_ref())
    }

    /// Puts a node at the end of the queue, unless it is queued already.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is used with this pool only. It neither moves nor ends
    /// before it is [withdrawn](BudgetPool::withdraw). `state` is that of this pool.
    unsafe fn enqueue(&self, state: &mut PoolState<W>, node: &Place<W>, waiter: W) {
        match node.standing() {
            WaitStanding::Queued => return, // the lock is held: no grant can come
            WaitStanding::Idle => {}
            // SAFETY: granted, so it is the caller's alone.
            _ => unsafe { node.reset() },
        }
        // SAFETY: idle; the rest as the caller says.
        unsafe { state.suspended.push(node, waiter, None) };
        self.hungry.fetch_add(1, Ordering::Relaxed); // under the lock; read by `is_hungry`
    }

    /// Takes a node out of the queue for its owner, if it is there.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is used with this pool only.
    unsafe fn withdraw(&self, node: &Place<W>) {
        if node.standing() != WaitStanding::Queued {
            return; // never queued, or granted: no other thread touches it
        }
        let mut state = self.lock();
        // SAFETY: as the caller says.
        let removed = unsafe { state.suspended.remove(node) };
        if removed.standing == WaitStanding::Queued {
            self.hungry.fetch_sub(1, Ordering::Relaxed); // under the lock; read by `is_hungry`
        }
        drop(state);
        drop(removed.waiter); // outside of the lock
    }

    /// Number of queued tasks. Exact, because the lock is held.
    pub(super) fn waiting(&self, _: &PoolState<W>) -> usize {
        self.hungry.load(Ordering::Relaxed) // written under the lock
    }

    /// Takes the lock, with room in a list for every queued task.
    pub(super) fn lock_with_room<T>(&self) -> (Access<'_, W>, Vec<T>) {
        let mut room = Vec::new();
        loop {
            let state = self.lock();
            let waiting = self.waiting(&state);
            if waiting <= room.capacity() {
                return (state, room);
            }
            drop(state);
            room.reserve(waiting);
        }
    }

    /// The tasks that wait for a recharge, in the order in which they will be woken.
    pub(crate) fn suspended(&self) -> Vec<Suspended> {
        let (mut state, mut tasks) = self.lock_with_room();
        state.suspended.each_key(|suspended| tasks.push(suspended.clone()));
        tasks
    }
}

impl<W: Wake> BudgetPool<W> {
    /// Ends the wait of every queued task. The caller wakes them after it has released the lock.
    /// `room` is that of [`lock_with_room`](BudgetPool::lock_with_room).
    pub(super) fn grant_suspended(&self, state: &mut PoolState<W>, room: &mut Vec<W>) {
        if !state.suspended.is_empty() {
            debug_assert!(room.capacity() >= self.waiting(state), "no room reserved");
            state.suspended.grant_all(Grant::All, None, |_| true, room);
            self.hungry.store(0, Ordering::Relaxed); // under the lock; read by `is_hungry`
        }
    }
}
