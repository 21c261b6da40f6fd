//! Running: picking, charging, continuing and putting back.

use super::error::FairError;
use super::node::Node;
use super::queue::{FairQueue, Woken};
use super::slot::{EntityId, GroupSlot, Memory, NIL, Phase, ROOT, Slot};

/// The most that one turn is charged, in units of time: use beyond that, without being put back, is
/// forgiven and counted. In nanoseconds it is 18 minutes.
pub const MAX_RUN: u64 = 1 << 40;

/// The result of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an entity whose request is served should give way"]
pub enum Charged {
    /// The request is not used up.
    GoOn,
    /// The request is served, its own or that of a group that it is in: it is time to
    /// [`pick`](FairQueue::pick) again.
    Served,
}

impl<E: Memory<Slot>, N: Memory<Node>, G: Memory<GroupSlot>> FairQueue<E, N, G> {
    /// Picks the entity to run: the eligible one with the earliest deadline; in a group, the same
    /// among its members. The entity that ran before is put back first, and may be picked again.
    ///
    /// Costs O(log n) per level of groups, plus the same for each entity that lingered and
    /// has paid by now, which happens once per sleep.
    pub fn pick(&mut self) -> Option<EntityId> {
        self.put_back();
        let mut g = ROOT;
        loop {
            let (slots, groups, mut pool) = self.parts();
            let group = &mut groups[g];
            let e = group.ready.first(&pool, |v| group.average.eligible(v))? as usize;
            let slot = &mut slots[e];
            match slot.phase {
                Phase::Queued => {
                    slot.phase = Phase::Running;
                    group.last = e as u32;
                    if slot.owns == NIL {
                        (self.current, self.ran) = (e as u32, 0);
                        return self.current();
                    }
                    g = slot.owns as usize; // it has a runnable member, or it would sleep
                }
                debtor => {
                    // Its turn has come, so its debt is paid; and it gains no credit, since it does
                    // not wait.
                    slot.phase = Phase::Asleep;
                    group.ready.remove(&mut pool, slot.key(e as u32));
                    group.withdraw(slot, 0);
                    if debtor == Phase::Parting {
                        self.release(e);
                    }
                }
            }
        }
    }

    /// Picks this entity if it may run now without disadvantage to others: it and every group
    /// around it are queued, and each of these is eligible or was the last to run in its group and
    /// has not used up its request. Otherwise [`pick`](FairQueue::pick)s as usual.
    ///
    /// For handing the processor over directly, for example from a client to its server, and for
    /// letting an entity continue to the end of its request.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::IsGroup`].
    pub fn pick_preferring(&mut self, id: EntityId) -> Result<Option<EntityId>, FairError> {
        let wanted = self.single(id)?;
        self.put_back();
        let (slots, groups) = (self.slots.as_mut(), self.groups.as_mut());
        let mut e = wanted as u32;
        while let Some(slot) = slots.get(e as usize) {
            let group = &groups[slot.group as usize];
            let may = group.last == e || group.average.eligible(slot.v);
            if slot.phase != Phase::Queued || !may {
                return Ok(self.pick());
            }
            e = group.entity;
        }
        e = wanted as u32;
        while let Some(slot) = slots.get_mut(e as usize) {
            slot.phase = Phase::Running;
            let group = &mut groups[slot.group as usize];
            group.last = e;
            e = group.entity;
        }
        (self.current, self.ran) = (id.index, 0);
        Ok(Some(id))
    }

    /// Puts the entity that runs to sleep as if it had not been picked: there was nothing to run
    /// after all. A turn costs a minimum otherwise, and an entity whose work was taken by another
    /// queue would pay for it.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::NotRunning`].
    pub fn miss(&mut self, id: EntityId) -> Result<(), FairError> {
        let e = self.running(id)?;
        if self.ran == 0 {
            self.current = NIL;
            self.step_back(id.index);
        }
        self.retire(e, Phase::Lingering);
        Ok(())
    }

    /// How long the entity that runs may go on: until its request is served, or that of a group
    /// that it is in. 0 if none runs.
    pub fn rest(&self) -> u64 {
        let (slots, groups) = (self.slots.as_ref(), self.groups.as_ref());
        let mut rest = u64::MAX;
        let mut e = self.current;
        while let Some(slot) = slots.get(e as usize) {
            rest = rest.min(slot.rest());
            e = groups[slot.group as usize].entity;
        }
        if rest == u64::MAX { 0 } else { rest }
    }

    /// The entity that runs.
    pub fn current(&self) -> Option<EntityId> {
        let slot = self.slots.as_ref().get(self.current as usize)?;
        Some(EntityId { index: self.current, generation: slot.generation })
    }

    /// Charges the running entity, and every group around it, for its use since it was picked or
    /// last charged.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::NotRunning`].
    pub fn charge(&mut self, id: EntityId, used: u64) -> Result<Charged, FairError> {
        self.running(id)?;
        Ok(self.spend(used))
    }

    /// The running entity yields to all eligible others: it gives up the rest of its request, as if
    /// it had used it, and makes a new one. It stays runnable. To stop without that price,
    /// [`pick`](FairQueue::pick).
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::NotRunning`].
    pub fn yield_now(&mut self, id: EntityId) -> Result<(), FairError> {
        let e = self.running(id)?;
        let (slots, groups) = (self.slots.as_mut(), self.groups.as_mut());
        let slot = &mut slots[e];
        if !slot.is_served() {
            let rest = slot.deadline.wrapping_sub(slot.v);
            slot.v = slot.deadline;
            groups[slot.group as usize].average.advance(slot.v, rest, slot.weight);
        }
        self.put_back();
        Ok(())
    }

    /// The longest turn that was charged so far: the q of the bound on lag.
    pub fn longest_run(&self) -> u64 {
        self.longest_run
    }

    /// How much was not charged because a turn was longer than [`MAX_RUN`].
    pub fn forgiven(&self) -> u64 {
        self.forgiven
    }

    fn running(&self, id: EntityId) -> Result<usize, FairError> {
        let e = self.live(id)?;
        if self.current == id.index { Ok(e) } else { Err(FairError::NotRunning) }
    }

    fn spend(&mut self, used: u64) -> Charged {
        let room = MAX_RUN - self.ran;
        self.forgiven = self.forgiven.saturating_add(used.saturating_sub(room));
        let used = used.min(room);
        self.ran += used;
        let (slots, groups) = (self.slots.as_mut(), self.groups.as_mut());
        let mut found = Charged::GoOn;
        let mut e = self.current;
        while let Some(slot) = slots.get_mut(e as usize) {
            let group = &mut groups[slot.group as usize];
            let by = slot.advance(used);
            group.average.advance(slot.v, by, slot.weight);
            if slot.is_served() {
                found = Charged::Served;
            }
            e = group.entity;
        }
        found
    }

    /// Ends the turn of the entity that runs, as far as charges go: no turn is for nothing.
    pub(super) fn settle(&mut self) {
        if self.ran < self.limits.min_charge {
            let _ = self.spend(self.limits.min_charge - self.ran);
        }
        self.longest_run = self.longest_run.max(self.ran);
    }

    pub(super) fn put_back(&mut self) {
        if self.current != NIL {
            self.settle();
            let e = core::mem::replace(&mut self.current, NIL);
            self.step_back(e);
        }
    }

    /// Puts a running entity and the groups that it is in back into their queues.
    pub(super) fn step_back(&mut self, mut e: u32) {
        let (slots, groups, mut pool) = self.parts();
        while let Some(slot) = slots.get_mut(e as usize) {
            let group = &mut groups[slot.group as usize];
            if slot.is_served() {
                group.ready.remove(&mut pool, slot.key(e));
                slot.request();
                group.ready.insert(&mut pool, slot.key(e), slot.v);
                group.last = NIL;
            } else {
                group.ready.update(&mut pool, slot.key(e), slot.v);
            }
            slot.phase = Phase::Queued;
            e = group.entity;
        }
    }

    /// Whether an entity that was just queued should preempt the running one. Decided in their
    /// innermost common group, by the requests of its members.
    pub(super) fn contest(&self, e: usize) -> Woken {
        let (slots, groups) = (self.slots.as_ref(), self.groups.as_ref());
        let Some(mut runs) = slots.get(self.current as usize) else { return Woken::Queued };
        let mut new = &slots[e];
        let up = |slot: &Slot| slots.get(groups[slot.group as usize].entity as usize);
        while new.group != runs.group {
            let (a, b) = (groups[new.group as usize].depth, groups[runs.group as usize].depth);
            if a >= b {
                let Some(above) = up(new) else { return Woken::Queued };
                new = above;
            }
            if b >= a {
                let Some(above) = up(runs) else { return Woken::Queued };
                runs = above;
            }
        }
        let earlier = new.deadline.wrapping_sub(runs.deadline).cast_signed() < 0;
        let may = groups[new.group as usize].average.eligible(new.v);
        if may && earlier && new.slice < runs.slice { Woken::Preempts } else { Woken::Queued }
    }
}
