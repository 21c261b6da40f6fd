//! The last events of one worker: a ring that overwrites.
//!
//! One thread writes, any thread reads, and the writer never waits: a slow reader loses the oldest
//! events, and learns how many. Events are atomic words (`packed.rs`), so a reader that is
//! overtaken reads garbage without undefined behaviour; two counters tell it which words to
//! discard.
//!
//! # Blocks
//!
//! The ring has blocks of [`BLOCK`] words, which are overwritten as a whole. A block begins with
//! everything that is needed to read it: the stamp of its first event, the current task, and the
//! number of events before it. An event lies in one block.
//!
//! ```text
//!   begin block b:  begun = b + 1                      read:  end = done (Acquire)
//!                   fence(Release)                            copy the last N blocks below end
//!                   head and words of slot b mod N            fence(Acquire)
//!   after an event: done = its last position + 1 (Release)    discard blocks below begun - N
//! ```
//!
//! A position is the number of a word since the ring was made; a reader's place is a
//! [`RingCursor`].
//!
//! *No event is read before it is written*: `end` pairs with the Release of `done`, so all words
//! below it are visible. An event is published as a whole, with one store of `done`.
//!
//! *No overwritten event is returned*: let a reader's word of block `b` come from block
//! `c = b + k·N`, k ≥ 1. That word was stored after the writer's fence of block `c`, and the
//! reader's fence comes after its load. So the fences pair and the reader sees
//! `begun ≥ c + 1 > b + N`: `b` is below `begun - N` and discarded.
//!
//! # The fast path
//!
//! Most events are one word with the stamp of the event before. The writer appends such a word if
//! its position is below `limit`: the block has room, and the clock need not be read
//! ([`EventRing::share`]). One comparison covers both. Otherwise the caller takes the time and
//! calls [`push`](EventRing::push).
//!
//! # A start
//!
//! A worker begins a task before the task's name and spawn location are known. So its start is kept
//! back ([`stage`](EventRing::stage)), and written with its origin or before the next event.
//! `limit` is 0 meanwhile, so that no fast path overtakes it.

use super::kind::{EventKind, pack};
use super::packed::{self, RingContext, word};
use crate::base::shim::atomic::{AtomicU64, Ordering, fence};
use std::sync::atomic::{AtomicBool, AtomicU64 as OwnAtomic};

/// An event; see `kind.rs`.
pub(crate) type Words = [u64; 4];

/// Words of a block. A block is begun in about the time of four short events, so it has many.
/// Models have as few as an event needs.
const BLOCK: u64 = if cfg!(loom) { HEAD + packed::MOST } else { 256 };
/// Words at the beginning of a block: stamp, current task, number of events before it.
const HEAD: u64 = 3;
/// The most words of an event with its stamp.
const EVENT: u64 = packed::MOST + 1;

/// The last events of one writer.
#[derive(Debug)]
#[cfg_attr(not(feature = "unpadded"), repr(align(64)))]
pub(crate) struct EventRing {
    /// The words of all blocks.
    words: Box<[AtomicU64]>,
    /// Position behind the last word that was published. Written by the writer.
    done: AtomicU64,
    own: WriterState,
    /// Number of blocks that were begun. Written by the writer.
    begun: AtomicU64,
    /// Number of events for which there is room in any case.
    capacity: usize,
    /// A recording has begun, and the writer has not noticed: its last stamp is old.
    restarted: AtomicBool,
}

/// The writer's own state. No model shares it: the atomics are those of `std`.
#[derive(Debug, Default)]
struct WriterState {
    /// Position below which a word may be appended with the last stamp.
    limit: Own,
    /// The present block: index of its first word minus its position, end and stamp.
    shift: Own,
    end: Own,
    base: Own,
    /// As a reader has them after the last event; see [`RingContext`].
    stamp: Own,
    current: Own,
    origin: Own,
    /// Number of events.
    events: Own,
    /// The task whose start is kept back; 0 if there is none.
    staged: Own,
    /// Worker of the ring.
    worker: usize,
}

/// A number that one thread writes. Another thread may clear `limit`, which costs a stamp.
#[derive(Debug, Default)]
struct Own(OwnAtomic);

impl Own {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) // the writer's own
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed); // the writer's own
    }

    #[inline(always)]
    fn add(&self, value: u64) {
        self.set(self.get() + value);
    }
}

/// The place of a reader: a position between two events, and the number of events before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RingCursor {
    at: u64,
    events: u64,
}

/// Events that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RingPart {
    /// Number of events before the first one.
    first: u64,
    end: RingCursor,
}

impl EventRing {
    /// Room for at least the last `events` of a worker, or of `OUTSIDE`.
    pub(crate) fn new(worker: usize, events: usize) -> EventRing {
        let per_block = ((BLOCK - HEAD) / EVENT).max(1) as usize;
        // The block that is being written counts as none.
        EventRing::with_blocks(worker, events, events.div_ceil(per_block) + 1)
    }

    fn with_blocks(worker: usize, events: usize, blocks: usize) -> EventRing {
        let words = blocks * BLOCK as usize;
        EventRing {
            words: std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect(),
            done: AtomicU64::new(0),
            own: WriterState { worker, ..WriterState::default() },
            begun: AtomicU64::new(0),
            capacity: events,
            restarted: AtomicBool::new(false),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of blocks.
    fn blocks(&self) -> u64 {
        self.words.len() as u64 / BLOCK
    }

    // ----- writing ----------------------------------------------------------------------

    /// Position behind the last event. Called by the writer.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.done.load(Ordering::Relaxed) // the writer's own
    }

    /// The last event's stamp may be shared by words below this position, as long as the current
    /// task is the running one, `task`. Called by the writer.
    #[inline(always)]
    pub(crate) fn share(&self, task: u64, until: u64) {
        let own = &self.own;
        let fast = own.staged.get() == 0 && own.current.get() == task;
        own.limit.set(if fast { until.min(own.end.get()) } else { 0 });
    }

    /// The next event needs a stamp of its own: a recording begins. Called by any thread.
    pub(crate) fn restart(&self) {
        self.own.limit.set(0);
        self.restarted.store(true, Ordering::Relaxed); // see `take_restarted`
    }

    /// Whether a recording has begun since the last call. Called by the writer.
    #[inline]
    pub(crate) fn take_restarted(&self) -> bool {
        // Relaxed: seen too late, the first events of a recording have an old stamp, nothing else.
        let restarted = self.restarted.load(Ordering::Relaxed);
        if restarted {
            self.restarted.store(false, Ordering::Relaxed); // as above
        }
        restarted
    }

    /// The running task yields, and another resumes. False if nothing was written; as for the
    /// following ones. Called by the writer.
    ///
    /// The running task is the current one: every turn since the last call of
    /// [`share`](EventRing::share) has begun with an event.
    #[inline(always)]
    pub(crate) fn switched(&self, to: u64) -> bool {
        let written = self.append(packed::SWITCH, to, 2);
        if written {
            self.own.current.set(to);
        }
        written
    }

    /// The running task yields, and is resumed at once.
    #[inline(always)]
    pub(crate) fn alone(&self) -> bool {
        self.append(packed::ALONE, 0, 1)
    }

    /// A task spawns another one.
    #[inline(always)]
    pub(crate) fn spawned(&self, task: u64, by: u64) -> bool {
        self.own.current.get() == by && self.append(packed::SPAWN, task, 1)
    }

    /// The running task yields.
    #[inline(always)]
    pub(crate) fn yielded(&self) -> bool {
        self.append(packed::YIELD, 0, 1)
    }

    /// A task resumes.
    #[inline(always)]
    pub(crate) fn resumed(&self, task: u64) -> bool {
        let written = self.append(packed::RESUME, task, 1);
        if written {
            self.own.current.set(task);
        }
        written
    }

    /// The running task ends.
    #[inline(always)]
    pub(crate) fn finished(&self) -> bool {
        self.append(packed::FINISH, 0, 1)
    }

    /// A task starts, with the last stamp. Its start is written by [`originate`](Self::originate).
    #[inline(always)]
    pub(crate) fn starts(&self, task: u64) -> bool {
        let written = self.position() < self.own.limit.get();
        if written {
            self.own.staged.set(task);
            self.own.limit.set(0);
        }
        written
    }

    /// Appends a word that stands for so many events.
    #[inline(always)]
    fn append(&self, tag: u64, value: u64, events: u64) -> bool {
        debug_assert!(packed::fits(value), "a task id of another form");
        let at = self.position();
        let has_room = at < self.own.limit.get();
        if has_room {
            self.put(at, word(tag, value));
            self.own.events.add(events);
            self.publish(at + 1);
        }
        has_room
    }

    #[inline(always)]
    fn put(&self, at: u64, word: u64) {
        let index = at.wrapping_add(self.own.shift.get()) as usize;
        debug_assert!(index < self.words.len(), "a position of the present block");
        // SAFETY: `begin_block` has set `shift` so that the positions of the present block are
        // indices of one block of `words`. The callers write below its end: `limit` is not above it
        // and `room` compares with it. Before the first block both are 0.
        let slot = unsafe { self.words.get_unchecked(index) };
        slot.store(word, Ordering::Relaxed); // published by `publish`; see also the header
    }

    #[inline(always)]
    fn publish(&self, end: u64) {
        self.done.store(end, Ordering::Release); // pairs with the Acquire in `read`
    }

    /// Writes and publishes an event, and one that was kept back before it. The next event needs a
    /// stamp, unless [`share`](EventRing::share) is called. Called by the writer.
    pub(crate) fn push(&self, event: Words) {
        self.unstage(0);
        self.write(&event);
    }

    /// Keeps a start back. Called by the writer.
    pub(crate) fn stage(&self, stamp: u64, task: u64) {
        self.unstage(0);
        self.publish(self.room(stamp));
        self.own.staged.set(task);
        self.own.limit.set(0);
    }

    /// Writes the start of this task, if it was kept back, with its origin. The stamp may be shared
    /// by words below `until`. Called by the writer.
    #[inline]
    pub(crate) fn originate(&self, task: u64, origin: u64, until: u64) {
        let own = &self.own;
        if own.staged.get() == task && !self.started_again(task, origin, until) {
            self.unstage(origin);
            own.limit.set(until.min(own.end.get()));
        }
    }

    /// The usual case of [`originate`](Self::originate), in less time: the start of this task was
    /// kept back, and its origin is that of the start before. False if it is not so.
    #[inline(always)]
    pub(crate) fn started_again(&self, task: u64, origin: u64, until: u64) -> bool {
        let (own, at) = (&self.own, self.position());
        let is_again = own.staged.get() == task
            && origin == own.origin.get()
            && origin != 0
            && at < own.end.get()
            && packed::fits(task);
        if is_again {
            self.put(at, word(packed::START_AGAIN, task));
            own.staged.set(0);
            own.current.set(task);
            own.events.add(1);
            self.publish(at + 1);
            own.limit.set(until.min(own.end.get()));
        }
        is_again
    }

    #[inline]
    fn unstage(&self, origin: u64) {
        let own = &self.own;
        own.limit.set(0);
        let task = own.staged.get();
        if task != 0 {
            own.staged.set(0);
            self.write(&pack(own.stamp.get(), EventKind::Start, own.worker, 0, task, origin));
        }
    }

    #[inline(never)]
    fn write(&self, event: &Words) {
        let own = &self.own;
        let at = self.room(event[0]);
        let mut context = RingContext {
            worker: own.worker,
            base: own.base.get(),
            stamp: event[0],
            current: own.current.get(),
            origin: own.origin.get(),
        };
        let (words, count) = context.pack(event);
        for (at, word) in (at..at + count).zip(words) {
            self.put(at, word);
        }
        own.current.set(context.current);
        own.origin.set(context.origin);
        own.events.add(1);
        self.publish(at + count);
    }

    /// A position with room for a whole event, at which a reader has this stamp.
    fn room(&self, stamp: u64) -> u64 {
        let (own, at) = (&self.own, self.position());
        let since = stamp.wrapping_sub(own.base.get());
        if own.end.get() - at < EVENT || !packed::fits(since) || stamp < own.base.get() {
            return self.begin_block(at, stamp);
        }
        if stamp == own.stamp.get() {
            return at;
        }
        self.put(at, word(packed::TIME, since));
        own.stamp.set(stamp);
        at + 1
    }

    #[cold]
    fn begin_block(&self, at: u64, stamp: u64) -> u64 {
        let own = &self.own;
        let start = own.end.get();
        if at < start {
            self.put(at, word(packed::END, 0));
        }
        let number = start / BLOCK;
        self.begun.store(number + 1, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `copy`: a reader that sees a word of this block sees that it was
        // begun.
        fence(Ordering::Release);
        own.shift.set((number % self.blocks() * BLOCK).wrapping_sub(start));
        own.end.set(start + BLOCK);
        own.base.set(stamp);
        own.stamp.set(stamp);
        own.origin.set(0);
        for (at, word) in (start..).zip([stamp, own.current.get(), own.events.get()]) {
            self.put(at, word);
        }
        start + HEAD
    }

    // ----- reading ----------------------------------------------------------------------

    /// The place behind the last event.
    pub(crate) fn end(&self) -> RingCursor {
        loop {
            // From the last block on.
            let at = self.done().saturating_sub(1) / BLOCK * BLOCK;
            if let Some(part) = self.copy(RingCursor { at, events: 0 }, &mut Vec::new()) {
                return part.end;
            }
        }
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire) // pairs with the Release in `publish`
    }

    /// Appends the events from `cursor` on to `out`, at most the last `most` of them, and moves the
    /// cursor behind them. Returns the number of events that are missing: overwritten before they
    /// could be read, or more than `most`.
    pub(crate) fn read(&self, cursor: &mut RingCursor, most: usize, out: &mut Vec<Words>) -> u64 {
        let from = out.len();
        // A writer that overtakes a reader by a whole ring, and does so again, is left alone: the
        // events are read, or counted, by the next call.
        for _ in 0..3 {
            let Some(part) = self.copy(*cursor, out) else { continue };
            let surplus = (out.len() - from).saturating_sub(most);
            out.drain(from..from + surplus);
            let lost = part.first - cursor.events + surplus as u64;
            *cursor = part.end;
            return lost;
        }
        0
    }

    /// Copies the events from this place on. `None`, and `out` as it was, if all of them were
    /// overwritten meanwhile.
    fn copy(&self, from: RingCursor, out: &mut Vec<Words>) -> Option<RingPart> {
        let (size, end) = (self.blocks(), self.done());
        if end <= from.at {
            return Some(RingPart { first: from.events, end: from }); // nothing new
        }
        let last = end.div_ceil(BLOCK);
        let first = (from.at / BLOCK).max(last.saturating_sub(size));
        let mut words = Vec::with_capacity(((last - first) * BLOCK) as usize);
        for at in first * BLOCK..end {
            let slot = &self.words[(at % (size * BLOCK)) as usize];
            // Relaxed: written before `done`; or overwritten, which is noticed below.
            words.push(slot.load(Ordering::Relaxed));
        }
        // Pairs with the fence in `begin_block`.
        fence(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Relaxed); // ordered by the fence
        let good = begun.saturating_sub(size).max(first);
        if good >= last {
            return None;
        }
        let mut place = RingCursor { at: good * BLOCK, events: 0 };
        let mut before = None;
        for block in words[((good - first) * BLOCK) as usize..].chunks(BLOCK as usize) {
            let [stamp, current, events] = [block[0], block[1], block[2]];
            let worker = self.own.worker;
            let mut context = RingContext { worker, base: stamp, stamp, current, origin: 0 };
            let mut rest = &block[HEAD as usize..];
            place = RingCursor { at: place.at + HEAD, events };
            loop {
                let is_new = place.at >= from.at;
                let mut count = 0;
                let used = context.unpack(rest, |event| {
                    count += 1;
                    if is_new {
                        out.push(event);
                    }
                });
                if is_new && before.is_none() {
                    before = Some(place.events);
                }
                let Some(used) = used else { break };
                rest = &rest[used.min(rest.len())..];
                place = RingCursor { at: place.at + used as u64, events: place.events + count };
            }
            if place.at < end {
                place.at = place.at.div_ceil(BLOCK) * BLOCK; // unused words
            }
        }
        place.at = end;
        Some(RingPart { first: before.unwrap_or(place.events), end: place })
    }
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
