//! Runs that can be repeated.

mod explore;
mod random;
