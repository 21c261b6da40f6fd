//! `timers`, `timers_many`: sleeping tasks, timeouts that do not expire, and deadlines alone.
//!
//! `late`, `cpu`: sleepers on two workers, each of which sleeps ten times for 1 to 400 ms, evenly
//! distributed, and notes how late it woke. With 100,000 that is half a million wake-ups in a
//! second, so the lateness is that of a scheduler under load; with 10,000 it is that of its timers.
//! CPU time is the whole process's, from the first spawn to the last end. `short`: sleeps of 1 to
//! 100 ms, which is two million wake-ups in a second, and the time until all have ended (`wall`):
//! half a second if none were late. async-io has the timers of smol, whose executor it runs on.
//!
//! `unused`: a value goes back and forth between two tasks on one worker, and both wait for it with
//! a timeout of a second that never passes. `ready`: the value is there before it is asked for.
//!
//! `timers_many`: a million deadlines that would wake the task that sets them, set and then taken
//! back. For tokio a `Sleep` in a box of its own that was polled once; both include the vector of
//! what keeps the deadlines.

use super::nanos_per;
use super::parked::{Reading, baseline, check_memory, resident};
use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use crate::machine;
use parcae::engine::bench_only;
use parcae::profile::Service;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(super) static TIMERS: Workload = Workload {
    name: "timers",
    rounds: Rounds { full: 3, quick: 1 },
    variants: &[
        variant("late_10k_p50", "lateness of 10,000 sleepers; median", "us", {
            &sleepers::<10_000, { Figure::MEDIAN }>()
        }),
        variant("late_10k_p99", "lateness of 10,000 sleepers; 99 %", "us", {
            &sleepers::<10_000, { Figure::TAIL }>()
        }),
        variant("cpu_10k", "CPU time of a sleep, 10,000 sleepers", "ns/sleep", {
            &sleepers::<10_000, { Figure::CPU }>()
        }),
        variant("late_100k_p50", "lateness of 100,000 sleepers; median", "us", {
            &sleepers::<100_000, { Figure::MEDIAN }>()
        }),
        variant("late_100k_p99", "lateness of 100,000 sleepers; 99 %", "us", {
            &sleepers::<100_000, { Figure::TAIL }>()
        }),
        variant("cpu_100k", "CPU time of a sleep, 100,000 sleepers", "ns/sleep", {
            &sleepers::<100_000, { Figure::CPU }>()
        }),
        variant("wall_short", "100,000 sleepers until all have ended, short sleeps", "ms", {
            &short::<{ Figure::WALL }>()
        }),
        variant("late_short_p99", "lateness of 100,000 sleepers, short sleeps; 99 %", "us", {
            &short::<{ Figure::TAIL }>()
        }),
        variant("cpu_short", "CPU time of a sleep, 100,000 sleepers, short sleeps", "ns/sleep", {
            &short::<{ Figure::CPU }>()
        }),
        variant("unused", "a value received before the timeout, by a wait", "ns/recv", {
            &[Side::new(Peer::Parcae, parcae_unused), Side::new(Peer::Tokio, tokio_unused)]
        }),
        variant("ready", "a value received with a timeout, without a wait", "ns/recv", {
            &[Side::new(Peer::Parcae, parcae_ready), Side::new(Peer::Tokio, tokio_ready)]
        }),
    ],
};

/// A separate workload, because its scale differs.
pub(super) static MANY: Workload = Workload {
    name: "timers_many",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("set", "one of a million deadlines, set", "ns", &many::<{ Figure::SET }>()),
        variant("take_back", "one of a million deadlines, taken back", "ns", {
            &many::<{ Figure::TAKE_BACK }>()
        }),
        variant("memory", "resident memory of one of a million deadlines", "B", {
            &many::<{ Figure::MEMORY }>()
        }),
    ],
};

const fn variant(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Lower, sides }
}

/// The result of a run that a variant reports.
struct Figure;

impl Figure {
    const MEDIAN: usize = 0;
    const TAIL: usize = 1;
    const CPU: usize = 2;
    const WALL: usize = 3;
    const SET: usize = 0;
    const TAKE_BACK: usize = 1;
    const MEMORY: usize = 2;
}

// ----- sleeping -------------------------------------------------------------------------------

const fn sleepers<const COUNT: usize, const FIGURE: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae_sleepers::<FIGURE>(scale.of(COUNT), LONGEST)),
        Side::new(Peer::Tokio, |scale| tokio_sleepers::<FIGURE>(scale.of(COUNT), LONGEST)),
        Side::new(Peer::AsyncIo, |scale| smol_sleepers::<FIGURE>(scale.of(COUNT), LONGEST)),
    ]
}

const fn short<const FIGURE: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae_sleepers::<FIGURE>(scale.of(100_000), SHORT)),
        Side::new(Peer::Tokio, |scale| tokio_sleepers::<FIGURE>(scale.of(100_000), SHORT)),
        Side::new(Peer::AsyncIo, |scale| smol_sleepers::<FIGURE>(scale.of(100_000), SHORT)),
    ]
}

/// How often each one sleeps.
const SLEEPS: usize = 10;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(400);
/// The longest of the short ones.
const SHORT: Duration = Duration::from_millis(100);

/// How long a sleeper sleeps: as good as random, the same in every run.
fn length(sleeper: usize, turn: usize, longest: Duration) -> Duration {
    // The finaliser of splitmix64.
    let mut mixed = (sleeper * SLEEPS + turn) as u64 ^ 0x9E37_79B9_7F4A_7C15;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    let span = (longest - SHORTEST).as_nanos() as u64;
    SHORTEST + Duration::from_nanos(mixed % span)
}

/// How late each sleep ended, in nanoseconds; 0 if it has not.
struct Lateness(Box<[AtomicU32]>);

impl Lateness {
    fn new(sleepers: usize) -> Arc<Lateness> {
        // Written, so that no page is touched for the first time while tasks run.
        Arc::new(Lateness((0..sleepers * SLEEPS).map(|_| AtomicU32::new(black_box(0))).collect()))
    }

    fn note(&self, sleeper: usize, turn: usize, due: Instant) {
        let late = Instant::now().saturating_duration_since(due).as_nanos();
        let late = u32::try_from(late).unwrap_or(u32::MAX).max(1);
        self.0[sleeper * SLEEPS + turn].store(late, Ordering::Relaxed); // the join publishes it
    }

    /// The chosen result.
    fn figure(&self, figure: usize, cpu: u64, wall: Duration) -> Result<f64, Failure> {
        let mut late: Vec<u32> = self.0.iter().map(|late| late.load(Ordering::Relaxed)).collect();
        late.sort_unstable();
        if late[0] == 0 {
            return Err("a sleep has not ended, or ended early".into());
        }
        let micros = |percent: usize| f64::from(late[late.len() * percent / 100]) / 1_000.0;
        Ok(match figure {
            Figure::MEDIAN => micros(50),
            Figure::TAIL => micros(99),
            Figure::WALL => wall.as_secs_f64() * 1e3,
            _ => cpu as f64 / late.len() as f64,
        })
    }
}

fn parcae_sleepers<const FIGURE: usize>(
    sleepers: usize,
    longest: Duration,
) -> Result<f64, Failure> {
    check_memory(sleepers)?;
    let runtime = runtimes::runtime::<Service>(2)?;
    let lateness = Lateness::new(sleepers);
    let (start, before) = (Instant::now(), machine::cpu_nanos()?);
    runtime.run(|cx| {
        cx.nursery(|n| {
            for sleeper in 0..sleepers {
                let lateness = &lateness;
                n.spawn(move |_| {
                    for turn in 0..SLEEPS {
                        let due = Instant::now() + length(sleeper, turn, longest);
                        parcae::time::sleep_until(due)?;
                        lateness.note(sleeper, turn, due);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    lateness.figure(FIGURE, machine::cpu_nanos()? - before, start.elapsed())
}

fn tokio_sleepers<const FIGURE: usize>(sleepers: usize, longest: Duration) -> Result<f64, Failure> {
    let runtime = Tokio::with_timers(2)?;
    let sleep = |due: Instant| tokio::time::sleep_until(due.into());
    future_sleepers::<FIGURE, _, _>(&runtime, sleepers, longest, sleep)
}

fn smol_sleepers<const FIGURE: usize>(sleepers: usize, longest: Duration) -> Result<f64, Failure> {
    let runtime = AsyncExecutor::with_timers(2)?;
    let sleep = |due: Instant| async move {
        async_io::Timer::at(due).await;
    };
    future_sleepers::<FIGURE, _, _>(&runtime, sleepers, longest, sleep)
}

fn future_sleepers<const FIGURE: usize, R: Futures, S: Future<Output = ()> + Send + 'static>(
    runtime: &R,
    sleepers: usize,
    longest: Duration,
    sleep: fn(Instant) -> S,
) -> Result<f64, Failure> {
    let spawner = runtime.spawner();
    let lateness = Lateness::new(sleepers);
    let noted = Arc::clone(&lateness);
    let (start, before) = (Instant::now(), machine::cpu_nanos()?);
    runtime.run(async move {
        let tasks: Vec<_> = (0..sleepers)
            .map(|sleeper| {
                let lateness = Arc::clone(&lateness);
                spawner.spawn(async move {
                    for turn in 0..SLEEPS {
                        let due = Instant::now() + length(sleeper, turn, longest);
                        sleep(due).await;
                        lateness.note(sleeper, turn, due);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
    noted.figure(FIGURE, machine::cpu_nanos()? - before, start.elapsed())
}

// ----- timeouts that do not pass --------------------------------------------------------------

const TIMEOUT: Duration = Duration::from_secs(1);

fn parcae_unused(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(100_000);
    let figure = runtimes::runtime::<Service>(1)?.run(|cx| {
        let (ping, pinged) = parcae::channel::channel(1);
        let (pong, ponged) = parcae::channel::channel(1);
        cx.nursery(|n| {
            n.spawn(move |_| {
                for _ in 0..count {
                    pong.send(pinged.recv_timeout(TIMEOUT)?)?;
                }
                Ok(())
            })?;
            let start = Instant::now();
            for i in 0..count {
                ping.send(i)?;
                ponged.recv_timeout(TIMEOUT)?;
            }
            Ok(nanos_per(start, 2 * count))
        })
    });
    Ok(figure?)
}

fn tokio_unused(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(100_000);
    let runtime = Tokio::with_timers(1)?;
    let spawner = runtime.spawner();
    Ok(runtime.run(async move {
        let (ping, mut pinged) = tokio::sync::mpsc::channel(1);
        let (pong, mut ponged) = tokio::sync::mpsc::channel(1);
        let partner = Spawner::spawn(&spawner, async move {
            for _ in 0..count {
                let value = tokio::time::timeout(TIMEOUT, pinged.recv()).await;
                pong.send(value.expect("in time").expect("open")).await.expect("open");
            }
        });
        let start = Instant::now();
        for i in 0..count {
            ping.send(i).await.expect("open");
            tokio::time::timeout(TIMEOUT, ponged.recv()).await.expect("in time");
        }
        let figure = nanos_per(start, 2 * count);
        partner.await;
        figure
    }))
}

fn parcae_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(500_000);
    let figure = runtimes::runtime::<Service>(1)?.run(|_| {
        let (tx, rx) = parcae::channel::channel(1);
        let start = Instant::now();
        for i in 0..count {
            tx.send(i)?;
            black_box(rx.recv_timeout(TIMEOUT)?);
        }
        Ok(nanos_per(start, count))
    });
    Ok(figure?)
}

fn tokio_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(500_000);
    Ok(Tokio::with_timers(1)?.run(async move {
        let (tx, mut rx) = tokio::sync::mpsc::channel(1);
        let start = Instant::now();
        for i in 0..count {
            tx.send(i).await.expect("open");
            black_box(tokio::time::timeout(TIMEOUT, rx.recv()).await.expect("in time"));
        }
        nanos_per(start, count)
    }))
}

// ----- many deadlines -------------------------------------------------------------------------

const fn many<const FIGURE: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |_| parcae_many::<FIGURE>(DEADLINES)),
        Side::new(Peer::Tokio, |_| tokio_many::<FIGURE>(DEADLINES)),
    ]
}

/// Not fewer in quick runs: it takes a second.
const DEADLINES: usize = 1_000_000;
/// None of them expires.
const FAR: Duration = Duration::from_secs(600);

/// Three results of one run, and the chosen one.
fn pick<const FIGURE: usize>(
    count: usize,
    (set, take_back): (f64, f64),
    (before, after): (Reading, Reading),
) -> Result<f64, Failure> {
    Ok(match FIGURE {
        Figure::SET => set,
        Figure::TAKE_BACK => take_back,
        _ => after?.saturating_sub(before?) as f64 / count as f64,
    })
}

fn parcae_many<const FIGURE: usize>(count: usize) -> Result<f64, Failure> {
    let (times, readings) = runtimes::runtime::<Service>(1)?.run(|_| {
        let before = baseline();
        let start = Instant::now();
        let mut kept = Vec::with_capacity(count);
        for i in 0..count {
            kept.extend(bench_only::alarm(FAR + length(i, 0, LONGEST)));
        }
        let set = nanos_per(start, count);
        let after = resident();
        let start = Instant::now();
        drop(kept);
        Ok(((set, nanos_per(start, count)), (before, after)))
    })?;
    pick::<FIGURE>(count, times, readings)
}

fn tokio_many<const FIGURE: usize>(count: usize) -> Result<f64, Failure> {
    let (times, readings) = Tokio::with_timers(1)?.run(async move {
        let before = baseline();
        let start = Instant::now();
        let mut kept = Vec::with_capacity(count);
        for i in 0..count {
            let mut sleep = Box::pin(tokio::time::sleep(FAR + length(i, 0, LONGEST)));
            let passed = futures_lite::future::poll_once(&mut sleep).await;
            assert!(passed.is_none(), "ten minutes have not passed");
            kept.push(sleep);
        }
        let set = nanos_per(start, count);
        let after = resident();
        let start = Instant::now();
        drop(kept);
        ((set, nanos_per(start, count)), (before, after))
    });
    pick::<FIGURE>(count, times, readings)
}
