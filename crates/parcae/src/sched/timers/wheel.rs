//! A hierarchical timing wheel: values, each with the tick at which it is due.
//!
//! After Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987). One thread at a
//! time; the length of a tick and the lock are the business of `deadlines`.
//!
//! # Layout
//!
//! A tick has 60 bits: ten digits of six bits. Level `l` has a slot for each value of digit `l`.
//! All values before the tick `elapsed` were taken out, and
//!
//! > a value lies at the level of the highest digit in which its tick differs from `elapsed`
//! > (at level 0 if none does), in the slot of that digit.
//!
//! That is invariant, so a value's slot follows from its tick and is not stored. It follows that
//!
//! - all ticks of level `l` come before all of level `l + 1`, and within a level in the order of
//!   the slots: the first slot of the lowest level in use holds the earliest value;
//! - a slot of level 0 holds one tick;
//! - nothing wraps around: there is a place for every tick, however far away.
//!
//! `elapsed` never enters a slot of a higher level that is in use without emptying it first: its
//! values move down, in order (a *cascade*). A value moves down at most nine times: constant time,
//! amortised. Values of the same tick stay in the order in which they came, since those on a higher
//! level came earlier.
//!
//! # Costs
//!
//! `insert`, `remove` and `next` take constant time: bit sets show which slots are in use. A slot
//! remembers the earliest tick that was put into it since it was empty. After the removal of that
//! very value this may be too early, never too late; `next` is exact again when the slot cascades
//! or empties.
//!
//! Nodes lie in chunks that never move, linked by index: no allocation per value. A large wheel
//! that runs empty returns its chunks. A serial number tells the lives of a node apart.
//!
//! # Limits
//!
//! A cascade moves a whole slot at once. A million timers between the same two boundaries are a
//! million moves in a row.

/// A point in time, in units of the caller's choice.
pub(crate) type Tick = u64;

/// Bits of a digit.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 10;
/// The last tick that there is a place for.
pub(crate) const LAST: Tick = (1 << (BITS * LEVELS as u32)) - 1;
/// No node.
const NONE: u32 = u32::MAX;
/// Nodes in a chunk.
const CHUNK: usize = 128;
/// Chunks that an empty wheel keeps, so that a few thousand timers can come and go without
/// allocation.
const KEPT: usize = 32;

/// Identifies a value: its node, and which life of it; with the tick at which it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerEntry {
    index: u32,
    serial: u64,
    pub(super) tick: Tick,
}

struct WheelNode<T> {
    tick: Tick,
    /// Tick of the value that is in it, or was.
    serial: u64,
    value: Option<T>,
    prev: u32,
    /// Also links the free nodes.
    next: u32,
}

/// A list of nodes.
#[derive(Clone, Copy)]
struct WheelSlot {
    head: u32,
    tail: u32,
    /// No later than the earliest tick in it.
    earliest: Tick,
}

const EMPTY: WheelSlot = WheelSlot { head: NONE, tail: NONE, earliest: Tick::MAX };

/// Memory of nodes; see [`Wheel::take_surplus`].
pub(crate) struct Surplus<T>(#[allow(dead_code)] Vec<Box<[WheelNode<T>]>>);

/// Values, each with the tick at which it is due.
pub(crate) struct Wheel<T> {
    /// All values before this tick were taken out.
    elapsed: Tick,
    /// The levels that were ever in use, and those below them.
    levels: Vec<[WheelSlot; SLOTS]>,
    /// Which slots of each level are in use.
    used: [u64; LEVELS],
    /// Which levels are in use.
    used_levels: u16,
    chunks: Vec<Box<[WheelNode<T>]>>,
    free: u32,
    next_serial: u64,
    len: usize,
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Wheel<T> {
        Wheel {
            elapsed: 0,
            levels: Vec::new(),
            used: [0; LEVELS],
            used_levels: 0,
            chunks: Vec::new(),
            free: NONE,
            next_serial: 0,
            len: 0,
        }
    }

    /// Number of values that were ever put in, and that are in it now.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn counts(&self) -> (u64, usize) {
        (self.next_serial, self.len)
    }

    /// At tick zero again. It is empty.
    pub(crate) fn reset(&mut self) {
        debug_assert!(self.len == 0 && self.used_levels == 0, "timers are armed");
        (self.elapsed, self.next_serial) = (0, 0);
    }

    /// Puts a value in. A value whose tick has passed is due at once.
    pub(crate) fn insert(&mut self, tick: Tick, value: T) -> TimerEntry {
        let index = self.take_node();
        let serial = self.next_serial;
        self.next_serial += 1;
        let node = self.node_mut(index);
        node.tick = tick;
        node.serial = serial;
        node.value = Some(value);
        self.len += 1;
        let tick = self.link(index);
        TimerEntry { index, serial, tick }
    }

    /// Takes a value out, if it is still there.
    pub(crate) fn remove(&mut self, entry: TimerEntry) -> Option<T> {
        let index = entry.index;
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        let node = &chunk[index as usize % CHUNK];
        if node.serial != entry.serial || node.value.is_none() {
            return None; // another life, or none
        }
        let (tick, prev, next) = (node.tick, node.prev, node.next);
        let (level, digit) = self.place_of(tick);
        match prev {
            NONE => self.levels[level][digit].head = next,
            prev => self.node_mut(prev).next = next,
        }
        match next {
            NONE => self.levels[level][digit].tail = prev,
            next => self.node_mut(next).prev = prev,
        }
        if self.levels[level][digit].head == NONE {
            self.clear(level, digit);
        }
        self.give_node(index)
    }

    /// Takes out the earliest value that is due at `now`, if there is one.
    pub(crate) fn pop(&mut self, now: Tick) -> Option<T> {
        let now = now.min(LAST);
        while let Some((level, digit)) = self.first() {
            let start = self.start_of(level, digit);
            if start > now {
                break;
            }
            self.elapsed = self.elapsed.max(start);
            if level > 0 {
                self.cascade(level, digit);
                continue;
            }
            let index = self.levels[0][digit].head;
            let next = self.node(index).next;
            self.levels[0][digit].head = next;
            match next {
                NONE => self.clear(0, digit),
                next => self.node_mut(next).prev = NONE,
            }
            return self.give_node(index);
        }
        self.elapsed = self.elapsed.max(now);
        None
    }

    /// All values before this tick were taken out.
    pub(crate) fn elapsed(&self) -> Tick {
        self.elapsed
    }

    /// No later than the earliest tick of a value; `None` if the wheel is empty.
    pub(crate) fn next(&self) -> Option<Tick> {
        let (level, digit) = self.first()?;
        Some(self.levels[level][digit].earliest)
    }

    /// The surplus memory of an empty wheel that was large, for the caller to drop.
    pub(crate) fn take_surplus(&mut self) -> Option<Surplus<T>> {
        if self.len > 0 || self.chunks.len() <= KEPT {
            return None;
        }
        self.free = NONE;
        Some(Surplus(std::mem::take(&mut self.chunks)))
    }

    /// The slot that holds the earliest value.
    fn first(&self) -> Option<(usize, usize)> {
        if self.used_levels == 0 {
            return None;
        }
        let level = self.used_levels.trailing_zeros() as usize;
        Some((level, self.used[level].trailing_zeros() as usize))
    }

    /// Level and slot of a tick, by the invariant.
    fn place_of(&self, tick: Tick) -> (usize, usize) {
        let different = (tick ^ self.elapsed) | 1; // at least a bit of level 0
        let level = (different.ilog2() / BITS) as usize;
        (level, (tick >> (level as u32 * BITS)) as usize % SLOTS)
    }

    /// The first tick of a slot that is in use.
    fn start_of(&self, level: usize, digit: usize) -> Tick {
        let shift = level as u32 * BITS;
        // The digits above are those of `elapsed`.
        (self.elapsed >> shift >> BITS << BITS | digit as Tick) << shift
    }

    /// Puts a node at the end of the slot where it belongs; returns its tick.
    fn link(&mut self, index: u32) -> Tick {
        let elapsed = self.elapsed;
        let node = self.node_mut(index);
        node.tick = node.tick.clamp(elapsed, LAST);
        node.next = NONE;
        let tick = node.tick;
        let (level, digit) = self.place_of(tick);
        if level >= self.levels.len() {
            self.levels.resize(level + 1, [EMPTY; SLOTS]);
        }
        let slot = &mut self.levels[level][digit];
        let tail = std::mem::replace(&mut slot.tail, index);
        slot.earliest = slot.earliest.min(tick);
        if tail == NONE {
            slot.head = index;
        }
        self.node_mut(index).prev = tail;
        if tail != NONE {
            self.node_mut(tail).next = index;
        }
        self.used[level] |= 1 << digit;
        self.used_levels |= 1 << level;
        tick
    }

    /// Moves all of a slot down, now that `elapsed` is in it.
    fn cascade(&mut self, level: usize, digit: usize) {
        let mut index = self.levels[level][digit].head;
        self.clear(level, digit);
        while index != NONE {
            let next = self.node(index).next;
            self.link(index);
            index = next;
        }
    }

    /// A slot has become empty.
    fn clear(&mut self, level: usize, digit: usize) {
        self.levels[level][digit] = EMPTY;
        self.used[level] &= !(1 << digit);
        if self.used[level] == 0 {
            self.used_levels &= !(1 << level);
        }
    }

    fn node(&self, index: u32) -> &WheelNode<T> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn node_mut(&mut self, index: u32) -> &mut WheelNode<T> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn take_node(&mut self) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        self.free = self.node(index).next;
        index
    }

    /// Frees a node, and returns its value.
    fn give_node(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let node = self.node_mut(index);
        node.next = free;
        let value = node.value.take();
        self.free = index;
        self.len -= 1;
        value
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.chunks.len() * CHUNK;
        assert!(first + CHUNK < NONE as usize, "four billion timers at once");
        let node = |index: usize| {
            let next = if index + 1 < CHUNK { (first + index + 1) as u32 } else { NONE };
            WheelNode { tick: 0, serial: 0, value: None, prev: NONE, next }
        };
        self.chunks.push((0..CHUNK).map(node).collect());
        self.free = first as u32;
    }
}
