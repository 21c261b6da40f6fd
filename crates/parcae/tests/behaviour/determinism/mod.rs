//! Runs that can be repeated.

mod explore;
mod lab;
mod random;
