//! Two tasks take two locks in different order. The runtime reports the deadlock.
//!
//! ```sh
//! cargo run --release -p parcae --example deadlock
//! ```

use parcae::prelude::*;
use parcae::sync::Mutex;
use std::time::Duration;

fn main() -> parcae::Result<()> {
    // Under the deterministic executor deadlocked tasks fail; with threads they are reported.
    let rt = Runtime::builder().workers(2).deterministic(7).build()?;
    let (fork, knife) = (Mutex::new("fork"), Mutex::new("knife"));
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            for (name, first, second) in [("Clotho", &fork, &knife), ("Lachesis", &knife, &fork)] {
                n.spawn_with(SpawnOpts::new().name(name), move |cx| {
                    let first = first.lock()?;
                    cx.sleep(Duration::from_millis(1))?; // both have one now
                    let second = second.lock()?;
                    println!("{name} eats with {} and {}", *first, *second);
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::Deadlock(_)) => println!("{error}"),
        other => panic!("expected a deadlock, not {other:?}"),
    }
    Ok(())
}
