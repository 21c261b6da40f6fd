//! Budget that a pool gets from the pools above it.
//!
//! A pool that was filled with everything that its owner had is *open*: it draws more from where
//! its owner would have drawn ([`More`]). There are two ways:
//!
//! - [`top_up`](BudgetPool::top_up) brings one slice, of one resource: for a task that refills.
//! - [`raise`](BudgetPool::raise) brings a given amount, or nothing: for a budget that is named
//!   when a child is spawned or recharged.
//!
//! No two pools are locked at the same time. An amount on its way is *held* in the pool that it was
//! drawn from. If it arrives in vain, because a ceiling was reached meanwhile, or because another
//! resource was missing, it goes back and is left there again.

use super::state::{PoolState, minus};
use super::{Budget, BudgetPool, Resource, Shortfall};
use crate::scope::budget::slice::Slice;
use crate::wait::{Waiter, Wake};
use std::sync::Arc;

/// The pool that the owner of a nursery would draw on, and how much it draws at a time.
pub(crate) struct More<W = Waiter> {
    pub(crate) pool: Arc<BudgetPool<W>>,
    pub(crate) grant: Slice,
    pub(crate) ceiling: Option<Ceiling>,
}

/// The most that a pool gets in total, from above and by recharges, its first filling included, and
/// the capability that sets this bound. Recharges of the pools below count too: they are spent by
/// the same task and its children.
///
/// It is checked when budget arrives, under the pool's lock. If several tasks ask at the same time,
/// and get too much together, the surplus goes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    pub(crate) most: Budget,
    pub(crate) cap: u64,
}

/// Amounts that pools have taken in from above.
type Raised<'p, W> = Vec<(&'p BudgetPool<W>, Budget)>;

impl<W: Wake> BudgetPool<W> {
    /// Makes sure that there is as much as `needed` of each resource, with budget from above: all
    /// that is missing, or nothing.
    ///
    /// # Errors
    ///
    /// The first resource of which there is not enough, here and above together.
    pub(super) fn raise(&self, needed: Budget) -> Result<(), Shortfall> {
        let mut raised = Vec::new();
        self.raise_noting(needed, &mut raised).inspect_err(|_| {
            // From the bottom up: each pool returns the amount that the pool below has returned to
            // it.
            raised.iter().rev().for_each(|(pool, amount)| pool.give_up(*amount));
        })
    }

    /// As [`raise`](BudgetPool::raise). Records the amounts that were moved, the highest pool
    /// first, also if the attempt failed.
    fn raise_noting<'p>(
        &'p self,
        needed: Budget,
        raised: &mut Raised<'p, W>,
    ) -> Result<(), Shortfall> {
        if self.unlimited {
            return Ok(());
        }
        loop {
            let mut state = self.lock();
            if !state.left.covers(needed) {
                self.reclaim(&mut state);
            }
            let left = state.left;
            let missing = minus(needed, needed.min(left));
            if missing == Budget::ZERO {
                return Ok(());
            }
            // In terms of this pool: how much it has, and could get.
            let short = |Shortfall { resource, left: more, .. }| {
                let left = left.get(resource).saturating_add(more);
                Shortfall { resource, needed: needed.get(resource), left }
            };
            let allowed = self.more.as_ref().map_or(Budget::ZERO, |more| state.allowed(more));
            drop(state);
            let Some(more) = &self.more else { return Err(short(shortfall(allowed, missing))) };
            if !allowed.covers(missing) {
                return Err(short(shortfall(allowed, missing)));
            }
            let above = &more.pool;
            above.raise_noting(missing, raised).map_err(short)?;
            if !above.unlimited {
                let mut state = above.lock();
                if !state.left.covers(missing) {
                    continue; // another task was faster: look again
                }
                state.draw_bounded(missing);
            }
            let kept = self.take_in(missing, more);
            raised.push((self, kept));
        }
    }

    /// Returns the amount that came from above, as far as it is still there.
    fn give_up(&self, amount: Budget) {
        let Some(more) = &self.more else { return };
        let mut state = self.lock();
        let amount = state.counted(amount).min(state.left);
        state.left = minus(state.left, amount);
        state.granted = minus(state.granted, amount);
        state.topped_up = minus(state.topped_up, amount);
        drop(state);
        more.pool.settle(amount, amount);
    }

    /// Draws a slice of `resource` from above; whether there is more now than there was. Another
    /// task may have put it in meanwhile, and emptied the pool above.
    pub(super) fn top_up(&self, resource: Resource, had: u64) -> bool {
        self.ask_above(resource) || self.lock().left.get(resource) > had
    }

    /// Draws a slice of `resource` from above; whether any came.
    fn ask_above(&self, resource: Resource) -> bool {
        loop {
            // Up to the first pool that has some; then down again, pool by pool.
            let (mut path, mut found) = (Vec::new(), false);
            let mut below = self;
            while let Some(more) = &below.more
                && !found
            {
                if below.lock().portion(more).most().get(resource) == 0 {
                    return false;
                }
                path.push((below, more));
                found = more.pool.has(resource);
                below = &more.pool;
            }
            if !found {
                return false;
            }
            let mut came = false;
            for (pool, more) in path.into_iter().rev() {
                let above = &more.pool;
                let portion = pool.lock().portion(more);
                let moved = if above.unlimited {
                    portion.most()
                } else {
                    let mut state = above.lock();
                    let part = portion.of(state.left);
                    state.draw_bounded(part)
                };
                let kept = pool.take_in(moved, more);
                let surplus = minus(moved, kept);
                above.settle(surplus, surplus);
                came = kept.get(resource) > 0;
            }
            if came {
                return true;
            }
            // Another task was faster: look again, further up if need be.
        }
    }

    /// Whether there is any of `resource`, prepaid children included.
    fn has(&self, resource: Resource) -> bool {
        let has = |state: &PoolState<W>| state.left.get(resource) > 0;
        self.unlimited || {
            let mut state = self.lock();
            has(&state) || self.reclaim(&mut state) && has(&state)
        }
    }

    /// Adds the amount that came from above, up to the ceiling. Returns the part that was added.
    fn take_in(&self, moved: Budget, more: &More<W>) -> Budget {
        let (mut state, room) = self.lock_with_room();
        debug_assert!(!state.closed, "a task draws on a nursery that has ended");
        let kept = moved.min(state.room(Some(more)));
        state.topped_up.absorb(kept);
        self.add(state, room, kept);
        kept
    }

    /// The capability whose ceiling keeps this pool, or one above it, from getting more of
    /// `resource`.
    pub(crate) fn bounded_by(&self, resource: Resource) -> Option<u64> {
        let mut below = self;
        while let Some(more) = &below.more {
            if let Some(Ceiling { most, cap }) = more.ceiling
                && below.lock().towards_ceiling().get(resource) >= most.get(resource)
            {
                return Some(cap);
            }
            below = &more.pool;
        }
        None
    }

    /// Moves `amount` from the pool above into this one, all of it or nothing.
    ///
    /// # Errors
    ///
    /// If the pool above has less; or if the capability that bounds this pool does not allow as
    /// much, and its number.
    pub(crate) fn recharge_from(
        &self,
        above: &BudgetPool<W>,
        amount: Budget,
    ) -> Result<(), (Shortfall, Option<u64>)> {
        if !above.unlimited {
            above.raise(amount).map_err(|short| (short, None))?;
            let mut state = above.lock();
            // Another task may have been faster.
            { state.left }.charge(amount).map_err(|short| (short, None))?;
            state.draw_bounded(amount);
        }
        let refused = {
            let (mut state, room) = self.lock_with_room();
            // One critical section from the look at `closed` to the end: a pool that closes in
            // between would count the amount as topped up and as returned.
            match state.room(self.more.as_ref()).charge(amount) {
                _ if state.closed => Ok(()),
                Err(short) => Err(short),
                Ok(()) => {
                    state.topped_up.absorb(amount);
                    self.add(state, room, amount);
                    return Ok(());
                }
            }
        };
        above.settle(amount, amount);
        let cap = self.more.as_ref().and_then(|more| more.ceiling).map(|ceiling| ceiling.cap);
        refused.map_err(|short| (short, cap))
    }
}

/// Why a recharge has added nothing.
#[derive(Debug)]
pub(crate) enum NotRecharged {
    /// The pool is closed.
    Closed,
    /// The capability of this number does not allow the task any more.
    Ceiling(u64),
}

// Recharges, which do not come from above but are bounded by the ceilings there.
impl<W: Wake> BudgetPool<W> {
    /// Adds budget and wakes the tasks that wait for it. Returns the amount added: without the
    /// resources that are not counted here, and no more than the ceilings of this pool and of those
    /// above it allow.
    ///
    /// # Errors
    ///
    /// If nothing was added to a pool that counts some of `amount`.
    pub(crate) fn recharge(&self, amount: Budget) -> Result<Budget, NotRecharged> {
        let mut amount = self.lock().counted(amount);
        let mut bound = None;
        // Noted from the bottom up, one lock at a time. If the pool turns out to be closed, or a
        // ceiling further up allows less, the rest is taken back.
        let mut noted: Raised<'_, W> = Vec::new();
        let mut next = Some(self);
        while let Some(pool) = next {
            if let Some(ceiling) = pool.more.as_ref().and_then(|more| more.ceiling) {
                let mut state = pool.lock();
                let allowed = amount.min(state.room(pool.more.as_ref()));
                if allowed != amount {
                    bound = Some(ceiling.cap);
                }
                amount = allowed;
                state.recharged.absorb(amount);
                noted.push((pool, amount));
            }
            next = pool.parent.as_deref();
        }
        let added = match bound {
            Some(cap) if amount == Budget::ZERO => Err(NotRecharged::Ceiling(cap)),
            _ if self.put(amount, Budget::ZERO) => Ok(amount),
            _ => Err(NotRecharged::Closed),
        };
        let kept = *added.as_ref().unwrap_or(&Budget::ZERO);
        for (pool, amount) in noted {
            let mut state = pool.lock();
            // A pool that was closed meanwhile has forgotten it.
            let surplus = minus(amount, kept).min(state.recharged);
            state.recharged = minus(state.recharged, surplus);
        }
        added
    }
}

/// The first resource of which there is less than `needed`.
fn shortfall(mut left: Budget, needed: Budget) -> Shortfall {
    match left.charge(needed) {
        Err(short) => short,
        Ok(()) => unreachable!("there is enough"),
    }
}
