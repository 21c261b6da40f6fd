//! A pool: budget that the tasks of a nursery draw on.

use super::{Budget, Resource, Shortfall, Standing, UNLIMITED};
use crate::engine::{Wake, Waker};
use crate::error::TaskInfo;
use crate::lock::{Guard, Lock};
use std::sync::Arc;

/// Budget that tasks draw on. Counted under a lock, of which never two are held; a pool in
/// which nothing is counted takes none. Who waits is a task; in the models a flag.
pub(crate) struct Pool<W = Sleeper> {
    unlimited: bool,
    /// Where to ask when it is empty.
    more: Option<More<W>>,
    state: Lock<State<W>>,
}

/// How many children are paid for at a time: as many as the pool has plenty for.
const PREPAID: [u32; 3] = [64, 16, 4];

/// Where the opener of a nursery would draw more, and how much at a time.
pub(crate) struct More<W = Sleeper> {
    pub(crate) pool: Arc<Pool<W>>,
    pub(crate) grant: Budget,
    pub(crate) ceiling: Option<Ceiling>,
}

/// The most that a pool gets in all from above, what it was filled with included; and the capability that
/// says so.
///
/// It is looked at when budget is put in, under the pool's lock: what several have asked for at the same time
/// and is too much together goes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    pub(crate) most: Budget,
    pub(crate) cap: u64,
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

/// A task that waits for a recharge.
#[derive(Clone)]
pub(crate) struct Sleeper {
    pub(crate) waker: Waker,
    pub(crate) task: TaskInfo,
}

impl Wake for Sleeper {
    fn wake(&self) {
        self.waker.wake();
    }

    fn is(&self, other: &Sleeper) -> bool {
        self.waker.is(&other.waker)
    }
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
        Pool { unlimited: granted == Budget::UNLIMITED, more, state: Lock::new(state) }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        self.state.lock()
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
            if !self.top_up(short.resource, short.left) {
                return Err(short);
            }
        }
    }

    /// As [`spawn`](Pool::spawn), for several children at once if each gets what is `usual`, and the pool has
    /// a good deal more than that. Returns what each gets, and how many were paid for.
    pub(crate) fn prepay(&self, usual: Budget, wanted: Budget) -> Result<(Budget, u32), Shortfall> {
        let mut state = self.lock();
        let mut each = usual;
        each.absorb(Budget::SPAWN);
        for children in if state.is_usual(usual, wanted) { &PREPAID[..] } else { &[] } {
            if state.left.covers(each.times(4 * u64::from(*children))) {
                state.pay(u64::from(*children));
                state.draw(usual.times((*children).into()));
                return Ok((usual, *children));
            }
        }
        let drawn = state.spawn(wanted);
        drop(state);
        drawn.or_else(|_| self.spawn(wanted)).map(|drawn| (drawn, 1))
    }

    /// Takes the payment for children back that were not spawned after all.
    pub(crate) fn unspawn(&self, drawn: Budget, children: u32) {
        if !self.unlimited && children > 0 {
            let mut state = self.lock();
            let drawn = drawn.times(children.into());
            state.give_back(drawn, drawn);
            let cost = state.counted(Budget::SPAWN.times(children.into()));
            state.left.absorb(cost);
            state.spent = minus(state.spent, cost);
        }
    }

    /// What a child draws that wants `grant`, if there is enough of what there is at all: what is not counted here is
    /// not counted there.
    pub(crate) fn usual(&self, grant: Budget) -> Budget {
        let usual = |own, grant| match own {
            0 | UNLIMITED => own,
            _ => grant,
        };
        if self.unlimited { Budget::UNLIMITED } else { self.lock().left.zip(grant, usual) }
    }

    /// Draws up to `wanted`, for more of `resource`.
    pub(crate) fn draw(&self, wanted: Budget, resource: Resource) -> Budget {
        if self.unlimited {
            return Budget::UNLIMITED;
        }
        loop {
            let drawn = self.lock().draw(wanted);
            if drawn.get(resource) > 0 || wanted.get(resource) == 0 || !self.top_up(resource, 0) {
                return drawn;
            }
            self.lock().give_back(drawn, drawn);
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
            state.suspend(&waiter);
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
        while let Some(more @ More { pool, .. }) = &below.more {
            if below.lock().portion(more).get(resource) == 0 {
                return;
            }
            let mut state = pool.lock();
            if state.left.get(resource) > 0 {
                drop(state);
                return waiter.wake();
            }
            state.suspend(waiter);
            drop(state);
            below = pool;
        }
    }

    /// Asks above for more of `resource`, of which there was only so much; whether there is more now. Others may have
    /// put some in meanwhile, and emptied what is above.
    fn top_up(&self, resource: Resource, had: u64) -> bool {
        self.ask_above(resource) || self.lock().left.get(resource) > had
    }

    /// Asks above for more of `resource`; whether any came.
    fn ask_above(&self, resource: Resource) -> bool {
        loop {
            // Up, to the first that has some; then down again, pool by pool.
            let (mut path, mut found) = (Vec::new(), false);
            let mut below = self;
            while let Some(more) = &below.more
                && !found
            {
                if below.lock().portion(more).get(resource) == 0 {
                    return false;
                }
                path.push((below, more));
                found = more.pool.unlimited || more.pool.lock().left.get(resource) > 0;
                below = &more.pool;
            }
            if !found {
                return false;
            }
            let mut came = false;
            for (pool, more) in path.into_iter().rev() {
                let above = &more.pool;
                let wanted = pool.lock().portion(more);
                let moved =
                    if above.unlimited { wanted } else { above.lock().draw_bounded(wanted) };
                let kept = pool.take_in(moved, more);
                let surplus = minus(moved, kept);
                above.settle(surplus, surplus);
                came = kept.get(resource) > 0;
            }
            if came {
                return true;
            }
            // Somebody was faster: look again, further up if need be.
        }
    }

    /// The capability that keeps this pool, or one that it is filled from, from getting more of `resource`.
    pub(crate) fn bounded_by(&self, resource: Resource) -> Option<u64> {
        let mut below = self;
        while let Some(more) = &below.more {
            if let Some(Ceiling { most, cap }) = more.ceiling
                && below.lock().all_from_above().get(resource) >= most.get(resource)
            {
                return Some(cap);
            }
            below = &more.pool;
        }
        None
    }

    /// Notes what a task has used up of what it holds, and goes on holding the rest.
    pub(crate) fn spend(&self, used: Budget) {
        if !self.unlimited {
            self.lock().give_back(used, Budget::ZERO);
        }
    }

    /// Takes back an account that was `drawn`, of which `left` is left. The rest is spent.
    pub(crate) fn settle(&self, drawn: Budget, left: Budget) {
        if self.unlimited {
            return;
        }
        let suspended = {
            let mut state = self.lock();
            state.give_back(drawn, left);
            std::mem::take(&mut state.suspended)
        };
        suspended.iter().for_each(W::wake); // perhaps it is enough for them
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
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.from_owner.absorb(from_owner);
        Pool::add(state, amount);
        true
    }

    /// Takes in what came from above, as much as the ceiling allows; returns how much.
    fn take_in(&self, moved: Budget, more: &More<W>) -> Budget {
        let mut state = self.lock();
        debug_assert!(!state.closed, "a task draws on a nursery that has ended");
        let kept = moved.min(state.portion(more));
        state.topped_up.absorb(kept);
        Pool::add(state, kept);
        kept
    }

    /// Adds budget and wakes who waited for it.
    fn add(mut state: Guard<'_, State<W>>, amount: Budget) {
        state.left.absorb(amount);
        state.granted.absorb(amount);
        let suspended = std::mem::take(&mut state.suspended);
        drop(state);
        suspended.iter().for_each(W::wake);
    }

    /// Moves `amount` from another pool into this one, all of it or nothing.
    pub(crate) fn recharge_from(&self, other: &Pool<W>, amount: Budget) -> Result<(), Shortfall> {
        if !other.unlimited {
            let mut state = other.lock();
            let mut left = state.left;
            left.charge(amount)?;
            state.draw_bounded(amount);
        }
        self.lock().topped_up.absorb(amount);
        if !self.recharge(amount) {
            other.settle(amount, amount); // it has just ended
        }
        Ok(())
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

impl Pool {
    /// Who waits for a recharge.
    pub(crate) fn suspended(&self) -> Vec<TaskInfo> {
        self.lock().suspended.iter().map(|sleeper| sleeper.task.clone()).collect()
    }
}

impl<W: Wake + Clone> State<W> {
    /// Notes who waits, once: it may be there from a wait that a pool further down has ended, or
    /// nobody.
    fn suspend(&mut self, waiter: &W) {
        if !self.suspended.iter().any(|other| other.is(waiter)) {
            self.suspended.push(waiter.clone());
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
    /// All that came from above.
    fn all_from_above(&self) -> Budget {
        let mut sum = self.from_owner;
        sum.absorb(self.topped_up);
        sum
    }

    /// How much may be asked for above, at a time.
    fn portion(&self, more: &More<W>) -> Budget {
        let Some(Ceiling { most, .. }) = more.ceiling else { return more.grant };
        let room = most.zip(self.all_from_above(), |most, had| match most {
            UNLIMITED => UNLIMITED,
            _ => most.saturating_sub(had),
        });
        more.grant.min(room)
    }

    fn spawn(&mut self, wanted: Budget) -> Result<Budget, Shortfall> {
        // With one op to begin with: it is not to be born dead.
        let first = Budget { ops: Budget::SPAWN.ops + 1, ..Budget::SPAWN };
        for resource in [Resource::SpawnCount, Resource::Ops] {
            let (needed, left) = (first.get(resource), self.left.get(resource));
            if needed > left {
                return Err(Shortfall { resource, needed, left });
            }
        }
        self.pay(1);
        Ok(self.draw(wanted))
    }

    /// Whether a child that wants so much would get what is usual, if there is enough of that: what the pool had
    /// nothing of, it still has nothing of.
    fn is_usual(&self, usual: Budget, wanted: Budget) -> bool {
        let more = usual.zip(wanted, |usual, wanted| if usual == 0 { wanted } else { 0 });
        self.left.min(more) == Budget::ZERO
    }

    /// Spends what spawning so many children costs; there has to be enough.
    fn pay(&mut self, children: u64) {
        let cost = self.counted(Budget::SPAWN.times(children));
        let paid = self.left.charge(cost);
        debug_assert!(paid.is_ok(), "spawned without paying");
        self.spent.absorb(cost);
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
