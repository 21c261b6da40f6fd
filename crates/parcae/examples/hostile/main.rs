//! Hostile tasks beside a service that keeps answering: each is stopped by its budget, with an
//! error that names the exhausted resource. Exits with 0 if all were contained.
//!
//! Tasks share a worker at checkpoints. A task that never reaches one, like `deaf`, keeps its
//! worker until it ends, and the other tasks of that worker wait: see `max`.

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

/// The budget of each tenant.
const BUDGET: Budget = Budget::ZERO
    .with_ops(100_000_000)
    .with_memory(16 << 20)
    .with_spawn_count(500)
    .with_channel_ops(1_000_000);

fn main() -> parcae::Result<ExitCode> {
    hush();
    let rt = Runtime::builder().workers(2).build()?;
    let alone = rt.run(|cx| cx.nursery(|n| n.spawn(|cx| serve(cx, |n| n >= 2000))?.join()))?;
    let (ends, beside) = rt.run(|cx| beside(cx, BUDGET, |_| ()))?;

    println!("What each tenant has spent of its budget, and what stopped it:\n");
    println!(
        "{:9} {:37} {:>10} {:>6} {:>6} {:>8}  ended with",
        "tenant", "what it tries", "ops", "KiB", "spawns", "sends"
    );
    for end in &ends {
        let Budget { ops, memory, spawn_count, channel_ops, .. } = end.spent;
        let (name, tries) = (end.tenant.name, end.tenant.tries);
        println!(
            "{name:9} {tries:37} {ops:10} {:6} {spawn_count:6} {channel_ops:8}  {}",
            memory >> 10,
            shortened(end)
        );
    }
    println!(
        "\nHow long a request to the service waits until it is served: first while nobody else runs (alone), then \
         while\nall tenants do what they can (beside them). Half of the requests wait no longer than p50, 99 of 100 no \
         longer\nthan p99. Where p50 is near to that alone the tenants take no worker from the service for long; max has \
         `deaf`\nin it, which comes to no checkpoint and keeps its worker for 20 ms.\n"
    );
    println!("{:13} {:>8} {:>11} {:>11} {:>11}", "the service", "requests", "p50", "p99", "max");
    for (beside, late) in [("alone", alone), ("beside them", beside)] {
        let [p50, p99, max] = [50, 99, 100].map(|percent| micros(&late, percent));
        println!("{beside:13} {:8} {p50:>11} {p99:>11} {max:>11}", late.count());
    }
    let escaped = ends.iter().filter(|end| !end.is_contained()).count();
    println!("\n{} tenants, {escaped} not contained", ends.len());
    Ok(if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The error without its advice.
fn shortened(end: &End) -> String {
    let text = end.error.as_ref().map_or("no error".to_owned(), |error| error.kind().to_string());
    let verdict = if end.is_contained() { "" } else { "NOT CONTAINED: " };
    format!("{verdict}{}", text.split(';').next().unwrap_or(&text))
}

fn micros(late: &Latencies, percent: usize) -> String {
    format!("{:.1} µs", late.percentile(percent).as_secs_f64() * 1e6)
}
