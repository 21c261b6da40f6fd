//! `steal`: the latency from a spawn on a busy worker to the start on an idle one; two workers.
//!
//! The spawning task never yields its worker: it spins before each spawn, and until the spawned
//! task has run, which therefore must happen on the other worker. `asleep`: it spins for a
//! millisecond, by which time the other worker sleeps. `spinning`: spawns come so close that a
//! worker which spins still does; parcae spins for 5 ms there, the others as by default.
//! Times are from before the call that spawns.
//!
//! The cost of `asleep` depends on how deeply the idle core sleeps. In a virtual machine whose idle
//! core has been halted, a bare thread that is unparked takes 30 µs too; one that some other load
//! keeps from halting, 2 µs. Only the ratios say something.
//!
//! tokio keeps the task that was spawned last in a slot that is not stolen from; a spawn makes the
//! one before it stealable. So one task is spawned ahead here, and the time counts from a spawn to
//! the start of the task that it makes stealable. async-executor has one queue for all: nothing is
//! stolen, a task is just taken. may takes part nowhere with two workers, see [`runtimes`].

use super::latency::{Arrival, percentile, spin};
use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine::{self, EngineOpts};
use std::time::Duration;

pub(super) static STEAL: Workload = Workload {
    name: "steal",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("asleep_p50", "spawn by a busy worker to start, the other asleep; median", {
            &sides::<true, 50>()
        }),
        variant("asleep_p99", "spawn by a busy worker to start, the other asleep; 99 %", {
            &sides::<true, 99>()
        }),
        variant("spinning_p50", "spawn by a busy worker to start, the other spins; median", {
            &sides::<false, 50>()
        }),
        variant("spinning_p99", "spawn by a busy worker to start, the other spins; 99 %", {
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
        Side::new(Peer::Tokio, |scale| futures::<Tokio, ASLEEP, PERCENT>(scale, 1)),
        Side::new(Peer::AsyncExecutor, |scale| futures::<AsyncExecutor, ASLEEP, PERCENT>(scale, 0)),
        Side::new(Peer::Rayon, rayon::<ASLEEP, PERCENT>),
    ]
}

/// How long parcae's workers spin where spinning is measured.
const SPIN: Duration = Duration::from_millis(5);
/// Between spawns, where the idle worker is to sleep.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// Between spawns, where it is not: enough for it to have found that there is nothing to do.
const SHORT_PAUSE: Duration = Duration::from_micros(50);

/// Runs on the worker that is to be busy.
fn measure<const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
    spawn: impl FnMut(&'static Arrival),
) -> Result<f64, String> {
    let (count, pause) = if ASLEEP { (500, LONG_PAUSE) } else { (5000, SHORT_PAUSE) };
    percentile(scale.of(count), PERCENT, || spin(pause), spawn).map_err(|error| error.to_string())
}

fn parcae<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    let mut opts = EngineOpts { workers: 2, ..EngineOpts::default() };
    if !ASLEEP {
        opts.spin = SPIN;
    }
    let engine = runtimes::engine(opts)?;
    let measured = engine.run(|| {
        engine::scope(|scope| {
            measure::<ASLEEP, PERCENT>(scale, |arrival| scope.spawn(|| arrival.record()))
        })
    });
    Ok(measured?)
}

fn rayon<const ASLEEP: bool, const PERCENT: usize>(scale: &Scale) -> Result<f64, Failure> {
    let pool = runtimes::rayon(2)?;
    let measured = pool.install(|| {
        rayon::scope(|scope| {
            measure::<ASLEEP, PERCENT>(scale, |arrival| scope.spawn(|_| arrival.record()))
        })
    });
    Ok(measured?)
}

/// The busy task spawns so many tasks `ahead`.
fn futures<R: Futures, const ASLEEP: bool, const PERCENT: usize>(
    scale: &Scale,
    mut ahead: usize,
) -> Result<f64, Failure> {
    let runtime = R::start(2)?;
    let spawner = runtime.spawner();
    let scale = *scale;
    let measured = runtime.run(async move {
        measure::<ASLEEP, PERCENT>(&scale, |arrival| {
            for _ in 0..=std::mem::take(&mut ahead) {
                spawner.detach(async { arrival.record() });
            }
        })
    });
    Ok(measured?)
}
