//! Known concurrency bugs, each with its repair, for the lab of Parcae to find.
//!
//! The programs are small, written as a program on Parcae would be: no checkpoints for the test's
//! sake. [`CORPUS`] lists them.
//!
//! ```
//! use parcae_corpus::CORPUS;
//!
//! let queue = CORPUS.iter().find(|entry| entry.name == "queue").unwrap();
//! let rt = parcae::Runtime::builder().workers(1).deterministic(1).build()?;
//! (queue.fixed)(&rt)?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Where they come from
//!
//! | names | shape of | by |
//! |---|---|---|
//! | `cockroach#…`, `etcd#…`, `grpc#…`, `istio#…`, `kubernetes#…`, `moby#…`, `serving#…` | bugs of Go projects, by the number of their pull request | GoBench (Yuan et al., CGO 2021), its kernels |
//! | the others | programs of SCTBench | Thomson, Donaldson, Betts (PPoPP 2014) |
//!
//! The shapes are theirs: the tasks, the locks, the order that fails. The code is not: each
//! program is written from a description of one or two sentences.
//!
//! # How it measures
//!
//! `cargo run --release -p parcae-corpus` hunts for each bug and prints a table; [`measure`] has
//! the figures and says how each is obtained. With `--features shuttle` some of the programs run
//! under Shuttle too, in the same process.

pub mod measure;
#[cfg(feature = "shuttle")]
pub mod peer;
pub mod programs;

pub use programs::{CORPUS, Entry};

/// The atomics of the programs: the lab sees them.
mod atomic {
    pub(crate) use parcae::sync::atomic::*;
}
