//! `woken`, `million_woken`: many waiting tasks are woken at once, and end.
//!
//! A task spawns them all and yields until each of them waits, for an event or for a semaphore. The
//! clock starts before they are woken and stops when the last one has ended. With parcae each
//! returns through its own frames and gives its stack back.

use super::parked::check_memory;
use super::runtimes::{self, AsyncExecutor, Futures, Spawner, TIMEOUT, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Side, Variant, Workload};
use parcae::profile::Service;
use parcae::sync::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub(super) static WOKEN: Workload = Workload {
    name: "woken",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("w1", "wake 100,000 waiting tasks, until all have ended, per task; one worker", {
            &sides::<100_000, 1>()
        }),
        variant("w2", "wake 100,000 waiting tasks, until all have ended, per task; two workers", {
            &sides::<100_000, 2>()
        }),
    ],
};

/// A separate workload, because it takes gigabytes, and is not for quick runs.
pub(super) static MILLION_WOKEN: Workload = Workload {
    name: "million_woken",
    rounds: Rounds { full: 3, quick: 0 },
    variants: &[variant(
        "w2",
        "wake 1,000,000 waiting tasks, until all have ended, per task; two workers",
        &sides::<1_000_000, 2>(),
    )],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns/task", better: Better::Lower, sides }
}

const fn sides<const TASKS: usize, const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, scale.of(TASKS))),
        Side::new(Peer::Tokio, |scale| futures::<Tokio>(WORKERS, scale.of(TASKS))),
        Side::new(Peer::AsyncExecutor, |scale| futures::<AsyncExecutor>(WORKERS, scale.of(TASKS))),
    ]
}

fn per_task(time: Duration, tasks: usize) -> f64 {
    time.as_nanos() as f64 / tasks as f64
}

fn parcae(workers: usize, tasks: usize) -> Result<f64, Failure> {
    check_memory(tasks)?;
    let rt = runtimes::runtime::<Service>(workers)?;
    let (event, waiting) = (Event::new(), AtomicUsize::new(0));
    let time = rt.run(|cx| {
        let mut start = Instant::now();
        cx.nursery(|n| {
            for _ in 0..tasks {
                n.spawn(|_| {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    event.wait()
                })?;
            }
            while waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
                cx.yield_now()?;
            }
            start = Instant::now();
            event.set();
            Ok(())
        })?;
        Ok(start.elapsed())
    })?;
    if waiting.into_inner() < tasks {
        return Err("not all tasks have begun to wait".into());
    }
    Ok(per_task(time, tasks))
}

/// State that the tasks of a scheduler of futures share.
struct Gate {
    waiting: AtomicUsize,
    done: AtomicUsize,
    open: Semaphore,
}

fn futures<R: Futures>(workers: usize, tasks: usize) -> Result<f64, Failure> {
    let runtime = R::start(workers)?;
    let gate = Arc::new(Gate {
        waiting: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let spawner = runtime.spawner();
    let time = runtime.run(async move {
        for _ in 0..tasks {
            let gate = Arc::clone(&gate);
            spawner.detach(async move {
                gate.waiting.fetch_add(1, Ordering::Relaxed);
                gate.open.acquire().await.expect("never closed").forget();
                gate.done.fetch_add(1, Ordering::Release);
            });
        }
        let mut start = Instant::now();
        while gate.waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
            R::Spawner::yield_now().await;
        }
        let complete = gate.waiting.load(Ordering::Relaxed) == tasks;
        start = Instant::now();
        gate.open.add_permits(tasks);
        while gate.done.load(Ordering::Acquire) < tasks && start.elapsed() < TIMEOUT {
            R::Spawner::yield_now().await;
        }
        complete.then(|| start.elapsed())
    });
    Ok(per_task(time.ok_or("not all tasks have begun to wait")?, tasks))
}
