//! The contexts of one worker: creating, binding, running, charging.

use super::call::Call;
use super::event::{Ends, Places};
use super::params::{Endpoint, Params, Urgency};
use super::refused::Refused;
use super::supply::{NEVER, Refilled, Supply};
use crate::admission::Demand;
use crate::slab::{Key, Link, Memory, Slab, Slot};

/// A scheduling context, as a record in a table. Seen from outside through [`Contexts`].
#[derive(Debug)]
pub struct Context {
    pub(super) params: Params,
    pub(super) supply: Supply,
    pub(super) state: State,
    pub(super) halted: bool,
    /// The party that it belongs to.
    pub(super) home: Link,
    /// The party that runs on it: the home, or the end of a chain of calls.
    pub(super) holder: Link,
    /// The caller that gets it back first.
    pub(super) top: Link,
    pub(super) usage: Usage,
    /// Use since the last `take_consumed`.
    pub(super) unread: u64,
    /// The last deadline whose miss was reported.
    pub(super) missed: u64,
    /// The last refill for which a timeout was reported.
    pub(super) timed_out: u64,
    pub(super) events: Places,
}

/// The state of a context's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Asleep,
    Ready,
    Running,
}

/// A party that runs on contexts: a task or a service, as a record in a table.
#[derive(Debug)]
pub struct Party {
    /// The context it may be charged to.
    pub(super) holds: Link,
    /// The context that belongs to it.
    pub(super) home: Link,
    /// Whether it waits for a call.
    pub(super) waits: bool,
    /// The lent context, and its neighbours on the chain.
    pub(super) call: Call,
    /// How many calls it has made: what makes the handles of calls unique.
    pub(super) calls: u64,
    pub(super) timeout: Option<Endpoint>,
}

/// Handle of a scheduling context.
pub type ContextId = Key<Context>;
/// Handle of a party.
pub type PartyId = Key<Party>;
/// Memory for one context.
pub type ContextSlot = Slot<Context>;
/// Memory for one party.
pub type PartySlot = Slot<Party>;

/// Statistics of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All that was charged to it.
    pub total: u64,
    /// How often its budget was used up.
    pub depletions: u64,
    /// How often it overran its budget.
    pub overruns: u64,
    /// The largest overrun: q*, as observed.
    pub worst_overrun: u64,
    /// How many deadlines passed with budget unused that a holder wanted to use.
    pub missed: u64,
    /// How often the clock jumped while it ran.
    pub gaps: u64,
}

/// Permission to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// On which context.
    pub context: ContextId,
    /// For how long at most.
    pub limit: u64,
    /// The absolute deadline of the granted budget.
    pub deadline: u64,
}

/// The result of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a depleted context must not go on"]
pub struct Charge {
    /// The charged context.
    pub context: ContextId,
    /// The party that ran.
    pub party: PartyId,
    /// How much was charged.
    pub used: u64,
    /// The overrun since the context was started.
    pub overrun: u64,
    /// The amount that may be used now.
    pub left: u64,
    /// If nothing: when there will be some.
    pub depleted: Option<u64>,
}

/// Why something stops to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It wants to go on.
    Preempted,
    /// It waits until it is woken.
    Blocked,
    /// It gives up its budget until the replenishment, and continues then.
    Yielded,
}

/// A context on its way to another worker's table. Dropping it destroys the context.
#[derive(Debug)]
#[must_use = "dropping it destroys the context"]
pub struct Traveller {
    params: Params,
    supply: Supply,
    usage: Usage,
    unread: u64,
    halted: bool,
    events: Places,
}

/// The scheduling contexts of one worker. See the [module](super).
#[derive(Debug)]
pub struct Contexts<C, P> {
    pub(super) contexts: Slab<Context, C>,
    pub(super) parties: Slab<Party, P>,
    /// The context that runs, if any.
    pub(super) running: Link,
    /// Since when that was not charged.
    pub(super) since: u64,
    /// The overrun since it started.
    pub(super) overrun: u64,
    pub(super) events: Ends,
    worker: u8,
    pub(super) min_slice: u64,
    pub(super) clock_gap: u64,
}

impl<C: Memory<ContextSlot>, P: Memory<PartySlot>> Contexts<C, P> {
    /// No contexts and no parties, on `worker`, in the given memory.
    pub fn new(worker: u8, contexts: C, parties: P) -> Contexts<C, P> {
        Contexts {
            contexts: Slab::new(contexts),
            parties: Slab::new(parties),
            running: Link::NONE,
            since: 0,
            overrun: 0,
            events: Ends::default(),
            worker,
            min_slice: 1,
            clock_gap: NEVER,
        }
    }

    /// Budgets below this are not worth a dispatch: twice the cost of a dispatch. Smaller rests
    /// wait for the next refill, so a job that needs its budget to the last unit should ask for so
    /// much more.
    pub fn with_min_slice(mut self, min_slice: u64) -> Self {
        self.min_slice = min_slice.max(1);
        self
    }

    /// A single stretch longer than this is not use but a clock that jumped, as after the
    /// suspension of a virtual machine: counted, and charged as one budget at most.
    pub fn with_clock_gap(mut self, clock_gap: u64) -> Self {
        self.clock_gap = clock_gap;
        self
    }

    /// The worker whose contexts these are.
    pub fn worker(&self) -> u8 {
        self.worker
    }

    /// How many contexts can still be created.
    pub fn vacant(&self) -> usize {
        self.contexts.vacant()
    }

    /// Creates an unbound context with a full budget from `now` on. [`admission`](crate::admission)
    /// decides whether the worker can guarantee it.
    ///
    /// # Errors
    ///
    /// Bad terms, terms that exclude this worker, no free slot.
    pub fn create(&mut self, params: Params, now: u64) -> Result<ContextId, Refused> {
        self.check_params(&params)?;
        self.insert(params, Supply::new(&params, now)).ok_or(Refused::Full)
    }

    /// Whether [`create`](Contexts::create) would accept the terms, memory aside.
    ///
    /// # Errors
    ///
    /// Bad terms, terms that exclude this worker.
    pub fn check_params(&self, params: &Params) -> Result<(), Refused> {
        params.check(self.min_slice)?;
        if params.workers.contains(self.worker) {
            Ok(())
        } else {
            Err(Refused::WrongWorker { worker: self.worker })
        }
    }

    /// Ends a context. Its parties are without one then; callers along its chain keep
    /// waiting for their calls and get them back without a context. Returns the party that was
    /// running on it and must be taken off the worker.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn destroy(&mut self, context: ContextId, now: u64) -> Result<Option<PartyId>, Refused> {
        let interrupted = self.unbind(context, now)?;
        self.unlist(context.index());
        self.contexts.remove(context);
        Ok(interrupted)
    }

    /// Changes the parameters. Budget used under the old ones is not granted again: unless the
    /// budget is whole, the new one begins when the old one would have been whole, counting the
    /// longer period.
    ///
    /// # Errors
    ///
    /// A stale handle, bad terms, a context in use.
    pub fn reconfigure(
        &mut self,
        context: ContextId,
        params: Params,
        now: u64,
    ) -> Result<(), Refused> {
        self.check_params(&params)?;
        self.idle(context)?;
        let record = self.contexts.at_mut(context.index());
        let whole = record.supply.whole_at(&record.params);
        let longer = params.period.saturating_sub(record.params.period);
        let start = if whole <= now { now } else { whole.saturating_add(longer) };
        record.supply = Supply::new(&params, start);
        record.params = params;
        Ok(())
    }

    /// A party without a context: passive until one is bound or lent to it. Nothing is inherited
    /// from the registering party. Its own timeout endpoint, if it has one, gets the timeouts of
    /// contexts that it holds: so a server learns that a caller's budget is used up.
    ///
    /// # Errors
    ///
    /// No free slot.
    pub fn register(&mut self, timeout: Option<Endpoint>) -> Result<PartyId, Refused> {
        let (holds, home, call) = (Link::NONE, Link::NONE, Call::OVER);
        let party = Party { holds, home, waits: false, call, calls: 0, timeout };
        self.parties.insert(party).ok_or(Refused::Full)
    }

    /// Makes the context the party's own. It sleeps until it is woken.
    ///
    /// # Errors
    ///
    /// A stale handle, a context that is bound, a party that has one or waits.
    pub fn bind(&mut self, context: ContextId, party: PartyId) -> Result<(), Refused> {
        let record = self.contexts.get(context).ok_or(Refused::StaleContext)?;
        let bound = !record.home.is_none() || !record.holder.is_none();
        let taker = self.parties.get(party).ok_or(Refused::StaleParty)?;
        if bound {
            return Err(Refused::Bound);
        }
        if !taker.home.is_none() || !taker.holds.is_none() {
            return Err(Refused::HasContext);
        }
        if taker.waits {
            return Err(Refused::Waits);
        }
        let record = self.contexts.at_mut(context.index());
        (record.home, record.holder) = (Link::to(party.index()), Link::to(party.index()));
        let taker = self.parties.at_mut(party.index());
        (taker.home, taker.holds) = (Link::to(context.index()), Link::to(context.index()));
        Ok(())
    }

    /// Unbinds the context from its home and its holder. Callers along its chain get their calls
    /// back without it. Returns the party that was running on it.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn unbind(&mut self, context: ContextId, now: u64) -> Result<Option<PartyId>, Refused> {
        self.contexts.get(context).ok_or(Refused::StaleContext)?;
        let index = context.index();
        let interrupted = self.interrupt(index, now);
        self.dissolve(index);
        let record = self.contexts.at_mut(index);
        record.state = State::Asleep;
        let (home, holder) = (record.home.take(), record.holder.take());
        if let Some(home) = home.get() {
            self.parties.at_mut(home).home = Link::NONE;
        }
        if let Some(holder) = holder.get() {
            self.parties.at_mut(holder).holds = Link::NONE;
        }
        Ok(interrupted)
    }

    /// Removes a context, for another worker's table. Its use and its pending events move with it;
    /// its holder does not.
    ///
    /// # Errors
    ///
    /// A stale handle, a context in use or lent.
    pub fn depart(&mut self, context: ContextId, now: u64) -> Result<Traveller, Refused> {
        self.idle(context)?;
        if !self.contexts.at(context.index()).top.is_none() {
            return Err(Refused::Lent);
        }
        self.unbind(context, now)?;
        self.unlist(context.index());
        let record = self.contexts.remove(context).ok_or(Refused::StaleContext)?;
        let Context { params, supply, usage, unread, halted, mut events, .. } = record;
        events.forget_holders();
        Ok(Traveller { params, supply, usage, unread, halted, events })
    }

    /// Adds a context that departed from another table, unbound.
    ///
    /// # Errors
    ///
    /// Terms that this worker does not accept, no free slot; with the context, unharmed.
    #[expect(clippy::result_large_err, reason = "it must not be lost, and there is no heap")]
    pub fn arrive(&mut self, traveller: Traveller) -> Result<ContextId, (Refused, Traveller)> {
        if let Err(why) = self.check_params(&traveller.params) {
            return Err((why, traveller));
        }
        let Some(context) = self.insert(traveller.params, traveller.supply) else {
            return Err((Refused::Full, traveller));
        };
        let record = self.contexts.at_mut(context.index());
        (record.usage, record.unread) = (traveller.usage, traveller.unread);
        record.halted = traveller.halted;
        record.events = traveller.events;
        if !record.events.is_empty() {
            self.enlist(context.index());
        }
        Ok(context)
    }

    fn insert(&mut self, params: Params, supply: Supply) -> Option<ContextId> {
        self.contexts.insert(Context {
            params,
            supply,
            state: State::Asleep,
            halted: false,
            home: Link::NONE,
            holder: Link::NONE,
            top: Link::NONE,
            usage: Usage::default(),
            unread: 0,
            missed: NEVER,
            timed_out: 0,
            events: Places::default(),
        })
    }

    fn idle(&self, context: ContextId) -> Result<(), Refused> {
        match self.contexts.get(context) {
            None => Err(Refused::StaleContext),
            Some(record) if record.state == State::Running => Err(Refused::Running),
            Some(_) => Ok(()),
        }
    }
}

/// Queries about contexts.
impl<C: Memory<ContextSlot>, P: Memory<PartySlot>> Contexts<C, P> {
    /// Its terms.
    pub fn params(&self, context: ContextId) -> Option<&Params> {
        self.contexts.get(context).map(|record| &record.params)
    }

    /// Its statistics up to the last charge.
    pub fn usage(&self, context: ContextId) -> Option<Usage> {
        self.contexts.get(context).map(|record| record.usage)
    }

    /// From when there is budget.
    pub fn ready_at(&self, context: ContextId) -> Option<u64> {
        self.contexts.get(context).map(|record| record.supply.ready_at())
    }

    /// How long it can be used from `now` on, minus time not charged yet.
    pub fn left(&self, context: ContextId, now: u64) -> Option<u64> {
        let record = self.contexts.get(context)?;
        let running = self.running == Link::to(context.index());
        let since = if running { self.since } else { now };
        Some(record.supply.lasts(since).saturating_sub(now.saturating_sub(since)))
    }

    /// Its place among the ready ones.
    pub fn urgency(&self, context: ContextId) -> Option<Urgency> {
        let record = self.contexts.get(context)?;
        Some(Urgency::new(record.params.band, record.supply.deadline(&record.params)))
    }

    /// The parts of its budget and from when on they are there. They sum to the budget.
    pub fn refills(&self, context: ContextId) -> impl Iterator<Item = Refilled> {
        let record = self.contexts.get(context);
        record.map(|record| record.supply.refills(&record.params)).into_iter().flatten()
    }

    /// The party that runs on it.
    pub fn holder(&self, context: ContextId) -> Option<PartyId> {
        self.contexts.get(context)?.holder.get().map(|party| self.parties.key(party))
    }

    /// The context that the party is charged to, if any.
    pub fn held_by(&self, party: PartyId) -> Option<ContextId> {
        self.parties.get(party)?.holds.get().map(|context| self.contexts.key(context))
    }

    /// The use since the last call.
    pub fn take_consumed(&mut self, context: ContextId) -> Option<u64> {
        self.contexts.get_mut(context).map(|record| core::mem::take(&mut record.unread))
    }

    /// The demands of all contexts of this worker, for admission. A check distance that proved too
    /// short is replaced by the observed one.
    pub fn demands(&self) -> impl Iterator<Item = Demand> + Clone {
        self.contexts.iter().map(|(_, record)| {
            let demand = Demand::from(&record.params);
            let seen = record.usage.worst_overrun;
            Demand { check_distance: demand.check_distance.max(seen), ..demand }
        })
    }
}
