//! Entries of a worker in its journal (`sched::journal`), and the locks of recorded operations.

use super::events::frame_of;
use super::{Worker, point, with_current};
use crate::base::lock::{Guard, Lock, UNTAGGED};
use crate::sched::journal::{AtomicOrder, JournalEntry, JournalLog, TurnPosition, order_of};
use crate::sched::lab::{OpKind, is_any_alive};
use crate::sched::task::Task;

impl Worker {
    /// Its log; `None` without a journal.
    #[inline(always)]
    fn journal(&self) -> Option<&JournalLog> {
        // SAFETY: of `shared`, which the worker keeps.
        unsafe { self.journal.as_ref() }
    }

    /// The tag of the objects that this worker used last; [`UNTAGGED`] without a journal.
    #[inline(always)]
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// Writes into the journal, if there is one. True if nothing else has to hear of it.
    #[inline(always)]
    pub(super) fn is_journalled(&self, write: impl FnOnce(&JournalLog)) -> bool {
        let Some(log) = self.journal() else { return false };
        write(log);
        !self.shared.tracer.is_heard()
    }

    /// A turn of a task begins. True if nothing else has to hear of it.
    #[inline(always)]
    pub(super) fn journal_turn(&self, task: &Task) -> bool {
        self.points.set(0);
        self.is_journalled(|log| log.turn(task.id()))
    }

    /// The running task is at a point that counts for the place of operations in its turn.
    #[inline]
    pub(super) fn journal_point(&self, kind: OpKind) {
        if kind.counts_in_turn() {
            self.points.set(self.points.get() + 1);
        }
    }

    /// Ops that are left in the turn of a task, which the caller owns.
    pub(super) fn ops_left_of(&self, task: &Task) -> u32 {
        // SAFETY: as the caller says.
        let left =
            frame_of(task).map_or(0, |frame| unsafe { self.shared.host.frames().ops_left(frame) });
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    fn turn_position(&self) -> TurnPosition {
        // SAFETY: the running task.
        let task = self.current.get().map(|task| unsafe { task.as_ref() });
        let left = task.map_or(0, |task| self.ops_left_of(task));
        TurnPosition { left, points: self.points.get() }
    }

    /// The clock of the journal, after this thread's earlier reads of memory.
    pub(super) fn journal_clock(&self) -> u64 {
        self.shared.tracer.clock.ticks_after_reads()
    }
}

/// The tag of the worker that runs on this thread.
#[inline]
pub(crate) fn tag_here() -> u32 {
    if is_any_alive() { tag_slow() } else { UNTAGGED }
}

#[cold]
#[inline(never)]
fn tag_slow() -> u32 {
    with_current(Worker::tag).unwrap_or(UNTAGGED)
}

/// The last operation on an object was that of the worker with this tag, and the next one is that
/// of the current worker, which has the object's lock.
#[cold]
pub(crate) fn taken_over(before: u32) {
    with_current(|worker| {
        let journal = worker.shared.journal.as_ref();
        if journal.is_some_and(|journal| journal.has_tag(before)) {
            let (clock, position) = (worker.journal_clock(), worker.turn_position());
            worker.is_journalled(|log| log.write(JournalEntry::Change(clock, position)));
        }
    });
}

/// Takes the lock of an object for an operation of the running task that is recorded: the same one
/// that has a [point](super::point) in the lab.
#[inline]
pub(crate) fn lock_recorded<T>(lock: &Lock<T>) -> Guard<'_, T> {
    if is_any_alive() { lock_recorded_slow(lock) } else { lock.lock() }
}

#[cold]
#[inline(never)]
fn lock_recorded_slow<T>(lock: &Lock<T>) -> Guard<'_, T> {
    lock.lock_as(tag_here(), taken_over)
}

/// Whether the operations of the running task are recorded.
#[inline(always)]
pub(crate) fn is_recorded() -> bool {
    tag_here() != UNTAGGED
}

/// Keeps other recorded operations away from the atomic at this address; `None` if the running task
/// is not recorded.
#[inline(always)]
pub(crate) fn atomic_order(address: usize) -> Option<AtomicOrder> {
    if is_any_alive() { atomic_order_slow(address) } else { None }
}

#[cold]
#[inline(never)]
fn atomic_order_slow(address: usize) -> Option<AtomicOrder> {
    order_of(address, tag_here(), taken_over)
}

/// The running task has waited for other tasks to end. In a replay others may have their turns
/// first, if they had in the recorded run.
#[inline(always)]
pub(crate) fn waited() {
    if is_any_alive() {
        waited_slow();
    }
}

#[cold]
#[inline(never)]
fn waited_slow() {
    let follows = with_current(|worker| {
        worker.is_journalled(|log| log.write(JournalEntry::Waited));
        worker.shared.lab.as_ref().is_some_and(|lab| lab.lock().follows())
    });
    if follows == Some(true) {
        point(OpKind::Join, 0);
    }
}

/// The running task was woken, and waits on for other tasks to end.
#[inline(always)]
pub(crate) fn waits_again() {
    if is_any_alive() {
        waits_again_slow();
    }
}

#[cold]
#[inline(never)]
fn waits_again_slow() {
    with_current(|worker| worker.is_journalled(|log| log.write(JournalEntry::Again)));
}

/// Records a number that the running task has drawn. A replay asks the lab for numbers.
pub(crate) fn recorded_number(number: u64) -> u64 {
    with_current(|worker| worker.is_journalled(|log| log.write(JournalEntry::Number(number))));
    number
}

/// Records a time that the running task has read; in a replay, the one that was recorded.
#[cold]
#[inline(never)]
pub(crate) fn recorded_time(nanos: u64) -> u64 {
    let replayed = with_current(|worker| {
        worker.is_journalled(|log| log.write(JournalEntry::Time(nanos)));
        worker.shared.lab.as_ref()?.lock().recorded_time()
    });
    replayed.flatten().unwrap_or(nanos)
}
