//! The runtime and its builder, and the lab; below them the scheduler that they are built on, and
//! the interfaces for adapters to other languages and for the crate of I/O.

#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "public with that feature")
)]
pub mod engine;
#[cfg_attr(
    not(feature = "foreign"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "public with that feature")
)]
pub mod foreign;
mod host;
#[cfg(feature = "io")]
pub mod io;
pub(crate) mod lab;
pub(crate) mod runtime;
