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
//! when the lock is given back ([`Access`]). Two pools are never locked at the same time: a transfer
//! takes from one (the amount is *held* there), then puts into the other, and gives the surplus back.
//!
//! # Budget that is on its way
//!
//! Two optimisations keep budget outside of `left` although no task needs it:
//!
//! | where | what | who gets it back, and when |
//! |---|---|---|
//! | `prepaid` | children of the usual kind that were paid for and not spawned | anybody who finds the pool short: `reclaim`, an atomic swap |
//! | a worker's `Returned` | accounts of children that have ended | the worker when it turns to something else; anybody who is about to give up (`Shared::flush_deferred`) |
//!
//! So a task fails for lack of budget, or waits for a recharge, only when no ended or unspawned
//! sibling holds any. Why none is missed: a task that is short reclaims what is prepaid under the
//! pool's lock; then it registers among `suspended`, which makes the pool `hungry`, and then it
//! empties every worker's `Returned`, each under its lock. A child that ends later takes that lock
//! after it, sees `hungry`, and gives its account back at once.

use super::{Budget, Resource, Shortfall, Standing, Suspended, UNLIMITED};
use crate::base::error::TaskInfo;
use crate::base::lock::{Guard, Lock};
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::sched::task::waker::Waker;
use crate::wait::Wake;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Budget that tasks draw on. A pool in which nothing is counted takes no lock. Who waits is a
/// task; in the models a flag.
pub(crate) struct Pool<W = Sleeper> {
    unlimited: bool,
    /// The pool that it was filled from, if a task or nursery filled it.
    parent: Option<Arc<Pool<W>>>,
    /// Where to ask when it is empty.
    more: Option<More<W>>,
    /// Usual children that are paid for and not spawned. Relaxed throughout: whoever takes one owns
    /// it, and the budget that it stands for is counted under the lock.
    prepaid: AtomicUsize,
    /// How many tasks wait for a recharge. Written under the lock. Read by workers that return an
    /// account, ordered by the lock of their `Returned`: see the header.
    hungry: AtomicUsize,
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
    /// What a prepaid child has drawn.
    usual: Budget,
    /// Tasks that wait for a recharge.
    suspended: Vec<W>,
    /// The nursery has ended.
    closed: bool,
}

/// The right to change a pool. Checks in debug builds that the change has conserved the budget.
struct Access<'p, W>(Guard<'p, State<W>>);

impl<W> Deref for Access<'_, W> {
    type Target = State<W>;

    fn deref(&self) -> &State<W> {
        &self.0
    }
}

impl<W> DerefMut for Access<'_, W> {
    fn deref_mut(&mut self) -> &mut State<W> {
        &mut self.0
    }
}

#[cfg(debug_assertions)]
impl<W> Drop for Access<'_, W> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.check();
        }
    }
}

/// A task that waits for a recharge.
#[derive(Clone)]
pub(crate) struct Sleeper {
    pub(crate) waker: Waker,
    pub(crate) task: TaskInfo,
    pub(crate) resource: Resource,
}

/// A waiter that a pool can tell from others.
pub(crate) trait Sleeps: Wake + Clone {
    /// Whether both are the same.
    fn is(&self, other: &Self) -> bool;
}

impl Wake for Sleeper {
    fn wake(&self) {
        self.waker.wake();
    }
}

impl Sleeps for Sleeper {
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

impl<W: Sleeps> Pool<W> {
    pub(crate) fn new(granted: Budget, more: Option<More<W>>) -> Pool<W> {
        let state = State { granted, left: granted, from_owner: granted, ..State::default() };
        Pool {
            unlimited: granted == Budget::UNLIMITED,
            parent: more.as_ref().map(|more| Arc::clone(&more.pool)),
            more,
            prepaid: AtomicUsize::new(0),
            hungry: AtomicUsize::new(0),
            state: Lock::new(state),
        }
    }

    /// The same, filled from `parent`, of which it gets no more by itself.
    pub(crate) fn filled_from(mut self, parent: &Arc<Pool<W>>) -> Pool<W> {
        self.parent = Some(Arc::clone(parent));
        self
    }

    /// The pool that this one was filled from.
    pub(crate) fn parent(&self) -> Option<&Arc<Pool<W>>> {
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
            let mut state = self.lock();
            let short = match state.spawn(wanted) {
                Ok(drawn) => return Ok(drawn),
                Err(short) => short,
            };
            let reclaimed = self.reclaim(&mut state);
            drop(state);
            if !reclaimed && !self.top_up(short.resource, short.left) {
                return Err(short);
            }
        }
    }

    /// As [`spawn`](Pool::spawn). Where the pool has plenty, children that are still to come are
    /// paid for too: each gets what is `usual`.
    pub(crate) fn spawn_usual(&self, usual: Budget, wanted: Budget) -> Result<Budget, Shortfall> {
        let mut state = self.lock();
        let mut each = usual;
        each.absorb(Budget::SPAWN);
        for children in if state.is_usual(usual, wanted) { &PREPAID[..] } else { &[] } {
            if state.left.covers(each.times(4 * u64::from(*children))) {
                state.pay(u64::from(*children));
                state.draw(usual.times((*children).into()));
                state.usual = usual;
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
    fn reclaim(&self, state: &mut State<W>) -> bool {
        let children = self.prepaid.swap(0, Ordering::Relaxed); // see the field
        if children > 0 {
            state.unspawn(state.usual, children as u64);
        }
        children > 0
    }

    /// Takes the payment for a child back that was not spawned after all.
    pub(crate) fn unspawn(&self, drawn: Budget) {
        if !self.unlimited {
            self.lock().unspawn(drawn, 1);
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
            let mut state = self.lock();
            let mut drawn = state.draw(wanted);
            if drawn.get(resource) == 0 && self.reclaim(&mut state) {
                state.give_back(drawn, drawn);
                drawn = state.draw(wanted);
            }
            drop(state);
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
        // A recharge may have come since, or a child that was not spawned after all.
        self.reclaim(&mut state);
        let again = state.draw(wanted);
        if again.get(resource) == 0 {
            self.suspend(&mut state, &waiter);
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
            pool.reclaim(&mut state);
            if state.left.get(resource) > 0 {
                drop(state);
                return waiter.wake();
            }
            pool.suspend(&mut state, waiter);
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
                found = more.pool.has(resource);
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

    /// Whether there is any of `resource`, what was prepaid included.
    fn has(&self, resource: Resource) -> bool {
        let has = |state: &State<W>| state.left.get(resource) > 0;
        self.unlimited || {
            let mut state = self.lock();
            has(&state) || self.reclaim(&mut state) && has(&state)
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
        if !self.unlimited {
            self.settle_quietly(drawn, left).iter().for_each(W::wake);
        }
    }

    /// As [`settle`](Pool::settle), of a pool that counts. Returns the tasks that waited for a
    /// recharge, for the caller to wake: what came back may be enough for them.
    #[must_use = "they wait"]
    pub(crate) fn settle_quietly(&self, drawn: Budget, left: Budget) -> Vec<W> {
        let mut state = self.lock();
        state.give_back(drawn, left);
        self.take_suspended(&mut state)
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
        self.add(state, amount);
        true
    }

    /// Takes in what came from above, as much as the ceiling allows; returns how much.
    fn take_in(&self, moved: Budget, more: &More<W>) -> Budget {
        let mut state = self.lock();
        debug_assert!(!state.closed, "a task draws on a nursery that has ended");
        let kept = moved.min(state.portion(more));
        state.topped_up.absorb(kept);
        self.add(state, kept);
        kept
    }

    /// Adds budget and wakes the tasks that waited for it.
    fn add(&self, mut state: Access<'_, W>, amount: Budget) {
        state.left.absorb(amount);
        state.granted.absorb(amount);
        let suspended = self.take_suspended(&mut state);
        drop(state);
        suspended.iter().for_each(W::wake);
    }

    /// Moves `amount` from the pool above into this one, all of it or nothing.
    ///
    /// # Errors
    ///
    /// If the pool above has less; or if the capability that bounds this pool does not allow as
    /// much, and its number.
    pub(crate) fn recharge_from(
        &self,
        above: &Pool<W>,
        amount: Budget,
    ) -> Result<(), (Shortfall, Option<u64>)> {
        if !above.unlimited {
            let mut state = above.lock();
            if !state.left.covers(amount) {
                above.reclaim(&mut state);
            }
            { state.left }.charge(amount).map_err(|short| (short, None))?;
            state.draw_bounded(amount);
        }
        let refused = {
            let mut state = self.lock();
            // One critical section from the look at `closed` to the end: a pool that closes in
            // between would count the amount as topped up and as returned.
            match state.room(self.more.as_ref()).charge(amount) {
                _ if state.closed => Ok(()),
                Err(short) => Err(short),
                Ok(()) => {
                    state.topped_up.absorb(amount);
                    self.add(state, amount);
                    return Ok(());
                }
            }
        };
        above.settle(amount, amount);
        let cap = self.more.as_ref().and_then(|more| more.ceiling).map(|ceiling| ceiling.cap);
        refused.map_err(|short| (short, cap))
    }

    /// Empties a pool of which nobody holds anything. What a capability had put in beyond what came
    /// from above is not given out.
    pub(crate) fn close(&self) -> Closed {
        if self.unlimited {
            return Closed { left: Budget::UNLIMITED, topped_up: Budget::ZERO };
        }
        let mut state = self.lock();
        self.reclaim(&mut state);
        debug_assert_eq!(state.held, Budget::ZERO, "budget is still held");
        let closed = State { closed: true, ..State::default() };
        let State { left, from_owner, topped_up, .. } = std::mem::replace(&mut *state, closed);
        let mut from_above = from_owner;
        from_above.absorb(topped_up);
        Closed { left: left.min(from_above), topped_up }
    }

    /// What the task that opened the nursery has put in.
    pub(crate) fn owners_part(&self) -> Budget {
        self.lock().from_owner
    }

    /// All that came from above.
    pub(crate) fn part_from_above(&self) -> Budget {
        self.lock().all_from_above()
    }

    /// How it stands. What is prepaid counts as left.
    pub(crate) fn standing(&self) -> Standing {
        let mut state = self.lock();
        self.reclaim(&mut state);
        Standing {
            granted: state.granted,
            left: state.left,
            held: state.held,
            spent: state.spent,
            suspended: state.suspended.len(),
        }
    }

    /// Notes that a task waits, once: it may be there from a wait that a pool further down has
    /// ended.
    fn suspend(&self, state: &mut State<W>, waiter: &W) {
        if !state.suspended.iter().any(|other| other.is(waiter)) {
            state.suspended.push(waiter.clone());
            self.hungry.store(state.suspended.len(), Ordering::Relaxed); // read by `is_hungry`
        }
    }

    /// A task does not wait any more, here or above: a recharge of one pool has woken it, or it was
    /// cancelled.
    pub(crate) fn forget(&self, waiter: &W) {
        let mut pool = self;
        loop {
            let mut state = pool.lock();
            if let Some(index) = state.suspended.iter().position(|other| other.is(waiter)) {
                state.suspended.remove(index);
                pool.hungry.store(state.suspended.len(), Ordering::Relaxed); // read by `is_hungry`
            }
            drop(state);
            let Some(more) = &pool.more else { return };
            pool = &more.pool;
        }
    }

    /// The tasks that wait for a recharge, to be woken.
    fn take_suspended(&self, state: &mut State<W>) -> Vec<W> {
        if state.suspended.is_empty() {
            return Vec::new();
        }
        self.hungry.store(0, Ordering::Relaxed); // read by `is_hungry`
        std::mem::take(&mut state.suspended)
    }
}

impl Pool {
    /// The tasks that wait for a recharge.
    pub(crate) fn suspended(&self) -> Vec<Suspended> {
        let of = |sleeper: &Sleeper| Suspended {
            task: sleeper.task.clone(),
            resource: sleeper.resource,
        };
        self.lock().suspended.iter().map(of).collect()
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
            usual: Budget::ZERO,
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
        more.grant.min(self.room(Some(more)))
    }

    /// How much may still come from above in all.
    fn room(&self, more: Option<&More<W>>) -> Budget {
        let Some(Ceiling { most, .. }) = more.and_then(|more| more.ceiling) else {
            return Budget::UNLIMITED;
        };
        most.zip(self.all_from_above(), |most, had| match most {
            UNLIMITED => UNLIMITED,
            _ => most.saturating_sub(had),
        })
    }

    /// Takes the payment for children back that were not spawned.
    fn unspawn(&mut self, drawn: Budget, children: u64) {
        let drawn = drawn.times(children);
        self.give_back(drawn, drawn);
        let cost = self.counted(Budget::SPAWN.times(children));
        self.left.absorb(cost);
        self.spent = minus(self.spent, cost);
    }

    /// Checks the conserved quantity. Sums that do not fit into a number are not compared.
    #[cfg(debug_assertions)]
    fn check(&self) {
        for resource in Resource::ALL {
            let of = |budget: &Budget| budget.get(resource);
            let (granted, left) = (of(&self.granted), of(&self.left));
            let sum =
                left.checked_add(of(&self.held)).and_then(|sum| sum.checked_add(of(&self.spent)));
            let counted = granted < UNLIMITED - 1 && left != UNLIMITED;
            assert!(
                !counted || sum == Some(granted),
                "budget is not conserved: {granted} {resource} granted, {left} left, {} held, {} spent",
                of(&self.held),
                of(&self.spent),
            );
        }
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
