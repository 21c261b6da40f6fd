//! The journal: what has to be known about a run on threads to repeat it. With the feature
//! `record`.
//!
//! A run is a function of the program, of the order in which workers run tasks, and of the order of
//! operations on each object that tasks share. The rest follows: what a task does between two
//! operations depends on it alone. An *operation* is here a critical section of an object's
//! internal lock, or one access to an atomic. Each task's operations are counted, in the recorded
//! run and in its replay. A worker writes down
//!
//! | entry | when | content |
//! |---|---|---|
//! | `Turn` | a turn of a task begins | the task, the count |
//! | `Spawn` | the running task spawns another one | the new task |
//! | `Took` | the next task comes from elsewhere: stolen, inbox, global queue | the clock |
//! | `Change` | an operation, the last one on its object was another worker's | the clock, the count |
//! | `TimedOut` | a deadline of the running task has passed | the clock, the count |
//! | `Time`, `Number` | the task reads the clock, or draws the first case of a select | the value |
//!
//! each in one word, or two.
//!
//! # Why the order of operations is exact, and costs little while it is implied
//!
//! Two operations of one worker on an object are in the order in which the worker does them. Only
//! where the *worker changes* is there anything to write. An object's lock keeps the tag of its
//! last worker beside the object (`worker::ordered`); the next one compares it, under the lock. If
//! it differs, the entry is written there and then, with a reading of the clock. Operations without
//! a lock take one while they are recorded: the fast paths of a mutex do their compare-and-swap
//! under the lock of its queue, and an atomic has a tag in a table (`atomics`).
//!
//! # Segments, and why running them in their order keeps the order of each object
//!
//! `Turn`, `Change` and `TimedOut` cut the run of a task into *segments*, by its own count of
//! operations: from which on, and up to the next one. A segment has a *stamp*: the reading of the
//! clock in the last entry with one in the worker's log, up to its beginning. The replay
//! (`lab::follow`) runs the segments in the order of (stamp, worker, position in the log).
//!
//! Let `a` and `b` be operations on one object, `a` before `b`. On one worker, `a` is in the same
//! segment or an earlier one, whose stamp is no later. On two workers, let `b` be the first one
//! after `a` that another worker does; then `b` has a `Change`, and begins a segment. `a` was done
//! before the lock was released, so before the reading of `b`; the reading of the segment of `a`
//! came earlier still. Hence it runs first. This needs a clock that all processors share: the
//! counter of the processor, where it is steady (`events::clock`), else the system's.
//!
//! A task that waits for another one goes on in the replay when it was woken, so the order of wakes
//! needs no entry, and the end of a wait for a task is no operation. On threads a task may find the
//! other one ended where the replay has to wait: its segment then goes on when the other one has
//! ended, before all later ones. Or the reverse: then it stops before its next operation, since
//! that is in a later segment. Between two operations there is nothing that others could see.
//!
//! # Deadlines
//!
//! Whether a deadline has passed is decided in one place, by the task itself
//! (`scope::cx::parking`), and written down. In the replay it passes exactly there, when its
//! segment comes; the clock has no part in it.
//!
//! # What a replay checks
//!
//! A task that does an operation more or less than recorded, a spawn that the journal does not
//! have, or a recorded task that never comes is a *divergence*; the first is named, with the
//! operation and its place in the program.
//!
//! # Bounds
//!
//! A log has a fixed number of words. It keeps the *first* ones: a replay begins at the beginning,
//! and without it the last ones are of no use.
//!
//! # Not recorded
//!
//! - The program's own shared memory outside of [`sync`](crate::sync): atomics and locks of the
//!   standard library, data races.
//! - Threads that are no workers. Their operations keep the tag, and have no entry.
//! - The checkpoint at which a running task sees that it is cancelled, and deadlines of nurseries
//!   and tokens, which cancel.
//! - Timers of channels and sleeps that are futures. They fire by the lab's own clock.
//! - Results of I/O and of blocking calls.
//!
//! A program whose course depends on these diverges in the replay, which says so.

mod atomics;
mod entry;
mod log;

pub(crate) use atomics::{StripeGuard, hold_atomic};
pub(crate) use entry::{JournalEntry, decode};
pub(crate) use log::{JournalLog, LogContent};

use crate::sched::lab::LabPresence;
use std::sync::atomic::{AtomicU32, Ordering};

/// The least and the most words of a log.
pub(crate) const WORDS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 30;

/// The journal of a scheduler.
pub(crate) struct Journal {
    logs: Box<[JournalLog]>,
    /// While there is one, operations look whether they are recorded.
    _presence: LabPresence,
}

impl Journal {
    /// Room for so many words of each worker.
    pub(crate) fn new(workers: usize, words: usize) -> Journal {
        /// The next tag. Relaxed: a unique number, nothing more.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let log = |_| loop {
            // Relaxed, see `NEXT`. After 2^32 workers tags repeat: an order may be missing.
            let tag = NEXT.fetch_add(1, Ordering::Relaxed);
            if tag != 0 {
                break JournalLog::new(words, tag);
            }
        };
        Journal { logs: (0..workers).map(log).collect(), _presence: LabPresence::new() }
    }

    pub(crate) fn logs(&self) -> &[JournalLog] {
        &self.logs
    }
}
