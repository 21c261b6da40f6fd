//! Work that is due before a worker turns to another task, as bits of one byte: a worker that
//! switches from one task to the next looks at all of it by one test.

use std::cell::Cell;

/// The kinds of work that are due. Used by the worker alone.
pub(super) struct DueWork(Cell<u8>);

impl DueWork {
    /// Set when some of the worker's deadlines have passed, cleared when the loop acts on them,
    /// which it does before anything else.
    pub(super) const DEADLINES: u8 = 1;
    /// Set when `Remote::deferred` may have work in it, cleared when that is done.
    pub(super) const DEFERRED: u8 = 2;
    /// Set when a child is added to `Worker::ended`, cleared when its children are counted.
    pub(super) const ENDED: u8 = 4;
    /// Set when the worker first sees that there are tenants, and stays: the ops of each task are
    /// counted when it leaves its stack.
    pub(super) const TENANTS: u8 = 8;

    pub(super) fn new() -> DueWork {
        DueWork(Cell::new(0))
    }

    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.get() != 0
    }

    #[inline(always)]
    pub(super) fn has(&self, kind: u8) -> bool {
        self.0.get() & kind != 0
    }

    /// Whether children have ended that are not counted, or whose work is deferred.
    #[inline(always)]
    pub(super) fn has_ended(&self) -> bool {
        self.has(DueWork::DEFERRED | DueWork::ENDED)
    }

    #[inline(always)]
    pub(super) fn set(&self, kind: u8) {
        self.0.set(self.0.get() | kind);
    }

    #[inline(always)]
    pub(super) fn clear(&self, kind: u8) {
        self.0.set(self.0.get() & !kind);
    }

    /// Clears it, and returns whether it was set.
    #[inline(always)]
    pub(super) fn take(&self, kind: u8) -> bool {
        let was = self.has(kind);
        self.clear(kind);
        was
    }
}
