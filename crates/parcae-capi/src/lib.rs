//! The runtime behind a C ABI.
//!
//! Built as a shared and a static library; the committed header `include/parcae.h` is printed from the
//! declarations in this crate (`cargo run -p parcae-capi --bin parcae-header`). `docs/c.md` is the
//! manual.
//!
//! This is an adapter: it owns handles and translates results, and adds nothing to what the runtime means. What it
//! needs beyond the safe interface is in [`parcae::foreign`].
//!
//! | what | where |
//! |---|---|
//! | the exported functions, a file for each section of the header | [`api`] |
//! | what every exported function does: nothing unwinds, errors are noted | `boundary` |
//! | what belongs to a caller: open nurseries, last error; in the task, or the thread | `flow` |
//! | handles: numbers that are looked up, never addresses | `table`, `objects` |
//! | the one global: the runtime; shutdown and fork | `global` |
//! | workers that are stuck, as C hears of them | `stall` |
//! | what went wrong, and the frozen table of results | `fault` |
//! | declarations, and the header that is printed from them | [`decl`], [`types`], [`header`] |
//!
//! # What C can do wrong, and what happens
//!
//! | | answer |
//! |---|---|
//! | NULL, a forged, stale or twice destroyed handle, one of another kind | −1, NULL or PARCAE_ERROR; the last error says which |
//! | a nursery or task of another task or thread | the same |
//! | spawn or await without a nursery | −1 |
//! | a call that needs a runtime after a shutdown | starts another, with all defaults |
//! | shutdown on a task or in a callback | refused |
//! | a call in the child of a fork | fails, always |
//! | a thread ends with open nurseries | they are cancelled and waited for |
//! | a task returns with open nurseries | they are waited for; it fails if they do |
//! | stack overflow | the report names task and stack; the process ends |
//! | `longjmp` into another task or thread | the next call aborts the process and says so |
//! | a Rust panic in a task | PARCAE_PANIC |
//! | a C++ exception leaves a task | Rust's runtime aborts the process |

#![warn(clippy::print_stdout, clippy::print_stderr)] // a library does not print

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles are 64 bits wide");

pub mod api;
mod boundary;
pub mod decl;
mod fault;
mod flow;
mod global;
pub mod header;
mod objects;
mod stall;
mod table;
pub mod types;
