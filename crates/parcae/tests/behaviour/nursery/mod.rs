//! Nurseries and their children.

mod failures;
mod results;
mod spawning;
mod states;
mod unwinding;
