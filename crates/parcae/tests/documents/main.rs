//! Documents say what is true.

mod conformance;
mod readme;
