//! Channels: values handed from task to task, and between tasks and threads.
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
//! Any number of [`Sender`]s and [`Receiver`]s share a channel; each value is received once. To
//! wait for several channels at once see [`select`](mod@crate::select).
//!
//! | made by | holds | a send waits |
//! |---|---|---|
//! | [`channel(0)`](channel) | nothing: a rendezvous | until a receiver has taken the value |
//! | [`channel(n)`](channel) | up to n values | while it is full |
//! | [`unbounded()`] | what memory holds | never |
//! | [`ChannelOpts`] | as above | or drops something instead, see [`Overflow`] |
//! | [`oneshot()`] | one value | never, and there is only one |
//! | [`broadcast()`] | the last n values, for each subscriber | never |
//! | [`watch()`] | the newest value | never |
//! | [`ordered()`] | up to n tasks, whose results come out in order | while it is full |
//! | [`Pool`] | things to be lent | – |
//! | [`after()`], [`at()`], [`tick()`] | points in time, to be received | nobody sends |
//!
//! # Guarantees
//!
//! - Values of one sender are received in the order in which it sent them. Those who wait are
//!   served in the order in which they came.
//! - An operation that fails (closed, cancelled, out of time, out of budget) has had no effect: a
//!   value that was not sent comes back in the error, one that was not received is still in the
//!   channel. If it has happened by the time that the task is cancelled, it succeeds, and the next
//!   cancel point notices.
//! - On a task, waiting parks the task, and operations that wait are cancel points. On any other
//!   thread it blocks the thread. The two ends need not be of one kind.
//! - Every value is dropped once: those that nobody received when the last receiver goes, or with
//!   the channel.
//!
//! - A value may be large: the functions here have at most two copies of it on the stack at a time,
//!   without optimisation too. What an error gives back, or a select keeps, is on the heap if it
//!   has more than a few words.
//!
//! Every operation that sends, receives or selects is a checkpoint of its task and costs one op, so
//! that a loop of failing attempts lets others run, is cancelled, and ends with its budget as any
//! other loop does. The channel op is charged if it happens, which makes it
//! [`Budget::CHANNEL_OP`](crate::Budget::CHANNEL_OP) in all; without one left, an operation is
//! refused before it starts. What only asks (`len`, `is_empty`, `is_full`, `is_closed`, `capacity`,
//! `dropped`) and what only handles the ends (cloning, `downgrade`, `upgrade`, `close`) is no
//! checkpoint: a loop of nothing else needs one of its own.
//!
//! # Closing
//!
//! A channel is closed by [`close`](Sender::close) at either end, or when the last sender or the
//! last receiver is gone. It stays closed. Nothing can be sent after that, whoever waits is told,
//! and what is in it can still be received. A task that is cancelled is told so first: mostly the
//! other end is gone because it was cancelled too.
//!
//! # Memory
//!
//! A capacity is a limit: memory is taken when there are values for it, and given back when they
//! have been received, but for 16 KiB. So a capacity may be as large as one likes; [`usize::MAX`]
//! is that of a channel without bounds.
//!
//! # How it works
//!
//! `state.rs` has the protocol and its argument, `operation.rs` the steps of an operation by a task
//! or a thread, `handles.rs` the counts of both ends. `wait::queue` has the wait queue.

mod broadcast;
mod buffer;
mod changes;
mod error;
mod handles;
mod iter;
#[cfg(all(test, loom))]
mod models;
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
pub(crate) use state::{ChannelNode, Closed, Core as ChannelCore, Put, Side, Took, ValueAddress};
pub(crate) use timer::Timer;
pub(crate) use value_box::{ValueBox, mark_empty};

use crate::base::error::Result;
use crate::scope::cap::{CapChannel, ChannelPermit};
use std::fmt;

/// The capacity of a channel without bounds.
const UNBOUNDED: usize = usize::MAX;

/// What a send does when the channel is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// Waits for room.
    #[default]
    Block,
    /// Fails, and gives the value back: [`Reason::WouldWait`]. What is in the channel is older, and
    /// stays.
    DropNew,
    /// Drops the oldest value to make room, and succeeds. A channel of capacity 0 has no older one:
    /// if nobody waits for it, the value itself is dropped. [`Receiver::dropped`] counts them.
    DropOld,
}

/// A channel that holds up to `capacity` values; with 0 a *rendezvous*, where a send
/// succeeds only once a receiver has taken the value.
///
/// ```
/// use parcae::channel::channel;
///
/// let (tx, rx) = channel(2);
/// tx.send('a')?; // blocks this thread if it has to; a task it would park
/// tx.send('b')?;
/// assert!(tx.try_send('c').is_err());
/// assert_eq!((rx.recv()?, rx.recv()?), ('a', 'b'));
/// # Ok::<(), parcae::Error>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ChannelOpts::bounded(capacity).build()
}

/// A channel that holds whatever is sent: a send never waits. What bounds it is the memory of the
/// process, so prefer a [`channel`] with a capacity where values come from outside.
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

/// How a channel is to be.
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
}

impl ChannelOpts {
    /// Holds up to `capacity` values.
    pub fn bounded(capacity: usize) -> ChannelOpts {
        ChannelOpts { capacity, overflow: Overflow::Block, permit: None }
    }

    /// Holds whatever is sent.
    pub fn unbounded() -> ChannelOpts {
        ChannelOpts::bounded(UNBOUNDED)
    }

    /// What a send does when the channel is full; waits, if nothing is said.
    pub fn overflow(mut self, overflow: Overflow) -> ChannelOpts {
        self.overflow = overflow;
        self
    }

    /// Counts the channel against a capability, from now until both ends are gone.
    ///
    /// # Errors
    ///
    /// If the capability does not allow it: it is revoked, has as many channels as it may, or the
    /// capacity is too large. A channel without bounds needs one whose `max_buffer` is
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
        handles::pair(self.capacity, self.overflow, self.permit)
    }
}

impl fmt::Debug for ChannelOpts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelOpts")
            .field("capacity", &self.capacity)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}
