//! The surroundings of a task: its budget, its nursery, its capabilities, and the `Cx` by which it
//! reaches them. `life` is a task from entry to end, `join` the wait for its result.

pub(crate) mod ambient;
pub(crate) mod budget;
pub(crate) mod cancel;
pub mod cap;
pub(crate) mod cx;
pub(crate) mod described;
pub(crate) mod errand;
pub mod island;
pub(crate) mod join;
pub(crate) mod life;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod nursery;
pub mod profile;
pub(crate) mod tally;
