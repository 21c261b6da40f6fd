//! Events that concern the whole scheduler, or are written by threads that are no workers. The
//! header of `sched::events` explains timestamps and rings.

use super::Shared;
use crate::sched::events::kind::{OUTSIDE, pack};
use crate::sched::events::{EventKind, Rate, TaskTimes};
use crate::sched::task::{Task, TaskRef};
use crate::sched::worker::{self, Worker};

impl Shared {
    /// The present time in ticks, the unit of timestamps.
    pub(crate) fn ticks(&self) -> u64 {
        self.log.as_ref().map_or_else(|| self.tracer.clock.ticks(), |log| log.now())
    }

    /// Duration of a tick. May sleep a little for a good estimate.
    pub(crate) fn rate(&self) -> Rate {
        if self.log.is_some() { Rate::STEPS } else { self.tracer.clock.rate() }
    }

    /// Writes an event about a task, on a thread that is no worker.
    #[inline]
    pub(crate) fn note_outside(&self, kind: EventKind, task: u64, to: usize) {
        if self.tracer.is_heard() {
            self.write_outside(kind, task, to);
        }
    }

    #[cold]
    fn write_outside(&self, kind: EventKind, task: u64, to: usize) {
        let event = |time| pack(time, kind, OUTSIDE, to as u64, task, 0);
        if let Some(log) = &self.log {
            log.push(event(log.now()));
        } else if self.tracer.traces()
            && let Some(ring) = &*self.tracer.outside()
        {
            // Stamped under the lock, so the ring is in order.
            ring.push(event(self.tracer.clock.ticks_after_reads()));
        }
    }

    /// A deadline of a waiting task has passed.
    pub(crate) fn note_timer(&self, task: TaskRef) {
        if !self.tracer.is_heard() {
            return;
        }
        // SAFETY: records live as long as the scheduler. The deadline is removed before the task
        // ends, so this is its id; if it ends just now, the id may be that of the next task.
        let id = unsafe { task.task.as_ref() }.id();
        worker::with_current_of(self, |here| match here {
            Some(worker) => worker.write(EventKind::Timer, 0, id, 0),
            None => self.write_outside(EventKind::Timer, id, 0),
        });
    }

    /// A parked task was made ready. The caller owns it, and will queue it.
    #[inline]
    pub(crate) fn note_wake(&self, here: Option<&Worker>, task: &Task, owner: usize) {
        if self.tracer.is_heard() {
            self.write_wake(here, task, owner);
        }
    }

    #[cold]
    fn write_wake(&self, here: Option<&Worker>, task: &Task, owner: usize) {
        if self.tracer.measures()
            && let Some(times) = self.times_of(task)
        {
            times.ready(self.ticks());
        }
        match here {
            Some(worker) => worker.write_wake(task, owner),
            None => self.write_outside(EventKind::Wake, task.id(), owner),
        }
    }

    /// The times of a started task. The caller owns it.
    pub(crate) fn times_of<'t>(&self, task: &'t Task) -> Option<&'t TaskTimes> {
        // SAFETY: the caller owns the task; the frame stays until the task has ended.
        worker::events::frame_of(task).map(|frame| unsafe { self.host.frames().times(frame) })
    }
}
