//! Slabs: type-stable memory for task records.
//!
//! Records are allocated in chunks, never freed before the scheduler is, and never used for
//! anything else: a stale handle can always read the state word of "its" record. A worker has free
//! records of its own, and exchanges batches with the shared ones under a mutex.
//!
//! Free records are kept as arrays of pointers and not as lists through the records: a list
//! has to load each record to find the next, one cache miss after the other.

use super::Task;
use crate::stack::arch::prefetch;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Records in a chunk: 128 KiB.
const CHUNK: usize = 1024;
/// Number of records in a batch.
const BATCH: usize = 256;
/// Number of free records that a worker keeps.
const KEEP: usize = 8 * BATCH;

/// Distance at which a record is prefetched: this many takes before it is taken.
const AHEAD: usize = 8;

/// No heap memory for more task records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRecords;

/// All records of a scheduler.
pub(crate) struct Slab {
    shared: Mutex<Records>,
}

struct Records {
    /// Has the capacity for all records.
    free: Vec<NonNull<Task>>,
    chunks: Vec<NonNull<Task>>,
    /// Simulates that there is no memory.
    #[cfg(test)]
    exhausted: bool,
}

// SAFETY: records are plain memory, handed from one holder to the next under the mutex.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// A worker's own free records.
pub(crate) struct FreeRecords {
    /// Never longer than its capacity.
    free: Vec<NonNull<Task>>,
}

impl FreeRecords {
    pub(crate) fn new() -> FreeRecords {
        FreeRecords { free: Vec::with_capacity(KEEP) }
    }

    /// Takes the record that was returned last.
    #[inline]
    pub(crate) fn take(&mut self, slab: &Slab) -> Result<NonNull<Task>, OutOfRecords> {
        if let Some(record) = self.free.pop() {
            // Prefetch a record that will be taken soon: it may have been free for long.
            if let Some(&soon) = self.free.len().checked_sub(AHEAD).and_then(|i| self.free.get(i)) {
                prefetch(soon);
            }
            return Ok(record);
        }
        slab.refill(&mut self.free)?;
        self.free.pop().ok_or(OutOfRecords)
    }

    /// Takes a record back.
    #[inline]
    pub(crate) fn give(&mut self, record: NonNull<Task>, slab: &Slab) {
        if self.free.len() == KEEP {
            slab.give_back(&mut self.free, BATCH);
        }
        self.free.push(record);
    }

    /// Gives all records back.
    pub(crate) fn clear(&mut self, slab: &Slab) {
        let all = self.free.len();
        slab.give_back(&mut self.free, all);
    }
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab {
            shared: Mutex::new(Records {
                free: Vec::new(),
                chunks: Vec::new(),
                #[cfg(test)]
                exhausted: false,
            }),
        }
    }

    /// Simulates that there are no free records and no memory for more, or ends the simulation.
    #[cfg(test)]
    pub(crate) fn exhaust(&self, exhausted: bool) {
        self.lock().exhausted = exhausted;
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `show` for every record, including free ones. The lock is not held meanwhile: the
    /// memory of records keeps its type.
    pub(crate) fn each(&self, mut show: impl FnMut(&Task)) {
        let chunks = self.lock().chunks.clone();
        for chunk in chunks {
            for index in 0..CHUNK {
                // SAFETY: a record of a chunk, which lives as long as the scheduler. Only its
                // atomic fields are used by a thread that does not own the task.
                show(unsafe { chunk.add(index).as_ref() });
            }
        }
    }

    /// Moves a batch of free records to `into`, at least one.
    #[cold]
    fn refill(&self, into: &mut Vec<NonNull<Task>>) -> Result<(), OutOfRecords> {
        let mut records = self.lock();
        #[cfg(test)]
        if records.exhausted {
            return Err(OutOfRecords);
        }
        if records.free.is_empty() {
            records.grow()?;
        }
        let rest = records.free.len().saturating_sub(BATCH);
        into.extend(records.free.drain(rest..));
        Ok(())
    }

    /// Takes one free record, for a caller that has none of its own.
    pub(crate) fn take(&self) -> Result<NonNull<Task>, OutOfRecords> {
        let mut records = self.lock();
        if records.free.is_empty() {
            records.grow()?;
        }
        records.free.pop().ok_or(OutOfRecords)
    }

    /// Takes one free record back, from a caller that keeps none of its own.
    pub(crate) fn give(&self, record: NonNull<Task>) {
        self.lock().free.push(record);
    }

    /// Takes back the `count` records that have been free for longest.
    #[cold]
    fn give_back(&self, from: &mut Vec<NonNull<Task>>, count: usize) {
        self.lock().free.extend(from.drain(..count));
    }
}

impl Records {
    fn grow(&mut self) -> Result<(), OutOfRecords> {
        self.chunks.try_reserve(1).map_err(|_| OutOfRecords)?;
        // Room for all records that will exist, so that taking them back cannot fail.
        let all = (self.chunks.len() + 1) * CHUNK;
        self.free.try_reserve(all - self.free.len()).map_err(|_| OutOfRecords)?;
        let layout = chunk_layout();
        // SAFETY: the layout is not empty.
        let chunk = NonNull::new(unsafe { alloc(layout) }.cast::<Task>()).ok_or(OutOfRecords)?;
        self.chunks.push(chunk);
        // Backwards, so that they are taken in the order of their addresses.
        for index in (0..CHUNK).rev() {
            // SAFETY: inside the chunk, which is large and aligned enough; not yet in use.
            unsafe {
                let record = chunk.add(index);
                record.write(Task::free());
                self.free.push(record);
            }
        }
        Ok(())
    }
}

fn chunk_layout() -> Layout {
    Layout::array::<Task>(CHUNK).expect("a chunk is much smaller than memory")
}

impl Drop for Slab {
    fn drop(&mut self) {
        for chunk in self.lock().chunks.drain(..) {
            // SAFETY: allocated with this layout. The scheduler is gone, hence all tasks, and
            // records need no drop of their own.
            unsafe { dealloc(chunk.as_ptr().cast(), chunk_layout()) };
        }
    }
}
