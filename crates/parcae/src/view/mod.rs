//! Observers: dumps and deadlocks, traces, statistics, the monitor of stalled workers, and the
//! socket for other processes.

pub mod attach;
pub mod inspect;
pub mod stats;
pub(crate) mod sysmon;
pub mod trace;
