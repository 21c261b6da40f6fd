//! A pool: budget that the tasks of a nursery draw on.
//!
//! # The conserved quantity
//!
//! For every resource that a pool counts, whenever its lock is free:
//!
//! ```text
//! granted = left + held + spent
//! ```
//!
//! Every mutator changes the four under one critical section, and debug builds check the equation
//! when the lock is given back ([`Access`]). Two pools are never locked at the same time: a
//! transfer takes from one (the amount is *held* there), then puts into the other, and gives the
//! surplus back.
//!
//! # Budget that is on its way
//!
//! Two optimisations keep budget outside of `left` although no task needs it:
//!
//! | where | what | how it comes back |
//! |---|---|---|
//! | `prepaid` | children that are paid for and not spawned yet | `reclaim`, an atomic swap, by any task that finds the pool short |
//! | a worker's `ReturnedAccounts` | accounts of children that have ended | by the worker when it switches to other work; by a task that would give up otherwise (`Shared::flush_deferred`) |
//!
//! So a task fails for lack of budget, or waits for a recharge, only if no ended or unspawned
//! sibling holds any. None is missed: a task that is short reclaims prepaid children under the
//! pool's lock. Then it joins the queue of suspended tasks, which makes the pool `hungry`. Then it
//! empties the `ReturnedAccounts` of every worker, each under its lock. A child that ends later
//! takes that lock later, sees `hungry`, and returns its account at once.
//!
//! # Why no wake-up is lost
//!
//! A task that waits for a recharge joins the wait queue of its pool and of the pools above, with
//! one node for each ([`Suspension`]). A grant moves no budget: it ends the wait, in the order of
//! arrival, and the woken task draws again. Whenever a pool's lock is free:
//!
//! ```text
//! a node is queued for a resource   ⇒   nothing is left of that resource
//! ```
//!
//! - A node joins the queue in the critical section in which its task finds nothing left.
//! - Every addition to `left` grants all queued nodes in the same critical section, and wakes their
//!   tasks after it: a recharge, a returned account, a surplus, a child that was not spawned.
//! - `reclaim` adds to `left` too and grants no node. It need not: a task reclaims before it joins
//!   the queue, and later children are prepaid only with resources of which something is left.
//!
//! Debug builds check this when the lock is given back. Two pools are never locked together, so
//! budget may move between them while a task joins their queues one by one, from the bottom up. On
//! its way it is in neither; where it arrives it is an addition. If it arrives before the task
//! looks there, the task finds it; if later, it finds the node.
//!
//! A wake that comes before its task parks is latched by the task. A task that is cancelled, or
//! unwinds, withdraws its nodes; since a grant moves no budget, there is nothing to pass on.

mod above;
mod state;
mod suspension;

pub(crate) use above::{Ceiling, More, NotRecharged};
use state::{Access, PoolState};
pub(crate) use suspension::Suspension;

use super::slice::Slice;
use super::{Budget, Resource, Shortfall, Standing, UNLIMITED};
use crate::base::lock::Lock;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::wait::{Queue, Waiter, Wake, wake_all};
use std::sync::Arc;

/// Budget that tasks draw on. A pool in which nothing is counted takes no lock. In the models,
/// which have no scheduler, a waiter is a flag.
pub(crate) struct BudgetPool<W = Waiter> {
    unlimited: bool,
    /// The pool that it was filled from, if a task or nursery filled it.
    parent: Option<Arc<BudgetPool<W>>>,
    /// The pool above that it draws on when it is empty.
    more: Option<More<W>>,
    /// Children that are paid for and not spawned. Relaxed throughout: a decrement takes ownership
    /// of one child, whose budget is counted under the lock.
    prepaid: AtomicUsize,
    /// Number of tasks in the wait queue. Written under the lock. Read by workers that return an
    /// account, ordered by the lock of their `Returned`: see the header.
    hungry: AtomicUsize,
    state: Lock<PoolState<W>>,
}

/// How many children are paid for at a time: as many as the pool has plenty for.
const PREPAID: [u32; 3] = [64, 16, 4];

/// The budget that a pool returns when it is closed.
pub(crate) struct ClosedPool {
    pub(crate) left: Budget,
    /// The part that came from above, where it is held.
    pub(crate) topped_up: Budget,
}

impl<W> BudgetPool<W> {
    pub(crate) fn new(granted: Budget, more: Option<More<W>>) -> BudgetPool<W> {
        let state =
            PoolState { granted, left: granted, from_owner: granted, ..PoolState::default() };
        BudgetPool {
            unlimited: granted == Budget::UNLIMITED,
            parent: more.as_ref().map(|more| Arc::clone(&more.pool)),
            more,
            prepaid: AtomicUsize::new(0),
            hungry: AtomicUsize::new(0),
            state: Lock::new(state),
        }
    }

    /// The same, filled from `parent`, without automatic refills from it.
    pub(crate) fn filled_from(mut self, parent: &Arc<BudgetPool<W>>) -> BudgetPool<W> {
        self.parent = Some(Arc::clone(parent));
        self
    }

    /// The pool that this one was filled from.
    pub(crate) fn parent(&self) -> Option<&Arc<BudgetPool<W>>> {
        self.parent.as_ref()
    }

    fn lock(&self) -> Access<'_, W> {
        Access(self.state.lock())
    }

    /// Whether nothing is counted.
    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Whether a task waits for a recharge. See the header for what makes the answer reliable.
    #[inline]
    pub(crate) fn is_hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0 // ordered by the lock of the caller's `Returned`
    }
}

impl<W: Wake> BudgetPool<W> {
    /// Pays for a child, and draws its first slice.
    ///
    /// # Errors
    ///
    /// If the child cannot be paid for, or would have no ops to begin with, or less than the slice
    /// demands.
    pub(crate) fn spawn(&self, wanted: Slice) -> Result<Budget, Shortfall> {
        if self.unlimited {
            return Ok(Budget::UNLIMITED);
        }
        loop {
            let mut state = self.lock();
            let short = match state.spawn(wanted) {
                Ok(drawn) => return Ok(drawn),
                Err(short) => short,
            };
            if self.reclaim(&mut state) {
                continue;
            }
            drop(state);
            if wanted.is_demanding() {
                self.raise(wanted.with_spawn())?;
            } else if !self.top_up(short.resource, short.left) {
                return Err(short);
            }
        }
    }

    /// As [`spawn`](BudgetPool::spawn). If the pool has plenty, future children are paid for in
    /// advance: each gets the amount `usual`.
    pub(crate) fn spawn_default(&self, usual: Budget, wanted: Slice) -> Result<Budget, Shortfall> {
        let mut state = self.lock();
        let mut each = usual;
        each.absorb(Budget::SPAWN);
        for children in if state.is_default(usual, wanted) { &PREPAID[..] } else { &[] } {
            if state.left.covers(each.times(4 * u64::from(*children))) {
                state.pay(u64::from(*children));
                state.draw(usual.times((*children).into()).into());
                state.prepaid_grant = usual;
                // Relaxed: see the field. Under the lock, so it is never ahead of `state`.
                self.prepaid.fetch_add(*children as usize - 1, Ordering::Relaxed);
                return Ok(usual);
            }
        }
        let drawn = state.spawn(wanted);
        drop(state);
        drawn.or_else(|_| self.spawn(wanted))
    }

    /// Takes one of the children that are paid for; false if there is none.
    #[inline]
    pub(crate) fn take_prepaid(&self) -> bool {
        // Relaxed: see the field.
        let mut some = self.prepaid.load(Ordering::Relaxed);
        while some > 0 {
            let (old, order) = (some, Ordering::Relaxed);
            match self.prepaid.compare_exchange_weak(old, old - 1, order, order) {
                Ok(_) => return true,
                Err(now) => some = now,
            }
        }
        false
    }

    /// Takes back the payment for children that were not spawned; whether there were any.
    fn reclaim(&self, state: &mut PoolState<W>) -> bool {
        let children = self.prepaid.swap(0, Ordering::Relaxed); // see the field
        if children > 0 {
            state.unspawn(state.prepaid_grant, children as u64);
        }
        children > 0
    }

    /// Takes the payment for a child back that was not spawned after all, and wakes the tasks that
    /// wait for a recharge.
    pub(crate) fn unspawn(&self, drawn: Budget) {
        if !self.unlimited {
            let (mut state, mut woken) = self.lock_with_room();
            state.unspawn(drawn, 1);
            self.grant_suspended(&mut state, &mut woken);
            drop(state);
            wake_all(woken);
        }
    }

    /// The account that a child draws from a full pool by the slice `grant`. Resources that the
    /// pool does not count are not counted by the child either. It gets none of a resource that the
    /// pool has used up.
    pub(crate) fn default_grant(&self, grant: Budget) -> Budget {
        let usual = |own, grant| match own {
            0 | UNLIMITED => own,
            _ => grant,
        };
        if self.unlimited { Budget::UNLIMITED } else { self.lock().left.zip(grant, usual) }
    }

    /// Draws a slice, for more of `resource`.
    pub(crate) fn draw(&self, wanted: impl Into<Slice>, resource: Resource) -> Budget {
        let wanted = wanted.into();
        if self.unlimited {
            return Budget::UNLIMITED;
        }
        loop {
            let mut state = self.lock();
            let mut drawn = state.draw(wanted);
            if drawn.get(resource) == 0 && self.reclaim(&mut state) {
                state.give_back(drawn, drawn);
                drawn = state.draw(wanted);
            }
            drop(state);
            let none_wanted = wanted.most().get(resource) == 0;
            if drawn.get(resource) > 0 || none_wanted || !self.top_up(resource, 0) {
                return drawn;
            }
            self.settle(drawn, drawn);
        }
    }

    /// Draws everything that is left.
    pub(crate) fn draw_all(&self) -> Budget {
        let all = Slice::named(Budget::UNLIMITED);
        if self.unlimited { Budget::UNLIMITED } else { self.lock().draw(all) }
    }

    /// Draws up to so much memory, if its lock is free at this moment: for the allocator, which
    /// must not wait, and may be called under the pool's lock.
    pub(crate) fn try_draw_memory(&self, bytes: u64) -> u64 {
        let wanted = Budget::ZERO.with_memory(bytes);
        self.state.try_lock().map_or(0, |state| Access(state).draw_bounded(wanted).memory)
    }

    /// Books a part of a task's account as spent. The task still holds the rest.
    pub(crate) fn spend(&self, used: Budget) {
        if !self.unlimited {
            self.lock().give_back(used, Budget::ZERO);
        }
    }

    /// Takes back an account that was `drawn`, of which `left` is left. The rest is spent.
    pub(crate) fn settle(&self, drawn: Budget, left: Budget) {
        if !self.unlimited {
            wake_all(self.settle_quietly(drawn, left));
        }
    }

    /// As [`settle`](BudgetPool::settle), of a pool that counts. Returns the tasks that waited for
    /// a recharge, for the caller to wake: what came back may be enough for them.
    #[must_use = "they wait"]
    pub(crate) fn settle_quietly(&self, drawn: Budget, left: Budget) -> Vec<W> {
        let (mut state, mut woken) = self.lock_with_room();
        state.give_back(drawn, left);
        self.grant_suspended(&mut state, &mut woken);
        woken
    }

    /// As [`recharge`](BudgetPool::recharge), by the task that opened the nursery, to which the
    /// rest returns at the end. False, and nothing added, if the pool is closed.
    pub(crate) fn recharge_from_owner(&self, amount: Budget) -> bool {
        self.put(amount, amount)
    }

    fn put(&self, amount: Budget, from_owner: Budget) -> bool {
        let (mut state, room) = self.lock_with_room();
        if state.closed {
            return false;
        }
        state.from_owner.absorb(from_owner);
        self.add(state, room, amount);
        true
    }

    /// Adds budget and wakes the tasks that waited for it. `room` is that of
    /// [`lock_with_room`](BudgetPool::lock_with_room).
    fn add(&self, mut state: Access<'_, W>, mut room: Vec<W>, amount: Budget) {
        state.left.absorb(amount);
        state.granted.absorb(amount);
        self.grant_suspended(&mut state, &mut room);
        drop(state);
        wake_all(room);
    }

    /// Empties a pool of which no task holds anything. Budget that a capability had added, beyond
    /// the amount from above, is not returned.
    pub(crate) fn close(&self) -> ClosedPool {
        if self.unlimited {
            return ClosedPool { left: Budget::UNLIMITED, topped_up: Budget::ZERO };
        }
        let mut state = self.lock();
        self.reclaim(&mut state);
        debug_assert_eq!(state.held, Budget::ZERO, "budget is still held");
        debug_assert!(state.suspended.is_empty(), "a task waits on a nursery that has ended");
        let suspended = std::mem::replace(&mut state.suspended, Queue::new());
        let closed = PoolState { closed: true, suspended, ..PoolState::default() };
        let PoolState { left, from_owner, topped_up, .. } = std::mem::replace(&mut *state, closed);
        let mut from_above = from_owner;
        from_above.absorb(topped_up);
        ClosedPool { left: left.min(from_above), topped_up }
    }

    /// The part that the owner of the nursery has put in.
    pub(crate) fn owners_part(&self) -> Budget {
        self.lock().from_owner
    }

    /// All that came from above.
    pub(crate) fn part_from_above(&self) -> Budget {
        self.lock().all_from_above()
    }

    /// The state of the pool. Prepaid children count as left.
    pub(crate) fn standing(&self) -> Standing {
        let mut state = self.lock();
        self.reclaim(&mut state);
        Standing {
            granted: state.granted,
            left: state.left,
            held: state.held,
            spent: state.spent,
            suspended: self.waiting(&state),
        }
    }
}

#[cfg(all(test, loom))]
pub(super) mod models;
#[cfg(all(test, not(loom)))]
mod tests;
