//! What workers and others write events with.
//!
//! Everything begins with one question, [`Witness::is_on`]: a load of a word that does not change, on a line that is read
//! anyway. Only if somebody watches is a function called that writes an event, measures a time, or both.
//!
//! # Time
//!
//! A worker reads the clock once for each switch: what ends a task's turn is stamped, and what begins the next turn has the same
//! stamp if the task was in a queue of this worker's own. One that came from elsewhere was put there by another worker, perhaps after
//! that stamp; so a worker that takes tasks from elsewhere reads the clock again ([`Pen::came_from_elsewhere`]).
//! Hence a task starts after it was spawned and goes on after it was woken, by the stamps too. A worker's
//! own stamps never go back: [`Pen::last`] sees to it.
//!
//! # Who writes where
//!
//! | | |
//! |---|---|
//! | a worker | its own ring, of which it is the only writer |
//! | any other thread | the outside's ring, under a lock |
//! | the deterministic executor | the log, whoever it is |
//!
//! Rings are made by the first recording, and exchanged for larger ones when one asks for that; a worker may be about to
//! write into the old one, so it stays until the scheduler is gone. Sizes are powers of two: all old ones together are
//! smaller than the last.

use super::clock::{Clock, Rate};
use super::event::{self, Kind, OUTSIDE, Reason, pack};
use super::names::{Memo, Table};
use super::recording::{Retired, Running};
use super::ring::{Ring, Words};
use crate::sched::Shared;
use crate::sched::task::{Task, TaskRef};
use crate::sched::worker::{self, Worker};
use crate::scope::cx::Frame;
use crate::view::stats::Times;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who watches.
const LOG: u32 = 1;
const TRACE: u32 = 2;
const TIMES: u32 = 4;

/// What is watched of a scheduler, and by whom.
#[repr(C, align(64))]
pub(crate) struct Witness {
    /// Relaxed: an event that is written, or not, a moment too late is as good.
    flags: AtomicU32,
    pub(crate) clock: Clock,
    /// Of each worker; null before the first recording. Written by who starts one, under the lock of `running`.
    rings: Box<[AtomicPtr<Ring>]>,
    /// Of each worker, if times are measured.
    pub(crate) times: Box<[Times]>,
    /// What is written by others, away from the line above.
    rest: Box<Rest>,
}

#[derive(Default)]
struct Rest {
    table: Arc<Table>,
    outside: Mutex<Option<Ring>>,
    running: Mutex<Running>,
}

/// Whether a scheduler keeps a log, and measures times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) log: bool,
    pub(crate) times: bool,
}

impl Witness {
    pub(crate) fn new(workers: usize, watched: Watched) -> Witness {
        let times = if watched.times { workers } else { 0 };
        let flag = |flag, is_on| if is_on { flag } else { 0 };
        Witness {
            flags: AtomicU32::new(flag(LOG, watched.log) | flag(TIMES, watched.times)),
            clock: Clock::new(),
            rings: (0..workers).map(|_| AtomicPtr::default()).collect(),
            times: (0..times).map(|_| Times::default()).collect(),
            rest: Box::default(),
        }
    }

    /// Whether anybody wants to know.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.flags.load(Ordering::Relaxed) != 0
    }

    /// Whether times are measured.
    #[inline(always)]
    pub(crate) fn measures(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TIMES != 0
    }

    pub(super) fn start(&self) {
        self.flags.fetch_or(TRACE, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.flags.fetch_and(!TRACE, Ordering::Relaxed);
    }

    /// Whether events are kept.
    fn keeps(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (LOG | TRACE) != 0
    }

    fn traces(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRACE != 0
    }

    pub(super) fn running(&self) -> MutexGuard<'_, Running> {
        self.rest.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.rest.table
    }

    /// The ring of a worker; none before the first recording.
    #[inline]
    pub(super) fn ring(&self, worker: usize) -> Option<&Ring> {
        // Acquire: pairs with the Release in `provide`: what the ring is made of.
        let ring = self.rings[worker].load(Ordering::Acquire);
        // SAFETY: made by `provide`, and freed with this.
        unsafe { ring.as_ref() }
    }

    /// The ring of the outside.
    pub(super) fn outside(&self) -> MutexGuard<'_, Option<Ring>> {
        self.rest.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that all rings have this size at least. Old ones go to `running`.
    pub(super) fn provide(&self, events: usize, running: &mut Running) {
        let enough = |ring: Option<&Ring>| ring.is_some_and(|ring| ring.capacity() >= events);
        for (worker, place) in self.rings.iter().enumerate() {
            if enough(self.ring(worker)) {
                continue;
            }
            let ring = Box::into_raw(Box::new(Ring::new(events)));
            let old = place.swap(ring, Ordering::Release); // pairs with the Acquire in `ring`
            running.retired.extend(NonNull::new(old).map(Retired));
        }
        let mut outside = self.outside();
        if !enough(outside.as_ref()) {
            *outside = Some(Ring::new(events));
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        for ring in &mut self.rings {
            if !ring.get_mut().is_null() {
                // SAFETY: made by `provide`; nobody uses it any more.
                drop(unsafe { Box::from_raw(*ring.get_mut()) });
            }
        }
    }
}

/// What a worker writes with. Its own.
pub(crate) struct Pen {
    /// The last stamp.
    last: Cell<u64>,
    /// Whether the next turn begins with the last stamp.
    turns: Cell<bool>,
    /// When the running task's turn began, where times are measured.
    pub(crate) began: Cell<u64>,
    /// The task that runs, or ran last.
    task: Cell<u64>,
    memo: Box<Memo>,
}

impl Pen {
    pub(crate) fn new() -> Pen {
        Pen {
            last: Cell::new(0),
            turns: Cell::new(false),
            began: Cell::new(0),
            task: Cell::new(0),
            memo: Box::new(Memo::new()),
        }
    }

    /// What the worker does now is no task's doing.
    pub(crate) fn on_nobodys_behalf(&self) {
        self.task.set(0);
    }

    /// The worker takes tasks that others put where they are.
    #[inline(always)]
    pub(crate) fn came_from_elsewhere(&self) {
        self.turns.set(false);
    }
}

impl Shared {
    /// What events are stamped with.
    pub(crate) fn ticks(&self) -> u64 {
        self.log.as_ref().map_or_else(|| self.witness.clock.ticks(), |log| log.now())
    }

    /// How long a tick takes. May wait a little for a good answer.
    pub(crate) fn rate(&self) -> Rate {
        if self.log.is_some() { Rate::STEPS } else { self.witness.clock.rate() }
    }

    /// A task is spawned by a thread that is no worker.
    #[inline]
    pub(crate) fn note_outside(&self, kind: Kind, task: u64, to: usize) {
        if self.witness.is_on() {
            self.write_outside(kind, task, to);
        }
    }

    #[cold]
    fn write_outside(&self, kind: Kind, task: u64, to: usize) {
        let event = |time| pack(time, kind, OUTSIDE, to as u64, task, 0);
        if let Some(log) = &self.log {
            log.push(event(log.now()));
        } else if self.witness.traces()
            && let Some(ring) = &*self.witness.outside()
        {
            ring.push(event(self.witness.clock.ticks_after_reads())); // read under the lock: in order
        }
    }

    /// A deadline has passed that a task waits for.
    pub(crate) fn note_timer(&self, task: TaskRef) {
        if !self.witness.is_on() {
            return;
        }
        // SAFETY: records live as long as the scheduler. The deadline is taken back before the task ends, so this is its
        // number; or it ends just now, and the number is another's.
        let id = unsafe { task.task.as_ref() }.id();
        match worker::current_of(self) {
            Some(worker) => worker.write(Kind::Timer, 0, id, 0),
            None => self.write_outside(Kind::Timer, id, 0),
        }
    }

    /// A task is ready that waited. The caller owns it, and puts it into a queue.
    #[inline]
    pub(crate) fn note_wake(&self, here: Option<&Worker>, task: &Task, owner: usize) {
        if self.witness.is_on() {
            self.write_wake(here, task, owner);
        }
    }

    #[cold]
    fn write_wake(&self, here: Option<&Worker>, task: &Task, owner: usize) {
        if self.witness.measures()
            && let Some(frame) = started_frame(task)
        {
            frame.seen().ready.set(self.ticks().max(1));
        }
        match here {
            Some(worker) if self.witness.keeps() => {
                // One that another worker has parked, it has just parked.
                let mine = owner == worker.index;
                let now = if mine { worker.stamp() } else { worker.stamp_after_reads() };
                worker.put(Kind::Wake, now, owner as u64, task.id(), worker.who());
            }
            Some(_) => {}
            None => self.write_outside(Kind::Wake, task.id(), owner),
        }
    }
}

/// The frame of a task that has started and not ended, if it has one. For its owner.
fn started_frame(task: &Task) -> Option<&Frame> {
    if !task.has_started() {
        return None;
    }
    // SAFETY: the caller owns the task; the frame is there until the task has ended.
    unsafe { task.frame().as_ref() }
}

impl Worker {
    /// Notes something about a task, or about the worker.
    #[inline(always)]
    pub(crate) fn note(&self, kind: Kind, task: u64, detail: u64) {
        if self.shared.witness.is_on() {
            self.write(kind, 0, task, detail);
        }
    }

    /// A task was spawned by the one that runs.
    #[inline(always)]
    pub(crate) fn note_spawn(&self, task: u64) {
        if self.shared.witness.is_on() {
            self.write(Kind::Spawn, 0, task, self.who());
        }
    }

    /// A task's turn begins: [`Kind::Start`] or [`Kind::Resume`].
    #[inline(always)]
    pub(crate) fn note_turn(&self, kind: Kind, task: &Task) {
        if self.shared.witness.is_on() {
            self.begin_turn(kind, task);
        }
    }

    /// A task's turn ends. The caller owns it.
    #[inline(always)]
    pub(crate) fn note_end_of_turn(&self, kind: Kind, task: &Task) {
        if self.shared.witness.is_on() {
            self.end_turn(kind, task);
        }
    }

    /// The task that runs; or that ran last, and left it to its worker to wake somebody.
    fn who(&self) -> u64 {
        // SAFETY: the running task is live.
        self.task().map_or(self.pen.task.get(), |running| unsafe { running.task.as_ref() }.id())
    }

    /// The clock, which does not go back.
    fn stamp(&self) -> u64 {
        let now = self.shared.ticks().max(self.pen.last.get());
        self.pen.last.set(now);
        now
    }

    /// As `stamp`, and after what this worker has read of what others wrote.
    fn stamp_after_reads(&self) -> u64 {
        let ticks = || self.shared.witness.clock.ticks_after_reads();
        let now = self.shared.log.as_ref().map_or_else(ticks, |log| log.now());
        self.pen.last.set(now.max(self.pen.last.get()));
        self.pen.last.get()
    }

    #[cold]
    fn begin_turn(&self, kind: Kind, task: &Task) {
        let pen = &self.pen;
        let now = if pen.turns.take() && self.shared.log.is_none() {
            pen.last.get()
        } else {
            self.stamp_after_reads()
        };
        pen.task.set(task.id());
        if self.shared.witness.measures() {
            pen.began.set(now.max(1));
            let times = &self.shared.witness.times[self.index];
            times.begin(now);
            if let Some(frame) = started_frame(task) {
                let ready = frame.seen().ready.take();
                if ready != 0 {
                    times.wakes.add(now.saturating_sub(ready));
                    frame.seen().times.goes_on(ready, now);
                }
            }
        }
        self.put(kind, now, 0, task.id(), 0);
    }

    #[cold]
    fn end_turn(&self, kind: Kind, task: &Task) {
        let pen = &self.pen;
        // The frame of a task that ends has taken its last stamp already.
        let now = if pen.turns.take() { pen.last.get() } else { self.stamp() };
        let (mut extra, mut detail) = (0, 0);
        // Of a task that ends the frame is gone.
        let frame = if kind == Kind::Finish { None } else { started_frame(task) };
        if kind == Kind::Park {
            match Reason::of(frame.and_then(|frame| frame.seen().why.get())) {
                Reason::Fixed(code, more) => (extra, detail) = (code, more),
                Reason::Word(word) => {
                    let ask = || self.shared.witness.table().number_of_name(&word.into());
                    extra = event::WORDS + u64::from(pen.memo.number(word.as_ptr().addr(), ask));
                }
            }
        }
        if self.shared.witness.measures() && kind != Kind::Alone {
            let ran = self.turn_ended(now);
            if let Some(frame) = frame {
                frame.seen().times.ran(ran);
                match kind {
                    Kind::Yield => frame.seen().ready.set(now.max(1)),
                    _ => frame.seen().times.parks(now),
                }
            }
        }
        self.put(kind, now, extra, task.id(), detail);
        pen.turns.set(kind != Kind::Alone);
    }

    /// How long the turn was; 0 if that was measured already.
    fn turn_ended(&self, now: u64) -> u64 {
        let began = self.pen.began.take();
        if began == 0 {
            return 0;
        }
        let ran = now.saturating_sub(began);
        self.shared.witness.times[self.index].end(ran);
        ran
    }

    /// The last turn of a task that has a frame ends. Returns its length, where times are measured.
    #[cold]
    pub(crate) fn last_turn(&self) -> u64 {
        let now = self.stamp();
        self.pen.turns.set(true);
        self.turn_ended(now)
    }

    /// The worker falls asleep, or wakes up.
    #[cold]
    pub(crate) fn note_rest(&self, kind: Kind) {
        self.pen.turns.set(false);
        if !self.shared.witness.is_on() {
            return;
        }
        let now = self.stamp();
        if self.shared.witness.measures() {
            let times = &self.shared.witness.times[self.index];
            if kind == Kind::Sleep { times.falls_asleep(now) } else { times.wakes_up(now) }
        }
        self.put(kind, now, 0, 0, 0);
    }

    /// The task that has just started says who it is.
    #[cold]
    pub(crate) fn note_origin(&self, frame: &Frame) {
        let (witness, origin) = (&self.shared.witness, frame.origin());
        let place = origin.spawned_at;
        let ask = || witness.table().number_of_place(place);
        let place = self.pen.memo.number((&raw const *place).addr(), ask);
        let name = origin.name.as_ref().map_or(0, |name| witness.table().number_of_name(name));
        let (task, origin) = (frame.record().id(), u64::from(place) | u64::from(name) << 32);
        if let Some(log) = &self.shared.log {
            log.amend(task, origin);
        } else if let Some(ring) = witness.ring(self.index) {
            ring.amend(|words| is_start_of(words, task), origin);
            ring.commit();
        }
    }

    /// A task was woken while it was about to wait; it is ours, and goes into a queue.
    #[inline(always)]
    pub(crate) fn note_latched(&self, task: &Task) {
        if self.shared.witness.is_on() {
            self.write_latched(task);
        }
    }

    #[cold]
    fn write_latched(&self, task: &Task) {
        if let Some(frame) = started_frame(task) {
            frame.seen().ready.set(self.pen.last.get().max(1));
        }
        self.put(Kind::Latched, self.pen.last.get(), 0, task.id(), 0);
    }

    #[cold]
    fn write(&self, kind: Kind, extra: u64, task: u64, detail: u64) {
        let witness = &self.shared.witness;
        if witness.keeps() {
            let now = self.stamp();
            self.put(kind, now, extra, task, detail);
        }
    }

    fn put(&self, kind: Kind, time: u64, extra: u64, task: u64, detail: u64) {
        let event = pack(time, kind, self.index, extra, task, detail);
        let witness = &self.shared.witness;
        if let Some(log) = &self.shared.log {
            log.push(event);
        } else if witness.traces()
            && let Some(ring) = witness.ring(self.index)
        {
            match kind {
                Kind::Start => ring.stage(event), // published by `note_origin`
                _ => ring.push(event),
            }
        }
    }
}

/// Whether this event is the start of this task.
pub(crate) fn is_start_of(words: &Words, task: u64) -> bool {
    words[1] as u8 == Kind::Start as u8 && words[2] == task
}
