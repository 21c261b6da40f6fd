//! The exact state of a budget at this moment.
//!
//! A pool knows the amounts that its tasks have drawn, and learns how much they have used when they
//! draw more or end. The rest is determined on demand, so that checkpoints do not become slower:
//! every parked task of the runtime is held still for a moment (`task::state`), and the used part
//! of its account is added up. The same goes for the pools of nested nurseries: an amount spent
//! there counts as spent in the pool that funded them.
//!
//! The account of a task that is running or ready cannot be read: it counts as holding all of its
//! slice, or all of its own budget if it has one. The error is at most that amount for each such
//! task; all others are exact.
//!
//! # Why nothing is counted twice
//!
//! While the tasks are observed, one that was counted may continue, end, and book its account in
//! the pool. That changes the pool. The pool is therefore read before and after; if it has changed,
//! the observation is repeated, [`ROUNDS`] times at most. After that the sum is limited to the
//! amount held, so that the conserved quantity holds in any case.

use super::{Frame, Observed};
use crate::sched::Shared;
use crate::scope::budget::{Budget, BudgetPool, Standing};
use crate::scope::nursery::NurseryCore;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

/// Number of attempts at a pool that keeps changing.
const ROUNDS: usize = 4;

/// A pool, and the amount its tasks have used that is not booked there yet.
struct PoolUse {
    pool: Arc<BudgetPool>,
    used: Budget,
}

/// The state of a pool, as exact as an outside observer can determine it.
pub(crate) fn live_standing(shared: &Shared, pool: &Arc<BudgetPool>) -> Standing {
    if pool.is_unlimited() {
        return pool.standing();
    }
    shared.flush_deferred();
    let mut before = pool.standing();
    for _ in 0..ROUNDS {
        let used = used_below(shared, pool);
        let after = pool.standing();
        let same = after == before;
        before = after;
        if same {
            return with_used(before, used);
        }
    }
    with_used(before, used_below(shared, pool))
}

/// The standing, with the used amount moved from held to spent.
fn with_used(mut standing: Standing, used: Budget) -> Standing {
    let used = used.min(standing.held).with_memory(0);
    standing.held = standing.held.zip(used, |held, used| held - used);
    standing.spent.absorb(used);
    standing
}

/// Amount that parked tasks have used of their share of `pool`, directly and through nurseries that
/// were filled from it.
fn used_below(shared: &Shared, pool: &Arc<BudgetPool>) -> Budget {
    let mut seen: HashMap<usize, PoolUse> = HashMap::new();
    let mut see = |pool: &Arc<BudgetPool>, used: Budget| {
        let entry = seen.entry(Arc::as_ptr(pool).addr());
        let seen = entry.or_insert_with(|| PoolUse { pool: Arc::clone(pool), used: Budget::ZERO });
        seen.used.absorb(used);
    };
    Observed::each(shared, |frame| {
        // An amount that it has moved into a nursery with a budget of its own is not used.
        let mut used = frame.used_and_unknown();
        let mut inner = frame.seen().nursery.get();
        while let Some(core) = inner {
            // SAFETY: on the stack of the observed task, which has not left the nursery.
            let core: &NurseryCore = unsafe { NonNull::as_ref(&core) };
            let pool = &core.settings().pool;
            if pool.parent().is_some_and(|parent| Arc::ptr_eq(parent, frame.pool())) {
                used = used.zip(pool.owners_part(), u64::saturating_sub);
            }
            see(pool, Budget::ZERO);
            inner = core.outer();
        }
        see(frame.pool(), used);
        see(&frame.settings().pool, Budget::ZERO);
    });
    let mut sum = Budget::ZERO;
    for PoolUse { pool: below, used } in seen.values() {
        if Arc::ptr_eq(below, pool) {
            sum.absorb(*used);
        } else if !below.is_unlimited() && is_below(below, pool) {
            // Its spending came from above, except for recharges.
            let mut spent = below.standing().spent.with_memory(0);
            spent.absorb(*used);
            sum.absorb(spent.min(below.part_from_above()));
        }
    }
    sum
}

/// Whether `pool` was funded from `above`, directly or not. A pool in between has not booked the
/// spending of this one yet: that happens when this one is closed.
fn is_below(pool: &BudgetPool, above: &Arc<BudgetPool>) -> bool {
    let mut next = pool.parent();
    while let Some(parent) = next {
        if Arc::ptr_eq(parent, above) {
            return true;
        }
        next = parent.parent();
    }
    false
}

impl Frame {
    /// The used part of the task's account that is not booked in its pool yet.
    fn used_and_unknown(&self) -> Budget {
        // A task in a hook of its host has no account for that time.
        if self.pool().is_unlimited() || self.balance() == Budget::UNLIMITED {
            return Budget::ZERO;
        }
        let counted = |drawn: u64, left: u64| drawn.saturating_sub(left);
        self.drawn().counted().zip(self.balance().counted(), counted)
    }
}
