//! Lending a context along a chain of calls, and getting it back.
//!
//! ```text
//!             top                       holder
//!   client <- first server <- … <- last server      below: towards the client
//!   waits     waits                runs             above: towards the holder
//! ```
//!
//! A caller waits for one call at a time, so the record of the call is part of the caller
//! and a call never needs memory. The callers of one context form a list, the most recent on
//! top. Links are both ways: a call in the middle can be revoked in constant time, and the
//! context then returns past it.

use super::refused::Refused;
use super::table::{ContextId, ContextSlot, Contexts, PartyId, PartySlot, State};
use crate::slab::{Link, Memory};
use core::mem::replace;

/// A call that a party waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The lent context; none once it was destroyed, unbound or recalled.
    context: Link,
    below: Link,
    above: Link,
}

impl Call {
    /// No call is open, or no context is lent with it.
    pub(super) const OVER: Call =
        Call { context: Link::NONE, below: Link::NONE, above: Link::NONE };
}

/// Handle of an open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    caller: PartyId,
    number: u64,
}

/// The requirement of an endpoint for its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// The worst-case time of a call. A caller with less budget is refused, so that no budget ends
    /// inside the server and blocks it for other callers.
    pub min_budget: u64,
}

/// The result of a call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// The caller, which becomes runnable.
    pub caller: PartyId,
    /// The returned context, if any. Its deadline is that of its current budget: queue the caller
    /// by [`urgency`](Contexts::urgency), not at the head.
    pub context: Option<ContextId>,
    /// The party that was running on that context and must be taken off the worker.
    pub interrupted: Option<PartyId>,
}

impl<C: Memory<ContextSlot>, P: Memory<PartySlot>> Contexts<C, P> {
    /// The running `caller` calls `callee` through `gate`: the context is lent, and the worker runs
    /// the callee immediately. Time is still charged to the same context.
    ///
    /// # Errors
    ///
    /// A stale handle, a caller that does not run, a callee that has a context of its own (an
    /// ordinary call will do) or waits, less budget than the gate demands.
    #[inline]
    pub fn donate(
        &mut self,
        caller: PartyId,
        callee: PartyId,
        gate: Gate,
        now: u64,
    ) -> Result<CallId, Refused> {
        let index = self.held(caller)?;
        let server = self.parties.get(callee).ok_or(Refused::StaleParty)?;
        if !server.holds.is_none() {
            return Err(Refused::HasContext);
        }
        if server.waits {
            return Err(Refused::Waits);
        }
        if self.running != Link::to(index) {
            return Err(Refused::NotRunning);
        }
        let context = self.contexts.at_mut(index);
        let lasts = context.supply.lasts(self.since);
        let left = lasts.saturating_sub(now.saturating_sub(self.since));
        if left < gate.min_budget {
            return Err(Refused::BelowMinimum { left, needed: gate.min_budget });
        }

        context.holder = Link::to(callee.index());
        let below = replace(&mut context.top, Link::to(caller.index()));
        self.parties.at_mut(callee.index()).holds = Link::to(index);
        let client = self.parties.at_mut(caller.index());
        client.holds = Link::NONE;
        client.waits = true;
        client.call = Call { context: Link::to(index), below, above: Link::NONE };
        client.calls += 1;
        let number = client.calls;
        if let Some(below) = below.get() {
            self.call_of(below).above = Link::to(caller.index());
        }
        Ok(CallId { caller, number })
    }

    /// The callee answers: the context returns to the caller, and the worker runs the caller.
    ///
    /// # Errors
    ///
    /// A stale handle, a callee that waits for a call of its own.
    #[inline]
    pub fn give_back(&mut self, call: CallId, now: u64) -> Result<Returned, Refused> {
        let lent = self.open(call)?;
        let caller = call.caller;
        let Some(index) = lent.get() else {
            self.parties.at_mut(caller.index()).waits = false;
            return Ok(Returned { caller, context: None, interrupted: None });
        };
        if self.contexts.at(index).top != Link::to(caller.index()) {
            return Err(Refused::NotLast);
        }
        self.unwind(index, now);
        Ok(Returned { caller, context: Some(self.contexts.key(index)), interrupted: None })
    }

    /// Ends a call without an answer, wherever in the chain it is. The last one gets the
    /// context back, from under the callee. One in the middle loses it: the chain closes
    /// over it, and the context returns past it later. If no caller is left, the context
    /// stays with its holder until it is [recalled](Contexts::recall).
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn revoke(&mut self, call: CallId, now: u64) -> Result<Returned, Refused> {
        let lent = self.open(call)?;
        let caller = call.caller;
        match lent.get() {
            Some(index) if self.contexts.at(index).top == Link::to(caller.index()) => {
                let interrupted = self.interrupt(index, now);
                self.unwind(index, now);
                Ok(Returned { caller, context: Some(self.contexts.key(index)), interrupted })
            }
            _ => {
                self.bypass(caller.index());
                Ok(Returned { caller, context: None, interrupted: None })
            }
        }
    }

    /// Returns a lent context to its home. The home's call ends; callers in between keep waiting
    /// and get their calls back without it. Returns the party that was running on it.
    ///
    /// # Errors
    ///
    /// A stale handle, a context without a home, a home that holds or waits for another.
    pub fn recall(&mut self, context: ContextId, now: u64) -> Result<Option<PartyId>, Refused> {
        let index = context.index();
        let record = self.contexts.get(context).ok_or(Refused::StaleContext)?;
        let home = record.home.get().ok_or(Refused::NotBound)?;
        if record.holder == Link::to(home) {
            return Ok(None);
        }
        let owner = self.parties.at(home);
        if !owner.holds.is_none() {
            return Err(Refused::HasContext);
        }
        if owner.call.context.get().is_some_and(|lent| lent != index) {
            return Err(Refused::Waits);
        }

        let interrupted = self.interrupt(index, now);
        self.dissolve(index);
        let holder = replace(&mut self.contexts.at_mut(index).holder, Link::to(home));
        if let Some(holder) = holder.get() {
            self.parties.at_mut(holder).holds = Link::NONE;
        }
        let owner = self.parties.at_mut(home);
        (owner.holds, owner.waits) = (Link::to(index), false);
        self.rouse(index, now);
        Ok(interrupted)
    }

    /// Ends a party. A context that was lent to it returns to the caller, which this returns; its
    /// own context becomes free; calls past it close over it.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn unregister(&mut self, party: PartyId, now: u64) -> Result<Option<PartyId>, Refused> {
        let record = self.parties.get(party).ok_or(Refused::StaleParty)?;
        let (holds, home) = (record.holds, record.home);
        let mut heir = None;
        if let Some(index) = holds.get() {
            self.interrupt(index, now);
            heir = self.contexts.at(index).top.get().map(|caller| self.parties.key(caller));
            if heir.is_some() {
                self.unwind(index, now);
            } else {
                let context = self.contexts.at_mut(index);
                (context.holder, context.state) = (Link::NONE, State::Asleep);
            }
        }
        if let Some(home) = home.get() {
            self.contexts.at_mut(home).home = Link::NONE;
        }
        self.bypass(party.index());
        self.parties.remove(party);
        Ok(heir)
    }

    /// The context that is lent with an open call.
    #[inline]
    fn open(&self, call: CallId) -> Result<Link, Refused> {
        let caller = self.parties.get(call.caller).ok_or(Refused::StaleCall)?;
        if caller.waits && caller.calls == call.number {
            Ok(caller.call.context)
        } else {
            Err(Refused::StaleCall)
        }
    }

    /// Moves the context from its holder to the topmost caller, which stops waiting.
    #[inline]
    fn unwind(&mut self, index: u32, now: u64) {
        self.rouse(index, now);
        let context = self.contexts.at_mut(index);
        let caller = context.top.get().expect("there is a caller");
        let callee = replace(&mut context.holder, Link::to(caller));
        let client = self.parties.at_mut(caller);
        client.holds = Link::to(index);
        client.waits = false;
        let below = replace(&mut client.call, Call::OVER).below;
        context.top = below;
        self.parties.at_mut(callee.get().expect("someone holds it")).holds = Link::NONE;
        if let Some(below) = below.get() {
            self.call_of(below).above = Link::NONE;
        }
    }

    /// Ends the party's call, if it waits for one, and closes the chain over it.
    fn bypass(&mut self, party: u32) {
        let record = self.parties.at_mut(party);
        record.waits = false;
        let Call { context, below, above } = replace(&mut record.call, Call::OVER);
        let Some(context) = context.get() else { return };
        match above.get() {
            Some(above) => self.call_of(above).below = below,
            None => self.contexts.at_mut(context).top = below,
        }
        if let Some(below) = below.get() {
            self.call_of(below).above = above;
        }
    }

    /// Lets all callers along the chain wait without the context.
    pub(super) fn dissolve(&mut self, index: u32) {
        let mut next = self.contexts.at_mut(index).top.take();
        while let Some(caller) = next.get() {
            next = replace(self.call_of(caller), Call::OVER).below;
        }
    }

    #[inline]
    fn call_of(&mut self, caller: u32) -> &mut Call {
        &mut self.parties.at_mut(caller).call
    }
}
