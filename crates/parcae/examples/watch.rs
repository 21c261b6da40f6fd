//! Observing a program: a trace for <https://ui.perfetto.dev>, and metrics for Prometheus.
//!
//! `cargo run --release -p parcae --example watch [FILE]`

use parcae::prelude::*;
use parcae::stats::Measure;
use parcae::trace::{TraceOpts, What};
use std::collections::BTreeMap;
use std::time::Duration;

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).measure(Measure::Times).build()?;
    let recording = rt.trace(TraceOpts::new())?;
    rt.run(|cx| {
        let (tx, rx) = parcae::channel::channel(4);
        cx.nursery_with(NurseryOpts::new().name("spinners"), |n| {
            for spinner in 0..3 {
                let tx = tx.clone();
                n.spawn_with(SpawnOpts::new().name(format!("spinner {spinner}")), move |cx| {
                    for thread in 0..20 {
                        cx.sleep(Duration::from_micros(200))?;
                        tx.send(thread)?;
                    }
                    Ok(())
                })?;
            }
            drop(tx);
            n.spawn_with(SpawnOpts::new().name("weaver"), move |_| Ok(rx.iter().count()))?.join()
        })
    })?;
    let trace = recording.stop();
    trace.check()?;
    println!("{} events, {} lost", trace.len(), trace.lost());
    let mut waits = BTreeMap::<_, u32>::new();
    for event in trace.events() {
        if let What::Parked { reason, .. } = event.what {
            *waits.entry(reason).or_default() += 1;
        }
    }
    println!("waits: {waits:?}");
    if let Some(path) = std::env::args().nth(1) {
        trace.write_chrome(std::io::BufWriter::new(std::fs::File::create(&path)?))?;
        println!("wrote {path}: open it in https://ui.perfetto.dev");
    }
    let snapshot = rt.stats();
    let wakes = &snapshot.wake_to_run;
    println!("ready to running: median {:?}, 99 % {:?}", wakes.quantile(0.5), wakes.quantile(0.99));
    for line in snapshot.to_prometheus().lines().filter(|line| line.contains("\"spinners\"")) {
        println!("{line}");
    }
    Ok(())
}
