//! Events that a worker writes: turns of tasks, wakes, its own sleep. The header of
//! `sched::events` explains timestamps and rings.

use super::Worker;
use crate::sched::events::kind::{self, pack};
use crate::sched::events::spans::Span;
use crate::sched::events::{EventKind, EventRing, WaitReason};
use crate::sched::task::Task;
use crate::sched::task::frame::FramePtr;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The frame of a task, if it has one. The caller owns the task.
pub(crate) fn frame_of(task: &Task) -> Option<FramePtr> {
    Some(task.frame()).filter(|frame| !frame.is_null())
}

/// The task that runs after a yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum YieldedTo {
    /// The same: there is no other.
    Itself,
    /// Another one, which has started.
    Resumed,
    /// Another one, which has not started.
    Unstarted,
}

/// Writes the event of a task that yields, when the worker has picked the next one, and of the turn
/// that begins.
pub(super) trait YieldNote {
    fn note(&self, next: &Task, then: YieldedTo);
}

/// No recording runs.
impl YieldNote for () {
    #[inline(always)]
    fn note(&self, _: &Task, _: YieldedTo) {}
}

/// A recording runs, and nothing else is on. Cannot panic. The worker owns the tasks.
pub(super) struct RecordedYield<'w> {
    pub(super) worker: &'w Worker,
    pub(super) ring: &'w EventRing,
    pub(super) from: NonNull<Task>,
}

impl YieldNote for RecordedYield<'_> {
    #[inline(always)]
    fn note(&self, to: &Task, then: YieldedTo) {
        if then == YieldedTo::Resumed && self.ring.switched(to.id()) {
            self.worker.events.task.set(to.id());
        } else if then != YieldedTo::Itself || !self.ring.alone() {
            // SAFETY: the task that yields, which is the worker's.
            self.worker.write_switch(unsafe { self.from.as_ref() }, to, then);
        }
    }
}

impl Worker {
    /// The span of the running task, with the feature `tracing`.
    #[inline(always)]
    pub(super) fn span_of(&self, task: NonNull<Task>) -> Option<&Span> {
        if cfg!(not(feature = "tracing")) {
            return None;
        }
        // SAFETY: the running task, whose frame stays until it has ended.
        unsafe {
            let frame = task.as_ref().frame();
            (!frame.is_null()).then(|| self.shared.host.frames().span(frame))
        }
    }

    /// Writes an event about a task, or about the worker.
    #[inline(always)]
    pub(crate) fn note(&self, kind: EventKind, task: u64, detail: u64) {
        if self.shared.tracer.is_heard() {
            self.write(kind, 0, task, detail);
        }
    }

    /// The running task has spawned another one.
    #[inline(always)]
    pub(crate) fn note_spawn(&self, task: u64) {
        if self.shared.tracer.is_on() {
            self.write_spawn(task);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_spawn(&self, task: u64) {
        if self.journal_spawn(task) {
            return;
        }
        let by = self.acting_task();
        if !self.is_recorded(|ring| ring.spawned(task, by)) {
            self.write_spawn_slowly(task, by);
        }
    }

    #[inline(never)]
    fn write_spawn_slowly(&self, task: u64, by: u64) {
        self.write(EventKind::Spawn, 0, task, by);
        if let Some(lab) = &self.shared.lab {
            lab.lock().spawned(task, by);
        }
    }

    /// A turn of a task begins: [`EventKind::Start`] or [`EventKind::Resume`].
    #[inline(always)]
    pub(crate) fn note_turn(&self, kind: EventKind, task: &Task) {
        if self.shared.tracer.is_on() {
            match kind {
                EventKind::Start => self.write_start(task),
                _ => self.write_resume(task),
            }
        }
    }

    /// A turn of a task ends. The caller owns the task.
    #[inline(always)]
    pub(crate) fn note_end_of_turn(&self, kind: EventKind, task: &Task) {
        if self.shared.tracer.is_heard() {
            match kind {
                EventKind::Finish => self.write_finish(task),
                EventKind::Yield => self.write_yield(task),
                _ => self.end_turn(kind, task),
            }
        }
    }

    /// The running task; or the one that ran last, on whose behalf the worker wakes others.
    #[inline]
    fn acting_task(&self) -> u64 {
        // SAFETY: the running task is live.
        self.current.get().map_or(self.events.task.get(), |task| unsafe { task.as_ref() }.id())
    }

    /// The fast path of a recording, where nothing else is on: an event with the last stamp. False
    /// if `write` has written nothing.
    #[inline(always)]
    fn is_recorded(&self, write: impl FnOnce(&EventRing) -> bool) -> bool {
        self.fast_ring().is_some_and(write)
    }

    /// The ring of the recording that runs, where nothing else is on. Called while the tracer is
    /// on.
    ///
    /// A log and measured times are there from the beginning or never, and `ring` keeps no ring
    /// beside them. A ring of an earlier recording takes no word of a fast path: the limit of a
    /// ring that is replaced is cleared, so the next event finds the present one. A worker that
    /// sets the limit just then writes up to 255 further events there: for this worker the
    /// recording begins some microseconds later.
    #[inline(always)]
    pub(super) fn fast_ring(&self) -> Option<&EventRing> {
        // SAFETY: rings are freed with the tracer, which the worker shares.
        unsafe { self.events.ring.get().as_ref() }
    }

    /// The ring of a recording. Stamps of an earlier recording are not used again.
    #[inline]
    fn ring(&self) -> Option<&EventRing> {
        let tracer = &self.shared.tracer;
        let ring = tracer.ring(self.index)?;
        if ring.take_restarted() {
            self.events.restart();
        }
        self.events.ring.set(if tracer.only_traces() { ring } else { ptr::null() });
        Some(ring)
    }

    /// Whether events go nowhere: the log of a schedule of the lab that is not recorded is only a
    /// clock.
    #[inline]
    fn is_unheard(&self) -> bool {
        let log = self.shared.log.as_ref();
        log.is_some_and(|log| !log.keeps()) && !self.shared.tracer.measures()
    }

    /// Position of the next event in the ring.
    fn position(&self) -> u64 {
        self.ring().map_or(0, EventRing::position)
    }

    /// A new stamp, not below the last one.
    fn stamp(&self) -> u64 {
        self.events.read(self.position(), || self.shared.ticks())
    }

    /// A stamp for an event that no event of another thread has led to.
    #[inline]
    fn stamp_in_order(&self) -> u64 {
        let tracer = &self.shared.tracer;
        if tracer.is_exact() {
            return self.stamp();
        }
        self.events.in_order(self.position(), &tracer.clock)
    }

    /// As `stamp`, and ordered after this worker's earlier reads of memory.
    fn stamp_after_reads(&self) -> u64 {
        let ticks = || self.shared.tracer.clock.ticks_after_reads();
        let read = || self.shared.log.as_ref().map_or_else(ticks, |log| log.now());
        self.events.read(self.position(), read)
    }

    /// The next task was queued by another worker: read the clock again. The end of the present
    /// turn is perhaps written after this, and its stamp is the begin of the next turn.
    #[inline(always)]
    pub(super) fn came_from_elsewhere(&self) {
        if self.shared.tracer.is_on() {
            self.share_no_stamp();
        }
    }

    #[cold]
    fn share_no_stamp(&self) {
        self.journal_took();
        if !self.shared.tracer.is_heard() {
            return;
        }
        self.events.share_no_stamp();
        if let Some(ring) = self.ring() {
            ring.share(0, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_start(&self, task: &Task) {
        if self.journal_turn(task) {
            return;
        }
        let (events, id) = (&self.events, task.id());
        let is_first = !task.is_between_calls();
        if is_first && events.reuse_stamp.get() && self.is_recorded(|ring| ring.starts(id)) {
            events.reuse_stamp.set(false);
            events.task.set(id);
        } else {
            self.begin_turn(EventKind::Start, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_resume(&self, task: &Task) {
        if self.journal_turn(task) {
            return;
        }
        let (events, id) = (&self.events, task.id());
        if events.reuse_stamp.get() && self.is_recorded(|ring| ring.resumed(id)) {
            events.reuse_stamp.set(false);
            events.task.set(id);
        } else {
            self.begin_turn(EventKind::Resume, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_yield(&self, task: &Task) {
        if !self.events.reuse_stamp.get() && self.is_recorded(EventRing::yielded) {
            self.events.reuse_stamp.set(true);
        } else {
            self.end_turn(EventKind::Yield, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_finish(&self, task: &Task) {
        // `last_turn` has perhaps taken the last stamp.
        if !self.events.reuse_stamp.get() && self.is_recorded(EventRing::finished) {
            self.events.reuse_stamp.set(true);
        } else {
            self.end_turn(EventKind::Finish, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_turn(&self, kind: EventKind, task: &Task) {
        let (events, id) = (&self.events, task.id());
        self.acted.set(true);
        events.task.set(id);
        if kind == EventKind::Start && self.shared.lab.is_some() {
            self.hide_spares(task);
        }
        if self.is_unheard() {
            return;
        }
        self.ring();
        let now = if events.reuse_stamp.take() && self.shared.log.is_none() {
            events.last.get()
        } else {
            self.stamp_after_reads()
        };
        if self.shared.tracer.measures() {
            events.turn_began.set(now.max(1));
            let worker = &self.shared.tracer.times[self.index];
            worker.begin(now);
            if let Some(starved) = self.shared.times_of(task).and_then(|times| times.resume(now)) {
                worker.wakes.add(starved);
            }
        }
        // A task that is called again has given its origin at its first start.
        let again = kind == EventKind::Start && task.is_between_calls();
        self.put(if again { EventKind::Resume } else { kind }, now, 0, id, 0);
    }

    #[cold]
    #[inline(never)]
    fn end_turn(&self, kind: EventKind, task: &Task) {
        let (events, id) = (&self.events, task.id());
        if kind == EventKind::Finish
            && let Some(lab) = &self.shared.lab
        {
            lab.lock().ended(id);
        }
        if self.is_unheard() {
            return;
        }
        // `last_turn` has taken the last stamp of a task that ends.
        let now = if events.reuse_stamp.take() { events.last.get() } else { self.stamp_in_order() };
        let (mut extra, mut detail) = (0, 0);
        // A task that has finished has no frame any more.
        let frame = if kind == EventKind::Finish { None } else { frame_of(task) };
        if kind == EventKind::Park {
            let frames = self.shared.host.frames();
            // SAFETY: the caller owns the task.
            let reason = frame.map(|frame| unsafe { frames.wait_reason(frame) });
            match reason.unwrap_or(WaitReason::Fixed(0, 0)) {
                WaitReason::Fixed(code, more) => (extra, detail) = (code, more),
                WaitReason::Word(word) => {
                    let ask = || self.shared.tracer.names().number_of_name(&word.into());
                    let number = events.memo.number(word.as_ptr().addr(), ask);
                    extra = kind::WORDS + u64::from(number);
                }
            }
        }
        if self.shared.tracer.measures() && kind != EventKind::Alone {
            let ran = self.turn_ended(now);
            if let Some(frame) = frame {
                // SAFETY: as above.
                let times = unsafe { self.shared.host.frames().times(frame) };
                times.ran(ran);
                match kind {
                    EventKind::Yield => times.ready(now),
                    _ => times.parks(now),
                }
            }
        }
        self.put(kind, now, extra, id, detail);
        events.reuse_stamp.set(kind != EventKind::Alone);
    }

    #[cold]
    #[inline(never)]
    fn write_switch(&self, from: &Task, to: &Task, then: YieldedTo) {
        let (events, from, to) = (&self.events, from.id(), to.id());
        self.ring();
        let now = if events.reuse_stamp.take() { events.last.get() } else { self.stamp_in_order() };
        if then == YieldedTo::Itself {
            return self.put(EventKind::Alone, now, 0, from, 0);
        }
        self.put(EventKind::Yield, now, 0, from, 0);
        if then == YieldedTo::Resumed {
            self.put(EventKind::Resume, now, 0, to, 0);
            events.task.set(to);
            if let Some(ring) = self.ring() {
                ring.share(to, events.until()); // it runs from now on
            }
        } else {
            events.reuse_stamp.set(true); // by its start
        }
    }

    /// Length of the turn; 0 if it was measured already.
    fn turn_ended(&self, now: u64) -> u64 {
        let began = self.events.turn_began.take();
        if began == 0 {
            return 0;
        }
        let ran = now.saturating_sub(began);
        self.shared.tracer.times[self.index].end(ran);
        ran
    }

    /// The last turn of a task with a frame ends. Returns its length, where times are measured.
    #[cold]
    pub(crate) fn last_turn(&self) -> u64 {
        let now = self.stamp_in_order();
        self.events.reuse_stamp.set(true);
        self.turn_ended(now)
    }

    /// The worker falls asleep, or wakes up.
    #[cold]
    pub(crate) fn note_rest(&self, kind: EventKind) {
        self.events.reuse_stamp.set(false);
        if !self.shared.tracer.is_heard() || self.is_unheard() {
            return;
        }
        let now = self.stamp();
        if self.shared.tracer.measures() {
            let times = &self.shared.tracer.times[self.index];
            if kind == EventKind::Sleep { times.falls_asleep(now) } else { times.wakes_up(now) }
        }
        self.put(kind, now, 0, 0, 0);
    }

    /// The task that has just started gives its name and spawn location.
    #[inline(always)]
    pub(crate) fn note_origin(
        &self,
        task: u64,
        place: &'static Location<'static>,
        name: Option<&Arc<str>>,
    ) {
        let (last, number) = self.events.place.get();
        let is_again = name.is_none() && last == (&raw const *place).addr();
        let until = self.events.until();
        if !is_again || !self.is_recorded(|ring| ring.started_again(task, number.into(), until)) {
            self.write_origin(task, place, name);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_origin(&self, task: u64, place: &'static Location<'static>, name: Option<&Arc<str>>) {
        let tracer = &self.shared.tracer;
        let (address, ask) = ((&raw const *place).addr(), || tracer.names().number_of_place(place));
        let place = match self.events.place.get() {
            (last, number) if last == address => number,
            _ => self.events.memo.number(address, ask),
        };
        self.events.place.set((address, place));
        let name = name.map_or(0, |name| tracer.names().number_of_name(name));
        let origin = u64::from(place) | u64::from(name) << 32;
        if let Some(log) = &self.shared.log {
            log.amend(task, origin);
        } else if let Some(ring) = tracer.ring(self.index) {
            ring.originate(task, origin, self.events.until());
        }
    }

    /// A task was woken before its park took effect. The caller owns it, and will queue it.
    #[inline(always)]
    pub(crate) fn note_latched(&self, task: &Task) {
        if self.shared.tracer.is_heard() {
            self.write_latched(task);
        }
    }

    #[cold]
    fn write_latched(&self, task: &Task) {
        if let Some(times) = self.shared.times_of(task) {
            times.ready(self.events.last.get());
        }
        self.put(EventKind::Latched, self.events.last.get(), 0, task.id(), 0);
    }

    /// A parked task was made ready on this worker, which owns it for now.
    pub(crate) fn write_wake(&self, task: &Task, owner: usize) {
        if !self.shared.tracer.keeps() || self.is_unheard() {
            return;
        }
        // Another worker may have parked the task just now: stamp the wake after that.
        let own = owner == self.index;
        let now = if own { self.stamp_in_order() } else { self.stamp_after_reads() };
        self.put(EventKind::Wake, now, owner as u64, task.id(), self.acting_task());
    }

    /// Writes an event about a task of this worker, or one that it has stolen.
    #[cold]
    pub(crate) fn write(&self, kind: EventKind, extra: u64, task: u64, detail: u64) {
        if self.shared.tracer.keeps() && !self.is_unheard() {
            // A stolen task has events of its victim, perhaps younger than the last stamp here.
            let stolen = kind == EventKind::Steal;
            let now = if stolen { self.stamp() } else { self.stamp_in_order() };
            self.put(kind, now, extra, task, detail);
        }
    }

    fn put(&self, kind: EventKind, time: u64, extra: u64, task: u64, detail: u64) {
        let tracer = &self.shared.tracer;
        if let Some(log) = &self.shared.log {
            if log.is_full() {
                // The memory is the runtime's, and no task's.
                let task = self.current.take();
                log.grow();
                self.current.set(task);
            }
            log.push(pack(time, kind, self.index, extra, task, detail));
        } else if tracer.traces()
            && let Some(ring) = tracer.ring(self.index)
        {
            match kind {
                EventKind::Start => ring.stage(time, task), // written by `note_origin`
                _ => ring.push(pack(time, kind, self.index, extra, task, detail)),
            }
            ring.share(self.acting_task(), self.events.until());
        }
    }
}
