//! The pure algorithms of the Parcae runtime.
//!
//! No standard library, no allocation, no clock: time and memory are arguments. What is
//! here can be tested against a plain model, and a kernel could embed it.
//!
//! | module | what it is |
//! |---|---|
//! | [`account`] | processor accounts: how long something ran, and how it came to stop |
//! | [`budget`] | the five resources that a task runs on, and their arithmetic |
//! | [`dispatch`] | realtime before fair before idle, with a floor for best effort |
//! | [`fair`] | the fair queue: weighted shares by virtual deadlines |
//! | [`policy`] | what a policy service may decide, and what holds without it |

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod budget;
pub mod dispatch;
pub mod fair;
pub mod policy;

pub use budget::{Budget, Resource, Shortfall};
