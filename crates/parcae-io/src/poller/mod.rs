//! Pollers: where events of descriptors come from.
//!
//! `epoll` is the poller of a worker with a thread. Under the deterministic executor there is none:
//! the simulated world (`crate::sim`) wakes its waiters itself.

pub(crate) mod epoll;
pub(crate) mod ring;
