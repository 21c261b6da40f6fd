//! The thread of a worker, as the monitor and dumps see it.

use super::parker::Resting;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The thread of a worker: its id, and whether it rests.
pub(crate) struct WorkerThread {
    /// The system's id of the thread; 0 while there is none. Written under the lock of the
    /// thread set.
    tid: AtomicI32,
    /// Whether the thread may be probed by a signal: it has a signal stack.
    probeable: AtomicBool,
    pub(crate) resting: Resting,
}

impl WorkerThread {
    pub(crate) fn new() -> WorkerThread {
        WorkerThread {
            tid: AtomicI32::new(0),
            probeable: AtomicBool::new(false),
            resting: Resting::new(),
        }
    }

    /// Whether there is a thread.
    pub(crate) fn exists(&self) -> bool {
        self.tid() != 0
    }

    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) // a hint, or read under the lock of the thread set
    }

    /// The thread starts; or it ends, with 0. Called under the lock of the thread set.
    pub(crate) fn set_tid(&self, tid: i32, probeable: bool) {
        // Relaxed, both: readers that need the exact value hold the same lock.
        self.tid.store(tid, Ordering::Relaxed);
        self.probeable.store(probeable, Ordering::Relaxed);
    }

    /// The id, if the thread may be probed by a signal. Called under the lock of the thread set.
    pub(crate) fn probeable(&self) -> Option<i32> {
        self.probeable.load(Ordering::Relaxed).then(|| self.tid()) // written under the same lock
    }

    /// Whether the worker searches for work or sleeps.
    pub(crate) fn rests(&self) -> bool {
        self.resting.get()
    }
}
