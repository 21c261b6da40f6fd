//! Sets of workers.

use core::fmt;

/// A set of workers, numbered from 0 to 255.
///
/// ```
/// use parcae_core::WorkerSet;
///
/// let set = WorkerSet::first(4).without(WorkerSet::of(1));
/// assert!(set.contains(3) && !set.contains(1));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WorkerSet([u64; 4]);

impl WorkerSet {
    /// No worker.
    pub const NONE: WorkerSet = WorkerSet([0; 4]);
    /// Every worker that there can be.
    pub const ALL: WorkerSet = WorkerSet([u64::MAX; 4]);

    /// One worker.
    pub const fn of(worker: u8) -> WorkerSet {
        let mut words = [0; 4];
        words[worker as usize / 64] = 1 << (worker % 64);
        WorkerSet(words)
    }

    /// The workers 0 to `count` − 1; all if there are not that many.
    pub fn first(count: usize) -> WorkerSet {
        (0..=u8::MAX).take(count).fold(WorkerSet::NONE, |set, worker| set.with(Self::of(worker)))
    }

    /// Whether the worker is in the set.
    pub const fn contains(self, worker: u8) -> bool {
        self.0[worker as usize / 64] & (1 << (worker % 64)) != 0
    }

    /// The workers of both sets together.
    pub fn with(self, other: WorkerSet) -> WorkerSet {
        self.zip(other, |a, b| a | b)
    }

    /// The workers of this set that are not in the other.
    pub fn without(self, other: WorkerSet) -> WorkerSet {
        self.zip(other, |a, b| a & !b)
    }

    /// The workers that are in both sets.
    pub fn common(self, other: WorkerSet) -> WorkerSet {
        self.zip(other, |a, b| a & b)
    }

    /// Whether there is no worker in it.
    pub fn is_empty(self) -> bool {
        self == WorkerSet::NONE
    }

    /// How many workers there are in it.
    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The workers, the lowest number first.
    pub fn iter(self) -> impl Iterator<Item = u8> + Clone {
        (0..=u8::MAX).filter(move |&worker| self.contains(worker))
    }

    fn zip(self, other: WorkerSet, f: impl Fn(u64, u64) -> u64) -> WorkerSet {
        WorkerSet(core::array::from_fn(|word| f(self.0[word], other.0[word])))
    }
}

impl fmt::Debug for WorkerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == WorkerSet::ALL {
            return f.write_str("{all}");
        }
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_do_what_sets_do() {
        for worker in [0, 63, 64, 255] {
            let set = WorkerSet::of(worker);
            assert_eq!((set.len(), set.iter().next()), (1, Some(worker)));
            assert!(WorkerSet::ALL.contains(worker));
            assert!(!WorkerSet::ALL.without(set).contains(worker));
        }
        assert_eq!(WorkerSet::first(256), WorkerSet::ALL);
        assert_eq!(WorkerSet::first(1000), WorkerSet::ALL);
        let (low, odd) = (WorkerSet::first(3), WorkerSet::of(1).with(WorkerSet::of(77)));
        assert_eq!(low.common(odd), WorkerSet::of(1));
        assert_eq!(low.with(odd).len(), 4);
        assert!(low.without(low).is_empty());
    }
}
