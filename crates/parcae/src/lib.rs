//! An M:N fiber runtime that bounds each task: its work, its memory, its lifetime, its authority.
//!
//! Tasks are stackful fibers on a few threads: ordinary code, without `async`. Every task belongs
//! to a *nursery* that waits for it, runs on a *budget* that bounds its work and memory, and has
//! only the authority of the *capabilities* it was given. A deterministic executor repeats a run
//! exactly from its seed.
//!
//! # A first program
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
//! # Where to find things
//!
//! The crate root and the [`prelude`] have the names that most programs use. Everything else is in
//! the module of its subject.
//!
//! | task | names | module |
//! |---|---|---|
//! | start and end a runtime | [`Runtime`], [`Handle`], [`RootTask`] | [`runtime`]: settings, errors, shutdown |
//! | run tasks together | [`Cx::nursery`], [`Nursery`], [`TaskHandle`] | [`nursery`]: results as they come; [`task`] |
//! | bound their work and memory | [`Budget`], [`OnExhausted`], [`Allocator`] | [`budget`] |
//! | compute in parallel | [`Cx::join`], [`Cx::par_chunks`], [`Cx::par_map`], [`Cx::par_sort`] | |
//! | interrupt long computations | [`budgeted`], [`Cx::checkpoint`], [`checkpoint`], [`yield_now`] | [`task`]: loops with checkpoints |
//! | cancel, set deadlines, shield | [`CancelToken`], [`Cx::timeout`], [`Cx::shield`] | [`cancel`], [`time`] |
//! | pass values | [`select!`] | [`channel`], [`select`](mod@select) |
//! | share state | `Mutex`, `RwLock`, `Semaphore`, `Notify`, `Once` … | [`sync`] |
//! | give each task a value of its own | [`task_local!`] | [`task`] |
//! | call blocking code | [`blocking`](blocking()), [`blocking_static`] | |
//! | use async code, be used by it | [`Nursery::spawn_future`], [`block_on`], [`RootTask`], [`nursery::TaskFuture`] | [`channel`]: `recv_async`, `send_async`; [`time`]: `sleep_async` |
//! | delegate authority | [`Runtime::cap_spawn`] … | [`cap`], [`profile`] |
//! | find the schedule that fails, replay it | [`check`], [`test`](macro@test), [`explore`](explore()), [`point!`], [`runtime::Builder::deterministic`] | [`lab`], [`sync::atomic`] |
//! | see all tasks, find deadlocks | [`Runtime::dump`], [`Runtime::find_deadlock`] | [`inspect`], [`attach`] |
//! | find tasks that block a worker | [`runtime::Builder::on_stall`] | [`stall`] |
//! | measure, record | [`Runtime::stats`], [`Runtime::trace`] | [`stats`], [`trace`] |
//! | use fibers without a scheduler | | [`fiber`], [`stack`] |
//!
//! # Features
//!
//! All are off by default: `tracing` (tasks as spans), `metrics` (metrics for that crate's
//! recorder) and `anyhow` (errors in both directions). `internals`, `foreign` and `io` open parts
//! for the benchmarks, the C library and the crate `parcae-io` of this repository; they are not
//! public API.
//!
//! # Platforms
//!
//! Linux on x86_64 and aarch64. Other targets do not compile, with a message that says so. A
//! program can link one version of this crate at most, because the symbols of the context switch
//! (`janus_context_switch` and its companions) have fixed names.

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
#[doc(hidden)]
#[cfg(feature = "io")]
pub use api::io;
pub use scope::{cap, island, profile};
#[doc(inline)]
pub use stack::fiber;
#[doc(inline)]
pub use sync::{channel, select, time};
pub use view::{attach, inspect, stats, trace};

pub use api::lab::check;
pub use api::runtime::{Handle, RootTask, Runtime, explore};
pub use base::error::{Error, ErrorKind, Result};
pub use parcae_macros::{budgeted, test};
pub use sched::task::Priority;
pub use scope::ambient::{checkpoint, yield_now};
pub use scope::budget::{Budget, OnExhausted};
pub use scope::cancel::{CancelReason, CancelToken};
pub use scope::cx::Cx;
pub use scope::memory::Allocator;
pub use scope::nursery::{Nursery, NurseryOpts, OnFailure, SpawnOpts, TaskHandle};
pub use sync::blocking::{blocking, blocking_static};
pub use sync::future::block_on;

pub mod lab {
    //! The lab: finds the schedule in which a concurrent test fails.
    //!
    //! A test under the lab runs many times on virtual workers, each time with another schedule.
    //! Before each operation that tasks share (locks, channels, signals, spawns, joins, cancels,
    //! timers, [atomics](crate::sync::atomic), [`point!`](crate::point!)) another task may go on;
    //! [strategies](Strategy) choose it. [`check`](crate::check) has the defaults for a test,
    //! [`Explore`] the settings.

    pub use crate::api::lab::{
        Divergence, Explore, Failure, FailureKind, Faults, History, Report, Run, RunState,
        TaskStatus, TokenError, TracedOp, always, conserved, eventually, point, within,
    };
    pub use crate::sched::lab::{
        OpKind, RunEvent, RunStep, Strategy, TaskChange, TaskLabel, UnknownStrategy,
    };
}

pub mod runtime {
    //! The runtime, its settings, and the results of building it and shutting it down.

    pub use crate::api::runtime::{BuildError, Builder, Handle, RootTask, Runtime, Shutdown};
    pub use crate::sched::{SocketBackend, Victims};
    pub use crate::scope::cx::Preempt;
}

pub mod task {
    //! A task: its context [`Cx`], its identity, loops with checkpoints, values of its own
    //! ([`task_local!`](crate::task_local!)), and wakers for code that parks tasks by itself.

    pub use crate::base::error::{TaskId, TaskInfo};
    pub use crate::sched::task::waker::Waker;
    pub use crate::sched::task::{Placement, Priority};
    pub use crate::scope::cx::{Chunks, Cx, Each, Expiry};
    pub use crate::scope::local::TaskLocal;
}

pub mod nursery {
    //! Nurseries: scopes that wait for their children. Options of nurseries and children, handles
    //! of children and sets of them, states and events for observers.

    pub use crate::scope::nursery::{
        InOrder, JoinSet, Nursery, NurseryEvent, NurseryOpts, NurseryState, OnFailure, SpawnOpts,
        TaskFuture, TaskHandle,
    };
}

pub mod budget {
    //! Budgets: bounds for the work and the memory of tasks.
    //!
    //! A [`Budget`] has five components. A nursery has a pool; its children draw from it and return
    //! the rest, so that the amount of each component is conserved:
    //!
    //! ```
    //! use parcae::prelude::*;
    //!
    //! let rt = Runtime::builder().budget(Budget::UNLIMITED.with_ops(1_000_000)).build()?;
    //! rt.run(|cx| (0..500).try_for_each(|_| cx.checkpoint()))?;
    //! let state = rt.budget();
    //! assert_eq!(state.granted.ops, 1_000_000);
    //! assert!(state.spent.ops >= 500);
    //! # Ok::<(), parcae::Error>(())
    //! ```
    //!
    //! [`OnExhausted`] decides what happens at the end of a budget. An [`Account`] recharges one, a
    //! [`Recharge`] again and again.

    pub use crate::scope::budget::{
        Budget, OnExhausted, Resource, Shortfall, Standing, Suspended, UNLIMITED,
    };
    pub use crate::scope::nursery::{Account, Recharge};
}

pub mod policy {
    //! Shares of the processors: see [`NurseryOpts::share`](crate::NurseryOpts::share). Scheduling
    //! contexts: see [`CapContext`](crate::cap::CapContext). Leases of workers: see
    //! [`CpuLease`](crate::cap::CpuLease). The policy that decides about shares and contexts: see
    //! [`Runtime::policy`](crate::Runtime::policy).

    pub use crate::base::error::{
        ContextRefused, IslandRefused, LeaseFact, LeaseRefused, ShareRefused,
    };
    pub use crate::sched::run_queue::{Charging, DecidedBy, Suggestion};
    pub use crate::scope::cap::PolicyChange;
    pub use crate::scope::cap::{
        Assurance, ContextEvent, ContextEventKind, ContextOffer, ContextOpts, ContextStats,
        LeaseCause, LeaseEnd, LeaseOpts, LeaseProof, LentContext, OverrunPolicy, Pin,
        runs_on_context,
    };
    pub use crate::scope::cx::Job;
    pub use crate::view::policy::{
        ContextRules, ContextTerms, PolicyDecision, PolicyDesk, PolicyEvent, PolicyOpts,
        PolicyRefused, PolicyService, PolicyStatus, PolicyView, RecordFault, RemoteSeat,
        ServiceSeat, TenantView,
    };
    pub use parcae_core::WorkerSet;
    pub use parcae_core::context::Refill;
    pub use parcae_core::fair::{Latency, Params, Weight};
    pub use parcae_core::island::Response;
    pub use parcae_core::lease::Refused as LeaseRules;
    pub use parcae_core::policy::{Hint, Source as PolicySource};
}

pub mod cancel {
    //! Cancellation: tokens, reasons, and callbacks that run on cancel.

    pub use crate::scope::cancel::{CancelReason, CancelToken, OnCancel};
}

pub mod stall {
    //! Reports about workers that are stuck in a task; see
    //! [`Builder::on_stall`](crate::runtime::Builder::on_stall).

    pub use crate::view::sysmon::{BlockedIn, BlockedOn, Pinned, StallKind, StallReport};
}

pub mod prelude {
    //! The names that most programs use: `use parcae::prelude::*;`.
    //!
    //! [`Error`](crate::Error) and [`Result`](crate::Result) are not among them, because they would
    //! hide the names of the standard library.

    pub use crate::{
        Budget, CancelReason, CancelToken, Cx, ErrorKind, Handle, Nursery, NurseryOpts,
        OnExhausted, OnFailure, Priority, RootTask, Runtime, SpawnOpts, TaskHandle, budgeted,
    };
}

/// Code that macros expand to. Not public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::api::lab::run_test as test;
    pub use crate::scope::cx::Meter;
    pub use crate::select::{
        ChangeCase, DeadlineCase, DefaultCase, EndedCase, Finish, JoinNextCase, Pass, Passed,
        SendCase, Settle, TimeoutCase, TokenCase, run as select, run_biased as select_biased,
        send_with,
    };

    /// Called at the entry of a budgeted function.
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
