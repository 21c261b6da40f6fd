//! `wake`: the latency from a spawn outside of the scheduler to the first instruction, with an
//! otherwise idle scheduler; one worker.
//!
//! `asleep`: the thread that spawns sleeps for a millisecond before each spawn, by which time the
//! worker sleeps too, and the kernel has to wake it. `spinning`: spawns come so close that a worker
//! which spins still does; parcae spins for 5 ms there, the others as by default. The
//! spawning thread spins until the task has run, so both have a core on a machine with two. Times
//! are from before the call that spawns; reading the clock costs some 25 ns of each. The 99th
//! percentile is good for an order of magnitude only.

use super::latency::{Arrival, percentile, spin};
use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine::EngineOpts;
use std::thread;
use std::time::Duration;

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

/// How long parcae's worker spins where spinning is measured.
const SPIN: Duration = Duration::from_millis(5);
/// Between spawns, where the worker is to sleep.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// Between spawns, where it is not: enough for it to have found that there is nothing to do.
const SHORT_PAUSE: Duration = Duration::from_micros(50);

/// Spawns from the calling thread, with a pause before each.
fn measure<const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
    spawn: impl FnMut(&'static Arrival),
) -> Result<f64, Failure> {
    if ASLEEP {
        percentile(scale.of(500), PERCENT, || thread::sleep(LONG_PAUSE), spawn)
    } else {
        percentile(scale.of(5000), PERCENT, || spin(SHORT_PAUSE), spawn)
    }
}

fn parcae<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    let mut opts = EngineOpts { workers: 1, ..EngineOpts::default() };
    if !ASLEEP {
        opts.spin = SPIN;
    }
    let engine = runtimes::engine(opts)?;
    measure::<ASLEEP, PERCENT>(scale, |arrival| {
        engine.spawn(|| arrival.record());
    })
}

fn may<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    measure::<ASLEEP, PERCENT>(scale, |arrival| {
        drop(runtimes::may(|| arrival.record()));
    })
}

fn futures<R: Futures, const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let runtime = R::start(1)?;
    let spawner = runtime.spawner();
    measure::<ASLEEP, PERCENT>(scale, |arrival| {
        spawner.detach(async { arrival.record() });
    })
}
