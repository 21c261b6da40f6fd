//! Shared state of the workers and the monitor thread: which workers rest, which threads they run
//! on, and how the monitor sleeps while all workers do. The monitor itself is `view::sysmon`.

mod parker;
mod thread;

#[cfg(all(test, loom))]
mod models;

pub(crate) use parker::MonitorParker;
pub(crate) use thread::WorkerThread;
