//! The shape of the sources: no global state, suites that find their tests.

mod globals;
mod statics;
mod suites;
