//! Nurseries and their children.

mod failures;
mod join_sets;
mod results;
mod spawning;
mod states;
mod unwinding;
