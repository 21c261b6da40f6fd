//! Shares of the processors: tenants get processor time by weight.
//!
//! Under the deterministic executor time is counted in ops, so the tests compare ops, for many
//! seeds and numbers of workers. The tests on threads claim less: the order of shares, and that no
//! task is lost.

mod accounts;
mod contexts;
mod greed;
mod leases;
mod leases_on_threads;
mod loans;
mod opening;
mod policy;
mod preemption;
mod remote;
mod storms;
mod support;
mod weights;
