//! A pool: budget that the tasks of a nursery draw on.

use super::{Budget, Resource, Shortfall, Standing, UNLIMITED};
use crate::engine::{Wake, Waker};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::sync::Arc;

/// Budget that tasks draw on. Counted under a lock, of which never two are held; a pool in
/// which nothing is counted takes none. Who waits is a task; in the models a flag.
pub(crate) struct Pool<W = Waker> {
    unlimited: bool,
    /// Where to ask when it is empty.
    more: Option<More<W>>,
    state: Mutex<State<W>>,
}

/// Where the opener of a nursery would draw more, and how much at a time.
pub(crate) struct More<W = Waker> {
    pub(crate) pool: Arc<Pool<W>>,
    pub(crate) grant: Budget,
}

struct State<W> {
    granted: Budget,
    left: Budget,
    held: Budget,
    spent: Budget,
    /// What the task that opened the nursery has put in.
    from_owner: Budget,
    /// What came from above since.
    topped_up: Budget,
    /// Tasks that wait for a recharge.
    suspended: Vec<W>,
    /// The nursery has ended.
    closed: bool,
}

/// What a pool gives back when it is closed.
pub(crate) struct Closed {
    pub(crate) left: Budget,
    /// What came from above, and is held there.
    pub(crate) topped_up: Budget,
}

impl<W: Wake + Clone> Pool<W> {
    pub(crate) fn new(granted: Budget, more: Option<More<W>>) -> Pool<W> {
        let state = State { granted, left: granted, from_owner: granted, ..State::default() };
        Pool { unlimited: granted == Budget::UNLIMITED, more, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is counted.
    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Pays for a child, and draws its first account: as much of `wanted` as there is.
    ///
    /// # Errors
    ///
    /// If the child cannot be paid for, or would have no ops to begin with.
    pub(crate) fn spawn(&self, wanted: Budget) -> Result<Budget, Shortfall> {
        if self.unlimited {
            return Ok(Budget::UNLIMITED);
        }
        loop {
            let short = match self.lock().spawn(wanted) {
                Ok(drawn) => return Ok(drawn),
                Err(short) => short,
            };
            if !self.top_up(short.resource) {
                return Err(short);
            }
        }
    }

    /// Takes a child's payment back, because it was not spawned after all.
    pub(crate) fn unspawn(&self, drawn: Budget) {
        if !self.unlimited {
            let mut state = self.lock();
            state.give_back(drawn, drawn);
            let cost = state.counted(Budget::SPAWN);
            state.left.absorb(cost);
            state.spent = minus(state.spent, cost);
        }
    }

    /// Draws up to `wanted`, for more of `resource`.
    pub(crate) fn draw(&self, wanted: Budget, resource: Resource) -> Budget {
        if self.unlimited {
            return Budget::UNLIMITED;
        }
        loop {
            let drawn = self.lock().draw(wanted);
            if drawn.get(resource) > 0 || wanted.get(resource) == 0 || !self.top_up(resource) {
                return drawn;
            }
            self.lock().give_back(drawn, drawn);
        }
    }

    /// Draws what there is of `wanted`, here and now: neither allocates nor waits.
    pub(crate) fn try_draw(&self, wanted: Budget) -> Budget {
        if self.unlimited {
            return wanted;
        }
        match self.state.try_lock() {
            Ok(mut state) => state.draw_bounded(wanted),
            Err(_) => Budget::ZERO,
        }
    }

    /// Draws all that there is.
    pub(crate) fn draw_all(&self) -> Budget {
        if self.unlimited { Budget::UNLIMITED } else { self.lock().draw(Budget::UNLIMITED) }
    }

    /// As [`draw`](Pool::draw); if none of `resource` comes, `waiter` is woken by the next
    /// recharge.
    pub(crate) fn draw_or_wait(&self, wanted: Budget, resource: Resource, waiter: W) -> Budget {
        let drawn = self.draw(wanted, resource);
        if drawn.get(resource) > 0 {
            return drawn;
        }
        let mut state = self.lock();
        // Somebody may have recharged since.
        let again = state.draw(wanted);
        if again.get(resource) == 0 {
            state.suspended.push(waiter.clone());
            drop(state);
            self.wait_above(resource, &waiter);
        }
        let mut both = drawn;
        both.absorb(again);
        both
    }

    /// Has `waiter` woken by a recharge of a pool that this one is filled from, too; at once if
    /// one came meanwhile.
    fn wait_above(&self, resource: Resource, waiter: &W) {
        let mut below = self;
        while let Some(More { pool, grant }) = &below.more {
            if grant.get(resource) == 0 {
                return;
            }
            let mut state = pool.lock();
            if state.left.get(resource) > 0 {
                drop(state);
                return waiter.wake();
            }
            // It may be there from an earlier wait that a pool further down has ended.
            if !state.suspended.iter().any(|other| other.is(waiter)) {
                state.suspended.push(waiter.clone());
            }
            drop(state);
            below = pool;
        }
    }

    /// Asks above for more of `resource`; whether any came.
    fn top_up(&self, resource: Resource) -> bool {
        // Up, to the first that has some; then down again, pool by pool.
        let mut path = Vec::new();
        let mut below = self;
        while let Some(more) = &below.more {
            path.push((below, more));
            if more.grant.get(resource) == 0 {
                return false;
            }
            if more.pool.unlimited || more.pool.lock().left.get(resource) > 0 {
                break;
            }
            below = &more.pool;
        }
        let mut came = false;
        for (pool, More { pool: above, grant }) in path.into_iter().rev() {
            let moved = if above.unlimited { *grant } else { above.lock().draw_bounded(*grant) };
            came = moved.get(resource) > 0;
            pool.lock().topped_up.absorb(moved);
            pool.recharge(moved);
        }
        came
    }

    /// Takes back an account that was `drawn`, of which `left` is left. The rest is spent.
    pub(crate) fn settle(&self, drawn: Budget, left: Budget) {
        if !self.unlimited {
            self.lock().give_back(drawn, left);
        }
    }

    /// Adds budget and wakes who waited for it. False, and nothing added, if the pool was closed.
    pub(crate) fn recharge(&self, amount: Budget) -> bool {
        self.put(amount, Budget::ZERO)
    }

    /// As [`recharge`](Pool::recharge), by the task that opened the nursery: goes back to it in the end.
    pub(crate) fn recharge_from_owner(&self, amount: Budget) -> bool {
        self.put(amount, amount)
    }

    fn put(&self, amount: Budget, from_owner: Budget) -> bool {
        let suspended = {
            let mut state = self.lock();
            if state.closed {
                return false;
            }
            state.from_owner.absorb(from_owner);
            state.left.absorb(amount);
            state.granted.absorb(amount);
            std::mem::take(&mut state.suspended)
        };
        suspended.iter().for_each(W::wake);
        true
    }

    /// Empties a pool of which nobody holds anything. What a capability had put in beyond what came
    /// from above is not given out.
    pub(crate) fn close(&self) -> Closed {
        if self.unlimited {
            return Closed { left: Budget::UNLIMITED, topped_up: Budget::ZERO };
        }
        let mut state = self.lock();
        debug_assert_eq!(state.held, Budget::ZERO, "budget is still held");
        let closed = State { closed: true, ..State::default() };
        let State { left, from_owner, topped_up, .. } = std::mem::replace(&mut *state, closed);
        let mut from_above = from_owner;
        from_above.absorb(topped_up);
        Closed { left: left.min(from_above), topped_up }
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            granted: state.granted,
            left: state.left,
            held: state.held,
            spent: state.spent,
            suspended: state.suspended.len(),
        }
    }
}

impl<W> Default for State<W> {
    fn default() -> State<W> {
        State {
            granted: Budget::ZERO,
            left: Budget::ZERO,
            held: Budget::ZERO,
            spent: Budget::ZERO,
            from_owner: Budget::ZERO,
            topped_up: Budget::ZERO,
            suspended: Vec::new(),
            closed: false,
        }
    }
}

impl<W> State<W> {
    fn spawn(&mut self, wanted: Budget) -> Result<Budget, Shortfall> {
        let cost = Budget::SPAWN;
        let first = Budget { ops: cost.ops + 1, ..cost };
        for resource in [Resource::SpawnCount, Resource::Ops] {
            let (needed, left) = (first.get(resource), self.left.get(resource));
            if needed > left {
                return Err(Shortfall { resource, needed, left });
            }
        }
        self.left.charge(cost)?;
        self.spent.absorb(self.counted(cost));
        Ok(self.draw(wanted))
    }

    /// Moves up to `wanted` to a task. What is not counted here is not counted there.
    fn draw(&mut self, wanted: Budget) -> Budget {
        let wanted =
            self.left.zip(wanted, |own, wanted| if own == UNLIMITED { UNLIMITED } else { wanted });
        self.draw_bounded(wanted)
    }

    /// As `draw`, but never more than `wanted`.
    fn draw_bounded(&mut self, wanted: Budget) -> Budget {
        let drawn = self.left.split(wanted);
        self.held.absorb(self.counted(drawn));
        drawn
    }

    fn give_back(&mut self, drawn: Budget, left: Budget) {
        let (drawn, left) = (self.counted(drawn), self.counted(left));
        self.held = minus(self.held, drawn);
        self.left.absorb(left);
        self.spent.absorb(minus(drawn, left));
    }

    /// The components that this pool counts; 0 for the others.
    fn counted(&self, budget: Budget) -> Budget {
        self.left.zip(budget, |own, other| if own == UNLIMITED { 0 } else { other })
    }
}

fn minus(from: Budget, what: Budget) -> Budget {
    from.zip(what, |from, what| {
        debug_assert!(what <= from, "budget from nowhere: {what} of {from}");
        from.saturating_sub(what)
    })
}

#[cfg(all(test, loom))]
mod models;
