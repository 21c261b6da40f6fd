//! The pure algorithms of the Parcae runtime.
//!
//! No standard library, no allocation, no clock: time and memory are arguments. What is
//! here can be tested against a plain model, and a kernel could embed it.
//!
//! | module | what it is |
//! |---|---|
//! | [`account`] | processor accounts: how long something ran, and how it came to stop |
//! | [`budget`] | the five resources that a task runs on, and their arithmetic |
//! | [`context`] | processor time as something one holds, lends and loses |
//! | [`admission`] | whether a worker can keep what its contexts are promised |
//! | [`lease`] | workers for one owner alone |
//! | [`island`] | graphs of contexts, memory and leases, admitted all or nothing |
//! | [`slab`], [`workers`] | records in the caller's memory behind handles; sets of workers |
//! | [`dispatch`] | realtime before fair before idle, with a floor for best effort |
//! | [`fair`] | the fair queue: weighted shares by virtual deadlines |
//! | [`policy`] | what a policy service may decide, and what holds without it |

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
