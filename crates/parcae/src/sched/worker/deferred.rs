//! Work that a task leaves to its worker when it ends, to be done once for many tasks.
//!
//! The worker flushes the batch when it turns to anything else than another child of the same
//! group, before it counts the ended children (`Worker::count_ended`). Other workers may flush it
//! earlier (`Shared::flush_deferred`). The scheduler does not know the content of the batch: the
//! accounts of ended tasks, today (`scope::budget::returned`).

use std::any::Any;

/// A batch of deferred work of one worker.
pub(crate) trait Deferred: Any + Send + Sync {
    /// Does the work. Called by any thread, at any time.
    fn flush(&self);
}
