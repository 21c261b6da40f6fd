//! Nurseries and their children.

mod failures;
mod join_sets;
mod results;
pub(crate) mod spawning;
mod states;
mod unwinding;
