//! The pure algorithms of the Parcae runtime.
//!
//! No standard library, no allocation, no clock: time and memory are arguments. What is
//! here can be tested against a plain model, and a kernel could embed it.
//!
//! | module | what it is |
//! |---|---|
//! | [`account`] | processor accounts: how long something ran, and how it came to stop |
//! | [`budget`] | the five resources that a task runs on, and their arithmetic |
//! | [`fair`] | the fair queue: weighted shares by virtual deadlines |

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod budget;
pub mod fair;

pub use budget::{Budget, Resource, Shortfall};
