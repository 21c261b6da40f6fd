//! A list of subscribers from which each can be removed by its key.

use std::collections::BTreeMap;

/// Values in the order in which they came.
pub(super) struct Registry<T> {
    values: BTreeMap<u64, T>,
    /// Keys only grow, so an old key never names a newer value.
    next: u64,
}

impl<T> Registry<T> {
    pub(super) fn new() -> Registry<T> {
        Registry { values: BTreeMap::new(), next: 0 }
    }

    /// Adds a value; returns its key.
    pub(super) fn insert(&mut self, value: T) -> u64 {
        let key = self.next;
        self.next += 1;
        self.values.insert(key, value);
        key
    }

    /// Removes a value; none if it is gone already.
    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        self.values.remove(&key)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.values.into_values()
    }
}
