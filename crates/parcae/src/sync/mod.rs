//! Locks and signals for tasks and threads.
//!
//! | purpose | types |
//! |---|---|
//! | mutual exclusion | [`Mutex`], [`RwLock`] |
//! | limited concurrency | [`Semaphore`] |
//! | notification | [`Notify`], [`Event`], [`Condvar`] |
//! | rendezvous of a group | [`Barrier`] |
//! | atomics that tests can interleave | [`atomic`] |
//! | one-time initialisation | [`Once`], [`OnceCell`], [`Lazy`] |
//!
//! A wait on a task parks the task and frees its worker for other tasks. A wait on any other thread
//! blocks the thread. Tasks of several runtimes and plain threads may share one lock.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::sync::Mutex;
//!
//! let total = Mutex::new(0);
//! let rt = Runtime::builder().workers(2).build()?;
//! rt.run(|cx| {
//!     cx.nursery(|n| {
//!         for i in 1..=10 {
//!             let total = &total;
//!             n.spawn(move |_| {
//!                 *total.lock()? += i; // parks the task if it has to wait
//!                 Ok(())
//!             })?;
//!         }
//!         Ok(())
//!     })
//! })?;
//! assert_eq!(*total.lock()?, 55); // blocks the thread if it has to wait
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Cancelling
//!
//! A call that has to wait is a cancel point. If the task is cancelled during the wait, the call
//! returns an error and has no effect: a lock, permit or signal granted in the same moment passes
//! to the next waiter. A call that need not wait succeeds even on a cancelled task. A task cannot
//! wait in a destructor that runs because of a panic: a call that would have to wait fails there.
//! Releasing a guard or permit never waits, so dropping one is always safe.
//!
//! # Loops around these calls
//!
//! A task that loops must reach a checkpoint now and then. At a checkpoint other tasks run, the
//! task is charged, and it learns of a cancellation. A call that has to wait is a checkpoint and
//! charges one op. A call that succeeds without waiting is not, and neither is a call that never
//! waits: the call is too short for that, and clean-up code relies on its success.
//!
//! | call | checkpoint |
//! |---|---|
//! | `lock`, `read`, `write`, `acquire…`, `wait…`, `call_once`, `get_or_init`, [`Lazy::get`], and their forms with a deadline | if it has to wait, even with a timeout of zero |
//! | [`Condvar::wait`], [`Condvar::wait_while`] while the condition holds | always |
//! | `try_…`, `is_…`, `available`, `get` | never |
//! | `notify_…`, [`Event::set`], [`Event::reset`], [`Semaphore::add`], [`Semaphore::close`], unlocking, dropping a guard or permit | never |
//! | [`time::sleep`], [`sleep_until`](crate::time::sleep_until), [`Interval::tick`](crate::time::Interval::tick), [`Cx::timeout`](crate::Cx::timeout) | always |
//! | [`block_on`](crate::block_on) | between two polls |
//! | [`blocking()`](crate::blocking()), [`blocking_static`](crate::blocking_static) | always |
//! | `set`, `modify`, `get`, `has_changed`, `mark_…` of a [watched value](crate::channel::watch()), `len` and other queries on channels | never |
//! | [`CancelToken::wait`](crate::CancelToken::wait) | if it has to wait |
//! | [`CancelToken::is_cancelled`](crate::CancelToken::is_cancelled), `check`, [`time::now`] | never |
//! | operations on [channels](crate::channel) that return a `Result`, `try_…` included | always |
//! | [`yield_now`](crate::yield_now), [`Cx::yield_now`](crate::Cx::yield_now) | other tasks run, and it is a cancel point; charges nothing |
//!
//! A loop around a call that is not a checkpoint needs [`Cx::checkpoint`](crate::Cx::checkpoint) or
//! [`checkpoint`](crate::checkpoint):
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::sync::Mutex;
//!
//! let data = Mutex::new(1);
//! let rt = Runtime::builder().workers(1).build()?;
//! rt.run(|cx| {
//!     cx.nursery(|n| {
//!         let guard = data.lock()?;
//!         n.spawn(|cx| {
//!             while data.try_lock().is_none() {
//!                 cx.checkpoint()?; // lets the holder of the lock run
//!             }
//!             Ok(())
//!         })?;
//!         cx.yield_now()?;
//!         drop(guard);
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Panics
//!
//! Locks are not poisoned. A guard dropped by a panic unlocks as it does on return. The panic is
//! reported as the error of its task and, unless the program decides otherwise, of its nursery,
//! which cancels the tasks that share the data. Poisoning would report the same failure again, as a
//! different error at every lock. Data that a panic could leave half-changed should be replaced as
//! a whole under the lock.
//!
//! # Priorities
//!
//! Locks ignore priorities, and there is no priority inheritance. A high-priority task may wait for
//! a low-priority holder that is itself kept from running by tasks in between: priority inversion.
//! Keep critical sections that several priorities share short and free of waits, or give the data
//! to one task and send it requests. Wait queues are first come, first served, whatever the
//! priorities.
//!
//! # The protocol
//!
//! A lock or signal is a state behind a short lock, held for a few instructions and never across a
//! wait, with a wait queue in it. `primitive` has the steps that all of them share, `wait::queue`
//! the queue.

pub mod atomic;
mod barrier;
pub(crate) mod blocking;
#[doc(hidden)]
pub mod channel;
mod condvar;
pub(crate) mod future;
mod mapped;
#[cfg(all(test, loom))]
mod models;
mod mutex;
mod notify;
mod once;
mod permits;
mod primitive;
mod raw;
mod rwlock;
#[doc(hidden)]
pub mod select;
mod semaphore;
#[cfg(all(test, not(loom)))]
mod tests;
#[doc(hidden)]
pub mod time;

pub use barrier::{Barrier, BarrierResult};
pub use condvar::Condvar;
pub use mapped::{MappedMutexGuard, MappedReadGuard, MappedWriteGuard};
pub use mutex::{Mutex, MutexGuard};
pub use notify::{Event, Notify};
pub use once::{Lazy, Once, OnceCell};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{OwnedPermit, Permit, Semaphore};

/// Defines a constructor that is `const`, except under loom, whose primitives have no `const`
/// constructors.
macro_rules! constructor {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*
        #[cfg(loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}
use constructor;
