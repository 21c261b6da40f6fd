//! Kinds of operations.

/// The kind of an operation that a task is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OpKind {
    /// A [`point!`](crate::point!) of the program.
    Point,
    /// A checkpoint, or a yield.
    Checkpoint,
    /// A load of an [atomic](crate::sync::atomic).
    Load,
    /// A store to an atomic.
    Store,
    /// A read-modify-write of an atomic.
    Update,
    /// A lock, exclusive.
    Lock,
    /// A shared lock of a `RwLock`.
    Read,
    /// An unlock.
    Unlock,
    /// Permits of a semaphore are acquired.
    Acquire,
    /// Permits are returned or added.
    Release,
    /// A wait for a condition variable, a notification, an event, a barrier.
    Wait,
    /// A notification.
    Notify,
    /// A send on a channel.
    Send,
    /// A receive from a channel.
    Receive,
    /// A channel or one of its ends is closed.
    Close,
    /// A select over several operations.
    Select,
    /// A task is spawned.
    Spawn,
    /// A wait for the end of tasks.
    Join,
    /// A cancellation.
    Cancel,
    /// A sleep or a timer.
    Timer,
    /// The first instruction of a task.
    Start,
}
