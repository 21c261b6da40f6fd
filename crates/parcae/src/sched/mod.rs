//! The scheduler: tasks, the queues that they are in, the workers that run them, and the sleep of
//! workers that have nothing to do.
//!
//! | module | owns |
//! |---|---|
//! | `task` | the record of a task, its state word, the group that it is counted in |
//! | `run_queue` | the run queues, and the order in which a worker looks at them |
//! | `deque`, `queue` | the queues that run queues are made of |
//! | `idle` | searching, sleeping and waking of workers |
//! | `worker` | one worker: picks a task, runs it, switches stacks |
//! | `executor` | how workers are driven: by threads, or by one thread from a seed |
//! | `events` | events and times of tasks and workers |
//! | `timers` | deadlines, and the clock |
//! | `journal` | the record of a run on threads, for a replay in the lab |
//! | `lab` | strategies that choose the next task, for tests |
//! | `monitor` | state shared by workers and the monitor thread |
//! | `host` | the interface of the scheduler to the storeys above it |
//! | `shared` | state shared by all workers of one scheduler |

pub(crate) mod deque;
pub(crate) mod events;
pub(crate) mod executor;
pub(crate) mod host;
pub(crate) mod idle;
#[cfg(feature = "record")]
pub(crate) mod journal;
pub(crate) mod lab;
pub(crate) mod monitor;
pub(crate) mod queue;
pub(crate) mod run_queue;
mod shared;
pub(crate) mod task;
pub(crate) mod timers;
pub(crate) mod worker;

pub use idle::SocketBackend;
pub use run_queue::Victims;
pub(crate) use shared::*;
