//! The host of a scheduler: callbacks into the storeys above it.
//!
//! `Shared` has what workers need. The parts of a runtime that workers do not need (the monitor,
//! threads for blocking calls, tallies of nurseries, the deadlock policy) belong to the [`Host`]:
//! one per scheduler, given to it when it is made. The scheduler knows them only by this trait. A
//! storey above finds its own part by type: [`Shared::part`].
//!
//! Nothing here is called on a hot path.

use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::task::frame::FrameAccess;
use crate::sched::worker::Deferred;
use std::any::{Any, TypeId};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// The host of a scheduler.
pub(crate) trait Host: Send + Sync {
    /// The part of this type; `None` if the host has none.
    fn part(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)>;

    /// Access to the frames of tasks.
    fn frames(&self) -> &'static dyn FrameAccess;

    /// A batch of deferred work, for one worker.
    fn deferred(&self) -> Box<dyn Deferred>;

    /// Starts the thread that monitors the workers.
    ///
    /// # Errors
    ///
    /// The system refuses a thread.
    fn start_monitor(&self, threads: &Arc<ThreadSet>) -> io::Result<JoinHandle<()>>;

    /// Under the deterministic executor: no task can run, and no deadline is left. Returns the
    /// number of tasks whose waits were ended. `before` counts earlier calls in the same run.
    fn all_asleep(&self, shared: &Shared, before: usize) -> usize;

    /// Under the deterministic executor: no task can run, and time is about to pass. Ends the waits
    /// of tasks that wait for each other; returns their number.
    fn some_asleep(&self, shared: &Shared) -> usize;

    /// Under the deterministic executor: the time has come that was given to
    /// [`Shared::tick_at`]. Returns the next one.
    fn tick(&self, shared: &Shared) -> Nanos;

    /// Cancels all tasks of the runtime, for good.
    fn abandon(&self, shared: &Shared);

    /// Lets the threads of blocking calls end when the queued calls are done.
    fn stop(&self);

    /// As [`stop`](Host::stop), and waits for these threads until the deadline. Returns the number
    /// of calls that were left behind.
    fn stop_and_wait(&self, deadline: Option<Instant>) -> usize;
}
