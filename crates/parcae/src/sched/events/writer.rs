//! Per-worker state for writing events. Used by the worker's thread alone.

use super::clock::Clock;
use super::names::Memo;
use super::ring::EventRing;
use std::cell::Cell;
use std::ptr;

/// Events that share a reading of the clock come within so many [short](Clock::short) distances:
/// about 6 µs of a counter at 2.5 GHz. As many as come fast, four where they come within 1.6 µs
/// of each other, none beyond 3 µs.
const SHARED: u64 = 16;
/// The most events that share a reading.
const MOST_SHARED: u64 = 255;

/// State of a worker's event writing: its last timestamp, and the turn that is being measured.
pub(crate) struct EventWriter {
    /// The last stamp; stamps of a worker never decrease.
    pub(crate) last: Cell<u64>,
    /// Position in the ring at the last reading of the clock, and below which it is shared.
    read_at: Cell<u64>,
    until: Cell<u64>,
    /// How many events may share the next reading.
    may_share: Cell<u64>,
    /// The ring of a recording beside which nothing else is on, for the fast paths; null before
    /// the first event. It may be that of an earlier recording, see `Worker::fast_ring`.
    pub(crate) ring: Cell<*const EventRing>,
    /// Whether the next turn begins with the last stamp.
    pub(crate) reuse_stamp: Cell<bool>,
    /// Start of the running task's turn, where times are measured; 0 if no turn is open.
    pub(crate) turn_began: Cell<u64>,
    /// Id of the task that runs, or ran last.
    pub(crate) task: Cell<u64>,
    /// The spawn location of the task that started last, and its number.
    pub(crate) place: Cell<(usize, u32)>,
    pub(crate) memo: Box<Memo>,
}

impl EventWriter {
    pub(crate) fn new() -> EventWriter {
        EventWriter {
            last: Cell::new(0),
            read_at: Cell::new(0),
            until: Cell::new(0),
            may_share: Cell::new(0),
            ring: Cell::new(ptr::null()),
            reuse_stamp: Cell::new(false),
            turn_began: Cell::new(0),
            task: Cell::new(0),
            place: Cell::new((0, 0)),
            memo: Box::new(Memo::new()),
        }
    }

    /// As new. Called by the lab, between two schedules.
    pub(crate) fn reset(&mut self) {
        // The number of a spawn location does not change.
        let EventWriter {
            last,
            read_at,
            until,
            may_share,
            ring,
            reuse_stamp,
            turn_began,
            task,
            place: _,
            memo: _,
        } = self;
        for number in [last, read_at, until, may_share, turn_began, task] {
            *number = Cell::new(0);
        }
        *ring = Cell::new(ptr::null());
        *reuse_stamp = Cell::new(false);
    }

    /// A stamp that `read` has read, for an event at position `at`; not below the last one.
    #[inline]
    pub(crate) fn read(&self, at: u64, read: impl FnOnce() -> u64) -> u64 {
        let now = read().max(self.last.get());
        self.last.set(now);
        self.read_at.set(at);
        self.share_from(at);
        now
    }

    /// The event at position `at`, of two words with its stamp, is followed by those that share it.
    #[inline]
    fn share_from(&self, at: u64) {
        let most = self.may_share.get();
        self.until.set(if most == 0 { 0 } else { at + 2 + most });
    }

    /// A stamp for an event of which only its place among this worker's events must be right: the
    /// last one, while events come fast. Reading the clock shows whether they do.
    #[inline]
    pub(crate) fn in_order(&self, at: u64, clock: &Clock) -> u64 {
        let (before, read_at) = (self.last.get(), self.read_at.get());
        if at < self.until.get() {
            return before;
        }
        let now = self.read(at, || clock.ticks());
        let ticks = (now - before) / at.saturating_sub(read_at + 1).max(1);
        let within = SHARED * clock.short() / ticks.max(1);
        self.may_share.set((within.max(1) - 1).min(self.may_share.get() * 2 + 1).min(MOST_SHARED));
        self.share_from(at);
        now
    }

    /// Position in the ring below which events may have the last stamp.
    #[inline(always)]
    pub(crate) fn until(&self) -> u64 {
        self.until.get()
    }

    /// The following events are caused by the worker itself, not by the task that ran last.
    pub(crate) fn act_for_worker(&self) {
        self.task.set(0);
    }

    /// The next event needs a reading of the clock.
    #[inline]
    pub(crate) fn share_no_stamp(&self) {
        self.reuse_stamp.set(false);
        self.until.set(0);
    }

    /// A recording begins: its stamps are not those of the last one.
    #[cold]
    pub(crate) fn restart(&self) {
        self.share_no_stamp();
        self.may_share.set(0); // stays so if it is exact
    }
}
