//! The deterministic executor: the same seed gives the same run, another seed another one.

use parcae::prelude::*;
use parcae::runtime::Preempt;
use parcae::sync::Semaphore;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

/// A race of eight tasks on three workers, over a bridge for two at a time: the order of arrival,
/// and the event log of the scheduler. The seed decides where tasks are preempted.
fn race(seed: u64) -> parcae::Result<(String, Vec<u8>)> {
    let builder = Runtime::builder().workers(3).deterministic(seed).preempt(Preempt::Randomly);
    let rt = builder.build()?;
    let (bridge, finish) = (Semaphore::new(2), Mutex::new(String::new()));
    rt.run(|cx| {
        cx.nursery(|n| {
            for runner in 'a'..='h' {
                let (bridge, finish) = (&bridge, &finish);
                n.spawn(move |cx| {
                    for _lap in 0..5 {
                        let _crossing = bridge.acquire()?;
                        for _step in 0..10 {
                            cx.checkpoint()?;
                        }
                    }
                    finish.lock().expect("nobody panics").push(runner);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    let log = rt.event_log();
    Ok((finish.into_inner()?, log))
}

fn main() -> parcae::Result<()> {
    for seed in [1, 1, 2, 3] {
        let (finish, log) = race(seed)?;
        let mut hasher = DefaultHasher::new();
        log.hash(&mut hasher);
        println!("seed {seed}: {finish}, {} events, hash {:016x}", log.len() / 27, hasher.finish());
    }
    assert_eq!(race(1)?, race(1)?);
    let orders: BTreeSet<String> =
        (1..=3).map(|seed| Ok(race(seed)?.0)).collect::<parcae::Result<_>>()?;
    assert_eq!(orders.len(), 3, "three seeds, three orders");
    Ok(())
}
