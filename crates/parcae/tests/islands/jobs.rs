//! Many jobs on a thread: the worker of the island, the runtime's own work included, does not
//! allocate.

use crate::{COUNT, COUNTS, us};
use parcae::island::{IslandPlan, pipe};
use parcae::policy::{ContextOpts, Response};
use parcae::prelude::*;
use std::sync::atomic::Ordering;

/// A million in optimised builds.
const JOBS: u64 = if cfg!(debug_assertions) { 5_000 } else { 1_000_000 };

// rule: S3-GATE-17
#[test]
fn a_million_jobs_allocate_nothing() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let mut plan = IslandPlan::new("audio").response(Response::Report);
    let opts = ContextOpts::new(us(10), us(40));
    let (source, sink) = (plan.stage("source", opts), plan.stage("sink", opts));
    let island = rt.admit_island(plan).unwrap();
    let (out, input) = pipe::<[u64; 8]>(16);
    let (sent, received) = rt
        .run(|cx| {
            let counts = std::sync::Mutex::new((0, 0));
            island.run(cx, |code| {
                let counts = &counts;
                code.stage(source, move |stage| {
                    let mut sent = 0;
                    for job in 0..JOBS {
                        stage.next_period()?;
                        // After some jobs that find the runtime's caches empty.
                        if job == 100 {
                            COUNTS.with(|counts| counts.set(true));
                        }
                        sent += u64::from(out.send([job; 8]).is_ok());
                    }
                    COUNTS.with(|counts| counts.set(false));
                    counts.lock().unwrap().0 = sent;
                    Ok(())
                })?;
                code.stage(sink, move |stage| {
                    let mut received = 0;
                    while stage.next_period()?.number < JOBS && received < JOBS {
                        while let Some(block) = input.receive() {
                            received += u64::from(block[0] == block[7]);
                        }
                        counts.lock().unwrap().1 = received;
                    }
                    Ok(())
                })
            })?;
            Ok(counts.into_inner().unwrap())
        })
        .unwrap();
    println!("{sent} blocks sent, {received} received\n{}", island.telemetry());
    assert_eq!(COUNT.load(Ordering::Relaxed), 0, "allocations of the worker");
    let telemetry = island.telemetry();
    assert_eq!(telemetry.stages[0].jobs, JOBS);
    assert_eq!((telemetry.stages[0].allocations, telemetry.stages[1].allocations), (0, 0));
    assert!(sent > 0 && received > 0);
}
