//! Running on contexts: waking, starting, charging, stopping, and raising events.

use super::event::{Event, EventKind, Pending};
use super::params::Overrun;
use super::refused::Refused;
use super::table::{Charge, ContextId, ContextSlot, Contexts, Grant, PartyId};
use super::table::{PartySlot, State, Stop};
use crate::slab::{Link, Memory};

impl<C: Memory<ContextSlot>, P: Memory<PartySlot>> Contexts<C, P> {
    /// Makes the party runnable. Returns when it may run. No effect if it is awake.
    ///
    /// # Errors
    ///
    /// A stale handle, a party without a context.
    pub fn wake(&mut self, party: PartyId, now: u64) -> Result<u64, Refused> {
        let index = self.held(party)?;
        self.rouse(index, now);
        Ok(self.contexts.at(index).supply.ready_at())
    }

    /// The worker begins to run the party.
    ///
    /// # Errors
    ///
    /// A stale handle, a party without a context or asleep, a busy worker, a halted or a
    /// depleted context. The last raises a [timeout](EventKind::Timeout), once per refill.
    #[inline]
    pub fn start(&mut self, party: PartyId, now: u64) -> Result<Grant, Refused> {
        let index = self.held(party)?;
        if !self.running.is_none() {
            return Err(Refused::WorkerBusy);
        }
        let record = self.contexts.at(index);
        if record.state != State::Ready {
            return Err(Refused::Asleep);
        }
        if record.halted {
            return Err(Refused::Halted);
        }
        if !record.supply.is_ready(now) {
            let until = record.supply.ready_at();
            self.time_out(index, now);
            return Err(Refused::Depleted { until });
        }
        let deadline = record.supply.deadline(&record.params);
        if now > deadline {
            self.miss(index, deadline, now);
        }
        let record = self.contexts.at_mut(index);
        record.supply.begin(&record.params, now);
        record.state = State::Running;
        (self.running, self.since, self.overrun) = (Link::to(index), now, 0);
        let record = self.contexts.at(index);
        Ok(Grant {
            context: self.contexts.key(index),
            limit: record.supply.piece(),
            deadline: record.supply.deadline(&record.params),
        })
    }

    /// Charges the use until `now` to the running context, which keeps running.
    ///
    /// # Errors
    ///
    /// Nothing runs.
    #[inline]
    pub fn charge(&mut self, now: u64) -> Result<Charge, Refused> {
        let index = self.running.get().ok_or(Refused::NotRunning)?;
        let charge = self.settle(index, now, Stop::Preempted);
        (self.since, self.overrun) = (now.max(self.since), charge.overrun);
        Ok(charge)
    }

    /// Charges, and the worker is free for another.
    ///
    /// # Errors
    ///
    /// Nothing runs.
    #[inline]
    pub fn stop(&mut self, now: u64, why: Stop) -> Result<Charge, Refused> {
        let index = self.running.get().ok_or(Refused::NotRunning)?;
        let charge = self.settle(index, now, why);
        self.running = Link::NONE;
        self.contexts.at_mut(index).state = match why {
            Stop::Blocked => State::Asleep,
            Stop::Preempted | Stop::Yielded => State::Ready,
        };
        Ok(charge)
    }

    /// Prevents the holder from starting on the context until it is resumed. A running holder
    /// continues to its next yield check.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn halt(&mut self, context: ContextId) -> Result<(), Refused> {
        self.contexts.get_mut(context).ok_or(Refused::StaleContext)?.halted = true;
        Ok(())
    }

    /// Resumes a context that was halted explicitly or by an overrun.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn resume(&mut self, context: ContextId) -> Result<(), Refused> {
        self.contexts.get_mut(context).ok_or(Refused::StaleContext)?.halted = false;
        Ok(())
    }

    /// The context that the party can be charged to.
    #[inline]
    pub(super) fn held(&self, party: PartyId) -> Result<u32, Refused> {
        let party = self.parties.get(party).ok_or(Refused::StaleParty)?;
        match party.holds.get() {
            Some(context) => Ok(context),
            None if party.waits => Err(Refused::Waits),
            None => Err(Refused::NoContext),
        }
    }

    #[inline]
    pub(super) fn rouse(&mut self, index: u32, now: u64) {
        let record = self.contexts.at_mut(index);
        if record.state == State::Asleep {
            record.supply.wake(&record.params, now);
            record.state = State::Ready;
        }
    }

    /// If the context runs, charges it and frees the worker. Returns the party that ran.
    pub(super) fn interrupt(&mut self, index: u32, now: u64) -> Option<PartyId> {
        if self.running != Link::to(index) {
            return None;
        }
        self.stop(now, Stop::Preempted).ok().map(|charge| charge.party)
    }

    /// The one place where time is charged, and it is charged to one context.
    #[inline]
    fn settle(&mut self, index: u32, now: u64, why: Stop) -> Charge {
        let record = self.contexts.at_mut(index);
        let params = &record.params;
        let elapsed = now.saturating_sub(self.since);
        let gap = elapsed > self.clock_gap;
        let used = if gap { elapsed.min(params.budget) } else { elapsed };
        record.usage.gaps += u64::from(gap);
        let piece = record.supply.piece();
        let was_ready = record.supply.is_ready(self.since);
        let over = match gap || (was_ready && used <= piece) {
            true => 0,
            false => used.saturating_sub(record.supply.lasts(self.since)),
        };
        let overrun = self.overrun.saturating_add(over);
        let deadline = record.supply.deadline(params);
        let piece_end = now - used.saturating_sub(piece).min(now);
        record.supply.charge(params, used, self.min_slice);
        record.usage.total = record.usage.total.saturating_add(used);
        record.unread = record.unread.saturating_add(used);
        let empty = !record.supply.is_ready(now);
        if why == Stop::Yielded && !empty {
            record.supply.forfeit(params, now);
        }
        let ready = record.supply.is_ready(now);
        let charge = Charge {
            party: self.parties.key(record.holder.get().expect("someone runs")),
            left: record.supply.lasts(now),
            depleted: (!ready).then(|| record.supply.ready_at()),
            context: self.contexts.key(index),
            used,
            overrun,
        };
        if piece_end > deadline {
            self.miss(index, deadline, piece_end);
        }
        if empty && was_ready {
            self.deplete(index, now);
        }
        if over > 0 {
            self.exceed(index, overrun, now);
        }
        if empty && why == Stop::Preempted {
            self.time_out(index, now);
        }
        charge
    }

    /// The budget is used up.
    #[cold]
    fn deplete(&mut self, index: u32, now: u64) {
        let usage = &mut self.contexts.at_mut(index).usage;
        usage.depletions += 1;
        let total = usage.total;
        self.tell(index, EventKind::Depleted, now, total);
    }

    /// More was used than there was: `overrun` since the start.
    #[cold]
    fn exceed(&mut self, index: u32, overrun: u64, now: u64) {
        let first = self.overrun == 0;
        let record = self.contexts.at_mut(index);
        record.usage.overruns += u64::from(first);
        record.usage.worst_overrun = record.usage.worst_overrun.max(overrun);
        if let Overrun::Halt { tolerance } = record.params.overrun {
            record.halted |= overrun > tolerance;
        }
        self.tell(index, EventKind::Overrun, now, overrun);
    }

    /// Budget with this deadline was not used by it.
    #[cold]
    fn miss(&mut self, index: u32, deadline: u64, now: u64) {
        let record = self.contexts.at_mut(index);
        if record.missed != deadline {
            record.missed = deadline;
            record.usage.missed += 1;
        }
        self.tell(index, EventKind::Missed, now, now - deadline);
    }

    /// A party is runnable and its context is depleted.
    #[cold]
    fn time_out(&mut self, index: u32, now: u64) {
        let record = self.contexts.at_mut(index);
        let refill = record.supply.ready_at();
        if record.timed_out != refill {
            record.timed_out = refill;
            let amount = record.unread;
            self.tell(index, EventKind::Timeout, now, amount);
        }
    }
}

/// Events.
impl<C: Memory<ContextSlot>, P: Memory<PartySlot>> Contexts<C, P> {
    /// The next event, if any waits.
    pub fn take_event(&mut self) -> Option<Event> {
        let index = self.events.first?;
        let context = self.contexts.key(index);
        let (kind, pending) = self.contexts.at_mut(index).events.take()?;
        self.unlist(index);
        if !self.contexts.at(index).events.is_empty() {
            self.enlist(index);
        }
        let Pending { holder, endpoint, at, amount, count } = pending;
        Some(Event { context, kind, holder, endpoint, at, amount, count })
    }

    /// Stores an event in the context, if its policy asks for it.
    fn tell(&mut self, index: u32, kind: EventKind, at: u64, amount: u64) {
        let record = self.contexts.at_mut(index);
        let holder = record.holder.get();
        let own = holder.and_then(|holder| self.parties.at(holder).timeout);
        let endpoint = own.or(record.params.timeout);
        let wanted = match kind {
            EventKind::Timeout => endpoint.is_some(),
            _ => record.params.overrun != Overrun::Throttle,
        };
        if wanted {
            let holder = holder.map(|holder| self.parties.key(holder));
            let listed = !record.events.is_empty();
            record.events.put(kind, Pending { holder, endpoint, at, amount, count: 1 });
            if !listed {
                self.enlist(index);
            }
        }
    }

    /// Puts the context at the end of the list of those with events.
    pub(super) fn enlist(&mut self, index: u32) {
        let before = self.events.last.replace(index);
        match before {
            Some(last) => self.contexts.at_mut(last).events.after = Some(index),
            None => self.events.first = Some(index),
        }
        let places = &mut self.contexts.at_mut(index).events;
        (places.before, places.after) = (before, None);
    }

    /// Takes the context out of that list, if it is in it.
    pub(super) fn unlist(&mut self, index: u32) {
        let places = &mut self.contexts.at_mut(index).events;
        let (before, after) = (places.before.take(), places.after.take());
        match before {
            Some(before) => self.contexts.at_mut(before).events.after = after,
            None if self.events.first == Some(index) => self.events.first = after,
            None => return,
        }
        match after {
            Some(after) => self.contexts.at_mut(after).events.before = before,
            None => self.events.last = before,
        }
    }
}
