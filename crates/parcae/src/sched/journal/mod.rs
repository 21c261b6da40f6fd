//! The journal: what has to be known about a run on threads to repeat it.
//!
//! A run is a function of the program, of the order in which workers run tasks, and of the order of
//! operations on each object that tasks share. The rest follows: what a task does between two
//! operations depends on it alone. So a worker writes down
//!
//! | entry | when | content |
//! |---|---|---|
//! | `Turn` | a turn of a task begins, also after a vain yield | the task |
//! | `Spawn` | the running task spawns another one | the new task |
//! | `Took` | the next task comes from elsewhere: stolen, inbox, global queue | the clock, the queue |
//! | `Change` | an operation, the last one on its object was another worker's | the clock, the place |
//! | `Timer` | a deadline of a waiting task has passed | the task, the clock |
//! | `Time`, `Number` | the task reads the clock, or draws the first case of a select | the value |
//!
//! | `Waited`, `Again` | a wait for tasks has ended, or goes on after a wake | – |
//!
//! each in one word, or two. The last two are the seams to the outside; I/O is not among them, see
//! below.
//!
//! # Why the order of operations is exact, and costs nothing while it is implied
//!
//! Two operations of one worker on an object are in the order in which the worker does them. Only
//! where the *worker changes* is there anything to write. An object's internal lock knows its last
//! worker: its tag (`base::lock`). An operation takes the lock by a compare-and-swap that expects
//! the caller's tag, so it is as fast as an operation that is not recorded, and it fails exactly
//! where the worker has changed. There the entry is written, under the lock, with a reading of the
//! clock. Operations without a lock take one while they are recorded: the fast paths of a mutex do
//! their compare-and-swap under the lock of its queue, and an atomic has a tag in a table.
//!
//! # Why replaying in the order of segments keeps the order of each object
//!
//! `Change` and `Took` cut the run of each worker into *segments*; a segment begins at the reading
//! of the clock in the entry. A replay runs segments one after the other, by their beginnings. Let
//! `a` and `b` be operations on one object, `a` before `b`. On one worker, `a` is in the same
//! segment or an earlier one. On two workers, let `b` be the first one after `a` that another
//! worker does; then `b` has a `Change`, and begins a segment. `a` was done before the lock was
//! released, so before the reading of `b`; the segment of `a` began earlier still. Hence it runs
//! first. This needs a clock that all processors share: the counter of the processor, where it is
//! steady (`events::clock`), else the system's.
//!
//! A task that waits for another one is not ready in the replay until it was woken, so the order of
//! wakes needs no entry. The one exception is a wait for the end of a task, which is no operation
//! on an object: on threads it may find the task ended where the replay has to wait, and the
//! reverse. So its end is written down. A replay that does not have to wait lets others run there,
//! if the recorded task did; one that has to wait goes on with the same turn. A segment whose task
//! is not ready waits until it is.
//!
//! # What a replay checks
//!
//! The replay (`lab::follow`) runs each worker's entries on a virtual worker. A `Change` says where
//! in the turn its operation is: turns have the same length in the replay, so the ops that are left
//! in the turn, and the points since it began, are the same there. A turn of a task that the
//! journal does not name, a spawn that it does not have, and its end are *divergences*; the first
//! is named.
//!
//! # Bounds
//!
//! A log has a fixed number of words. It keeps the *first* ones: a replay begins at the beginning,
//! and without it the last ones are of no use. Where it is full, the replay of that worker ends.
//!
//! # Not recorded
//!
//! - The program's own shared memory outside of [`sync`](crate::sync): atomics and locks of the
//!   standard library, data races. The replay diverges, or shows another result.
//! - Threads that are no workers. Their operations keep the tag, and have no entry.
//! - A deadline that races with an operation: its timer fires in the order of the clock readings,
//!   on the virtual clock.
//! - The checkpoint at which a task sees that it is cancelled; cases of a select after the first
//!   look; ends of tasks. Their order is that of the segments, which may differ.
//! - Results of I/O and of blocking calls. The lab simulates sockets and runs blocking calls by
//!   itself, so a program that depends on their timing diverges there.

mod entry;
mod log;
mod orders;

pub(crate) use entry::{JournalEntry, TurnPosition, TurnSource, decode};
pub(crate) use log::JournalLog;
pub(crate) use orders::{AtomicOrder, order_of};

use crate::base::lock::UNTAGGED;
use crate::sched::lab::LabPresence;
use std::sync::atomic::{AtomicU32, Ordering};

/// The least and the most words of a log.
pub(crate) const WORDS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 30;

/// The journal of a scheduler.
pub(crate) struct Journal {
    logs: Box<[JournalLog]>,
    /// The tag of the first worker; those of the others follow.
    first_tag: u32,
    /// While there is one, operations look whether they are recorded.
    _presence: LabPresence,
}

impl Journal {
    /// Room for so many words of each worker.
    pub(crate) fn new(workers: usize, words: usize) -> Journal {
        /// The next tag, halved. Relaxed: a unique number, nothing more.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // Relaxed, see `NEXT`.
        let first = NEXT.fetch_add(workers as u32, Ordering::Relaxed);
        let logs = (0..workers).map(|_| JournalLog::new(words)).collect();
        // After 2^31 workers tags repeat, and the highest bit is lost: an order may be missing.
        Journal { logs, first_tag: first << 1, _presence: LabPresence::new() }
    }

    pub(crate) fn logs(&self) -> &[JournalLog] {
        &self.logs
    }

    /// The tag of a worker.
    pub(crate) fn tag(&self, worker: usize) -> u32 {
        match self.first_tag.wrapping_add((worker as u32) << 1) {
            UNTAGGED => UNTAGGED.wrapping_sub(2),
            tag => tag,
        }
    }

    /// Whether this is the tag of one of its workers. An object may outlive a scheduler.
    pub(crate) fn has_tag(&self, tag: u32) -> bool {
        (0..self.logs.len()).any(|worker| self.tag(worker) == tag)
    }
}
