//! Records in the caller's memory, found by generational handles.
//!
//! A [`Key`] is an index and a generation. A slot's generation grows when its record is removed, so
//! a key that outlives its record finds nothing, even after the slot is reused. A slot whose
//! generations are used up is retired: one slot is lost after 2³¹ records, and no key is ever
//! mistaken for another.
//!
//! Nothing here allocates. The memory is any slice of [`Slot`]s: an array, a boxed slice, a
//! borrowed one. Free slots form a linked list, so inserting and removing take constant time.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::num::NonZero;

/// Memory for records of type `T`: an array, a boxed slice, a `&mut` slice.
pub trait Memory<T>: AsRef<[T]> + AsMut<[T]> {}

impl<T, M: AsRef<[T]> + AsMut<[T]>> Memory<T> for M {}

/// A handle: a slot and a generation of that slot.
///
/// One word, written and read as a whole: handles are stored and loaded again within a few
/// instructions, and a processor cannot forward two halves to one load.
pub struct Key<T> {
    /// A one, the generation in 31 bits, the index in 32.
    word: NonZero<u64>,
    of: PhantomData<fn() -> T>,
}

/// The bit that makes every key differ from 0.
const MARK: NonZero<u64> = NonZero::new(1 << 63).unwrap();
const LAST_GENERATION: u32 = u32::MAX >> 1;

impl<T> Key<T> {
    #[inline(always)]
    fn new(index: u32, generation: u32) -> Key<T> {
        Key { word: MARK | (u64::from(generation) << 32 | u64::from(index)), of: PhantomData }
    }

    /// The index of the slot. Two live keys of one table never share it, so it can index the
    /// caller's own tables.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.word.get() as u32
    }

    /// The number of the record in that slot, counted from 0.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        (self.word.get() >> 32) as u32 & LAST_GENERATION
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Key<T>) -> bool {
        self.word == other.word
    }
}

impl<T> Eq for Key<T> {}

impl<T> Hash for Key<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word.hash(state);
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index(), self.generation())
    }
}

/// A link between records of one table: an index or none, in one word for the reason that
/// [`Key`] is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    /// No target. No slot has this index.
    pub(crate) const NONE: Link = Link(u32::MAX);

    #[inline(always)]
    pub(crate) const fn to(index: u32) -> Link {
        Link(index)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> Option<u32> {
        (self != Link::NONE).then_some(self.0)
    }

    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self == Link::NONE
    }

    /// Takes the link, leaving none.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Link {
        core::mem::replace(self, Link::NONE)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Memory for one record.
#[derive(Debug)]
pub struct Slot<T> {
    generation: u32,
    /// The next free slot, while this one is free.
    next: Link,
    record: Option<T>,
}

impl<T> Slot<T> {
    /// An empty slot: `[Slot::EMPTY; 8]` is memory for eight records.
    pub const EMPTY: Slot<T> = Slot { generation: 0, next: Link::NONE, record: None };
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot::EMPTY
    }
}

/// The records, their memory and the list of free slots.
#[derive(Debug)]
pub(crate) struct Slab<T, M> {
    memory: M,
    free: Link,
    vacant: usize,
    of: PhantomData<T>,
}

impl<T, M: Memory<Slot<T>>> Slab<T, M> {
    /// A slab without records. Records that were in the memory are dropped, and keys to them
    /// stay stale. Slots beyond 2³² − 1 are not used.
    pub(crate) fn new(memory: M) -> Slab<T, M> {
        let mut slab = Slab { memory, free: Link::NONE, vacant: 0, of: PhantomData };
        for index in (0..u32::try_from(slab.slots().len()).unwrap_or(u32::MAX)).rev() {
            if slab.slot(index).record.take().is_some() {
                slab.retire_or_free(index);
            } else {
                slab.push_free(index);
            }
        }
        slab
    }

    /// How many records can still be inserted.
    pub(crate) fn vacant(&self) -> usize {
        self.vacant
    }

    /// Puts `record` into a free slot; `None` if there is none.
    pub(crate) fn insert(&mut self, record: T) -> Option<Key<T>> {
        let index = self.free.get()?;
        let slot = self.slot(index);
        slot.record = Some(record);
        let key = Key::new(index, slot.generation);
        self.free = slot.next.take();
        self.vacant -= 1;
        Some(key)
    }

    /// Removes the record; all keys to it become stale.
    pub(crate) fn remove(&mut self, key: Key<T>) -> Option<T> {
        self.get(key)?;
        let record = self.slot(key.index()).record.take();
        self.retire_or_free(key.index());
        record
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        let slot = self.slots().get(key.index() as usize)?;
        if slot.generation == key.generation() { slot.record.as_ref() } else { None }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        let slot = self.memory.as_mut().get_mut(key.index() as usize)?;
        if slot.generation == key.generation() { slot.record.as_mut() } else { None }
    }

    /// The record in a slot that is known to be filled: records link each other by index, and a
    /// record is unlinked before it is removed.
    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &T {
        self.slots()[index as usize].record.as_ref().expect("links lead to live records")
    }

    /// As [`at`](Slab::at).
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        self.slot(index).record.as_mut().expect("links lead to live records")
    }

    /// The key of the record in a filled slot.
    #[inline(always)]
    pub(crate) fn key(&self, index: u32) -> Key<T> {
        Key::new(index, self.slots()[index as usize].generation)
    }

    /// All records, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key<T>, &T)> + Clone {
        self.slots().iter().zip(0_u32..).filter_map(|(slot, index)| {
            slot.record.as_ref().map(|record| (Key::new(index, slot.generation), record))
        })
    }

    #[inline(always)]
    fn slots(&self) -> &[Slot<T>] {
        self.memory.as_ref()
    }

    #[inline(always)]
    fn slot(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.memory.as_mut()[index as usize]
    }

    fn retire_or_free(&mut self, index: u32) {
        let slot = self.slot(index);
        if slot.generation < LAST_GENERATION {
            slot.generation += 1;
            self.push_free(index);
        }
    }

    fn push_free(&mut self, index: u32) {
        let next = core::mem::replace(&mut self.free, Link::to(index));
        self.slot(index).next = next;
        self.vacant += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_stale_with_its_record() {
        let mut slab = Slab::new([const { Slot::EMPTY }; 2]);
        let first = slab.insert('a').unwrap();
        let second = slab.insert('b').unwrap();
        assert_eq!(slab.insert('c'), None, "full");
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert('c').unwrap();
        assert_eq!(third.index(), first.index(), "the slot is used again");
        assert_eq!((slab.get(first), slab.get(third)), (None, Some(&'c')));
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.vacant(), 0);
    }

    #[test]
    fn a_slot_without_generations_left_is_never_filled_again() {
        let mut slots = [const { Slot::EMPTY }; 1];
        slots[0].generation = LAST_GENERATION;
        let mut slab = Slab::new(slots);
        let last = slab.insert(1).unwrap();
        assert_eq!(slab.remove(last), Some(1));
        assert_eq!((slab.vacant(), slab.insert(2)), (0, None));
        assert_eq!(slab.get(last), None);
    }

    #[test]
    fn memory_that_is_used_again_does_not_revive_old_keys() {
        let mut slots = [const { Slot::EMPTY }; 2];
        let old = Slab::new(&mut slots).insert('x').unwrap();
        let mut slab = Slab::new(&mut slots);
        assert_eq!((slab.get(old), slab.vacant()), (None, 2));
        let new = slab.insert('y').unwrap();
        assert_ne!(old, new);
    }
}
