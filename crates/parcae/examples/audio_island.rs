//! A realtime island: an audio graph of three stages beside hostile load.
//!
//! A source makes a block of samples in each period, a filter smooths it, a mixer takes its peak.
//! Beside them run tasks that compute, allocate, spawn and sleep, with an interactive burst now and
//! then. The island is run twice: on a worker that it shares, and on a leased one. Each time a
//! table shows jobs, missed deadlines, the delay from release to begin, and allocations.
//!
//! `cargo run --release -p parcae --example audio_island [milliseconds]`

use parcae::island::{Island, IslandPlan, LockMemory, StageId, pipe};
use parcae::policy::{ContextOpts, LeaseFact, Response};
use parcae::prelude::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts the allocations of sealed code.
#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

const BLOCK: usize = 128;
const PERIOD: Duration = Duration::from_millis(5);

type Block = [f32; BLOCK];

/// Three stages. Misses are counted and do not stop it: the host of this example is no realtime
/// system.
fn plan() -> (IslandPlan, [StageId; 3]) {
    let us = Duration::from_micros;
    let mut plan =
        IslandPlan::new("audio").response(Response::Report).lock_memory(LockMemory::IfPermitted);
    let stages = ["source", "filter", "mixer"]
        .map(|name| plan.stage(name, ContextOpts::new(us(500), PERIOD).check_distance(us(50))));
    (plan, stages)
}

/// Tasks that get in the way: they compute, allocate, spawn and sleep.
fn hostile<'s>(n: &'s Nursery<'s, '_>, over: &'s AtomicBool) -> parcae::Result<()> {
    for number in 0..8_u64 {
        n.spawn(move |cx| {
            let mut hoard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                for step in 0..1_000 {
                    black_box(step * number);
                    cx.checkpoint()?;
                }
                match number % 4 {
                    0 => cx.yield_now()?,
                    1 => cx.sleep(Duration::from_micros(200))?,
                    2 => hoard = vec![number; 4_096],
                    _ => cx.nursery(|n| {
                        (0..4).try_for_each(|_| n.spawn(|cx| cx.yield_now()).map(drop))
                    })?,
                }
            }
            drop(hoard);
            Ok(())
        })?;
    }
    Ok(())
}

/// Runs the island beside the load for this time; returns the number of blocks that were mixed.
fn play(
    rt: &Runtime,
    island: &Island,
    stages: [StageId; 3],
    time: Duration,
) -> parcae::Result<u64> {
    let ((raw, to_filter), (filtered, to_mixer)) = (pipe::<Block>(4), pipe::<Block>(4));
    let (over, mixed) = (AtomicBool::new(false), AtomicU64::new(0));
    let [source, filter, mixer] = stages;
    rt.run(|cx| {
        cx.nursery(|n| {
            hostile(n, &over)?;
            let end = Instant::now() + time;
            let (over, mixed) = (&over, &mixed);
            let run = island.run(cx, |code| {
                code.stage(source, move |stage| {
                    let mut phase = 0.0_f32;
                    while stage.next_period()?.release < end {
                        let block: Block = std::array::from_fn(|_| {
                            phase += 0.05;
                            phase.sin()
                        });
                        let _ = raw.send(block); // a full pipe loses a block, and never waits
                    }
                    Ok(())
                })?;
                code.stage(filter, move |stage| {
                    // Prepared before the first period.
                    let mut line: Vec<f32> = std::iter::repeat_n(0.0, 8).collect();
                    while stage.next_period()?.release < end {
                        while let Some(mut block) = to_filter.receive() {
                            for sample in &mut block {
                                line.rotate_right(1);
                                line[0] = *sample;
                                *sample = line.iter().sum::<f32>() / line.len() as f32;
                            }
                            let _ = filtered.send(block);
                        }
                    }
                    Ok(())
                })?;
                code.stage(mixer, move |stage| {
                    while stage.next_period()?.release < end {
                        while let Some(block) = to_mixer.receive() {
                            black_box(block.iter().fold(0.0_f32, |peak, sample| peak.max(*sample)));
                            mixed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                })
            });
            over.store(true, Ordering::Relaxed);
            run
        })
    })?;
    Ok(mixed.into_inner())
}

fn main() -> parcae::Result<()> {
    let time: u64 = std::env::args().nth(1).and_then(|time| time.parse().ok()).unwrap_or(1_000);
    let time = Duration::from_millis(time);
    for leased in [false, true] {
        let rt = Runtime::builder().workers(2).build()?;
        let (plan, stages) = plan();
        let plan = if leased { plan.lease(|lease| lease) } else { plan };
        let island = rt.admit_island(plan)?;
        let mixed = play(&rt, &island, stages, time)?;
        println!("{} worker", if leased { "A leased" } else { "A shared" });
        print!("{}", island.telemetry());
        println!("{mixed} blocks mixed");
        if let Some(proof) = island.lease().and_then(|lease| lease.proof()) {
            print!("{proof}");
            println!("a processor for itself: {}", proof.assurance(LeaseFact::Affinity));
        }
        println!();
        let allocations = island.telemetry().stages.iter().map(|stage| stage.allocations).sum();
        assert_eq!((allocations, mixed > 0), (0_u64, true));
    }
    Ok(())
}
