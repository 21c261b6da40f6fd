//! The shape of the sources: storeys, public names, comments, global state, and suites that find
//! their tests.

mod globals;
mod prose;
mod statics;
mod storeys;
mod suites;
mod surface;
