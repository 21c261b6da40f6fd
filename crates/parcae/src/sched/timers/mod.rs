//! Deadlines: a wheel of timers for each worker, the clock of a scheduler, and the thread that watches
//! for deadlines while all workers are stuck.

mod deadlines;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;
mod wheel;

pub(crate) use deadlines::{
    ArmedTimer, Due, Expire, FOREVER, GRACE, NEVER, Nanos, PACE, REAL_UNIT, Rest, STEP, Timers,
};
pub(crate) use thread::TimerThread;
