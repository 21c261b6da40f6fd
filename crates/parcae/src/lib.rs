//! A runtime meant for code that must not be able to take its process down.
//!
//! Parcae runs lightweight fibers on OS threads. Every task will run on a *budget*, spawn
//! only with a *capability* and live in a *nursery*; a deterministic executor will make the
//! same seed give the same run. This version holds the ground that all of it stands on:
//!
//! | module | what it is |
//! |---|---|
//! | [`fiber`] | a stack and a context that run one closure after another |
//! | [`stack`] | guarded stacks in large arenas, pooled, with limits that are errors |
//! | [`budget`] | the five resources that a task will run on, and their arithmetic |
//!
//! # Platforms
//!
//! Linux on x86_64 and aarch64. Other targets do not compile, with a message that says so.
//! At most one version of this crate can be linked into a program, because the symbols of
//! the context switch (`janus_context_switch` and its companions) have fixed names.

#![warn(clippy::print_stdout, clippy::print_stderr)] // a library does not print

mod arch;
pub mod budget;
mod cancel;
pub mod cap;
mod cx;
mod deque;
#[doc(hidden)]
pub mod engine;
mod error;
mod executor;
pub mod fiber;
mod idle;
mod memory;
mod nursery;
pub mod profile;
mod queue;
mod rng;
mod runtime;
mod sched;
pub mod stack;
mod sync;
mod task;
mod time;
mod worker;

pub use budget::{Budget, OnExhausted, Resource, Shortfall, Standing};
pub use cancel::{CancelReason, CancelToken, OnCancel};
pub use cx::{Cx, Each, Expiry, Strips};
pub use engine::{Victims, Waker, WorkerStats};
pub use error::{Error, ErrorKind, Result, TaskInfo};
pub use memory::Allocator;
pub use nursery::{Account, Nursery, NurseryOpts, NurseryState, OnFailure, SpawnOpts, TaskHandle};
pub use parcae_macros::budgeted;
pub use runtime::{BuildError, Builder, Handle, RootTask, Runtime};
pub use task::Priority;

/// What most programs use: `use parcae::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Budget, CancelToken, Cx, ErrorKind, Nursery, NurseryOpts, OnExhausted, OnFailure, Priority,
        Runtime, SpawnOpts, TaskHandle, budgeted,
    };
}

/// What instrumented code calls. Not for programs to use.
#[doc(hidden)]
pub mod __private {
    pub use crate::cx::Meter;

    /// At the entry of a function that is budgeted.
    #[inline]
    pub fn enter() -> Meter {
        Meter::enter()
    }
}
