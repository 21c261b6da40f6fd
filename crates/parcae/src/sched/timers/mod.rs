//! Deadlines: a wheel of timers for each worker, the clock of a scheduler, and the thread that watches
//! for deadlines while all workers are stuck.

mod clock;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;
mod watch;
mod wheel;

pub(crate) use timers::{Deadline, Due, NEVER, Nanos, REAL_UNIT, Rest, STEP, Timers};
pub(crate) use watch::Watch;
