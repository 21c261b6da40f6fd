//! The runtime and its builder, and the lab; below them the scheduler that they are built on, and
//! the interface for adapters to other languages.

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
pub(crate) mod lab;
pub(crate) mod runtime;
