//! Membership of the queue: adding, removing, waking, sleeping, moving, reweighting.
//!
//! Every operation first looks up its handles and checks its arguments, and only then changes
//! anything; the changes cannot fail. `run` picks the entity to run.

use super::error::FairError;
use super::node::{Node, Pool};
use super::scale::{Latency, Limits, Params, SHIFT, Weight};
use super::slot::{EntityId, GroupId, GroupSlot, Memory, NIL, Phase, ROOT, Slot, State};

/// How deep groups nest: enough for nursery in tenant in profile, and a bound for the path
/// that each charge takes.
pub const MAX_DEPTH: u32 = 8;

/// The most slots of a kind.
const MAX_SLOTS: usize = 1 << 24;

/// A weighted fair queue, EEVDF, in memory that the caller gives.
///
/// Time is charged as it is used, in any unit. One entity runs at a time: [`pick`] chooses it,
/// [`charge`] charges its use, and `pick` again, [`sleep`] or [`yield_now`] end its turn.
///
/// ```
/// use parcae_core::fair::{FairQueue, GroupId, Limits, Params, Slot, Weight};
///
/// let mut queue = FairQueue::new([Slot::EMPTY; 8], [], Limits::OPS)?;
/// let one = queue.add(GroupId::ROOT, Params::default())?;
/// let two = queue.add(GroupId::ROOT, Params::weight(Weight::new(2048).unwrap()))?;
/// queue.wake(one)?;
/// queue.wake(two)?;
///
/// let mut had = [0; 8];
/// for _ in 0..3_000 {
///     let id = queue.pick().expect("both are runnable");
///     queue.charge(id, 1_000)?;
///     had[id.index()] += 1_000;
/// }
/// assert_eq!((had[one.index()], had[two.index()]), (1_000_000, 2_000_000));
/// # Ok::<(), parcae_core::fair::FairError>(())
/// ```
///
/// [`pick`]: FairQueue::pick
/// [`charge`]: FairQueue::charge
/// [`sleep`]: FairQueue::sleep
/// [`yield_now`]: FairQueue::yield_now
#[derive(Debug)]
pub struct FairQueue<E, N, G = [GroupSlot; 1]> {
    pub(super) slots: E,
    pub(super) nodes: N,
    pub(super) groups: G,
    pub(super) limits: Limits,
    /// The first free slot of each kind.
    free: u32,
    pub(super) free_node: u32,
    free_group: u32,
    /// The running entity, and its use since it was picked.
    pub(super) current: u32,
    pub(super) ran: u64,
    pub(super) longest_run: u64,
    pub(super) forgiven: u64,
}

/// An entity on its way from one queue to another. It cannot be copied, so its lag arrives once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the entity is in no queue until another one accepts this"]
pub struct Departure {
    params: Params,
    lag: i64,
    /// The rest of its request, in real units · 2²⁰, if it was queued.
    left: Option<i128>,
}

impl Departure {
    /// Its lag, in units of time; debts are negative.
    pub const fn lag(&self) -> i64 {
        self.lag >> SHIFT
    }
}

/// The state of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Whether it sleeps, waits or runs.
    pub state: State,
    /// Its share.
    pub weight: Weight,
    /// The length of its requests.
    pub slice: u64,
    /// Its lag, in units of time, rounded down; debts are negative.
    pub lag: i64,
    /// From which virtual time on it may be picked; meaningless while it is asleep.
    pub eligible_at: u64,
    /// When its request is due in virtual time; meaningless while it is asleep.
    pub deadline: u64,
}

/// The result of a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the running entity should stop if the woken one preempts it"]
pub enum Woken {
    /// It is queued.
    Queued,
    /// It is queued, asks for shorter slices than the one that runs, and is due earlier:
    /// it is time to [`pick`](FairQueue::pick).
    Preempts,
}

impl<E: Memory<Slot>, N: Memory<Node>> FairQueue<E, N> {
    /// An empty queue with no groups but the root. [`Node::needed`] says how many nodes
    /// go with the slots.
    ///
    /// # Errors
    ///
    /// [`FairError::Limits`], [`FairError::Memory`].
    pub fn new(slots: E, nodes: N, limits: Limits) -> Result<FairQueue<E, N>, FairError> {
        FairQueue::with_groups(slots, nodes, [GroupSlot::EMPTY], limits)
    }
}

impl<E: Memory<Slot>, N: Memory<Node>, G: Memory<GroupSlot>> FairQueue<E, N, G> {
    /// An empty queue with memory for groups. One is taken by the root, and each of the
    /// others needs an entity slot too.
    ///
    /// # Errors
    ///
    /// [`FairError::Limits`], [`FairError::Memory`].
    pub fn with_groups(
        mut slots: E,
        mut nodes: N,
        mut groups: G,
        limits: Limits,
    ) -> Result<FairQueue<E, N, G>, FairError> {
        if !limits.hold() {
            return Err(FairError::Limits(limits));
        }
        let sizes = 1..=MAX_SLOTS;
        let entities = slots.as_ref().len();
        let needed = Node::needed(entities);
        if !sizes.contains(&entities)
            || !sizes.contains(&groups.as_ref().len())
            || nodes.as_ref().len() < needed
        {
            return Err(FairError::Memory { needed });
        }
        // Handles of earlier contents of the memory become stale.
        let mut next = NIL;
        for (e, slot) in slots.as_mut().iter_mut().enumerate().rev() {
            let generation = slot.generation.wrapping_add(1);
            *slot = Slot { generation, next, ..Slot::EMPTY };
            next = e as u32;
        }
        let free = next;
        next = NIL;
        for (g, group) in groups.as_mut().iter_mut().enumerate().rev() {
            let generation = group.generation.wrapping_add(u32::from(g != ROOT));
            *group = GroupSlot { generation, next, ..GroupSlot::EMPTY };
            next = g as u32;
        }
        let free_group = groups.as_ref()[ROOT].next;
        let free_node = Pool::clear(nodes.as_mut());
        Ok(FairQueue {
            slots,
            nodes,
            groups,
            limits,
            free,
            free_node,
            free_group,
            current: NIL,
            ran: 0,
            longest_run: 0,
            forgiven: 0,
        })
    }

    /// Adds an entity to a group, asleep and with no lag.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::Full`], [`FairError::Slice`].
    pub fn add(&mut self, group: GroupId, params: Params) -> Result<EntityId, FairError> {
        let group = self.group(group)?;
        let slice = self.slice(params.latency)?;
        if self.free == NIL {
            return Err(FairError::Full);
        }
        Ok(self.admit(group, params.weight, slice))
    }

    /// Adds a group to a group. It competes there as one entity of this weight, whatever the number
    /// of its members, which share its service.
    ///
    /// ```
    /// use parcae_core::fair::{FairQueue, GroupId, GroupSlot, Limits, Params, Slot};
    ///
    /// let groups = [GroupSlot::EMPTY; 3];
    /// let mut queue = FairQueue::with_groups([Slot::EMPTY; 16], [], groups, Limits::OPS)?;
    /// let tenant = queue.add_group(GroupId::ROOT, Params::default())?;
    /// let other = queue.add_group(GroupId::ROOT, Params::default())?;
    /// let crowd = [(); 9].map(|()| queue.add(tenant, Params::default()).unwrap());
    /// let alone = queue.add(other, Params::default())?;
    /// for id in crowd.into_iter().chain([alone]) {
    ///     let _ = queue.wake(id)?;
    /// }
    /// let mut share = 0;
    /// for _ in 0..1_000 {
    ///     let id = queue.pick().unwrap();
    ///     queue.charge(id, 4_096)?;
    ///     share += u32::from(id == alone);
    /// }
    /// assert_eq!(share, 500); // half, though the other tenant has nine times the members
    /// # Ok::<(), parcae_core::fair::FairError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::Full`], [`FairError::GroupsFull`],
    /// [`FairError::TooDeep`], [`FairError::Slice`].
    pub fn add_group(&mut self, parent: GroupId, params: Params) -> Result<GroupId, FairError> {
        let parent = self.group(parent)?;
        let slice = self.slice(params.latency)?;
        let depth = self.groups.as_ref()[parent].depth + 1;
        if depth > MAX_DEPTH {
            return Err(FairError::TooDeep);
        }
        if self.free == NIL {
            return Err(FairError::Full);
        }
        if self.free_group == NIL {
            return Err(FairError::GroupsFull);
        }
        let entity = self.admit(parent, params.weight, slice);
        let index = self.free_group;
        let group = &mut self.groups.as_mut()[index as usize];
        self.free_group = group.next;
        let generation = group.generation;
        *group =
            GroupSlot { generation, entity: entity.index, depth, next: NIL, ..GroupSlot::EMPTY };
        self.slots.as_mut()[entity.index()].owns = index;
        Ok(GroupId { index, generation })
    }

    /// The entity that stands for a group in its parent: to look at it, weigh it, or give
    /// it other slices.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`]; [`FairError::InUse`] for the root, which has no entity.
    pub fn entity_of(&self, group: GroupId) -> Result<EntityId, FairError> {
        let group = self.group(group)?;
        let index = self.groups.as_ref()[group].entity;
        let slot = self.slots.as_ref().get(index as usize).ok_or(FairError::InUse)?;
        Ok(EntityId { index, generation: slot.generation })
    }

    /// Removes an entity in any state. The handle becomes stale.
    ///
    /// In debt it lingers without an owner, so that leaving and rejoining as a new entity is no
    /// better than sleeping; its slot is free when the others have caught up.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::IsGroup`].
    pub fn remove(&mut self, id: EntityId) -> Result<(), FairError> {
        let e = self.single(id)?;
        match self.slots.as_ref()[e].phase {
            Phase::Queued | Phase::Running => self.retire(e, Phase::Parting),
            Phase::Lingering => self.slots.as_mut()[e].phase = Phase::Parting,
            _ => {}
        }
        let slot = &mut self.slots.as_mut()[e];
        slot.generation = slot.generation.wrapping_add(1);
        let group = slot.group as usize;
        if slot.phase == Phase::Asleep {
            self.release(e);
        }
        self.groups.as_mut()[group].members -= 1;
        Ok(())
    }

    /// Removes a group that has no members.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`]; [`FairError::InUse`] if it has members, or is the root.
    pub fn remove_group(&mut self, id: GroupId) -> Result<(), FairError> {
        let g = self.group(id)?;
        if self.groups.as_ref()[g].members > 0 || g == ROOT {
            return Err(FairError::InUse);
        }
        // Debtors that were removed are forgiven with the group that they owed.
        loop {
            let (slots, groups, mut pool) = self.parts();
            let ready = &mut groups[g].ready;
            let Some(e) = ready.first(&pool, |_| true) else { break };
            ready.remove(&mut pool, slots[e as usize].key(e));
            self.release(e as usize);
        }
        let (slots, groups) = (self.slots.as_mut(), self.groups.as_mut());
        let group = &mut groups[g];
        let e = group.entity as usize;
        let parent = slots[e].group as usize;
        group.entity = NIL;
        group.generation = group.generation.wrapping_add(1);
        group.next = self.free_group;
        self.free_group = g as u32;
        // No member is runnable, so its entity is asleep or lingers.
        let slot = &mut slots[e];
        slot.owns = NIL;
        slot.generation = slot.generation.wrapping_add(1);
        groups[parent].members -= 1;
        match slot.phase {
            Phase::Asleep => self.release(e),
            _ => slot.phase = Phase::Parting,
        }
        Ok(())
    }

    /// Forgives the debts of entities that were removed, and frees their slots. For a queue that is
    /// [full](FairError::Full): otherwise a slot is free when its debt is paid.
    pub fn forgive_removed(&mut self) {
        for e in 0..self.slots.as_ref().len() {
            let (slots, groups, mut pool) = self.parts();
            let slot = &mut slots[e];
            if slot.phase == Phase::Parting {
                let group = &mut groups[slot.group as usize];
                group.ready.remove(&mut pool, slot.key(e as u32));
                group.withdraw(slot, 0);
                self.release(e);
            }
        }
    }

    /// Makes an entity runnable. It comes back with the lag that it left with.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::IsGroup`], [`FairError::Awake`].
    pub fn wake(&mut self, id: EntityId) -> Result<Woken, FairError> {
        let e = self.single(id)?;
        if matches!(self.slots.as_ref()[e].phase, Phase::Queued | Phase::Running) {
            return Err(FairError::Awake);
        }
        self.rise(e);
        Ok(self.contest(e))
    }

    /// Makes an entity not runnable: the one that runs, or one that waits.
    ///
    /// With credit it leaves and finds it again when it wakes, up to the longest slice. In
    /// debt it stays counted, cannot run, and is quit of the debt once the others have
    /// caught up; a nap just before the end of each slice gains nothing.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::IsGroup`], [`FairError::Asleep`].
    pub fn sleep(&mut self, id: EntityId) -> Result<(), FairError> {
        let e = self.single(id)?;
        if matches!(self.slots.as_ref()[e].phase, Phase::Asleep | Phase::Lingering) {
            return Err(FairError::Asleep);
        }
        self.retire(e, Phase::Lingering);
        Ok(())
    }

    /// Takes an entity out, to be put into another queue with [`join`](FairQueue::join). Its lag
    /// and the rest of its request move with it. If it runs, its turn ends.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::IsGroup`].
    pub fn leave(&mut self, id: EntityId) -> Result<Departure, FairError> {
        let e = self.single(id)?;
        if self.current == id.index {
            self.put_back();
        }
        let credit = self.credit();
        let (slots, groups, mut pool) = self.parts();
        let slot = &mut slots[e];
        let (phase, group) = (slot.phase, slot.group as usize);
        let left = (phase == Phase::Queued).then(|| {
            let left = slot.deadline.wrapping_sub(slot.v).cast_signed();
            i128::from(left) * i128::from(slot.weight.get())
        });
        if slot.is_counted() {
            groups[group].ready.remove(&mut pool, slot.key(id.index));
            groups[group].withdraw(slot, credit);
            slot.phase = Phase::Asleep;
            if phase == Phase::Queued {
                self.dwindle(group);
            }
        }
        let slot = &mut self.slots.as_mut()[e];
        slot.generation = slot.generation.wrapping_add(1);
        let params = Params { weight: slot.weight, latency: Latency::Slice(slot.slice) };
        let lag = slot.lag;
        self.groups.as_mut()[group].members -= 1;
        self.release(e);
        Ok(Departure { params, lag, left })
    }

    /// Puts an entity into a group of this queue as it left the other one: asleep if it was
    /// not queued there, and due after the same stretch of virtual time if it was.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::Full`], [`FairError::Slice`] if the limits here
    /// are narrower. The departure comes back, for another try.
    pub fn join(
        &mut self,
        group: GroupId,
        from: Departure,
    ) -> Result<(EntityId, Woken), (FairError, Departure)> {
        let id = match self.add(group, from.params) {
            Ok(id) => id,
            Err(error) => return Err((error, from)),
        };
        let e = id.index();
        self.slots.as_mut()[e].lag = from.lag;
        let Some(left) = from.left else { return Ok((id, Woken::Queued)) };
        self.rise(e);
        let (slots, groups, mut pool) = self.parts();
        let slot = &mut slots[e];
        let group = &mut groups[slot.group as usize];
        group.ready.remove(&mut pool, slot.key(id.index));
        let left = left / i128::from(slot.weight.get());
        slot.deadline = slot.v.wrapping_add(left as u64);
        group.ready.insert(&mut pool, slot.key(id.index), slot.v);
        Ok((id, self.contest(e)))
    }

    /// Changes the weight of an entity in any state. Its lag and all other lags stay.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`].
    pub fn reweight(&mut self, id: EntityId, weight: Weight) -> Result<(), FairError> {
        let e = self.live(id)?;
        let (slots, groups, mut pool) = self.parts();
        let slot = &mut slots[e];
        let group = &mut groups[slot.group as usize];
        match slot.phase {
            Phase::Running | Phase::Queued | Phase::Lingering => {
                group.ready.remove(&mut pool, slot.key(id.index));
                group.reweigh(slot, weight);
                group.ready.insert(&mut pool, slot.key(id.index), slot.v);
            }
            _ => slot.weight = weight,
        }
        Ok(())
    }

    /// Gives an entity other slices, from its next request on.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`], [`FairError::Slice`].
    pub fn set_latency(&mut self, id: EntityId, latency: Latency) -> Result<(), FairError> {
        let e = self.live(id)?;
        self.slots.as_mut()[e].slice = self.slice(latency)?;
        Ok(())
    }

    /// The state of an entity.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`].
    pub fn view(&self, id: EntityId) -> Result<View, FairError> {
        let slot = &self.slots.as_ref()[self.live(id)?];
        let average = &self.groups.as_ref()[slot.group as usize].average;
        let lag = if slot.is_counted() { average.lag(slot.v, slot.weight) } else { slot.lag };
        Ok(View {
            state: match slot.phase {
                Phase::Queued => State::Queued,
                Phase::Running => State::Running,
                Phase::Lingering => State::Lingering,
                Phase::Asleep | Phase::Free | Phase::Parting => State::Asleep,
            },
            weight: slot.weight,
            slice: slot.slice,
            lag: lag >> SHIFT,
            eligible_at: slot.v,
            deadline: slot.deadline,
        })
    }

    /// How many members of a group are runnable. A group counts as one, and not at all if it has no
    /// runnable member.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`].
    pub fn runnable(&self, group: GroupId) -> Result<usize, FairError> {
        Ok(self.groups.as_ref()[self.group(group)?].runnable as usize)
    }

    /// Virtual time of a group: the average of its members', rounded down. It wraps around.
    ///
    /// # Errors
    ///
    /// [`FairError::Stale`].
    pub fn virtual_time(&self, group: GroupId) -> Result<u64, FairError> {
        Ok(self.groups.as_ref()[self.group(group)?].average.now())
    }

    /// The limits of the queue.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// All memory at once.
    pub(super) fn parts(&mut self) -> (&mut [Slot], &mut [GroupSlot], Pool<'_>) {
        let pool = Pool { nodes: self.nodes.as_mut(), free: &mut self.free_node };
        (self.slots.as_mut(), self.groups.as_mut(), pool)
    }

    /// The slot of a living entity.
    pub(super) fn live(&self, id: EntityId) -> Result<usize, FairError> {
        match self.slots.as_ref().get(id.index()) {
            Some(slot)
                if slot.generation == id.generation
                    && !matches!(slot.phase, Phase::Free | Phase::Parting) =>
            {
                Ok(id.index())
            }
            _ => Err(FairError::Stale),
        }
    }

    /// The same, unless it stands for a group.
    pub(super) fn single(&self, id: EntityId) -> Result<usize, FairError> {
        let e = self.live(id)?;
        if self.slots.as_ref()[e].owns == NIL { Ok(e) } else { Err(FairError::IsGroup) }
    }

    /// The slot of a living group.
    fn group(&self, id: GroupId) -> Result<usize, FairError> {
        let g = id.index as usize;
        match self.groups.as_ref().get(g) {
            Some(group)
                if group.generation == id.generation && (g == ROOT || group.entity != NIL) =>
            {
                Ok(g)
            }
            _ => Err(FairError::Stale),
        }
    }

    fn slice(&self, latency: Latency) -> Result<u64, FairError> {
        let Limits { min_slice: min, max_slice: max, .. } = self.limits;
        self.limits.slice_for(latency).ok_or(FairError::Slice { min, max })
    }

    /// The most lag that outlasts a sleep.
    pub(super) fn credit(&self) -> i64 {
        (self.limits.max_slice << SHIFT).cast_signed()
    }

    /// Takes a free slot, of which there is one.
    fn admit(&mut self, group: usize, weight: Weight, slice: u64) -> EntityId {
        let index = self.free;
        let slot = &mut self.slots.as_mut()[index as usize];
        self.free = slot.next;
        let generation = slot.generation;
        *slot = Slot {
            generation,
            weight,
            slice,
            group: group as u32,
            phase: Phase::Asleep,
            ..Slot::EMPTY
        };
        self.groups.as_mut()[group].members += 1;
        EntityId { index, generation }
    }

    /// Gives a slot back that is neither counted nor waits.
    pub(super) fn release(&mut self, e: usize) {
        let slot = &mut self.slots.as_mut()[e];
        let group = &mut self.groups.as_mut()[slot.group as usize];
        if group.last == e as u32 {
            group.last = NIL; // the next owner of the slot has not run
        }
        slot.phase = Phase::Free;
        slot.next = self.free;
        self.free = e as u32;
    }

    /// Queues an entity that is asleep or lingers, and the groups around it.
    fn rise(&mut self, e: usize) {
        let (slots, groups, mut pool) = self.parts();
        let mut e = e as u32;
        loop {
            let slot = &mut slots[e as usize];
            let group = &mut groups[slot.group as usize];
            if slot.phase == Phase::Asleep {
                group.place(&mut pool, e, slot);
            } else if group.average.lag(slot.v, slot.weight) > 0 {
                // It has paid more than its debt. The excess is no credit, since it did not wait.
                group.ready.remove(&mut pool, slot.key(e));
                group.withdraw(slot, 0);
                group.place(&mut pool, e, slot);
            }
            slot.phase = Phase::Queued;
            group.runnable += 1;
            if group.runnable > 1 || group.entity == NIL {
                return;
            }
            e = group.entity;
        }
    }

    /// Makes a runnable entity not runnable. `debtor` is what it becomes in debt;
    /// otherwise it is asleep.
    pub(super) fn retire(&mut self, e: usize, debtor: Phase) {
        if self.current == e as u32 {
            self.put_back();
        }
        let group = self.depart(e, debtor);
        self.dwindle(group);
    }

    /// The single step of [`retire`](Self::retire), without its consequences higher up.
    fn depart(&mut self, e: usize, debtor: Phase) -> usize {
        let credit = self.credit();
        let (slots, groups, mut pool) = self.parts();
        let slot = &mut slots[e];
        let g = slot.group as usize;
        let group = &mut groups[g];
        if group.average.eligible(slot.v) {
            group.ready.remove(&mut pool, slot.key(e as u32));
            group.withdraw(slot, credit);
            slot.phase = Phase::Asleep;
        } else {
            slot.phase = debtor;
        }
        g
    }

    /// One runnable member of a group less; if it was the last, the group sleeps too.
    fn dwindle(&mut self, mut g: usize) {
        loop {
            let group = &mut self.groups.as_mut()[g];
            group.runnable -= 1;
            if group.runnable > 0 || group.entity == NIL {
                return;
            }
            let entity = group.entity as usize;
            g = self.depart(entity, Phase::Lingering);
        }
    }
}
