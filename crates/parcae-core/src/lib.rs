//! The pure algorithms of the Parcae runtime.
//!
//! No standard library, no allocation, no clock: time and memory are arguments. So the algorithms
//! can be tested against a plain model, and embedded in a kernel.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | processor accounts: run time, and why it stopped |
//! | [`budget`] | the five resources that a task runs on, and their arithmetic |
//! | [`context`] | scheduling contexts: processor time that is held, lent and used up |
//! | [`admission`] | admission tests: whether a worker can guarantee all its contexts |
//! | [`lease`] | exclusive use of workers |
//! | [`island`] | graphs of contexts, memory and leases, admitted all or nothing |
//! | [`slab`], [`workers`] | records in the caller's memory behind handles; sets of workers |
//! | [`dispatch`] | realtime before fair before idle, with a floor for best effort |
//! | [`fair`] | the fair queue: weighted shares by virtual deadlines |
//! | [`policy`] | decisions of a policy service, their bounds, and the fallback |

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod admission;
pub mod budget;
pub mod context;
pub mod dispatch;
pub mod fair;
pub mod island;
pub mod lease;
pub mod policy;
pub mod slab;
pub mod workers;

pub use budget::{Budget, Resource, Shortfall};
pub use workers::WorkerSet;
