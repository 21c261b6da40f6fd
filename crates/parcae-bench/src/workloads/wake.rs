//! `wake`: how long a task spawned from outside waits for its first instruction, when its
//! scheduler has nothing else to do; one worker.
//!
//! `asleep`: the thread that spawns sleeps for a millisecond before each spawn, by which time
//! the worker sleeps too, and the kernel has to wake it. `spinning`: spawns come so close that
//! a worker which spins still does; parcae is told to spin for 5 ms, the others do what they
//! do. The spawning thread spins until the task has run, so nobody is short of a core on a
//! machine with two. Times are from before the call that spawns; reading the clock costs some
//! 25 ns of each. The 99th percentile is good for an order of magnitude only.

use super::runtimes::{self, AsyncExecutor, Futures, PATIENCE, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine::EngineOpts;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) static WAKE: Workload = Workload {
    name: "wake",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("asleep_p50", "outside spawn to first instruction, worker asleep; median", {
            &sides::<true, 50>()
        }),
        variant("asleep_p99", "outside spawn to first instruction, worker asleep; 99 %", {
            &sides::<true, 99>()
        }),
        variant("spinning_p50", "outside spawn to first instruction, busy worker; median", {
            &sides::<false, 50>()
        }),
        variant("spinning_p99", "outside spawn to first instruction, busy worker; 99 %", {
            &sides::<false, 99>()
        }),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns", better: Better::Lower, sides }
}

const fn sides<const ASLEEP: bool, const PERCENT: usize>() -> [Side; 4] {
    [
        Side::new(Peer::Parcae, parcae::<ASLEEP, PERCENT>),
        Side::new(Peer::Tokio, futures::<Tokio, ASLEEP, PERCENT>),
        Side::new(Peer::AsyncExecutor, futures::<AsyncExecutor, ASLEEP, PERCENT>),
        Side::new(Peer::May, may::<ASLEEP, PERCENT>),
    ]
}

/// How long parcae's worker spins where that is what is measured.
const SPIN: Duration = Duration::from_millis(5);
/// Between spawns, where the worker is to sleep.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// Between spawns, where it is not: enough for it to have found that there is nothing to do.
const SHORT_PAUSE: Duration = Duration::from_micros(50);

/// Where a task puts down how long it waited. 0 is nothing yet.
struct Arrival(AtomicU64);

impl Arrival {
    /// The first thing that a task does.
    #[inline]
    fn record(&self, spawned: Instant) {
        let nanos = spawned.elapsed().as_nanos() as u64;
        self.0.store(nanos.max(1), Ordering::Release);
    }
}

/// Spawns one after the other and returns a percentile of the times.
fn measure<const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
    spawn: impl Fn(&'static Arrival, Instant),
) -> Result<f64, Failure> {
    let count = if ASLEEP { scale.of(500) } else { scale.of(5000) };
    // Leaked, so that tasks need not count references to it.
    let arrival: &'static Arrival = Box::leak(Box::new(Arrival(AtomicU64::new(0))));
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        if ASLEEP {
            thread::sleep(LONG_PAUSE);
        } else {
            let start = Instant::now();
            while start.elapsed() < SHORT_PAUSE {
                hint::spin_loop();
            }
        }
        let spawned = Instant::now();
        spawn(arrival, spawned);
        times.push(take(arrival, spawned)?);
    }
    times.sort_unstable();
    Ok(times[(count * PERCENT / 100).min(count - 1)] as f64)
}

/// Waits for a task and takes its time.
fn take(arrival: &Arrival, spawned: Instant) -> Result<u64, Failure> {
    loop {
        match arrival.0.swap(0, Ordering::Acquire) {
            0 if spawned.elapsed() > PATIENCE => return Err("a task has not run".into()),
            0 => hint::spin_loop(),
            nanos => return Ok(nanos),
        }
    }
}

fn parcae<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    let mut opts = EngineOpts { workers: 1, ..EngineOpts::default() };
    if !ASLEEP {
        opts.spin = SPIN;
    }
    let engine = runtimes::engine(opts)?;
    measure::<ASLEEP, PERCENT>(scale, |arrival, spawned| {
        engine.spawn(move || arrival.record(spawned));
    })
}

fn may<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    measure::<ASLEEP, PERCENT>(scale, |arrival, spawned| {
        drop(runtimes::may(move || arrival.record(spawned)));
    })
}

fn futures<R: Futures, const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let runtime = R::start(1)?;
    let spawner = runtime.spawner();
    measure::<ASLEEP, PERCENT>(scale, |arrival, spawned| {
        spawner.detach(async move { arrival.record(spawned) });
    })
}
