//! The name table: numbers for spawn locations, task names and wait reasons, so that an event fits
//! into four words.
//!
//! Numbers are given in the order of first use. So they are the same for the same seed, and an
//! event does not depend on addresses. A worker remembers the numbers that it used last ([`Memo`]);
//! the table's lock is taken for others, and for the names of tasks.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most names and the most places. Later ones get number 0: unknown.
const MOST: usize = 1 << 16;

/// Numbers for values of one type, from 1 on.
#[derive(Debug)]
struct Numbered<T> {
    numbers: HashMap<T, u32>,
    things: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { numbers: HashMap::new(), things: Vec::new() }
    }
}

impl<T: Hash + Eq + Clone> Numbered<T> {
    fn number(&mut self, thing: &T) -> u32 {
        if let Some(&number) = self.numbers.get(thing) {
            return number;
        }
        if self.things.len() == MOST {
            return 0;
        }
        self.things.push(thing.clone());
        let number = self.things.len() as u32;
        self.numbers.insert(thing.clone(), number);
        number
    }

    fn thing(&self, number: u32) -> Option<&T> {
        self.things.get((number as usize).checked_sub(1)?)
    }
}

/// A place, by its content: the same place may have several addresses.
type Place = &'static Location<'static>;

/// Names and places by number.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    names: Mutex<Numbered<Arc<str>>>,
    places: Mutex<Numbered<Place>>,
}

impl NameTable {
    fn names(&self) -> MutexGuard<'_, Numbered<Arc<str>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, Numbered<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn number_of_name(&self, name: &Arc<str>) -> u32 {
        self.names().number(name)
    }

    pub(crate) fn number_of_place(&self, place: Place) -> u32 {
        self.places().number(&place)
    }

    pub(crate) fn name(&self, number: u32) -> Option<Arc<str>> {
        self.names().thing(number).cloned()
    }

    pub(crate) fn place(&self, number: u32) -> Option<Place> {
        self.places().thing(number).copied()
    }
}

/// The numbers that one worker used last, by the address of the static value.
#[derive(Debug)]
pub(crate) struct Memo([Cell<(usize, u32)>; 32]);

impl Memo {
    pub(crate) fn new() -> Memo {
        Memo([const { Cell::new((0, 0)) }; 32])
    }

    /// The number for this address; calls `number` if it is not remembered.
    #[inline]
    pub(crate) fn number(&self, address: usize, number: impl FnOnce() -> u32) -> u32 {
        // Such statics are some words apart.
        let slot = &self.0[(address >> 3 ^ address >> 8) % self.0.len()];
        let (known, found) = slot.get();
        if known == address {
            return found;
        }
        let found = number();
        slot.set((address, found));
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_in_order_and_bounded() {
        let table = NameTable::default();
        for n in 0..MOST as u32 {
            assert_eq!(table.number_of_name(&n.to_string().into()), n + 1);
        }
        assert_eq!(table.number_of_name(&"one too many".into()), 0);
        assert_eq!(table.number_of_name(&"41".into()), 42);
        assert_eq!((table.name(42).as_deref(), table.name(0)), (Some("41"), None));
        let here = Location::caller();
        assert_eq!((table.number_of_place(here), table.number_of_place(here)), (1, 1));
        assert_eq!((table.place(1), table.place(2)), (Some(here), None));
    }

    #[test]
    fn a_memo_asks_once() {
        let memo = Memo::new();
        let asked = Cell::new(0);
        let ask = |address: usize| {
            memo.number(address, || {
                asked.set(asked.get() + 1);
                address as u32 / 8
            })
        };
        assert_eq!((ask(80), ask(88), ask(80)), (10, 11, 10));
        assert_eq!(asked.get(), 2);
        // An address that takes the same slot.
        let other = (1..).map(|n| 80 + n * 256 * 8).find(|a| (a >> 3 ^ a >> 8) % 32 == 80 >> 3);
        let other = other.unwrap();
        assert_eq!((ask(other), ask(80)), (other as u32 / 8, 10));
        assert_eq!(asked.get(), 4);
    }
}
