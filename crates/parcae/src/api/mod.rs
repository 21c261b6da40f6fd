//! What a program meets first: the runtime and its builder; and what the benchmarks and the C library
//! use below it.

pub mod engine;
pub mod foreign;
pub(crate) mod runtime;
