//! Events that a worker writes: turns of tasks, wakes, its own sleep. The header of
//! `sched::events` explains timestamps and rings.

use super::Worker;
use crate::sched::events::kind::{self, is_start_of, pack};
use crate::sched::events::spans::Span;
use crate::sched::events::{EventKind, WaitReason};
use crate::sched::task::Task;
use crate::sched::task::frame::FramePtr;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// The frame of a task, if it has one. The caller owns the task.
pub(crate) fn frame_of(task: &Task) -> Option<FramePtr> {
    Some(task.frame()).filter(|frame| !frame.is_null())
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
        if self.shared.tracer.is_on() {
            self.write(kind, 0, task, detail);
        }
    }

    /// The running task has spawned another one.
    #[inline(always)]
    pub(crate) fn note_spawn(&self, task: u64) {
        if self.shared.tracer.is_on() {
            self.write(EventKind::Spawn, 0, task, self.acting_task());
            if let Some(lab) = &self.shared.lab {
                lab.lock().spawned(task, self.acting_task());
            }
        }
    }

    /// A turn of a task begins: [`EventKind::Start`] or [`EventKind::Resume`].
    #[inline(always)]
    pub(crate) fn note_turn(&self, kind: EventKind, task: &Task) {
        if self.shared.tracer.is_on() {
            self.begin_turn(kind, task);
        }
    }

    /// A turn of a task ends. The caller owns the task.
    #[inline(always)]
    pub(crate) fn note_end_of_turn(&self, kind: EventKind, task: &Task) {
        if self.shared.tracer.is_on() {
            self.end_turn(kind, task);
        }
    }

    /// The running task; or the one that ran last, on whose behalf the worker wakes others.
    fn acting_task(&self) -> u64 {
        // SAFETY: the running task is live.
        self.task().map_or(self.events.task.get(), |running| unsafe { running.task.as_ref() }.id())
    }

    /// A new stamp, not below the last one.
    fn stamp(&self) -> u64 {
        self.events.read(|| self.shared.ticks())
    }

    /// A stamp for an event that no event of another thread has led to.
    #[inline]
    fn stamp_in_order(&self) -> u64 {
        let tracer = &self.shared.tracer;
        if tracer.is_exact() { self.stamp() } else { self.events.in_order(|| tracer.clock.ticks()) }
    }

    /// As `stamp`, and ordered after this worker's earlier reads of memory.
    fn stamp_after_reads(&self) -> u64 {
        let ticks = || self.shared.tracer.clock.ticks_after_reads();
        self.events.read(|| self.shared.log.as_ref().map_or_else(ticks, |log| log.now()))
    }

    #[cold]
    fn begin_turn(&self, kind: EventKind, task: &Task) {
        self.acted.set(true);
        let events = &self.events;
        let now = if events.reuse_stamp.take() && self.shared.log.is_none() {
            events.last.get()
        } else {
            self.stamp_after_reads()
        };
        events.task.set(task.id());
        if self.shared.tracer.measures() {
            events.turn_began.set(now.max(1));
            let worker = &self.shared.tracer.times[self.index];
            worker.begin(now);
            if let Some(starved) = self.shared.times_of(task).and_then(|times| times.resume(now)) {
                worker.wakes.add(starved);
            }
        }
        self.put(kind, now, 0, task.id(), 0);
    }

    #[cold]
    fn end_turn(&self, kind: EventKind, task: &Task) {
        let events = &self.events;
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
        self.put(kind, now, extra, task.id(), detail);
        if kind == EventKind::Finish
            && let Some(lab) = &self.shared.lab
        {
            lab.lock().ended(task.id());
        }
        events.reuse_stamp.set(kind != EventKind::Alone);
    }

    /// A task yields, and the worker has picked the next one: both events at once, where a
    /// recording runs and nothing else. Cannot panic. The caller owns the tasks.
    #[inline(always)]
    pub(super) fn note_switch(&self, from: &Task, to: &Task) {
        let (events, tracer) = (&self.events, &self.shared.tracer);
        let now = if events.reuse_stamp.take() { events.last.get() } else { self.stamp_in_order() };
        let Some(ring) = tracer.ring(self.index) else { return };
        let event = |kind, task: &Task| pack(now, kind, self.index, 0, task.id(), 0);
        if std::ptr::eq(from, to) {
            ring.push(event(EventKind::Alone, from));
        } else if to.has_started() {
            ring.push_two([event(EventKind::Yield, from), event(EventKind::Resume, to)]);
            events.task.set(to.id());
        } else {
            ring.push(event(EventKind::Yield, from));
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
        if !self.shared.tracer.is_on() {
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
    #[cold]
    pub(crate) fn note_origin(
        &self,
        task: u64,
        place: &'static Location<'static>,
        name: Option<&Arc<str>>,
    ) {
        let tracer = &self.shared.tracer;
        let ask = || tracer.names().number_of_place(place);
        let place = self.events.memo.number((&raw const *place).addr(), ask);
        let name = name.map_or(0, |name| tracer.names().number_of_name(name));
        let origin = u64::from(place) | u64::from(name) << 32;
        if let Some(log) = &self.shared.log {
            log.amend(task, origin);
        } else if let Some(ring) = tracer.ring(self.index) {
            ring.amend(|words| is_start_of(words, task), origin);
            ring.commit();
        }
    }

    /// A task was woken before its park took effect. The caller owns it, and will queue it.
    #[inline(always)]
    pub(crate) fn note_latched(&self, task: &Task) {
        if self.shared.tracer.is_on() {
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
        if !self.shared.tracer.keeps() {
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
        if self.shared.tracer.keeps() {
            // A stolen task has events of its victim, perhaps younger than the last stamp here.
            let stolen = kind == EventKind::Steal;
            let now = if stolen { self.stamp() } else { self.stamp_in_order() };
            self.put(kind, now, extra, task, detail);
        }
    }

    #[inline(always)]
    fn put(&self, kind: EventKind, time: u64, extra: u64, task: u64, detail: u64) {
        let event = pack(time, kind, self.index, extra, task, detail);
        let tracer = &self.shared.tracer;
        if let Some(log) = &self.shared.log {
            log.push(event);
        } else if tracer.traces()
            && let Some(ring) = tracer.ring(self.index)
        {
            match kind {
                EventKind::Start => ring.stage(event), // published by `note_origin`
                _ => ring.push(event),
            }
        }
    }
}
