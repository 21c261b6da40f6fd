//! The behaviour of the public API, one module for each subject.
//!
//! These tests share one program, because each program costs a link. A test stands elsewhere only
//! if it needs an allocator (`memory`, `memory_hard`, `contain_allocating`) or a certain crate name
//! (`parcae_stacks`).

mod authority;
mod budget;
mod cancel;
mod channel;
mod determinism;
mod diagnosis;
mod locals;
mod nursery;
mod parallel;
mod runtime;
mod scheduling;
mod stacks;
mod storms;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
