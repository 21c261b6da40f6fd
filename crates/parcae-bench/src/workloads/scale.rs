//! `scale`: how much faster two workers are than one, by the length of the tasks.
//!
//! One task spawns all others and waits for them. They compute, as long as calibrated, share
//! nothing, and never wait. Two is perfect. The rest is the cost of handing tasks over, or other
//! load: on a machine with two cores any other process takes its share. The time of one worker
//! contains the spawns too, so a scheduler with slow spawns that the second worker hides looks
//! better here than it is: `spawn_join` has the absolute figures.

use super::runtimes::{self, Futures, Spawner, Tally, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(super) static SCALE: Workload = Workload {
    name: "scale",
    rounds: Rounds { full: 7, quick: 2 },
    variants: &[
        variant("work_1us", "speed of two workers over one, tasks of 1 µs", &sides::<1>()),
        variant("work_10us", "speed of two workers over one, tasks of 10 µs", &sides::<10>()),
        variant("work_100us", "speed of two workers over one, tasks of 100 µs", &sides::<100>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "×", better: Better::Higher, sides }
}

const fn sides<const MICROS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| speed_up(scale, MICROS, parcae)),
        Side::new(Peer::Tokio, |scale| speed_up(scale, MICROS, futures::<Tokio>)),
        Side::new(Peer::Rayon, |scale| speed_up(scale, MICROS, rayon)),
    ]
}

/// Microseconds of work in one measurement with one worker.
const WORK: usize = 300_000;

/// Tasks, and how many steps of arithmetic each has.
#[derive(Clone, Copy)]
struct Load {
    tasks: usize,
    steps: usize,
}

fn speed_up(
    scale: &Scale,
    micros: usize,
    run: fn(usize, Load) -> Result<Duration, Failure>,
) -> Result<f64, Failure> {
    let load = Load { tasks: scale.of(WORK) / micros, steps: steps_per_micro() * micros };
    let timed = |workers| {
        let tally = Tally::now();
        let time = run(workers, load)?;
        tally.expect(load.tasks)?;
        Ok::<_, Failure>(time.as_secs_f64())
    };
    Ok(timed(1)? / timed(2)?)
}

/// A task: computes something and counts itself.
#[inline]
fn work(steps: usize) {
    black_box(arithmetic(black_box(steps)));
    Tally::count();
}

/// Steps that depend on each other: xorshift, which no compiler shortens.
pub(super) fn arithmetic(steps: usize) -> u64 {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// Measured once: the best of some tries, because others may use the core as well.
pub(super) fn steps_per_micro() -> usize {
    static STEPS: OnceLock<usize> = OnceLock::new();
    *STEPS.get_or_init(|| {
        const TRY: usize = 200_000;
        let time = |_| {
            let start = Instant::now();
            black_box(arithmetic(black_box(TRY)));
            start.elapsed().as_nanos().max(1) as usize
        };
        let nanos = (0..50).map(time).min().unwrap_or(1);
        (TRY * 1000 / nanos).max(1)
    })
}

fn parcae(workers: usize, load: Load) -> Result<Duration, Failure> {
    let engine = runtimes::parcae(workers)?;
    Ok(engine.run(|| {
        let start = Instant::now();
        engine::scope(|scope| {
            for _ in 0..load.tasks {
                scope.spawn(move || work(load.steps));
            }
        });
        start.elapsed()
    }))
}

fn rayon(workers: usize, load: Load) -> Result<Duration, Failure> {
    let pool = runtimes::rayon(workers)?;
    Ok(pool.install(|| {
        let start = Instant::now();
        rayon::scope(|scope| {
            for _ in 0..load.tasks {
                scope.spawn(move |_| work(load.steps));
            }
        });
        start.elapsed()
    }))
}

fn futures<R: Futures>(workers: usize, load: Load) -> Result<Duration, Failure> {
    let runtime = R::start(workers)?;
    let spawner = runtime.spawner();
    Ok(runtime.run(async move {
        let start = Instant::now();
        let spawned = (0..load.tasks).map(|_| spawner.spawn(async move { work(load.steps) }));
        for task in spawned.collect::<Vec<_>>() {
            task.await;
        }
        start.elapsed()
    }))
}
