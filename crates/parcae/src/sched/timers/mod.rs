//! Deadlines: timing wheels for each worker, and the thread that fires the timers of stuck
//! workers. The scheduler's clock is in `sched::shared`.

mod deadlines;
#[cfg(all(test, loom))]
mod models;
mod signals;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;
mod wheel;

pub(crate) use crate::base::time::Nanos;
pub(crate) use crate::sched::events::clock::STEP;
pub(crate) use deadlines::{
    ArmedTimer, Due, Expire, FOREVER, GRACE, NEVER, PACE, REAL_UNIT, Timers, note,
};
pub(crate) use signals::{LookUpTimes, SignalTimer};
pub(crate) use thread::{OverdueTimers, TimerThread};
