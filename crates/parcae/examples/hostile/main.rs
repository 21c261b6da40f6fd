//! Hostile tasks beside a service that goes on: each is stopped by its budget, with an error that
//! says what it ran out of. Exits with 0 if every one was contained.
//!
//! The time of a worker is shared at checkpoints. A task that never comes to one, like `deaf`,
//! keeps its worker until it ends, and who lives on that worker waits: see `max`.

mod beside;
mod service;
mod tenants;

use beside::beside;
use parcae::prelude::*;
use service::{Latencies, serve};
use std::process::ExitCode;
use tenants::{End, hush};

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

/// What each of them may use.
const BUDGET: Budget =
    Budget { ops: 100_000_000, memory: 16 << 20, spawn_count: 500, ..Budget::ZERO };

fn main() -> parcae::Result<ExitCode> {
    hush();
    let rt = Runtime::builder().workers(2).build()?;
    let alone = rt.run(|cx| cx.nursery(|n| n.spawn(|cx| serve(cx, |n| n >= 2000))?.join()))?;
    let (ends, beside) = rt.run(|cx| beside(cx, BUDGET, |_| ()))?;

    println!(
        "{:9} {:36} {:>11} {:>7} {:>6}  ended with",
        "tenant", "what it tries", "ops", "KiB", "spawns"
    );
    for end in &ends {
        let Budget { ops, memory, spawn_count, .. } = end.spent;
        let (name, tries) = (end.tenant.name, end.tenant.tries);
        println!(
            "{name:9} {tries:36} {ops:11} {:7} {spawn_count:6}  {}",
            memory >> 10,
            shortened(end)
        );
    }
    println!(
        "\n{:24} {:>8} {:>9} {:>9} {:>9}",
        "service, waiting for", "requests", "p50", "p99", "max"
    );
    for (beside, late) in [("a worker, alone", alone), ("a worker, beside them", beside)] {
        let [p50, p99, max] = [50, 99, 100].map(|percent| micros(&late, percent));
        println!("{beside:24} {:8} {p50:>9} {p99:>9} {max:>9}", late.count());
    }
    let escaped = ends.iter().filter(|end| !end.is_contained()).count();
    println!("\n{} tenants, {escaped} not contained", ends.len());
    Ok(if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The error up to where it gives advice.
fn shortened(end: &End) -> String {
    let text = end.error.as_ref().map_or("no error".to_owned(), |error| error.kind().to_string());
    let verdict = if end.is_contained() { "" } else { "NOT CONTAINED: " };
    format!("{verdict}{}", text.split(';').next().unwrap_or(&text))
}

fn micros(late: &Latencies, percent: usize) -> String {
    format!("{:.1} µs", late.percentile(percent).as_secs_f64() * 1e6)
}
