//! The deterministic executor: the same seed gives the same run, another seed another one.

use parcae::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

/// A race of five tasks on two workers: who came in when, and all that the scheduler did.
fn race(seed: u64) -> parcae::Result<(Vec<usize>, Vec<u8>)> {
    let rt = Runtime::builder().workers(2).deterministic(seed).build()?;
    let finish = Mutex::new(Vec::new());
    rt.run(|cx| {
        cx.nursery(|n| {
            for runner in 1..=5 {
                let finish = &finish;
                n.spawn(move |cx| {
                    for _ in 0..10 {
                        cx.yield_now()?;
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
        println!(
            "seed {seed}: {finish:?}, {} bytes of events, hash {:016x}",
            log.len(),
            hasher.finish()
        );
    }
    assert_eq!(race(1)?, race(1)?);
    assert_ne!(race(1)?.1, race(2)?.1);
    Ok(())
}
