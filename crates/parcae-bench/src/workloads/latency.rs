//! The latency from spawn to first instruction: tasks are spawned one after another, and each takes
//! its own time.

use super::runtimes::TIMEOUT;
use crate::case::Failure;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time of the last spawn, and the latency that its task has measured.
pub(super) struct Arrival {
    epoch: Instant,
    /// When the last spawn began.
    spawned: AtomicU64,
    /// The latency of the task; 0 if it has not run yet.
    waited: AtomicU64,
}

impl Arrival {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The first thing that a task does.
    #[inline]
    pub(super) fn record(&self) {
        let now = self.now();
        let waited = now.saturating_sub(self.spawned.load(Ordering::Relaxed)); // by the spawner
        self.waited.store(waited.max(1), Ordering::Release);
    }

    /// Spins until a task has run, and takes its time.
    fn take(&self) -> Result<u64, Failure> {
        let start = Instant::now();
        loop {
            match self.waited.swap(0, Ordering::Acquire) {
                0 if start.elapsed() > TIMEOUT => return Err("a task has not run".into()),
                0 => hint::spin_loop(),
                nanos => return Ok(nanos),
            }
        }
    }
}

/// Pauses, spawns a task and waits for its time, `count` times; a percentile of the times, in
/// nanoseconds. The task has to call [`Arrival::record`].
pub(super) fn percentile(
    count: usize,
    percent: usize,
    pause: impl Fn(),
    mut spawn: impl FnMut(&'static Arrival),
) -> Result<f64, Failure> {
    // Leaked, so that tasks need not count references to it.
    let arrival: &'static Arrival = Box::leak(Box::new(Arrival {
        epoch: Instant::now(),
        spawned: AtomicU64::new(0),
        waited: AtomicU64::new(0),
    }));
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        pause();
        arrival.spawned.store(arrival.now(), Ordering::Relaxed);
        spawn(arrival);
        times.push(arrival.take()?);
    }
    times.sort_unstable();
    Ok(times[(count * percent / 100).min(count - 1)] as f64)
}

/// Spins for a time.
pub(super) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}
