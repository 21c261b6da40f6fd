//! Draws `docs/img/service-on-threads.svg`: service over time for weights 1 : 2 : 4 on a thread, in
//! the panels of `docs/img/fair-service.svg`, which is simulated.
//!
//! ```sh
//! cargo run --release -p parcae --example service_on_threads > docs/img/service-on-threads.svg
//! ```
//!
//! Each tenant has one task. It does a piece of work, counts it, and comes to a checkpoint. A
//! thread outside reads the counts every half millisecond, after a quarter of a second in which the
//! scheduler learns how long an op of each tenant takes. Service is work that was done. Time that
//! the machine gives to other programs is missing, and is charged to the tenant whose turn it was:
//! a gap of some milliseconds bends one of the lines, and the picture of each run is another one.
//! On standard error: the work that was done at the end.

#[path = "../../parcae-core/examples/fair_service/draw.rs"]
mod draw;

use draw::{END, Lines, WEIGHTS};
use parcae::policy::Weight;
use parcae::prelude::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Called by the task of this tenant after its piece of work with this number, at this time since
/// the start.
type Behaviour = fn(tenant: usize, piece: u64, time: Duration, cx: &Cx) -> parcae::Result<()>;

fn hogs(_: usize, _: u64, _: Duration, cx: &Cx) -> parcae::Result<()> {
    cx.checkpoint()
}

/// The heaviest sleeps for 30 ms in every 60.
fn sleeper(tenant: usize, _: u64, time: Duration, cx: &Cx) -> parcae::Result<()> {
    let phase = time.as_micros() as u64 % 60_000;
    if tenant == 2 && phase >= 30_000 {
        return cx.sleep(Duration::from_micros(60_000 - phase));
    }
    cx.checkpoint()
}

/// The lightest yields after 20 µs of work.
fn yielder(tenant: usize, piece: u64, _: Duration, cx: &Cx) -> parcae::Result<()> {
    if tenant == 0 && piece.is_multiple_of(20 / PIECE) { cx.yield_now() } else { cx.checkpoint() }
}

/// Microseconds of a piece of work.
const PIECE: u64 = 2;
/// Before the picture: a multiple of the period of the task that sleeps.
const WARM_UP: Duration = Duration::from_millis(240);

fn main() -> parcae::Result<()> {
    let panels: [(&str, Behaviour); 3] = [
        ("all hog the processor", hogs),
        ("weight 4 sleeps 30 ms of every 60", sleeper),
        ("weight 1 yields every 20 µs", yielder),
    ];
    let steps = steps_of_a_piece();
    let mut drawn = Vec::new();
    for (title, behaviour) in panels {
        let lines = measure(behaviour, steps)?;
        let ends = lines.each_ref().map(|line| line.last().map_or(0, |point| point.1));
        eprintln!("{title}: {ends:?} µs of work in {END} µs");
        drawn.push((title, lines));
    }
    print!("{}", draw::svg("Service over time for weights 1 : 2 : 4, on a thread", &drawn));
    Ok(())
}

/// Work that was counted, for each tenant.
struct Counts {
    start: Instant,
    pieces: [AtomicU64; 3],
    over: AtomicBool,
}

fn measure(behaviour: Behaviour, steps: u64) -> parcae::Result<Lines> {
    let rt = Runtime::builder().workers(1).build()?;
    let (pieces, over) = ([0; 3].map(AtomicU64::new), AtomicBool::new(false));
    let counts = Counts { start: Instant::now(), pieces, over };
    thread::scope(|threads| {
        let reader = threads.spawn(|| read(&counts));
        rt.run(|cx| {
            cx.nursery(|tenants| {
                for (tenant, weight) in WEIGHTS.into_iter().enumerate() {
                    let counts = &counts;
                    tenants.spawn(move |cx| {
                        let weight = Weight::new(1024 * weight).expect("a weight");
                        cx.nursery_with(NurseryOpts::new().share(weight), |n| {
                            n.spawn(move |cx| {
                                while !counts.over.load(Ordering::Relaxed) {
                                    work(steps);
                                    // A figure for the reader, which orders nothing.
                                    let piece =
                                        counts.pieces[tenant].fetch_add(1, Ordering::Relaxed);
                                    behaviour(tenant, piece, counts.start.elapsed(), cx)?;
                                }
                                Ok(())
                            })
                            .map(drop)
                        })
                    })?;
                }
                Ok(())
            })
        })?;
        Ok(reader.join().expect("the reader does not panic"))
    })
}

/// Reads the counts until the end of the picture.
fn read(counts: &Counts) -> Lines {
    let now = || counts.pieces.each_ref().map(|pieces| pieces.load(Ordering::Relaxed) * PIECE);
    thread::sleep(WARM_UP.saturating_sub(counts.start.elapsed()));
    let (before, mut lines) = (now(), [(); 3].map(|()| vec![(0, 0)]));
    loop {
        let time = counts.start.elapsed().saturating_sub(WARM_UP).as_micros() as u64;
        for ((line, service), before) in lines.iter_mut().zip(now()).zip(before) {
            line.push((time.min(END), service - before));
        }
        if time >= END {
            counts.over.store(true, Ordering::Relaxed); // tasks see it a moment later
            return lines;
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// Steps of arithmetic that depend on each other.
fn work(steps: u64) {
    let mut x = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How many steps a piece has: by the best of some tries, because others may use the machine.
fn steps_of_a_piece() -> u64 {
    const TRY: u64 = 100_000;
    let time = |_| {
        let start = Instant::now();
        work(TRY);
        start.elapsed().as_nanos().max(1) as u64
    };
    TRY * PIECE * 1_000 / (0..50).map(time).min().unwrap_or(1)
}
