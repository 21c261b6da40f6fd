//! Channels between tasks, and between tasks and threads.
//!
//! ```
//! use parcae::channel::channel;
//! use parcae::prelude::*;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let sum = rt.run(|cx| {
//!     let (tx, rx) = channel(8);
//!     cx.nursery(|n| {
//!         for part in 0..4 {
//!             let tx = tx.clone();
//!             n.spawn(move |_| Ok(tx.send(part)?))?;
//!         }
//!         drop(tx); // the last sender is gone: the channel is closed
//!         let mut sum = 0;
//!         for part in &rx {
//!             sum += part?;
//!         }
//!         Ok(sum)
//!     })
//! })?;
//! assert_eq!(sum, 6);
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! Any number of [`Sender`]s and [`Receiver`]s share a channel. Each value is received once. See
//! [`select`](mod@crate::select) to wait for several channels at once.
//!
//! | constructor | holds | a send waits |
//! |---|---|---|
//! | [`channel(0)`](channel) | nothing: a rendezvous | until a receiver has taken the value |
//! | [`channel(n)`](channel) | up to n values | while it is full |
//! | [`unbounded()`] | any number of values | never |
//! | [`ChannelOpts`] | as above | or drops a value instead, see [`Overflow`] |
//! | [`oneshot()`] | one value | never, and there is only one |
//! | [`broadcast()`] | the last n values, for each subscriber | never |
//! | [`watch()`] | the newest value | never |
//! | [`ordered()`] | up to n tasks, whose results come out in order | while it is full |
//! | [`Pool`] | items to be lent | – |
//! | [`after()`], [`at()`], [`tick()`] | points in time, to be received | there is no sender |
//!
//! # Guarantees
//!
//! - Values of one sender are received in the order in which they were sent. Waiters are served in
//!   the order of their arrival.
//! - A failed operation (closed, cancelled, timed out, out of budget) has no effect: a value that
//!   was not sent comes back in the error, and a value that was not received is still in the
//!   channel. An operation that has happened by the time the task is cancelled succeeds, and the
//!   next cancel point reports the cancellation.
//! - A wait on a task parks the task and is a cancel point. A wait on any other thread blocks the
//!   thread. The two ends of a channel may be on tasks, threads, or both.
//! - Every value is dropped exactly once. Values that were not received are dropped with the last
//!   receiver or with the channel.
//!
//! - Values may be large: operations keep at most two copies on the stack at a time, even without
//!   optimisation. Errors and selects keep values of more than a few words on the heap.
//!
//! Every operation that sends, receives or selects is a checkpoint of its task and costs one op, so
//! a loop of failing attempts lets other tasks run, can be cancelled, and is bounded by its budget.
//! The channel op is charged if the operation happens, which makes
//! [`Budget::CHANNEL_OP`](crate::Budget::CHANNEL_OP) in all. Without a channel op left, an
//! operation fails before it starts. Queries (`len`, `is_empty`, `is_full`, `is_closed`,
//! `capacity`, `dropped`) and operations on handles (cloning, `downgrade`, `upgrade`, `close`) are
//! not checkpoints: a loop of nothing else needs one of its own.
//!
//! # Closing
//!
//! A channel is closed by [`close`](Sender::close) at either end, or when the last sender or the
//! last receiver is dropped. It stays closed. After that sends fail, waiters are woken with an
//! error, and the remaining values can still be received. A cancelled task gets the cancellation as
//! its error, even if the channel is closed: usually the other end is gone because it was cancelled
//! too.
//!
//! # Memory
//!
//! A capacity is a limit: memory is allocated as values arrive and freed as they are received,
//! except for 16 KiB. So a large capacity costs nothing in itself; [`usize::MAX`] makes a channel
//! unbounded.
//!
//! # How it works
//!
//! `state.rs` has the protocol and its argument, `operation.rs` the steps of an operation by a task
//! or a thread, `handles.rs` the counts of both ends. `wait::queue` has the wait queue.

mod broadcast;
mod buffer;
mod changes;
mod error;
mod futures;
mod handles;
mod iter;
#[cfg(all(test, loom))]
mod models;
mod one;
mod oneshot;
mod operation;
mod ordered;
mod pool;
mod receiver;
mod sender;
mod state;
#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
mod timer;
mod value_box;
mod watch;

pub use broadcast::{Broadcaster, Subscriber, broadcast};
pub use error::{Reason, RecvError, SendError};
pub use futures::{RecvFuture, SendFuture};
pub use handles::{WeakReceiver, WeakSender};
pub use iter::{IntoIter, Iter, TryIter};
pub use oneshot::{OneReceiver, OneSender, oneshot};
pub use ordered::{OrderedReceiver, OrderedSender, SendTaskError, ordered};
pub use pool::{Borrowed, Pool};
pub use receiver::Receiver;
pub use sender::Sender;
pub use timer::{After, Never, Ticks, after, at, never, tick};
pub use watch::{Watched, Watcher, watch};

// For select.
pub(crate) use changes::ChangeSource;
pub(crate) use operation::{charge, charge_and_wake, may_wait, prepare};
pub(crate) use state::{ChannelCore, ChannelNode, Closed, Put, Side, Took, ValueAddress};
pub(crate) use timer::Timer;
pub(crate) use value_box::{ValueBox, mark_empty};

use crate::base::error::Result;
use crate::scope::cap::{CapChannel, ChannelPermit};
use std::fmt;
use std::sync::Arc;

/// The capacity of a channel without bounds.
const UNBOUNDED: usize = usize::MAX;

/// The action of a send when the channel is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// Waits for room.
    #[default]
    Block,
    /// Fails and returns the value: [`Reason::WouldWait`]. The older values stay.
    DropNew,
    /// Drops the oldest value to make room, and succeeds. Without a capacity there is no older
    /// value: unless a receiver waits, the new value itself is dropped. [`Receiver::dropped`]
    /// counts the dropped values.
    DropOld,
}

/// A channel that holds up to `capacity` values. With capacity 0 it is a *rendezvous*: a send
/// succeeds only once a receiver has taken the value.
///
/// ```
/// use parcae::channel::channel;
///
/// let (tx, rx) = channel(2);
/// tx.send('a')?; // blocks the thread if full; on a task it would park the task
/// tx.send('b')?;
/// assert!(tx.try_send('c').is_err());
/// assert_eq!((rx.recv()?, rx.recv()?), ('a', 'b'));
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ChannelOpts::bounded(capacity).build()
}

/// A channel without a bound: a send never waits. Only the memory of the process limits it, so
/// prefer a [`channel`] with a capacity for values from outside.
///
/// ```
/// let (tx, rx) = parcae::channel::unbounded();
/// (0..1_000).try_for_each(|i| tx.send(i))?;
/// assert_eq!(rx.len(), 1_000);
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ChannelOpts::unbounded().build()
}

/// Options for a channel.
///
/// ```
/// use parcae::channel::{ChannelOpts, Overflow};
///
/// let (tx, rx) = ChannelOpts::bounded(2).overflow(Overflow::DropOld).build();
/// for sample in 0..5 {
///     tx.send(sample)?; // never waits
/// }
/// drop(tx);
/// assert_eq!(rx.iter().collect::<parcae::Result<Vec<_>>>()?, [3, 4]);
/// assert_eq!(rx.dropped(), 3);
/// # Ok::<(), parcae::Error>(())
/// ```
#[must_use = "it does nothing until it is built"]
pub struct ChannelOpts {
    capacity: usize,
    overflow: Overflow,
    permit: Option<ChannelPermit>,
    name: Option<Arc<str>>,
}

impl ChannelOpts {
    /// A channel that holds up to `capacity` values.
    pub fn bounded(capacity: usize) -> ChannelOpts {
        ChannelOpts { capacity, overflow: Overflow::Block, permit: None, name: None }
    }

    /// A channel without a bound.
    pub fn unbounded() -> ChannelOpts {
        ChannelOpts::bounded(UNBOUNDED)
    }

    /// The action of a send when the channel is full. The default is [`Overflow::Block`].
    pub fn overflow(mut self, overflow: Overflow) -> ChannelOpts {
        self.overflow = overflow;
        self
    }

    /// A name, for dumps, deadlock reports and tools. A task that waits for a channel without a
    /// name is shown with the address of the channel.
    ///
    /// ```
    /// use parcae::channel::ChannelOpts;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?; // time is virtual
    /// let (tx, orders) = ChannelOpts::bounded(1).name("orders").build::<u32>();
    /// let shown = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         n.spawn(move |_| Ok(orders.recv()?))?;
    ///         cx.sleep(std::time::Duration::from_secs(1))?; // by then the child waits
    ///         let shown = rt.dump().to_string();
    ///         tx.send(7)?;
    ///         Ok(shown)
    ///     })
    /// })?;
    /// assert!(shown.contains("receiving from channel `orders` (empty, capacity 1; 1 sender"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> ChannelOpts {
        self.name = Some(name.into());
        self
    }

    /// Counts the channel against a capability, from now until both ends are dropped.
    ///
    /// # Errors
    ///
    /// If the capability does not allow it: it is revoked, its channels are used up, or the
    /// capacity is too large. An unbounded channel needs a capability whose `max_buffer` is
    /// [`usize::MAX`].
    ///
    /// ```
    /// use parcae::cap::{ChannelLimits, Delegation};
    /// use parcae::channel::ChannelOpts;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let limits = ChannelLimits { max_channels: 1, max_buffer: 16 };
    /// let cap = rt.cap_channel(limits, Delegation::Forbidden);
    /// assert!(ChannelOpts::bounded(17).under(&cap).is_err());
    /// let ends = ChannelOpts::bounded(16).under(&cap)?.build::<u8>();
    /// assert_eq!(cap.live(), 1);
    /// drop(ends);
    /// assert_eq!(cap.live(), 0);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn under(mut self, cap: &CapChannel) -> Result<ChannelOpts> {
        self.permit = Some(cap.admit(self.capacity)?);
        Ok(self)
    }

    /// Makes the channel.
    pub fn build<T>(self) -> (Sender<T>, Receiver<T>) {
        handles::pair(self)
    }
}

impl fmt::Debug for ChannelOpts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelOpts")
            .field("capacity", &self.capacity)
            .field("overflow", &self.overflow)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
