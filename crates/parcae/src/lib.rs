//! Parcae: fibers on budgets, in nurseries, under capabilities.

mod arch;
pub mod fiber;
pub mod stack;
