//! Numbers of tasks and objects: names that are the same whenever a run is repeated.
//!
//! A task has an id in its scheduler, an object an address. Both get a number when the lab first
//! hears of them. The numbers follow from the order of operations alone, so they may be part of the
//! hash of a run, and of its token.
//!
//! # Addresses that are used again
//!
//! An allocator may or may not give a new object the address of one that has ended; that depends on
//! the history of the process. So an object says when it begins or ends
//! ([`forget_address`](super::forget_address)), and its address loses its number. Atomics do not
//! say it, so that they need no destructor, nor do cancel tokens and budgets, whose order always
//! matters. Their numbers serve conflicts and timelines, and are not hashed. All other objects are
//! counted apart from them: that count is their *identity*, and is hashed.
//!
//! Tasks that are joined or cancelled are named by their ids ([`task_object`]). An object that is
//! moved after its first use gets another number; its old address stays known.

use super::op::OpKind;
use crate::base::error::TaskId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers and addresses.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Numbers of tasks by their ids. Each worker, and the outside, counts its ids from 1, so that a
/// list for each is short.
#[derive(Default)]
pub(super) struct TaskNumbers {
    lists: Vec<Vec<u32>>,
}

/// The place of an id that is no task's: nurseries have ids too.
const NO_TASK: u32 = u32::MAX;

impl TaskNumbers {
    /// The list of an id, and its place there.
    fn place(id: u64) -> (usize, usize) {
        match id.checked_sub(TaskId::OUTSIDE) {
            Some(at) => (0, at as usize),
            None => ((id / TaskId::PER_WORKER) as usize + 1, (id % TaskId::PER_WORKER) as usize),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<u32> {
        let (list, at) = TaskNumbers::place(id);
        self.lists.get(list)?.get(at).copied().filter(|&number| number != NO_TASK)
    }

    pub(super) fn insert(&mut self, id: u64, number: u32) {
        let (list, at) = TaskNumbers::place(id);
        if self.lists.len() <= list {
            self.lists.resize_with(list + 1, Vec::new);
        }
        let list = &mut self.lists[list];
        if list.len() <= at {
            list.resize(at + 1, NO_TASK);
        }
        list[at] = number;
    }

    pub(super) fn clear(&mut self) {
        self.lists.iter_mut().for_each(Vec::clear);
    }
}

/// The numbers of an object, from 1; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ObjectNumber {
    /// Among all objects, for people and conflicts.
    pub(super) shown: u32,
    /// Among those that say when they end; 0 for others.
    pub(super) identity: u32,
}

/// Numbers of objects by their addresses.
#[derive(Default)]
pub(super) struct ObjectNumbers {
    known: NumberMap<usize, ObjectNumber>,
    last: ObjectNumber,
}

impl ObjectNumbers {
    /// The numbers of the object at this address, to which this operation is done.
    pub(super) fn of(&mut self, kind: OpKind, address: usize) -> ObjectNumber {
        if address == 0 {
            return ObjectNumber::default();
        }
        let number = self.known.entry(address).or_default();
        if number.shown == 0 {
            self.last.shown += 1;
            number.shown = self.last.shown;
        }
        if !kind.is_of_lasting() {
            return ObjectNumber { identity: 0, ..*number };
        }
        if number.identity == 0 {
            self.last.identity += 1;
            number.identity = self.last.identity;
        }
        *number
    }

    /// The object at this address ends, or begins.
    pub(super) fn forget(&mut self, address: usize) {
        self.known.remove(&address);
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last = ObjectNumber::default();
    }
}

/// A task as an object, which is joined or cancelled. Records of tasks are used again, ids are not.
/// No address has these bits.
pub(crate) fn task_object(id: u64) -> usize {
    !id as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_used_again_is_another_object() {
        let mut objects = ObjectNumbers::default();
        let mut lock = |address| {
            let ObjectNumber { shown, identity } = objects.of(OpKind::Lock, address);
            assert_eq!(shown, identity);
            shown
        };
        assert_eq!([lock(64), lock(128), lock(64)], [1, 2, 1]);
        objects.forget(64);
        let mut lock = |address| objects.of(OpKind::Lock, address).shown;
        assert_eq!([lock(64), lock(128), lock(0)], [3, 2, 0]);
        objects.clear();
        assert_eq!(objects.of(OpKind::Lock, 128).shown, 1);
    }

    #[test]
    fn atomics_have_no_identity_and_count_for_none() {
        let mut objects = ObjectNumbers::default();
        assert_eq!(objects.of(OpKind::Load, 64), ObjectNumber { shown: 1, identity: 0 });
        assert_eq!(objects.of(OpKind::Lock, 128), ObjectNumber { shown: 2, identity: 1 });
        // An atomic was there, which did not say that it ends.
        assert_eq!(objects.of(OpKind::Lock, 64), ObjectNumber { shown: 1, identity: 2 });
    }
}
