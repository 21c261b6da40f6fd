//! The runtime behind a C ABI.
//!
//! Built as a shared and a static library; the committed header `include/parcae.h` is printed from
//! the declarations in this crate (`cargo run -p parcae-capi --bin parcae-header`). `docs/c.md` is
//! the manual.
//!
//! This is an adapter: it owns handles and translates results, and adds no semantics of its own.
//! The operations that it needs beyond the safe interface are in [`parcae::foreign`].
//!
//! | what | where |
//! |---|---|
//! | the exported functions, a file for each section of the header | [`api`] |
//! | the wrapper of every exported function: catches panics, records errors | `boundary` |
//! | the state of a calling task or thread: open nurseries, last error | `caller` |
//! | handles: numbers that are looked up, never addresses | `table`, `objects` |
//! | the one global: the runtime; shutdown and fork | `global` |
//! | actors whose functions are in C | `actors` |
//! | stall reports for C | `stall` |
//! | errors, and the frozen table of results | `fault` |
//! | declarations, and the header that is printed from them | [`decl`], [`types`], [`header`] |
//!
//! # What C can do wrong, and what happens
//!
//! | | answer |
//! |---|---|
//! | NULL; a forged or stale handle, or one of another kind | −1, NULL or PARCAE_ERROR |
//! | a nursery or task of another task or thread | the same |
//! | spawn or await without a nursery | −1 |
//! | a call that needs a runtime after a shutdown | starts another, with all defaults |
//! | shutdown on a task or in a callback | refused |
//! | a call in the child of a fork | fails, always |
//! | a thread ends with open nurseries | they are cancelled and awaited |
//! | a task returns with open nurseries | they are awaited; it fails if they do |
//! | stack overflow | the report names task and stack; the process ends |
//! | `longjmp` into another task or thread | the next call aborts the process and says so |
//! | a Rust panic in a task | PARCAE_PANIC |
//! | a C++ exception leaves a task | Rust's runtime aborts the process |

#![warn(clippy::print_stdout, clippy::print_stderr)] // a library does not print

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles are 64 bits wide");

mod actors;
pub mod api;
mod boundary;
mod caller;
pub mod decl;
mod fault;
mod global;
pub mod header;
mod objects;
mod stall;
mod table;
pub mod types;
