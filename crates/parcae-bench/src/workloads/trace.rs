//! `trace`: the overhead of recording and measuring.
//!
//! Two runtimes of one worker do the same in turn, one of them recorded or measured, the other not.
//! The figure is how much longer it takes the first, in per cent. Slices of a few milliseconds
//! alternate, and so does the order, so that other load slows both down. The fastest slice of each
//! counts: the least disturbed one.
//!
//! Tasks that do nothing, and tasks that only yield, are all overhead: there a reading of the clock
//! is half of the measured time. Tasks of one and of ten microseconds are typical of programs.

use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::Runtime;
use parcae::stats::Measure;
use parcae::trace::TraceOpts;
use std::hint::black_box;
use std::time::{Duration, Instant};

macro_rules! side {
    ($watch:expr, $slice:expr) => {
        Side::new(Peer::Parcae, |scale| overhead($watch, $slice, scale))
    };
}

pub(super) static TRACE: Workload = Workload {
    name: "trace",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("spawn_traced", "1000 empty tasks; recorded", &[side!(Watch::Trace, spawn)]),
        variant("spawn_timed", "1000 empty tasks; times measured", &[side!(Watch::Times, spawn)]),
        variant("yield_traced", "two tasks yield; recorded", &[side!(Watch::Trace, yields)]),
        variant("yield_timed", "two tasks yield; times measured", &[side!(Watch::Times, yields)]),
        variant("work1_traced", "1000 tasks of 1 µs; recorded", &[side!(Watch::Trace, work::<1>)]),
        variant("work1_timed", "1000 tasks of 1 µs; measured", &[side!(Watch::Times, work::<1>)]),
        variant("work10_traced", "tasks of 10 µs; recorded", &[side!(Watch::Trace, work::<10>)]),
        variant("work10_timed", "tasks of 10 µs; measured", &[side!(Watch::Times, work::<10>)]),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "%", better: Better::Lower, sides }
}

/// How the first runtime is observed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Trace,
    Times,
}

/// How much longer a slice takes if it is watched, in per cent.
fn overhead(
    watch: Watch,
    slice: fn(&Runtime, usize) -> parcae::Result<()>,
    scale: &Scale,
) -> Result<f64, Failure> {
    let measure = if watch == Watch::Times { Measure::Times } else { Measure::Counters };
    let watched = Runtime::builder().workers(1).measure(measure).build()?;
    let plain = Runtime::builder().workers(1).build()?;
    let recording = match watch {
        Watch::Trace => Some(watched.trace(TraceOpts::new())?),
        Watch::Times => None,
    };
    let spins = spins_per_micro();
    let timed = |rt: &Runtime| {
        let start = Instant::now();
        slice(rt, spins).map(|()| start.elapsed().as_secs_f64())
    };
    for rt in [&watched, &plain] {
        timed(rt)?;
    }
    let (mut with, mut without) = (f64::MAX, f64::MAX);
    for round in 0..scale.of(200).max(20) {
        if round % 2 == 0 {
            with = with.min(timed(&watched)?);
            without = without.min(timed(&plain)?);
        } else {
            without = without.min(timed(&plain)?);
            with = with.min(timed(&watched)?);
        }
    }
    if let Some(recording) = recording {
        let trace = recording.stop();
        trace.check()?;
        if trace.is_empty() {
            return Err("nothing was recorded".into());
        }
    }
    Ok((with / without - 1.0) * 100.0)
}

fn spawn(rt: &Runtime, _: usize) -> parcae::Result<()> {
    rt.run(|cx| {
        for _ in 0..20 {
            cx.nursery(|n| {
                for _ in 0..1000 {
                    n.spawn(|_| Ok(()))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })
}

fn yields(rt: &Runtime, _: usize) -> parcae::Result<()> {
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|cx| (0..20_000).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
}

/// Tasks that work for so many microseconds, in two turns.
fn work<const MICROS: usize>(rt: &Runtime, spins: usize) -> parcae::Result<()> {
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2_000 / MICROS {
                n.spawn(move |cx| {
                    spin(spins * MICROS / 2);
                    cx.yield_now()?;
                    spin(spins * MICROS / 2);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
}

fn spin(times: usize) {
    let mut x = 1_u64;
    for _ in 0..times {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// How often `spin` spins in a microsecond.
fn spins_per_micro() -> usize {
    let fastest = (0..20).map(|_| {
        let start = Instant::now();
        spin(100_000);
        start.elapsed()
    });
    let fastest = fastest.min().unwrap_or(Duration::from_micros(100));
    (100_000_000 / fastest.as_nanos().max(1)) as usize
}
