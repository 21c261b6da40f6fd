//! Realtime work in order: by band, in a band by deadline, of equal ones by arrival.
//!
//! A binary heap over slots. Slot `i` has two roles: place `i` of the heap, which names a slot in
//! `heap`, and a piece of work, whose place is in `place`. So both directions take one step, and
//! any work can be removed in O(log n).

use crate::fair::Memory;
use core::{cmp::Reverse, fmt};

/// No slot, and no place.
const NIL: u32 = u32::MAX;

/// Criticality; greater goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Band(u8);

impl Band {
    /// This band.
    pub const fn new(band: u8) -> Band {
        Band(band)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Names a piece of work in one queue, until it is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RealtimeId {
    index: u32,
    generation: u32,
}

/// Why an operation was refused. The queue is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RealtimeError {
    /// All slots are taken.
    Full,
    /// The work is not in the queue any more.
    Stale,
}

impl fmt::Display for RealtimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RealtimeError::Full => {
                "no slot for more realtime work: give the queue as many slots as there may be \
                 contexts"
            }
            RealtimeError::Stale => {
                "the work was taken out: insert it again to get a handle that is valid"
            }
        })
    }
}

impl core::error::Error for RealtimeError {}

/// Memory for one piece of work.
#[derive(Debug, Clone, Copy)]
pub struct RealtimeSlot<T> {
    work: Option<Work<T>>,
    /// The place of this work in the heap; the next free slot if there is none.
    place: u32,
    /// The slot of the work at this place of the heap.
    heap: u32,
    generation: u32,
}

#[derive(Debug, Clone, Copy)]
struct Work<T> {
    handle: T,
    /// The smallest key goes first.
    key: (Reverse<Band>, u64, u64),
}

impl<T> RealtimeSlot<T> {
    /// An unused slot.
    pub const EMPTY: RealtimeSlot<T> =
        RealtimeSlot { work: None, place: NIL, heap: NIL, generation: 0 };
}

/// Realtime work that is ready, in memory that the caller gives.
///
/// ```
/// use parcae_core::dispatch::{Band, RealtimeQueue, RealtimeSlot};
///
/// let mut queue = RealtimeQueue::new([RealtimeSlot::EMPTY; 4]);
/// let video = queue.insert("video", Band::new(1), 300)?;
/// queue.insert("audio", Band::new(1), 100)?;
/// queue.insert("brakes", Band::new(7), 900)?;
/// assert_eq!(queue.first(), Some("brakes")); // more critical, though due later
/// queue.set_deadline(video, 50)?;
/// assert_eq!(queue.remove(video)?, "video");
/// # Ok::<(), parcae_core::dispatch::RealtimeError>(())
/// ```
#[derive(Debug)]
pub struct RealtimeQueue<T, M> {
    slots: M,
    len: u32,
    free: u32,
    arrivals: u64,
    _handle: core::marker::PhantomData<T>,
}

impl<T: Copy, M: Memory<RealtimeSlot<T>>> RealtimeQueue<T, M> {
    /// An empty queue. It holds as much work as there are slots.
    pub fn new(mut slots: M) -> RealtimeQueue<T, M> {
        let mut next = NIL;
        for (index, slot) in slots.as_mut().iter_mut().enumerate().rev() {
            let generation = slot.generation.wrapping_add(1);
            *slot = RealtimeSlot { place: next, generation, ..RealtimeSlot::EMPTY };
            next = index as u32;
        }
        RealtimeQueue { slots, len: 0, free: next, arrivals: 0, _handle: core::marker::PhantomData }
    }

    /// Adds work that is due at an absolute time, after all of the same band and deadline.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Full`].
    pub fn insert(
        &mut self,
        handle: T,
        band: Band,
        deadline: u64,
    ) -> Result<RealtimeId, RealtimeError> {
        let index = self.free;
        let slots = self.slots.as_mut();
        let slot = slots.get_mut(index as usize).ok_or(RealtimeError::Full)?;
        self.free = slot.place;
        slot.work = Some(Work { handle, key: (Reverse(band), deadline, self.arrivals) });
        let id = RealtimeId { index, generation: slot.generation };
        self.arrivals += 1;
        self.len += 1;
        self.put(self.len - 1, index);
        self.rise(self.len - 1);
        Ok(id)
    }

    /// Takes work out: it blocks, is done, or has no budget left.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Stale`].
    pub fn remove(&mut self, id: RealtimeId) -> Result<T, RealtimeError> {
        let work = self.work(id)?;
        let place = self.slots.as_ref()[id.index as usize].place;
        self.len -= 1;
        if place != self.len {
            let last = self.slots.as_ref()[self.len as usize].heap;
            self.put(place, last);
            self.rise(place);
            self.sink(self.slots.as_ref()[last as usize].place);
        }
        let slot = &mut self.slots.as_mut()[id.index as usize];
        slot.work = None;
        slot.generation = slot.generation.wrapping_add(1);
        slot.place = self.free;
        self.free = id.index;
        Ok(work.handle)
    }

    /// The work is due at another time, because its next period began. It queues behind
    /// others that are due then.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Stale`].
    pub fn set_deadline(&mut self, id: RealtimeId, deadline: u64) -> Result<(), RealtimeError> {
        let Work { handle, key: (band, ..) } = self.work(id)?;
        let slot = &mut self.slots.as_mut()[id.index as usize];
        slot.work = Some(Work { handle, key: (band, deadline, self.arrivals) });
        self.arrivals += 1;
        let place = slot.place;
        self.rise(place);
        self.sink(self.slots.as_ref()[id.index as usize].place);
        Ok(())
    }

    /// The first work.
    pub fn first(&self) -> Option<T> {
        let slots = self.slots.as_ref();
        let first = (self.len > 0).then(|| slots[0].heap)?;
        slots[first as usize].work.map(|work| work.handle)
    }

    /// How much work there is.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn work(&self, id: RealtimeId) -> Result<Work<T>, RealtimeError> {
        let slot = self.slots.as_ref().get(id.index as usize).ok_or(RealtimeError::Stale)?;
        let work = slot.work.filter(|_| slot.generation == id.generation);
        work.ok_or(RealtimeError::Stale)
    }

    /// The key at a place below `len`.
    fn key(&self, place: u32) -> Option<(Reverse<Band>, u64, u64)> {
        let slots = self.slots.as_ref();
        slots[slots[place as usize].heap as usize].work.map(|work| work.key)
    }

    fn put(&mut self, place: u32, index: u32) {
        let slots = self.slots.as_mut();
        slots[place as usize].heap = index;
        slots[index as usize].place = place;
    }

    fn swap(&mut self, a: u32, b: u32) {
        let slots = self.slots.as_ref();
        let (at_a, at_b) = (slots[a as usize].heap, slots[b as usize].heap);
        self.put(a, at_b);
        self.put(b, at_a);
    }

    /// Up, as long as it goes before its parent.
    fn rise(&mut self, mut place: u32) {
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// Down, as long as a child goes before it.
    fn sink(&mut self, mut place: u32) {
        loop {
            let children = (2 * place + 1)..(2 * place + 3).min(self.len);
            let Some(child) = children.min_by_key(|&child| self.key(child)) else { return };
            if self.key(place) <= self.key(child) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }
}
