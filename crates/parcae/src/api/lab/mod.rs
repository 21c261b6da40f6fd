//! The lab: runs a test under many schedules, and explains the one in which it fails.

mod explore;
mod report;

pub use explore::{Explore, Faults};
pub use report::{Failure, Report};

use crate::api::runtime::Runtime;
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker;

/// Runs a test under the lab with the default settings: up to 1000 schedules, or for 10 seconds.
///
/// ```
/// use parcae::sync::Mutex;
///
/// parcae::check(|rt| {
///     let total = Mutex::new(0);
///     rt.run(|cx| {
///         cx.nursery(|n| {
///             for _ in 0..2 {
///                 n.spawn(|_| Ok(*total.lock()? += 1))?;
///             }
///             Ok(())
///         })
///     })?;
///     assert_eq!(*total.lock()?, 2);
///     Ok(())
/// });
/// ```
///
/// # Panics
///
/// If the test fails under one of the schedules, with the [failure](Failure) as the message.
#[track_caller]
pub fn check(test: impl Fn(&Runtime) -> Result<()> + Sync) {
    if let Err(failure) = Explore::new().run(test) {
        panic!("{failure}");
    }
}

/// A point of the program's own, before an access to shared memory that the lab does not see. The
/// macro [`point!`](crate::point!) is shorter.
///
/// Outside of the lab it does nothing.
#[inline]
pub fn point() {
    worker::point(OpKind::Point, 0);
}

/// A point of the program's own, before an access to shared memory that the lab does not see: in a
/// test under the [lab](crate::lab), another task may go on here. Everywhere else it does nothing.
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let failure = parcae::lab::Explore::new()
///     .run(|rt| {
///         let count = AtomicU64::new(0); // the lab does not see the standard library's
///         rt.run(|cx| {
///             cx.nursery(|n| {
///                 for _ in 0..2 {
///                     n.spawn(|_| {
///                         let seen = count.load(Relaxed);
///                         parcae::point!();
///                         count.store(seen + 1, Relaxed);
///                         Ok(())
///                     })?;
///                 }
///                 Ok(())
///             })
///         })?;
///         assert_eq!(count.into_inner(), 2);
///         Ok(())
///     })
///     .unwrap_err();
/// assert!(failure.error().is_panic());
/// ```
#[macro_export]
macro_rules! point {
    () => {
        $crate::lab::point()
    };
}
