//! Observers: dumps and deadlocks, traces, statistics, the monitor of stalled workers, and the socket
//! by which another process looks in.

pub mod attach;
pub mod inspect;
pub mod stats;
pub(crate) mod sysmon;
pub mod trace;
