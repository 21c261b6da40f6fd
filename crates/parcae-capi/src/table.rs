//! Handles: numbers that C holds instead of references.
//!
//! A handle looks like a pointer and is none. It is a number that names a slot of a table, and a
//! generation of that slot:
//!
//! ```text
//!  63      56 55          32 31                0
//! ┌──────────┬──────────────┬───────────────────┐
//! │ kind + 1 │ generation   │ slot              │
//! └──────────┴──────────────┴───────────────────┘
//! ```
//!
//! A handle is never dereferenced. NULL, a number that was never a handle, a handle of another kind
//! and a handle of a destroyed object are distinguished, and are errors. A slot whose generations
//! are used up is retired, so a stale handle never becomes valid again. Generations begin at a
//! random number, so guessing a live handle means guessing 24 bits. That protects against
//! accidents, not against malicious code in the same address space.
//!
//! # Locking
//!
//! A slot has a lock, under which its generation is compared and its object cloned (objects are
//! reference-counted) or taken. So an object that is destroyed while it is in use is dropped with
//! its last reference, and no caller waits while it holds the lock. The generation can be read
//! without the lock: a caller that cached an object (see [`caller`](crate::caller)) only checks
//! that the generation of its handle is still current. Slots come in segments that are allocated
//! once and never move; the list of free slots has its own lock.

use crate::fault::Fault;
use crate::types::{E_HANDLE, E_NULL, E_OUT_OF_MEMORY, E_STALE};
use std::ffi::c_void;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Slots of a segment, and segments of the table.
const SEGMENT: usize = 1024;
const SEGMENTS: usize = 4096;
const GENERATIONS: u32 = 1 << 24;

/// A kind of object, as errors name it.
pub(crate) trait Kind: Copy + PartialEq + fmt::Display {
    fn code(self) -> u8;
}

/// Objects of any kind, by handle.
pub(crate) struct Table<T> {
    segments: [OnceLock<Box<[Slot<T>]>>; SEGMENTS],
    free: Mutex<Free>,
}

struct Slot<T> {
    /// The current generation, or the next one if there is no object. Written under the lock.
    generation: AtomicU32,
    entry: Mutex<Entry<T>>,
}

struct Entry<T> {
    object: Option<T>,
    /// How many generations were used.
    lives: u32,
}

struct Free {
    slots: Vec<u32>,
    /// Slots that were never used start here.
    fresh: u32,
}

/// A slot, its index, and its locked entry.
type Found<'t, T> = (u32, &'t Slot<T>, MutexGuard<'t, Entry<T>>);

/// An object that can be in a table.
pub(crate) trait Object: Clone {
    type Kind: Kind;
    fn kind(&self) -> Self::Kind;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Object> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            segments: [const { OnceLock::new() }; SEGMENTS],
            free: Mutex::new(Free { slots: Vec::new(), fresh: 0 }),
        }
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let segment = self.segments.get(index as usize / SEGMENT)?.get()?;
        segment.get(index as usize % SEGMENT)
    }

    /// Inserts an object and returns its handle.
    pub(crate) fn insert(&self, object: T) -> Result<*mut c_void, Fault> {
        let index = {
            let mut free = lock(&self.free);
            match free.slots.pop() {
                Some(index) => index,
                None if (free.fresh as usize) < SEGMENT * SEGMENTS => {
                    free.fresh += 1;
                    free.fresh - 1
                }
                None => {
                    let most = SEGMENT * SEGMENTS;
                    let text = format!("all {most} handles are in use: destroy some");
                    return Err(Fault::new(E_OUT_OF_MEMORY, text));
                }
            }
        };
        self.segments[index as usize / SEGMENT].get_or_init(|| {
            let random = RandomState::new();
            let slot = |slot| {
                let generation = random.hash_one((index, slot)) as u32 % GENERATIONS;
                Slot {
                    generation: AtomicU32::new(generation),
                    entry: Mutex::new(Entry { object: None, lives: 0 }),
                }
            };
            (0..SEGMENT).map(slot).collect()
        });
        let Some(slot) = self.slot(index) else { unreachable!("its segment was just made") };
        let kind = u64::from(object.kind().code()) + 1;
        let mut entry = lock(&slot.entry);
        entry.object = Some(object);
        // Relaxed: written under this lock.
        let generation = slot.generation.load(Ordering::Relaxed);
        let handle = kind << 56 | u64::from(generation) << 32 | u64::from(index);
        Ok(std::ptr::without_provenance_mut(handle as usize))
    }

    /// The object that a handle of this kind names.
    pub(crate) fn get<H>(&self, handle: *mut H, kind: T::Kind) -> Result<T, Fault> {
        let (_, _, entry) = self.find(handle, kind)?;
        entry.object.clone().ok_or_else(|| stale(handle, kind))
    }

    /// Removes the object; the handle becomes stale.
    pub(crate) fn remove<H>(&self, handle: *mut H, kind: T::Kind) -> Result<T, Fault> {
        let (index, slot, mut entry) = self.find(handle, kind)?;
        let object = entry.object.take().ok_or_else(|| stale(handle, kind))?;
        // Relaxed: written under this lock.
        let generation = (slot.generation.load(Ordering::Relaxed) + 1) % GENERATIONS;
        // Release: pairs with the Acquire of `is_live`. A caller that reads the old generation came
        // first.
        slot.generation.store(generation, Ordering::Release);
        entry.lives += 1;
        let used_up = entry.lives == GENERATIONS;
        drop(entry);
        if !used_up {
            lock(&self.free).slots.push(index);
        }
        Ok(object)
    }

    /// Whether the object of a handle still exists. Takes no lock.
    #[inline]
    pub(crate) fn is_live<H>(&self, handle: *mut H) -> bool {
        let bits = handle.addr() as u64;
        self.slot(bits as u32).is_some_and(|slot| {
            // Acquire: pairs with the Release of `remove`.
            (bits >> 32) as u32 % GENERATIONS == slot.generation.load(Ordering::Acquire)
        })
    }

    fn find<H>(&self, handle: *mut H, kind: T::Kind) -> Result<Found<'_, T>, Fault> {
        let bits = handle.addr() as u64;
        if bits == 0 {
            return Err(Fault::new(E_NULL, format!("{kind} is required, not NULL")));
        }
        let unknown = || Fault::new(E_HANDLE, format!("{handle:p} is not a handle of {kind}"));
        let index = bits as u32;
        if bits >> 56 != u64::from(kind.code()) + 1 {
            return Err(unknown());
        }
        let slot = self.slot(index).ok_or_else(unknown)?;
        let entry = lock(&slot.entry);
        if entry.lives == 0 && entry.object.is_none() {
            return Err(unknown());
        }
        let generation = (bits >> 32) as u32 % GENERATIONS;
        // Relaxed: written under this lock.
        if generation != slot.generation.load(Ordering::Relaxed) {
            return Err(stale(handle, kind));
        }
        if entry.object.as_ref().is_some_and(|object| object.kind() != kind) {
            return Err(unknown());
        }
        Ok((index, slot, entry))
    }
}

fn stale<H>(handle: *mut H, kind: impl fmt::Display) -> Fault {
    Fault::new(
        E_STALE,
        format!("{handle:p} is stale: it was {kind} that has ended or was destroyed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Thing(u8);

    impl fmt::Display for Thing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a thing of kind {}", self.0)
        }
    }

    impl Kind for Thing {
        fn code(self) -> u8 {
            self.0
        }
    }

    impl Object for (Thing, u64) {
        type Kind = Thing;
        fn kind(&self) -> Thing {
            self.0
        }
    }

    static TABLE: Table<(Thing, u64)> = Table::new();

    #[test]
    fn handles_name_what_they_were_given_for_and_nothing_else() {
        let handle = TABLE.insert((Thing(1), 7)).unwrap();
        assert_eq!(TABLE.get(handle, Thing(1)).unwrap().1, 7);
        assert_eq!(TABLE.get(handle, Thing(2)).unwrap_err().kind, E_HANDLE);
        assert_eq!(TABLE.get(std::ptr::null_mut::<()>(), Thing(1)).unwrap_err().kind, E_NULL);
        let other = handle.map_addr(|bits| bits ^ (1 << 40));
        assert_eq!(TABLE.get(other, Thing(1)).unwrap_err().kind, E_STALE);
        for forged in [1, 0x1234, usize::MAX, handle.addr() | 0xffff_0000] {
            let forged = std::ptr::without_provenance_mut::<()>(forged);
            assert_eq!(TABLE.get(forged, Thing(1)).unwrap_err().kind, E_HANDLE);
        }
        TABLE.remove(handle, Thing(1)).unwrap();
        assert_eq!(TABLE.remove(handle, Thing(1)).unwrap_err().kind, E_STALE);
        let again = TABLE.insert((Thing(1), 8)).unwrap();
        assert_ne!(again, handle, "another life");
        assert_eq!(TABLE.get(handle, Thing(1)).unwrap_err().kind, E_STALE);
    }

    #[test]
    fn threads_insert_use_and_remove_at_once() {
        std::thread::scope(|s| {
            for thread in 0..4 {
                s.spawn(move || {
                    for round in 0..2_000_u64 {
                        let value = round * 4 + thread;
                        let handle = TABLE.insert((Thing(3), value)).unwrap();
                        assert_eq!(TABLE.get(handle, Thing(3)).unwrap().1, value);
                        assert_eq!(TABLE.remove(handle, Thing(3)).unwrap().1, value);
                    }
                });
            }
        });
    }
}
