//! A runtime for code that must not be able to take its process down.
//!
//! Parcae runs lightweight fibers on OS threads. Every task runs on a *budget*, spawns with a
//! *capability* and lives in a *nursery*; a deterministic executor makes the same seed give
//! the same run.
//!
//! ```
//! use parcae::prelude::*;
//!
//! fn main() -> parcae::Result<()> {
//!     let text = String::from("spin, measure and cut");
//!     let rt = Runtime::builder().workers(2).build()?;
//!     let words = rt.run(|cx| {
//!         cx.nursery(|n| {
//!             let (a, b) = text.split_at(5);
//!             let left = n.spawn(move |_| Ok(a.split_whitespace().count()))?; // children borrow
//!             let right = n.spawn(move |_| Ok(b.split_whitespace().count()))?;
//!             Ok(left.join()? + right.join()?)
//!         })
//!     })?;
//!     assert_eq!(words, 4);
//!     Ok(())
//! }
//! ```
//!
//! | to | see |
//! |---|---|
//! | start | [`Runtime`], its [`Builder`], [`Handle`] for other threads |
//! | run tasks together | [`Cx::nursery`], [`Nursery::spawn`], [`TaskHandle::join`] |
//! | bound what they use | [`NurseryOpts::budget`], [`SpawnOpts::budget`], [`Budget`], [`budget`] |
//! | stop code that does not wait | [`Cx::checkpoint`], [`Cx::strips`], [`budgeted`]; [`checkpoint`] and [`yield_now`] without a `Cx` |
//! | share and signal | [`sync`] |
//! | call what blocks | [`blocking()`], [`blocking_static`] |
//! | use async code, be used by it | [`block_on`], [`RootTask`] |
//! | wait for a time, or no longer than that | [`time`], [`Cx::timeout`] |
//! | bound their memory | [`Allocator`] |
//! | end them | [`Nursery::cancel`], [`CancelToken`], [`NurseryOpts::timeout`], [`Cx::shield`] |
//! | hand values over | [`channel`], [`select`](mod@select) |
//! | give authority away | [`cap`], [`profile`] |
//! | find out who blocks a worker | [`Builder::on_stall`], [`Builder::temporary_workers`] |
//! | end everything in time | [`Runtime::shutdown`] |
//! | see when they did what, and how much of it | [`trace`], [`stats`] |
//! | replay, and test under many seeds | [`Builder::deterministic`], [`explore()`] |
//! | use fibers without a scheduler | [`fiber`], [`stack`] |
//!
//! # Platforms
//!
//! Linux on x86_64 and aarch64. Other targets do not compile, with a message that says so.
//! At most one version of this crate can be linked into a program, because the symbols of
//! the context switch (`janus_context_switch` and its companions) have fixed names.

#![warn(clippy::print_stdout, clippy::print_stderr)] // a library does not print

mod api;
mod base;
mod sched;
mod scope;
pub mod stack;
pub mod sync;
mod view;
mod wait;

#[doc(hidden)]
#[cfg(feature = "internals")]
pub use api::engine;
#[doc(hidden)]
#[cfg(feature = "foreign")]
pub use api::foreign;
pub use scope::{budget, cap, profile};
#[doc(inline)]
pub use stack::fiber;
#[doc(inline)]
pub use sync::{channel, select, time};
pub use view::{attach, inspect, stats, trace};

pub use api::runtime::{BuildError, Builder, Handle, RootTask, Runtime, Shutdown, explore};
pub use base::error::{Error, ErrorKind, Result, TaskId, TaskInfo};
pub use parcae_macros::budgeted;
pub use sched::Victims;
pub use sched::task::Priority;
pub use sched::task::waker::Waker;
pub use sched::worker::stats::WorkerStats;
pub use scope::ambient::{checkpoint, yield_now};
pub use scope::budget::{Budget, OnExhausted, Resource, Shortfall, Standing, Suspended};
pub use scope::cancel::{CancelReason, CancelToken, OnCancel};
pub use scope::cx::{Cx, Each, Expiry, Preempt, Strips};
pub use scope::memory::Allocator;
pub use scope::nursery::{
    Account, Nursery, NurseryEvent, NurseryOpts, NurseryState, OnFailure, SpawnOpts, TaskFuture,
    TaskHandle,
};
pub use sync::blocking::{blocking, blocking_static};
pub use sync::future::block_on;
pub use view::sysmon::{Pinned, StallKind, StallReport};

/// What most programs use: `use parcae::prelude::*;`. The profiles, and what capabilities are made of and refused with, are
/// here too; [`Error`] and [`Result`] are not, since they would hide the standard library's.
pub mod prelude {
    pub use crate::cap::{
        BudgetLimits, CapBudget, CapChannel, CapError, CapSpawn, ChannelLimits, Delegation,
        SpawnLimits,
    };
    pub use crate::profile::{Cluster, Core, Service, Sovereign};
    pub use crate::{
        Account, Budget, CancelReason, CancelToken, Cx, ErrorKind, Handle, Nursery, NurseryOpts,
        OnExhausted, OnFailure, Priority, Resource, Runtime, SpawnOpts, TaskHandle, budgeted,
    };
}

/// What instrumented code calls. Not for programs to use.
#[doc(hidden)]
pub mod __private {
    pub use crate::scope::cx::Meter;
    pub use crate::select::{
        BellCase, DeadlineCase, DefaultCase, EndedCase, Finish, SendCase, TimeoutCase, TokenCase,
        run as select, run_biased as select_biased, send_with,
    };

    /// At the entry of a function that is budgeted.
    ///
    /// # Safety
    ///
    /// As for [`Meter::enter`].
    #[inline]
    pub unsafe fn enter() -> Meter {
        // SAFETY: as the caller says.
        unsafe { Meter::enter() }
    }
}

// The harness of the tests names the crate as programs do.
#[cfg(all(test, not(loom)))]
extern crate self as parcae;
#[cfg(all(test, not(loom)))]
#[path = "../tests/support/mod.rs"]
mod support;
