//! A list of subscribers, in the order in which they came, from which each can be removed by its
//! key.
//!
//! The values are in the slots of one vector, and the slots are linked: those in use in the order
//! of arrival, the free ones in a list of their own. Adding and removing a value take a constant
//! number of steps, and allocate only when the vector grows. An empty list has no vector, or a
//! small one, so that a nursery inside of a loop does not allocate for its place in the list of its
//! parent.
//!
//! A key is the index of a slot and a number that every arrival counts up, so an old key does not
//! name a newer value in the same slot. The number has 32 bits: that it comes around does no harm,
//! because the holder of a key removes its value at most once and forgets the key with it. The list
//! of a node that is cancelled is taken as a whole and stays empty: its keys lead nowhere.

/// Values in the order in which they came.
pub(super) struct Registry<T> {
    slots: Vec<RegistrySlot<T>>,
    /// The first and the last value.
    first: u32,
    last: u32,
    /// The first free slot.
    free: u32,
    len: usize,
    /// Number of values that have come.
    arrivals: u32,
}

struct RegistrySlot<T> {
    /// None if the slot is free.
    value: Option<T>,
    /// The number of its arrival.
    arrival: u32,
    /// The value that came before; of a free slot, any number.
    previous: u32,
    /// The value that came next, or the next free slot.
    next: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// An empty list keeps a vector of at most this many slots.
const KEPT: usize = 16;

impl<T> Registry<T> {
    pub(super) fn new() -> Registry<T> {
        Registry { slots: Vec::new(), first: NONE, last: NONE, free: NONE, len: 0, arrivals: 0 }
    }

    /// Adds a value; returns its key.
    pub(super) fn insert(&mut self, value: T) -> u64 {
        let index = if self.free == NONE { self.slots.len() as u32 } else { self.free };
        assert!(index != NONE, "as many subscribers as there are keys");
        let arrival = self.arrivals;
        self.arrivals = arrival.wrapping_add(1);
        let slot = RegistrySlot { value: Some(value), arrival, previous: self.last, next: NONE };
        match self.slots.get_mut(index as usize) {
            Some(place) => self.free = std::mem::replace(place, slot).next,
            None => self.slots.push(slot),
        }
        *self.next_of(self.last) = index;
        self.last = index;
        self.len += 1;
        u64::from(arrival) << 32 | u64::from(index)
    }

    /// Removes a value; none if it is gone already.
    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        let (arrival, index) = ((key >> 32) as u32, key as u32);
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.arrival == arrival)?;
        let value = slot.value.take()?;
        let (previous, next) = (slot.previous, std::mem::replace(&mut slot.next, self.free));
        self.free = index;
        *self.next_of(previous) = next;
        match self.slots.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => self.last = previous,
        }
        self.len -= 1;
        if self.len == 0 && self.slots.len() > KEPT {
            *self = Registry { arrivals: self.arrivals, ..Registry::new() };
        }
        Some(value)
    }

    /// The link that leads on from a slot; from none, the start of the list.
    fn next_of(&mut self, slot: u32) -> &mut u32 {
        match self.slots.get_mut(slot as usize) {
            Some(slot) => &mut slot.next,
            None => &mut self.first,
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn into_values(mut self) -> impl Iterator<Item = T> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = self.slots.get_mut(next as usize)?;
            next = slot.next;
            slot.value.take()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    #[test]
    fn values_come_out_in_the_order_in_which_they_came() {
        for seed in 0..200 {
            let rng = Rng::new(seed, 0);
            let (mut registry, mut expected) = (Registry::new(), Vec::new());
            for value in 0..200 {
                if rng.below(5) < 3 || expected.is_empty() {
                    expected.push((registry.insert(value), value));
                } else {
                    let (key, value) = expected.remove(rng.below(expected.len()));
                    assert_eq!(registry.remove(key), Some(value));
                    assert_eq!(registry.remove(key), None, "it is gone");
                }
                assert_eq!(registry.len(), expected.len());
            }
            let values = expected.into_iter().map(|(_, value)| value);
            assert!(registry.into_values().eq(values), "seed {seed}");
        }
    }

    #[test]
    fn slots_are_used_again_and_a_large_empty_list_gives_its_memory_back() {
        let mut registry = Registry::new();
        for _ in 0..1000 {
            let keys = [1, 2, 3].map(|value| registry.insert(value));
            assert_eq!(keys.map(|key| registry.remove(key)), [Some(1), Some(2), Some(3)]);
        }
        assert_eq!(registry.slots.len(), 3);
        let keys: Vec<u64> = (0..1000).map(|value| registry.insert(value)).collect();
        assert_eq!(registry.slots.len(), 1000);
        for key in keys {
            assert!(registry.remove(key).is_some());
        }
        assert_eq!((registry.len(), registry.slots.capacity()), (0, 0));
        assert_eq!(registry.remove(7), None);
    }
}
