//! The pure algorithms of the Parcae runtime.
//!
//! No standard library, no allocation, no clock: time and memory are arguments. What is
//! here can be tested against a plain model, and a kernel could embed it.
//!
//! | module | what it is |
//! |---|---|
//! | [`budget`] | the five resources that a task runs on, and their arithmetic |

#![no_std]
#![forbid(unsafe_code)]

pub mod budget;

pub use budget::{Budget, Resource, Shortfall};
