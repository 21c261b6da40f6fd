//! Ordered operations: those whose order on an object a journal keeps (`sched::journal`), and a
//! replay repeats.
//!
//! | file | idea |
//! |---|---|
//! | `on` | with the feature `record`: an object's lock knows its last worker |
//! | `off` | without it: an object's lock is a lock |
//!
//! An operation begins before the lock is taken, never under another short lock: in a replay,
//! another task may go on there. A task that unwinds does not stop there, and is not counted.

#[cfg(any(loom, not(feature = "record")))]
mod off;
#[cfg(all(feature = "record", not(loom)))]
mod on;

#[cfg(any(loom, not(feature = "record")))]
pub(crate) use off::{
    NoOrder as HeldOrder, ObjectGuard, ObjectLock, hold_order, hold_order_of, hold_within,
    keeps_order, ordered_point, recorded_number, recorded_time, replayed_timeout, timed_out,
    unordered,
};
#[cfg(all(feature = "record", not(loom)))]
pub(crate) use on::{
    HeldOrder, ObjectGuard, ObjectLock, hold_order, hold_order_of, hold_within, keeps_order,
    ordered_point, recorded_number, recorded_time, replayed_timeout, timed_out, unordered,
};
