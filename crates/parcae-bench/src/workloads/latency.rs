//! How long tasks wait for their first instruction: one spawned after the other, each time
//! taken by the task itself.

use super::runtimes::PATIENCE;
use crate::case::Failure;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the spawner says when it spawned, and a task how long it waited.
pub(super) struct Arrival {
    epoch: Instant,
    /// When the last spawn began.
    spawned: AtomicU64,
    /// How long a task waited; 0 is nothing yet.
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
        let waited = now.saturating_sub(self.spawned.load(Ordering::Relaxed)); // the spawn published it
        self.waited.store(waited.max(1), Ordering::Release);
    }

    /// Spins until a task has run, and takes its time.
    fn take(&self) -> Result<u64, Failure> {
        let start = Instant::now();
        loop {
            match self.waited.swap(0, Ordering::Acquire) {
                0 if start.elapsed() > PATIENCE => return Err("a task has not run".into()),
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

/// Keeps the core for a while.
pub(super) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}
