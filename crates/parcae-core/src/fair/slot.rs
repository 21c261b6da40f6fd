//! The memory of a queue: slots for entities, slots for groups, and the handles to them.

use super::average::Average;
use super::node::{Key, Pool};
use super::ready::Ready;
use super::scale::{SHIFT, Weight};

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// The root group's index. It always exists.
pub(super) const ROOT: usize = 0;

/// Memory that a caller gives: an array, a mutable slice, a boxed slice, a vector.
pub trait Memory<T>: AsRef<[T]> + AsMut<[T]> {}

impl<T, M: AsRef<[T]> + AsMut<[T]>> Memory<T> for M {}

/// Names an entity of one queue. After the entity left or was removed, the name is stale
/// and every operation refuses it, even if the slot has a new tenant (until a slot has had
/// 2³² of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl EntityId {
    /// The index of its slot: below the length of the memory, and unique while the entity lives.
    /// For the caller's own tables.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Names a group of one queue, as [`EntityId`] does an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl GroupId {
    /// The group that every queue has, and that all others are in.
    pub const ROOT: GroupId = GroupId { index: ROOT as u32, generation: 0 };
}

/// The state of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not runnable. Its lag waits for it.
    Asleep,
    /// Not runnable, but in debt, and therefore still counted until the others have had
    /// their due or it wakes up.
    Lingering,
    /// Runnable, in the queue.
    Queued,
    /// On the processor. A group runs when a member does.
    Running,
}

/// The state of a slot: the four public states, and two internal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Unused.
    Free,
    Asleep,
    Lingering,
    /// Removed by its owner while in debt: lingers without an owner, then is free.
    Parting,
    Queued,
    Running,
}

/// Memory for one entity.
///
/// Which fields mean something depends on the phase: `v` and `deadline` while it is counted
/// (lingering, parting, queued, running), `lag` while it is asleep, `next` while it is free.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Virtual time: its service over its weight, from a common origin.
    pub(super) v: u64,
    /// When its request should be served, in virtual time.
    pub(super) deadline: u64,
    pub(super) weight: Weight,
    /// The remainder of the last conversion to virtual time.
    pub(super) remainder: u32,
    /// Its lag while it is away, in real units · 2²⁰.
    pub(super) lag: i64,
    /// The length of its requests.
    pub(super) slice: u64,
    /// The group that it is a member of.
    pub(super) group: u32,
    /// The group that it stands for, or [`NIL`].
    pub(super) owns: u32,
    pub(super) generation: u32,
    /// The next free slot.
    pub(super) next: u32,
    pub(super) phase: Phase,
}

impl Slot {
    /// An unused slot.
    pub const EMPTY: Slot = Slot {
        v: 0,
        deadline: 0,
        weight: Weight::NORMAL,
        remainder: 0,
        lag: 0,
        slice: 0,
        group: 0,
        owns: NIL,
        generation: 0,
        next: NIL,
        phase: Phase::Free,
    };

    /// Its key among the waiting entities, if it is the slot `e`.
    #[inline]
    pub(super) fn key(&self, e: u32) -> Key {
        (self.deadline, e)
    }

    /// Whether it is part of V.
    pub(super) fn is_counted(&self) -> bool {
        !matches!(self.phase, Phase::Free | Phase::Asleep)
    }

    /// Charges its use; returns the distance in virtual time.
    #[inline]
    pub(super) fn advance(&mut self, used: u64) -> u64 {
        let (by, remainder) = self.weight.stretch(used, self.remainder);
        self.v = self.v.wrapping_add(by);
        self.remainder = remainder;
        by
    }

    /// Whether its request has been served.
    #[inline]
    pub(super) fn is_served(&self) -> bool {
        self.v.wrapping_sub(self.deadline).cast_signed() >= 0
    }

    /// How much real time is left of its request, rounded up.
    pub(super) fn rest(&self) -> u64 {
        let left = self.deadline.wrapping_sub(self.v).cast_signed();
        let left = u128::from(left.max(0).cast_unsigned()) * u128::from(self.weight.get());
        left.div_ceil(1 << SHIFT) as u64
    }

    /// Makes its next request, from where it is.
    #[inline]
    pub(super) fn request(&mut self) {
        self.deadline = self.v.wrapping_add(self.weight.reach(self.slice));
    }
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::EMPTY
    }
}

/// Memory for one group: its members' average, and those of them that wait.
#[derive(Debug, Clone)]
pub struct GroupSlot {
    /// V of the members that are counted.
    pub(super) average: Average,
    /// The counted members, by deadline.
    pub(super) ready: Ready,
    /// The entity that stands for it in its parent; [`NIL`] for the root and for free slots.
    pub(super) entity: u32,
    /// The member that ran last, while its request is not served: it may go on.
    pub(super) last: u32,
    /// Members that are queued or running: without them the group itself is asleep.
    pub(super) runnable: u32,
    /// Members with a live handle.
    pub(super) members: u32,
    pub(super) generation: u32,
    /// The next free slot.
    pub(super) next: u32,
    /// Distance from the root.
    pub(super) depth: u32,
}

impl GroupSlot {
    /// An unused slot.
    pub const EMPTY: GroupSlot = GroupSlot {
        average: Average::starting_at(0),
        ready: Ready::EMPTY,
        entity: NIL,
        last: NIL,
        runnable: 0,
        members: 0,
        generation: 0,
        next: NIL,
        depth: 0,
    };

    /// Counts and queues the entity of `slot`, which was away, with its lag and a new
    /// request.
    pub(super) fn place(&mut self, pool: &mut Pool<'_>, e: u32, slot: &mut Slot) {
        slot.v = self.average.place(slot.lag, slot.weight);
        slot.remainder = 0;
        slot.request();
        self.average.add(slot.v, slot.weight);
        self.ready.insert(pool, slot.key(e), slot.v);
    }

    /// Counts the entity of `slot` no more, which is out of `ready`. Its lag is kept, at most
    /// `credit`.
    pub(super) fn withdraw(&mut self, slot: &mut Slot, credit: i64) {
        slot.lag = self.average.lag(slot.v, slot.weight).min(credit);
        self.average.remove(slot.v, slot.weight);
    }

    /// Gives the entity of `slot`, which is counted and out of `ready`, another weight. Its lag
    /// stays, and therefore V; the rest of the request stays too, in real time.
    pub(super) fn reweigh(&mut self, slot: &mut Slot, to: Weight) {
        let left = i128::from(slot.deadline.wrapping_sub(slot.v).cast_signed());
        let lag = self.average.lag(slot.v, slot.weight);
        // Removed before it is placed: placing an entity that is still counted would count it
        // twice, and it could stay eligible forever.
        self.average.remove(slot.v, slot.weight);
        slot.v = self.average.place(lag, to);
        let left = left * i128::from(slot.weight.get()) / i128::from(to.get());
        slot.deadline = slot.v.wrapping_add(left as u64);
        slot.weight = to;
        slot.remainder = 0;
        self.average.add(slot.v, to);
    }
}

impl Default for GroupSlot {
    fn default() -> GroupSlot {
        GroupSlot::EMPTY
    }
}
