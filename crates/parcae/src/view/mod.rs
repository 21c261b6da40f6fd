//! Observers: dumps and deadlocks, traces, statistics, the monitor of stalled workers, the policy
//! service and its watchdog, and the socket for other processes.

pub mod attach;
pub mod inspect;
pub(crate) mod policy;
pub mod stats;
pub(crate) mod sysmon;
pub mod trace;
