//! Cancelling: a token from another thread, cleaning up behind a shield, and 100,000 tasks that
//! wait in a tree of nurseries and end in one pass.

use parcae::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BRANCHES: usize = 100;
const LEAVES: usize = 1000;

fn branch(cx: &Cx, waiting: &AtomicUsize) -> parcae::Result<()> {
    cx.nursery(|n| {
        for _ in 0..LEAVES {
            n.spawn(|cx| {
                waiting.fetch_add(1, Ordering::Relaxed);
                cx.park()
            })?;
        }
        Ok(())
    })
}

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;

    let error = rt.run(|cx| {
        cx.nursery(|n| {
            let token = n.token();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(10));
                token.cancel();
            });
            let stopped = cx.park(); // waits until it is cancelled
            cx.shield(|| println!("clean up here: nothing is a cancel point"));
            stopped
        })
    });
    println!("{}", error.unwrap_err());

    let waiting = AtomicUsize::new(0);
    let mut start = Instant::now();
    let error = rt.run(|cx| {
        cx.nursery(|root| {
            for _ in 0..BRANCHES {
                root.spawn(|cx| branch(cx, &waiting))?;
            }
            while waiting.load(Ordering::Relaxed) < BRANCHES * LEAVES {
                cx.yield_now()?;
            }
            start = Instant::now();
            root.cancel();
            println!("{} waiting tasks cancelled in {:?}", BRANCHES * LEAVES, start.elapsed());
            Ok(())
        })
    });
    println!("all have ended after {:?}: {}", start.elapsed(), error.unwrap_err());
    Ok(())
}
