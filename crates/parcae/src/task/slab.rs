//! Slabs: memory for task records that stays what it is.
//!
//! Records are allocated in chunks, never freed before the scheduler is, and never used for
//! anything else: a stale handle can always read the state word of "its" record. A worker
//! keeps a list of free records of its own; what is too many or too few moves to and from
//! the shared list in batches, under a mutex.

use super::Task;
use crate::queue::Chain;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Records in a chunk: 128 KiB.
const CHUNK: usize = 1024;
/// How many records move at once.
pub(crate) const BATCH: usize = 64;
/// How many free records a worker keeps.
pub(crate) const KEEP: usize = 4 * CHUNK;

/// No heap memory for more task records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRecords;

/// All records of a scheduler.
pub(crate) struct Slab {
    shared: Mutex<Records>,
}

struct Records {
    free: Chain<Task>,
    chunks: Vec<NonNull<Task>>,
}

// SAFETY: records are plain memory, handed from one holder to the next under the mutex.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab { shared: Mutex::new(Records { free: Chain::new(), chunks: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a batch of free records to `into`, at least one.
    #[cold]
    pub(crate) fn refill(&self, into: &mut Chain<Task>) -> Result<(), OutOfRecords> {
        let mut records = self.lock();
        if records.free.is_empty() {
            return records.grow(into);
        }
        for _ in 0..BATCH {
            match records.free.pop_front() {
                // SAFETY: out of one chain, into another.
                Some(record) => unsafe { into.push_back(record) },
                None => break,
            }
        }
        Ok(())
    }

    /// Takes one free record, for a caller that has no list of its own.
    pub(crate) fn take(&self) -> Result<NonNull<Task>, OutOfRecords> {
        let mut records = self.lock();
        if records.free.is_empty() {
            let mut grown = Chain::new();
            records.grow(&mut grown)?;
            records.free.append(grown);
        }
        records.free.pop_front().ok_or(OutOfRecords)
    }

    /// Takes free records back.
    pub(crate) fn give_back(&self, records: Chain<Task>) {
        self.lock().free.append(records);
    }
}

impl Records {
    fn grow(&mut self, into: &mut Chain<Task>) -> Result<(), OutOfRecords> {
        self.chunks.try_reserve(1).map_err(|_| OutOfRecords)?;
        let layout = chunk_layout();
        // SAFETY: the layout is not empty.
        let chunk = NonNull::new(unsafe { alloc(layout) }.cast::<Task>()).ok_or(OutOfRecords)?;
        self.chunks.push(chunk);
        for index in 0..CHUNK {
            // SAFETY: inside the chunk, which is large and aligned enough; not yet in use.
            unsafe {
                let record = chunk.add(index);
                record.write(Task::free());
                into.push_back(record);
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
        let mut records = self.lock();
        while records.free.pop_front().is_some() {}
        for chunk in records.chunks.drain(..) {
            // SAFETY: allocated with this layout. The scheduler is gone, hence all tasks, and
            // records need no drop of their own.
            unsafe { dealloc(chunk.as_ptr().cast(), chunk_layout()) };
        }
    }
}
