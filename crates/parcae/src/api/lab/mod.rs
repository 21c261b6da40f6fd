//! The lab: runs a test under many schedules, and explains the one in which it fails.
//!
//! | file | idea |
//! |---|---|
//! | `explore`, `faults` | settings of a hunt, its loop |
//! | `investigate` | a failure is repeated, shrunk, recorded |
//! | `stand` | one schedule, and the oracles |
//! | `token` | a run as text |
//! | `divergence` | the first step at which a repeated run went another way |
//! | `shrink` | the deviations that matter |
//! | `replay`, `probe` | the run of a token; the step after which it was lost |
//! | `recorded`, `retrace` | records of runs on threads, and their replay |
//! | `regressions` | tokens of earlier failures, which run first |
//! | `record`, `states` | the changes of tasks in a recorded run, and their states at a step |
//! | `timeline` | the steps of a run, for people |
//! | `picture`, `publish` | a run as a page of HTML, and as JSON; the files that a user asked for |
//! | `invariants` | statements of the program about itself |
//! | `history` | linearizability |
//! | `quiet`, `watch` | silence while schedules fail; the watchdog, and the token that outlives a crash |

mod divergence;
mod explore;
mod failure;
mod faults;
mod history;
mod invariants;
mod investigate;
mod picture;
mod probe;
mod publish;
mod quiet;
mod record;
#[cfg(feature = "record")]
mod recorded;
mod regressions;
mod replay;
#[cfg(feature = "record")]
mod retrace;
mod shrink;
mod stand;
mod states;
#[cfg(all(test, not(loom)))]
mod tests;
mod timeline;
mod token;
mod watch;

pub use divergence::{Divergence, TracedOp};
pub use explore::Explore;
pub(crate) use explore::run_seeds;
pub use failure::{Failure, FailureKind, Report};
pub use faults::Faults;
pub use history::History;
pub use invariants::{always, conserved, eventually, within};
#[cfg(feature = "record")]
pub use recorded::{Record, RecordError, RecordOpts};
#[cfg(feature = "record")]
pub use retrace::{Retraced, Strayed};
pub use states::{RunState, TaskStatus};
pub use timeline::Run;
pub use token::TokenError;

use crate::api::runtime::Runtime;
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker;
use crate::scope::cx::Cx;

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

/// The body of `#[parcae::test]`: the test as a root task, under the lab and once on threads.
///
/// # Panics
///
/// If the test fails.
#[doc(hidden)]
#[track_caller]
pub fn run_test(schedules: Option<u64>, test: impl Fn(&Cx) -> Result<()> + Sync) {
    let mut hunt = Explore::new();
    if let Some(schedules) = schedules {
        hunt = hunt.schedules(schedules);
    }
    if let Err(failure) = hunt.run(|rt| rt.run(&test)) {
        panic!("{failure}");
    }
    if std::env::var_os("PARCAE_REPLAY").is_some() {
        return;
    }
    let outcome = Runtime::builder().build().map_err(Into::into).and_then(|rt| rt.run(&test));
    if let Err(error) = outcome {
        panic!("on threads, where no schedule can be repeated: {error}");
    }
}

/// A point of the program's own, before an access to shared memory that the lab does not see. The
/// macro [`point!`](crate::point!) is shorter.
///
/// Outside of the lab it does nothing.
#[inline]
#[track_caller]
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
