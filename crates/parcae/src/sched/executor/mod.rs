//! Executors drive the steps of the workers.
//!
//! | | threads | deterministic |
//! |---|---|---|
//! | workers | one OS thread each | all on the calling thread |
//! | next step | each worker's own loop | a worker chosen by the seed |
//! | without work | spin, then sleep on a futex | asleep until chosen by a wake |
//! | time | the clock | the number of the step |
//!
//! Both use the same step, queues, stealing and idle protocol.

pub(crate) mod deterministic;
pub(crate) mod thread_set;
pub(crate) mod threads;
