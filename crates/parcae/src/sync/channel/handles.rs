//! The handles of a channel: their shared state, and how they are counted.
//!
//! The handles of each end are counted separately from the channel's own count. The handle that
//! brings a count to 0 closes the channel. A count of 0 never rises again, not even through a weak
//! handle, so this happens once.

use super::receiver::Receiver;
use super::sender::Sender;
use super::state::ChannelCore;
use super::{ChannelOpts, ChannelPermit};
use crate::base::error::{Error, Result};
use crate::sched;
use crate::sched::lab::OpKind;
use crate::sched::lab::is_any_alive;
use crate::sched::worker::ordered::hold_order_of;
use crate::sched::worker::{drop_point, forget_address, lab_closes_channel, point_at};
use crate::scope::cx::{Frame, Here};
use crate::wait::{ChannelStats, Channelled, Waiter};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// State that all handles of a channel share.
pub(crate) struct ChannelShared<T> {
    pub(crate) core: ChannelCore<T, Waiter>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// The task that made the channel, for the deadlock detector. 0 if the holders of its ends are
    /// unknown: a thread made or used it.
    maker: AtomicU64,
    /// Address of that task's scheduler: task numbers are unique only within one.
    home: usize,
    /// The channel's permit from a capability.
    _permit: Option<ChannelPermit>,
    /// For reports.
    name: Option<Arc<str>>,
}

impl<T> Channelled for ChannelShared<T> {
    fn stats(&self) -> Option<ChannelStats> {
        Some(ChannelStats {
            values: self.core.try_len()?,
            capacity: self.core.capacity().unwrap_or(usize::MAX),
            // Relaxed: counts for a report.
            senders: self.senders.load(Ordering::Relaxed),
            receivers: self.receivers.load(Ordering::Relaxed),
        })
    }

    fn maker(&self, shared: &sched::Shared) -> Option<u64> {
        let here = (&raw const *shared).addr() == self.home;
        // Relaxed: for a report.
        Some(self.maker.load(Ordering::Relaxed)).filter(|&maker| here && maker != 0)
    }

    fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }
}

pub(super) fn pair<T>(opts: ChannelOpts) -> (Sender<T>, Receiver<T>) {
    let ChannelOpts { capacity, overflow, permit, name } = opts;
    let here = Here::new();
    let maker = here.frame();
    // Memory first: otherwise the state would be built on the stack, and copied.
    let mut place = Arc::new_uninit();
    if let Some(place) = Arc::get_mut(&mut place) {
        place.write(ChannelShared {
            core: ChannelCore::new(capacity, overflow),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
            maker: AtomicU64::new(maker.map_or(0, |frame| frame.record().id())),
            home: maker.map_or(0, |frame| Arc::as_ptr(&frame.settings().shared).addr()),
            _permit: permit,
            name,
        });
    }
    // SAFETY: written above: there is no other handle to it yet.
    let shared = unsafe { place.assume_init() };
    forget_address(&shared.core);
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

impl<T> ChannelShared<T> {
    /// Step 1. Returns the frame of the paying task, if the caller is a task.
    #[inline]
    #[track_caller]
    pub(super) fn prepare<'h>(&self, kind: OpKind, here: &'h Here) -> Result<Option<&'h Frame>> {
        let Some(frame) = here.frame() else {
            self.is_used_outside();
            return Ok(None);
        };
        frame.prepare_channel_point(kind, (&raw const self.core).addr())?;
        if is_any_alive() && lab_closes_channel() {
            self.core.close(None);
        }
        Ok(Some(frame))
    }

    /// A thread uses the channel: there are holders of its ends that are unknown.
    #[cold]
    pub(super) fn is_used_outside(&self) {
        self.maker.store(0, Ordering::Relaxed); // for reports, as above
    }

    #[track_caller]
    pub(super) fn close(&self, error: Option<Error>) {
        point_at(OpKind::Close, &self.core);
        self.core.close(error);
    }

    /// The last handle of an end is dropped.
    fn close_by_drop(&self) {
        drop_point(OpKind::Close, &self.core);
        self.core.close(None);
    }
}

/// Counts a new handle. Fails if the count is 0.
fn count_up(count: &AtomicUsize) -> bool {
    let _order = hold_order_of(count);
    // Relaxed: the means by which a handle reaches another thread order its use.
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n > 0).then_some(n + 1)).is_ok()
}

/// Counts a dropped handle. Returns true for the last.
fn count_down(count: &AtomicUsize) -> bool {
    let _order = hold_order_of(count);
    // AcqRel: pairs with itself. Operations on the other handles come before the close.
    count.fetch_sub(1, Ordering::AcqRel) == 1
}

/// Drops values. All are dropped even if some panic; the first panic is resumed at the end.
pub(super) fn drop_all<T>(values: VecDeque<T>) {
    let mut first = None;
    for value in values {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}

/// Methods of both ends.
macro_rules! handle {
    ($End:ident, $Weak:ident, $count:ident, $name:literal) => {
        impl<T> $End<T> {
            /// Number of values in the channel at this moment; it may change at any time.
            ///
            /// Not a checkpoint, and neither are the other queries: a loop of nothing else keeps
            /// other tasks from running and cannot be cancelled.
            pub fn len(&self) -> usize {
                self.shared.core.len()
            }

            /// Whether the channel holds no value.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether the channel is at its capacity: a send would have to wait, unless a receiver
            /// waits. A rendezvous channel is both empty and full.
            pub fn is_full(&self) -> bool {
                self.shared.core.is_full()
            }

            /// Capacity of the channel. `None` if it is unbounded.
            pub fn capacity(&self) -> Option<usize> {
                self.shared.core.capacity()
            }

            /// Whether the channel is closed, so that sends fail.
            pub fn is_closed(&self) -> bool {
                self.shared.core.closed().is_some()
            }

            /// Whether both handles belong to the same channel.
            pub fn same_channel(&self, other: &$End<T>) -> bool {
                Arc::ptr_eq(&self.shared, &other.shared)
            }
        }

        impl<T> Clone for $End<T> {
            fn clone(&self) -> $End<T> {
                let counted = count_up(&self.shared.$count);
                debug_assert!(counted, "a handle that is not counted");
                $End { shared: Arc::clone(&self.shared) }
            }
        }

        impl<T> fmt::Debug for $End<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct($name);
                if let Some(name) = &self.shared.name {
                    shown.field("name", name);
                }
                shown
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .field("closed", &self.is_closed())
                    .finish()
            }
        }

        impl<T> $Weak<T> {
            /// A strong handle. `None` if the last one was dropped.
            pub fn upgrade(&self) -> Option<$End<T>> {
                let shared = self.shared.upgrade()?;
                count_up(&shared.$count).then_some($End { shared })
            }
        }

        impl<T> Clone for $Weak<T> {
            fn clone(&self) -> $Weak<T> {
                $Weak { shared: Weak::clone(&self.shared) }
            }
        }

        impl<T> fmt::Debug for $Weak<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!("Weak", $name))
            }
        }
    };
}

handle!(Sender, WeakSender, senders, "Sender");
handle!(Receiver, WeakReceiver, receivers, "Receiver");

/// A [`Sender`] that does not keep its channel open.
///
/// ```
/// let (tx, rx) = parcae::channel::channel::<u8>(1);
/// let weak = tx.downgrade();
/// weak.upgrade().unwrap().send(7)?;
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(rx.recv()?, 7);
/// assert!(rx.recv().unwrap_err().is_closed());
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct WeakSender<T> {
    pub(super) shared: Weak<ChannelShared<T>>,
}

/// A [`Receiver`] that does not keep its channel open.
pub struct WeakReceiver<T> {
    pub(super) shared: Weak<ChannelShared<T>>,
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if count_down(&self.shared.senders) {
            self.shared.close_by_drop();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if count_down(&self.shared.receivers) {
            self.shared.close_by_drop();
            drop(self.shared.core.drain());
        }
    }
}
