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
//! On a task every wait parks the task and leaves its worker to others; on any other thread it blocks
//! the thread. Tasks of several runtimes and threads may share one lock.
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
//! A call that has to wait is a cancel point: if the task is cancelled meanwhile it returns an error, and
//! it is as if it had not been called. What was handed to it at that very moment is handed on to the next
//! in line. A call that need not wait succeeds, on a cancelled task too. In a destructor that runs
//! because of a panic a task cannot wait: what could not be had at once is an error there. Guards and
//! permits are given back without waiting, so dropping them is always all right.
//!
//! # Loops around these calls
//!
//! A task that loops has to come to a checkpoint now and then: there others run, the task is charged, and learns that
//! it was cancelled. A call that has to wait is one, and charges one op. A call that need not wait is none, nor is one
//! that never waits: it is too short for that, and code that cleans up depends on its success.
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
//! A loop around a call that is none needs [`Cx::checkpoint`](crate::Cx::checkpoint) or [`checkpoint`](crate::checkpoint) of
//! its own:
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
//! Nothing is poisoned. A guard that is dropped by a panic unlocks, as by a return. The panic itself
//! is an error of its task and, unless the program decides otherwise, of its nursery, whose tasks
//! are cancelled: whoever shares data with them learns of it there. Poisoning would make the
//! same failure surface a second time, as another error at every lock. Data that a panic
//! can leave half-changed is better replaced as a whole under the lock.
//!
//! # Priorities
//!
//! A lock does not know priorities. A task of high priority that waits for a lock waits for its
//! holder, which may be of low priority and be kept from running by everybody in between: priority inversion.
//! No holder is lifted to the priority of who waits. Keep what is done under a lock that priorities share
//! short, without waits, or give the data to one task and send it requests. The line of waiters is first
//! come, first served, whatever their priorities.
//!
//! # The protocol
//!
//! All of them are made of a small lock of the system, held for a few instructions and never across a
//! wait, and behind it a `Line` of those who wait. The steps are those of `wait`:
//!
//! 1. `step` under the small lock: it can be had, and it is taken; or
//! 2. the caller's node is put into the line. Both happen under the same hold of the small lock (or of the same
//!    word, for [`Mutex`]), which makes step 3, the re-check, the same as step 1;
//! 4. park. Whoever makes it possible takes the small lock, finds the node, *grants* it, lets go of the
//!    small lock and wakes the waiter, which finds its grant at the next `step`;
//! 5. a wait that ends without a grant takes its node out (`withdraw`). If the small lock shows
//!    that the grant has come after all, it is passed on there and then: a grant is never lost, because
//!    node and grant are one word under one lock.
//!
//! Nodes lie on the stacks of those who wait. Nobody touches one without the small lock, and a
//! wait does not return before its node is out of the line.
//!
//! Rejected: nodes on the heap, because a task that is out of memory waits in the allocator, and must not do that
//! with the small lock held; a lock-free line, because withdrawing from the middle of one costs more than the
//! small lock does.

mod barrier;
pub(crate) mod blocking;
#[doc(hidden)]
pub mod channel;
mod condvar;
pub(crate) mod future;
mod line;
mod mapped;
#[cfg(all(test, loom))]
mod models;
mod mutex;
mod notify;
mod once;
mod permits;
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

use crate::base::error::{Error, ErrorKind, Result};
use crate::wait::{Deadline, Ended, Waiter, Why, charge, park};
use line::{Node, Wake};
use std::time::{Duration, Instant};

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

/// Something that is waited for in a line.
trait Waited<W> {
    /// Takes what is waited for if it can be had or was granted: true, and the node is in no line. Otherwise
    /// the node is in the line, with a waiter that will be woken.
    ///
    /// # Safety
    ///
    /// The node is used with this object only, and neither moves nor ends before `step` has said true or
    /// [`withdraw`](Waited::withdraw) was called.
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool;

    /// Takes the node out of the line. A grant is passed on; or true if it cannot be, and the wait was successful
    /// after all.
    ///
    /// # Safety
    ///
    /// As for [`step`](Waited::step), which has said false.
    unsafe fn withdraw(&self, node: &Node<W>) -> bool;
}

/// How a wait ended that was not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// There was nothing to wait for.
    AtOnce,
    /// It was granted.
    Waited,
    /// It was not granted in time.
    TimedOut,
}

/// Waits: all steps. `published` is called once the node is in the line, before the wait; then `deadline`, so that the clock
/// is read only if there is a wait.
fn attend(
    object: &impl Waited<Waiter>,
    wants: usize,
    why: Why<'_>,
    deadline: impl FnOnce() -> Deadline,
    published: impl FnOnce(),
) -> Result<Outcome> {
    let node = Node::new(wants);
    let mut place = Place { object, node: &node, in_line: false };
    if place.step() {
        return Ok(Outcome::AtOnce);
    }
    published();
    let deadline = deadline();
    let mut ended = charge().unwrap_or_else(|| park(deadline, why));
    loop {
        match ended {
            Ok(Ended::Woken) if place.step() => return Ok(Outcome::Waited),
            Ok(Ended::Woken) => {}
            Ok(Ended::TimedOut) if place.step() || place.withdraw() => return Ok(Outcome::Waited),
            Ok(Ended::TimedOut) => return Ok(Outcome::TimedOut),
            Err(_) if place.withdraw() => return Ok(Outcome::Waited),
            Err(error) => return Err(error),
        }
        ended = park(deadline, why);
    }
}

/// A node that is taken out of its line whatever happens.
struct Place<'p, O: Waited<Waiter>> {
    object: &'p O,
    node: &'p Node<Waiter>,
    in_line: bool,
}

impl<O: Waited<Waiter>> Place<'_, O> {
    fn step(&mut self) -> bool {
        // SAFETY: the node is on the stack of `attend`, borrowed, and taken out by our drop at the latest, and with it,
        // under the small lock, the waiter.
        let done = unsafe { self.object.step(self.node, || Waiter::lent()) };
        self.in_line = !done;
        done
    }

    fn withdraw(&mut self) -> bool {
        self.in_line = false;
        // SAFETY: as above; `step` has said false.
        unsafe { self.object.withdraw(self.node) }
    }
}

impl<O: Waited<Waiter>> Drop for Place<'_, O> {
    fn drop(&mut self) {
        if self.in_line {
            self.withdraw();
        }
    }
}

/// As [`attend`], without end, and with nothing to do in between.
fn attend_forever(object: &impl Waited<Waiter>, wants: usize, why: Why<'_>) -> Result<()> {
    attend(object, wants, why, || Deadline::Never, || {}).map(drop)
}

/// As [`attend`], for a time; an error if it was not granted in time.
fn attend_for(
    object: &impl Waited<Waiter>,
    wants: usize,
    why: Why<'_>,
    time: Duration,
) -> Result<()> {
    attend(object, wants, why, || Deadline::after(time), || {})?.in_time()
}

/// As [`attend`], until a point in time; an error if it was not granted by then.
fn attend_until(
    object: &impl Waited<Waiter>,
    wants: usize,
    why: Why<'_>,
    at: Instant,
) -> Result<()> {
    attend(object, wants, why, || Deadline::at(at), || {})?.in_time()
}

impl Outcome {
    /// An error if the time was over.
    fn in_time(self) -> Result<()> {
        match self {
            Outcome::AtOnce | Outcome::Waited => Ok(()),
            Outcome::TimedOut => Err(Error::new(ErrorKind::TimedOut)),
        }
    }
}

impl Wake for Waiter {
    fn wake(self) {
        Waiter::wake(&self);
    }

    fn keep(&mut self) {
        Waiter::keep(self);
    }
}
