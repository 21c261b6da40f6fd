//! Memory budgets. A program of its own, because its allocator charges the running task.

mod allocating;
mod charging;
#[path = "../support/mod.rs"]
mod support;
mod tenants;

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();
