//! Locks and signals that park tasks and block threads.
//!
//! | to | see |
//! |---|---|
//! | keep others out | [`Mutex`], [`RwLock`] |
//! | let so many in | [`Semaphore`] |
//! | tell others | [`Notify`], [`Event`], [`Condvar`] |
//! | meet | [`Barrier`] |
//! | make something once | [`Once`], [`OnceCell`], [`Lazy`] |
//!
//! On a task every wait parks the task and leaves its worker to others; on any other thread it
//! blocks the thread. Tasks of several runtimes and threads may share one lock.
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
//! A call that has to wait is a cancel point: if the task is cancelled meanwhile it returns an
//! error, and it is as if it had not been called. What was handed to it at that very moment is
//! handed on to the next in line. A call that need not wait succeeds, on a cancelled task too. In a
//! destructor that runs because of a panic a task cannot wait: what could not be had at once is an
//! error there. Guards and permits are given back without waiting, so dropping them is always all
//! right.
//!
//! # Loops around these calls
//!
//! A task that loops has to come to a checkpoint now and then: there others run, the task is
//! charged, and learns that it was cancelled. A call that has to wait is one, and charges one op. A
//! call that need not wait is none, nor is one that never waits: it is too short for that, and code
//! that cleans up depends on its success.
//!
//! | call | checkpoint |
//! |---|---|
//! | `lock`, `read`, `write`, `acquire…`, `wait…`, `call_once`, `get_or_init`, [`Lazy::get`], and their forms with a deadline | if it has to wait, also for no time at all |
//! | [`Condvar::wait`], [`Condvar::wait_while`] while the condition holds | always |
//! | `try_…`, `is_…`, `available`, `get` | never |
//! | `notify_…`, [`Event::set`], [`Event::reset`], [`Semaphore::add`], [`Semaphore::close`], unlocking, dropping a guard or permit | never |
//! | [`time::sleep`], [`sleep_until`](crate::time::sleep_until), [`Interval::tick`](crate::time::Interval::tick), [`Cx::timeout`](crate::Cx::timeout) | always |
//! | [`block_on`](crate::block_on) | between two polls |
//! | [`blocking()`](crate::blocking()), [`blocking_static`](crate::blocking_static) | always |
//! | `set`, `modify`, `get`, `has_changed`, `mark_…` of a [watched value](crate::channel::watch()), `len` and other figures of channels | never |
//! | [`CancelToken::wait`](crate::CancelToken::wait) | if it has to wait |
//! | [`CancelToken::is_cancelled`](crate::CancelToken::is_cancelled), `check`, [`time::now`] | never |
//! | operations on [channels](crate::channel) that return a `Result`, those that try included | always |
//! | [`yield_now`](crate::yield_now), [`Cx::yield_now`](crate::Cx::yield_now) | others run, and it is a cancel point; costs nothing |
//!
//! A loop around a call that is none needs [`Cx::checkpoint`](crate::Cx::checkpoint) or
//! [`checkpoint`](crate::checkpoint) of its own:
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
//!                 cx.checkpoint()?; // or this task keeps the worker from the one that has the lock
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
//! Nothing is poisoned. A guard that is dropped by a panic unlocks, as by a return. The panic
//! itself is an error of its task and, unless the program decides otherwise, of its nursery, whose
//! tasks are cancelled: whoever shares data with them learns of it there. Poisoning would make the
//! same failure surface a second time, as another error at every lock. Data that a panic can leave
//! half-changed is better replaced as a whole under the lock.
//!
//! # Priorities
//!
//! A lock does not know priorities. A task of high priority that waits for a lock waits for its
//! holder, which may be of low priority and be kept from running by everybody in between: priority
//! inversion. No holder is lifted to the priority of who waits. Keep what is done under a lock that
//! priorities share short, without waits, or give the data to one task and send it requests. The
//! line of waiters is first come, first served, whatever their priorities.
//!
//! # The protocol
//!
//! A lock or signal is a state behind a short lock, held for a few instructions and never across a
//! wait, with a wait queue in it. `primitive` has the steps that all of them share, `wait::queue`
//! the queue.

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

/// A constructor that is `const`, but for loom, whose primitives cannot be made in constants.
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
