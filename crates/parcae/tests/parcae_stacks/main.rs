//! Stacks, seen from outside: the switch from C, overflows in child processes, a debugger,
//! backtraces.
//!
//! The name of this crate begins like the runtime's on purpose: `backtraces` shows that its
//! functions are not taken for the runtime's. The optimiser matters here, so release builds run it
//! too.

mod backtraces;
mod contain;
mod debugger;
mod overflow;
#[path = "../support/mod.rs"]
mod support;
mod switch;
