//! Traces of real runs: whole, in order, and the same as the counters.

use super::*;
use crate::prelude::*;
use crate::sched::worker::stats::WorkerStats;
use crate::sync::Mutex;
use crate::sync::channel::channel;
use std::collections::HashMap;
use std::time::Duration;

mod chrome;
mod recording;
mod streams;

/// A program with a bit of everything; which bit depends on the seed.
fn program(rt: &Runtime, seed: u64) {
    let total = rt.run(|cx| {
        let lock = Mutex::new(0_u64);
        let lock = &lock;
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            let (tx, rx) = channel::<u64>((seed % 3) as usize);
            for i in 0..3 + seed % 4 {
                let tx = tx.clone();
                n.spawn_with(SpawnOpts::new().name(format!("sender {i}")), move |cx| {
                    for value in 0..4 {
                        tx.send(value)?;
                        if (value + i + seed).is_multiple_of(3) {
                            cx.yield_now()?;
                        }
                    }
                    Ok(())
                })?;
            }
            drop(tx);
            let counter = n.spawn(move |_| {
                let mut sum = 0;
                while let Ok(value) = rx.recv() {
                    sum += value;
                }
                Ok(sum)
            })?;
            for i in 0..5 {
                n.spawn(move |cx| {
                    for _ in 0..=i % 3 {
                        *lock.lock()? += 1;
                        cx.yield_now()?;
                    }
                    cx.nursery(|n| {
                        n.spawn(|cx| cx.sleep(Duration::from_micros(50)))?;
                        Ok(())
                    })
                })?;
            }
            counter.join()
        })
    });
    assert_eq!(total.unwrap(), (3 + seed % 4) * 6);
}

/// The counters that a trace has too.
fn counted(sum: WorkerStats, outside: u64) -> EventCounts {
    EventCounts {
        spawned_here: sum.spawned_here,
        spawned_outside: outside,
        executed: sum.executed,
        ended: sum.ended,
        yielded: sum.yielded,
        parked: sum.parked,
        stolen: sum.stolen,
        slept: sum.slept,
    }
}

/// Everything that was spawned has ended, and the workers have nothing to do: nothing is counted
/// any more.
fn calm_down(rt: &Runtime) {
    let mut before = None;
    loop {
        let now = (rt.live_tasks(), rt.stats().counters());
        if now.0 == 0 && before.as_ref() == Some(&now.1) {
            return;
        }
        before = Some(now.1);
        std::thread::sleep(Duration::from_millis(2));
    }
}
